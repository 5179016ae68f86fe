package kafka

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func handshake(version int16, mechanism string) *kmsg.SASLHandshakeRequest {
	h := kmsg.NewPtrSASLHandshakeRequest()
	h.Version, h.Mechanism = version, mechanism
	return h
}

func credentials(version int16, message string) *kmsg.SASLAuthenticateRequest {
	a := kmsg.NewPtrSASLAuthenticateRequest()
	a.Version, a.SASLAuthBytes = version, []byte(message)
	return a
}

func listOffsets() kmsg.Request {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 4
	return req
}

func TestNothingIsServedBeforeTheLogin(t *testing.T) {
	r := start(t, &passwords{}, nil)
	c := dial(t, r)
	c.send(listOffsets())
	c.expectClosed()
	require.Eventually(t, func() bool { return r.logs.FilterMessageSnippet("closed").Len() == 1 }, 30*time.Second, time.Millisecond)
	require.Contains(t, r.logs.FilterMessageSnippet("closed").All()[0].ContextMap()["error"], "ListOffsets before it logged in")

	c = dial(t, r) // larger frames than a login needs are not even read
	c.write([]byte{0, 2, 0, 0, 0, 0, 0, 9})
	c.expectClosed()
	require.Eventually(t, func() bool { return r.logs.FilterMessageSnippet("closed").Len() == 2 }, 30*time.Second, time.Millisecond)
	require.Contains(t, r.logs.FilterMessageSnippet("closed").All()[1].ContextMap()["error"], "131072 bytes are announced")
}

func TestLoginOfOldClientsWithoutFrames(t *testing.T) {
	r := start(t, &passwords{}, nil)
	c := dial(t, r)
	require.Zero(t, c.ask(handshake(0, "PLAIN")).(*kmsg.SASLHandshakeResponse).ErrorCode)
	c.frame([]byte("\x00me\x00right"))
	require.Empty(t, c.readFrame())
	c.ask(listOffsets())

	require.Zero(t, c.ask(handshake(0, "PLAIN")).(*kmsg.SASLHandshakeResponse).ErrorCode) // again, in a session
	c.frame([]byte("\x00me\x00right"))
	require.Empty(t, c.readFrame())
	c.ask(listOffsets())

	c = dial(t, r)
	require.Zero(t, c.ask(handshake(0, "PLAIN")).(*kmsg.SASLHandshakeResponse).ErrorCode)
	c.frame([]byte("\x00me\x00wrong"))
	c.expectClosed()
}

func TestLoginsThatAreRefused(t *testing.T) {
	r := start(t, &passwords{}, nil)
	for name, x := range map[string]struct{ mechanism, message string }{
		"wrong":            {"PLAIN", "\x00me\x00wrong"},
		"as another":       {"PLAIN", "you\x00me\x00right"},
		"no user":          {"PLAIN", "\x00\x00right"},
		"no password":      {"PLAIN", "\x00me\x00"},
		"too many parts":   {"PLAIN", "\x00me\x00right\x00"},
		"empty":            {"PLAIN", ""},
		"wrong bearer":     {"OAUTHBEARER", "n,,\x01auth=Bearer wrong\x01\x01"},
		"no bearer":        {"OAUTHBEARER", "n,,\x01auth=Bearer \x01\x01"},
		"a blank bearer":   {"OAUTHBEARER", "n,,\x01auth=Bearer  \x01\x01"},
		"another kind":     {"OAUTHBEARER", "n,,\x01auth=Basic right\x01\x01"},
		"no header":        {"OAUTHBEARER", "\x01auth=Bearer right\x01\x01"},
		"channel binding":  {"OAUTHBEARER", "p=tls,,\x01auth=Bearer right\x01\x01"},
		"a broken zid":     {"OAUTHBEARER", "n,me,\x01auth=Bearer right\x01\x01"},
		"nothing at all":   {"OAUTHBEARER", ""},
		"thousands of kvs": {"OAUTHBEARER", "n,," + strings.Repeat("\x01a=b", 3000)},
	} {
		c := dial(t, r)
		require.Zero(t, c.ask(handshake(1, x.mechanism)).(*kmsg.SASLHandshakeResponse).ErrorCode, name)
		resp := c.ask(credentials(2, x.message)).(*kmsg.SASLAuthenticateResponse)
		require.Equal(t, kerr.SaslAuthenticationFailed.Code, resp.ErrorCode, name)
		require.NotEmpty(t, *resp.ErrorMessage, name)
		c.expectClosed()
	}

	c := dial(t, r)
	resp := c.ask(handshake(1, "SCRAM-SHA-256")).(*kmsg.SASLHandshakeResponse)
	require.Equal(t, kerr.UnsupportedSaslMechanism.Code, resp.ErrorCode)
	require.Equal(t, mechanisms, resp.SupportedMechanisms)
	c.expectClosed()

	c = dial(t, r)
	require.Equal(t, kerr.IllegalSaslState.Code, c.ask(credentials(1, "\x00me\x00right")).(*kmsg.SASLAuthenticateResponse).ErrorCode)
	c.expectClosed()

	c = dial(t, start(t, nil, nil)) // where no login is needed, none is taken
	require.Equal(t, kerr.IllegalSaslState.Code, c.ask(handshake(1, "PLAIN")).(*kmsg.SASLHandshakeResponse).ErrorCode)
}

func TestSessionsEndUnlessTheClientLogsInAgain(t *testing.T) {
	p := &passwords{}
	r := start(t, p, nil)
	c := dial(t, r)
	p.give(500 * time.Millisecond)
	resp := c.logIn("me")
	require.Greater(t, resp.SessionLifetimeMillis, int64(0))
	require.LessOrEqual(t, resp.SessionLifetimeMillis, int64(500))
	end := time.Now().Add(time.Duration(resp.SessionLifetimeMillis) * time.Millisecond)
	for time.Now().Before(end) { // what belongs to the login is answered then and afterwards
		c.versions(0)
	}
	p.give(time.Hour)
	require.Zero(t, c.logIn("me").ErrorCode)
	c.ask(listOffsets())
	p.give(time.Nanosecond)
	require.Zero(t, c.logIn("me").ErrorCode)
	c.send(listOffsets()) // and without another login it ends
	c.expectClosed()
}

// An acknowledgement that is under way when the session ends still reaches the client: else it would send again.
func TestAnswersUnderWaySurviveTheSession(t *testing.T) {
	r := start(t, &passwords{}, nil)
	hold, conns := make(chan struct{}), make(chan *Conn, 1)
	r.h.served = func(c *Conn, req kmsg.Request) (Reply, bool) {
		conns <- c
		return func(ctx context.Context) kmsg.Response {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return req.ResponseKind()
		}, true
	}
	c := dial(t, r)
	require.Zero(t, c.logIn("me").ErrorCode)
	first := c.send(listOffsets())
	conn := <-conns
	over := *conn.Session()
	over.Expires = time.Now()
	conn.session.Store(&over)
	c.send(listOffsets())
	require.Eventually(t, func() bool { return len(conn.queue) == 0 && conn.waiting.Load() == 1 }, 60*time.Second, time.Millisecond)
	close(hold)
	c.answer(first, listOffsets())
	c.expectClosed()
}

func TestASessionKeepsItsPrincipalAndItsMechanism(t *testing.T) {
	r := start(t, &passwords{}, nil)
	c := dial(t, r)
	require.Zero(t, c.logIn("me").ErrorCode)
	require.LessOrEqual(t, c.logIn("me").SessionLifetimeMillis, time.Hour.Milliseconds(), "session_time bounds what the token would allow")
	resp := c.logIn("you")
	require.Equal(t, kerr.SaslAuthenticationFailed.Code, resp.ErrorCode)
	require.Contains(t, *resp.ErrorMessage, "User:mePLAIN")
	c.expectClosed()

	c = dial(t, r)
	c.logIn("me")
	require.Equal(t, kerr.IllegalSaslState.Code, c.ask(handshake(1, "OAUTHBEARER")).(*kmsg.SASLHandshakeResponse).ErrorCode)
	c.expectClosed()
}

func FuzzParseLogin(f *testing.F) {
	f.Add(true, []byte("\x00me\x00right"))
	f.Add(false, []byte("n,a=me,\x01auth=Bearer right\x01\x01"))
	f.Add(false, []byte("y,,\x01auth=BeArer  "))
	f.Fuzz(func(t *testing.T, plain bool, b []byte) {
		mechanism := mechanismOAuth
		if plain {
			mechanism = mechanismPlain
		}
		if _, secret, err := parseLogin(mechanism, b); err == nil {
			require.NotEmpty(t, secret)
			require.LessOrEqual(t, len(secret), len(b))
		}
	})
}
