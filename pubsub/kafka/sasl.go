package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	mechanismPlain = "PLAIN"
	mechanismOAuth = "OAUTHBEARER"
)

var mechanisms = []string{mechanismPlain, mechanismOAuth}

// loginState is where a client is in its login; it belongs to the reader.
type loginState struct {
	mechanism string // chosen, the token is to come
	used      string // of the session
	raw       bool   // the next frame is a token without a Kafka header (SaslHandshake version 0)
}

func (c *Conn) handshake(x *exchange, req *kmsg.SASLHandshakeRequest) error {
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	resp.SupportedMechanisms = mechanisms
	switch {
	case c.s.auth == nil:
		resp.ErrorCode = kerr.IllegalSaslState.Code
	case !slices.Contains(mechanisms, req.Mechanism):
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
	case c.login.used != "" && req.Mechanism != c.login.used:
		resp.ErrorCode = kerr.IllegalSaslState.Code // a session keeps its mechanism
	default:
		c.login.mechanism, c.login.raw = req.Mechanism, req.Version == 0
		return c.send1(x, resp)
	}
	return c.lastAnswer(x, resp, fmt.Errorf("%w: it asked for the mechanism %.32q; PLAIN and OAUTHBEARER are offered", errLogin, req.Mechanism))
}

func (c *Conn) authenticate(x *exchange, req *kmsg.SASLAuthenticateRequest) error {
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	resp.SASLAuthBytes = []byte{}
	err := errors.New("a SaslHandshake must come before SaslAuthenticate")
	code := kerr.IllegalSaslState.Code
	if c.login.mechanism != "" {
		code = kerr.SaslAuthenticationFailed.Code
		err = c.logIn(req.SASLAuthBytes)
	}
	if err != nil {
		text := err.Error()
		resp.ErrorCode, resp.ErrorMessage = code, &text
		return c.lastAnswer(x, resp, fmt.Errorf("%w: %w", errLogin, err))
	}
	if s := c.session.Load(); !s.Expires.IsZero() {
		resp.SessionLifetimeMillis = max(time.Until(s.Expires).Milliseconds(), 1)
	}
	return c.send1(x, resp)
}

// rawToken is the login of clients older than SaslAuthenticate: the answer is an empty frame, or the end.
func (c *Conn) rawToken(x *exchange, frame []byte) error {
	c.login.raw = false
	x.key = kmsg.SASLAuthenticate.Int16()
	if err := c.logIn(frame); err != nil {
		return fmt.Errorf("%w: %w", errLogin, err)
	}
	x.frame = binary.BigEndian.AppendUint32(nil, 0)
	return c.enqueue(x)
}

// lastAnswer sends an answer after which the connection ends with err.
func (c *Conn) lastAnswer(x *exchange, resp kmsg.Response, err error) error {
	if sent := c.send1(x, resp); sent != nil {
		return sent
	}
	return &last{err}
}

// last ends a connection after its answers; the exchange is the writer's already, or released.
type last struct{ error }

func (l *last) Unwrap() []error { return []error{l.error, errLast} }

// logIn checks what the client shows and makes its session.
func (c *Conn) logIn(message []byte) error {
	mechanism := c.login.mechanism
	c.login.mechanism = ""
	session, err := c.check(mechanism, message)
	if err != nil {
		c.s.metrics.logins.WithLabelValues("refused").Inc()
		return err
	}
	c.s.metrics.logins.WithLabelValues("accepted").Inc()
	c.login.used = mechanism
	c.session.Store(session)
	return nil
}

func (c *Conn) check(mechanism string, message []byte) (*Session, error) {
	user, secret, err := parseLogin(mechanism, message)
	if err != nil {
		return nil, err
	}
	given, err := c.s.auth.Authenticate(mechanism, user, secret)
	if err != nil {
		return nil, err
	}
	session := *given
	if end := time.Now().Add(c.s.cfg.SessionTime); session.Expires.IsZero() || session.Expires.After(end) {
		session.Expires = end
	}
	old := c.session.Load()
	if old != nil && old.Principal != session.Principal {
		return nil, fmt.Errorf("this connection belongs to %s; open another one for %s", old.Principal, session.Principal)
	}
	if a, ok := c.s.handler.(Admitter); ok {
		if err := a.Admit(c, &session); err != nil {
			return nil, err
		}
	}
	if old == nil {
		if err := c.s.join(c, session.Principal, session.Guest); err != nil {
			return nil, err
		}
	} else if old.Guest && !session.Guest {
		c.s.stay(c)
	}
	return &session, nil
}

var errForm = errors.New("the login message is malformed; the client must send a token as password (PLAIN) or bearer token (OAUTHBEARER)")

// parseLogin reads the client's message: RFC 4616 for PLAIN, RFC 7628 for OAUTHBEARER.
func parseLogin(mechanism string, message []byte) (user, secret string, err error) {
	if mechanism == mechanismPlain {
		parts := bytes.Split(message, []byte{0})
		if len(parts) != 3 || len(parts[1]) == 0 || len(parts[2]) == 0 {
			return "", "", errForm
		}
		if len(parts[0]) > 0 && !bytes.Equal(parts[0], parts[1]) {
			return "", "", errors.New("a client can act only as itself; leave the authorization id empty")
		}
		return string(parts[1]), string(parts[2]), nil
	}
	head, rest, ok := strings.Cut(string(message), "\x01")
	gs2 := strings.SplitN(head, ",", 3)
	if !ok || len(gs2) != 3 || gs2[0] != "n" && gs2[0] != "y" || gs2[2] != "" {
		return "", "", errForm
	}
	if gs2[1] != "" {
		if user, ok = strings.CutPrefix(gs2[1], "a="); !ok {
			return "", "", errForm
		}
	}
	for _, kv := range strings.Split(rest, "\x01") {
		key, value, _ := strings.Cut(kv, "=")
		kind, bearer, _ := strings.Cut(value, " ")
		bearer = strings.TrimSpace(bearer)
		if key == "auth" && strings.EqualFold(kind, "bearer") && bearer != "" {
			return user, bearer, nil
		}
	}
	return "", "", errForm
}
