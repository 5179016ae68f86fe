package gate

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// mechanism is how the engine logs in.
const mechanism = "OAUTHBEARER"

// dialBroker connects and logs in; until is when the login must be made anew, zero: never.
func (e *Engine) dialBroker(ctx context.Context, addr string) (conn net.Conn, until time.Time, err error) {
	defer func() { e.reached(addr, err) }()
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	if conn, err = e.connect(ctx, addr); err != nil {
		return nil, until, err
	}
	if e.cfg.Tokens == nil {
		return conn, until, nil
	}
	deadline, _ := ctx.Deadline()
	err = conn.SetDeadline(deadline)
	if err == nil {
		until, err = e.login(ctx, func(req kmsg.Request, resp kmsg.Response) error { return roundTrip(conn, req, resp) })
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, until, errors.Join(fmt.Errorf("logging in to broker %s: %w", addr, err), conn.Close())
	}
	return conn, until, nil
}

func (e *Engine) connect(ctx context.Context, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("the broker address %q: %w", addr, err)
	}
	if e.cfg.TLS != nil {
		cfg := e.cfg.TLS.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName = host
		}
		conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("connecting to broker %s: %w", addr, err)
		}
		return conn, nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to broker %s: %w", addr, err)
	}
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("broker %s is not on this machine: it is talked to through TLS only; give its CA", addr), conn.Close())
	}
	return conn, nil
}

// login goes through SASL with a fresh token; ask sends a request and reads its answer.
func (e *Engine) login(ctx context.Context, ask func(kmsg.Request, kmsg.Response) error) (until time.Time, err error) {
	secret, expires, err := e.cfg.Tokens.Token(ctx)
	if err != nil {
		return until, fmt.Errorf("%w: %w", ErrToken, err)
	}
	began := time.Now()
	hs := kmsg.NewPtrSASLHandshakeRequest()
	hs.Version, hs.Mechanism = 1, mechanism
	hr := kmsg.NewPtrSASLHandshakeResponse()
	if err := ask(hs, hr); err != nil {
		return until, err
	}
	if err := kerr.ErrorForCode(hr.ErrorCode); err != nil {
		return until, fmt.Errorf("%w: it takes %v: %w", ErrLogin, hr.SupportedMechanisms, err)
	}
	au := kmsg.NewPtrSASLAuthenticateRequest()
	au.Version, au.SASLAuthBytes = 1, []byte("n,,\x01auth=Bearer "+secret+"\x01\x01")
	ar := kmsg.NewPtrSASLAuthenticateResponse()
	if err := ask(au, ar); err != nil {
		return until, err
	}
	if err := kerr.ErrorForCode(ar.ErrorCode); err != nil {
		if ar.ErrorMessage != nil {
			return until, fmt.Errorf("%w: %s: %w", ErrLogin, *ar.ErrorMessage, err)
		}
		return until, fmt.Errorf("%w: %w", ErrLogin, err)
	}
	left := expires.Sub(began)
	if ms := ar.SessionLifetimeMillis; ms > 0 {
		left = min(left, time.Duration(min(ms, int64(24*time.Hour/time.Millisecond)))*time.Millisecond)
	}
	return began.Add(left * 4 / 5), nil
}

// roundTrip sends one request on an idle connection and reads its answer.
func roundTrip(conn io.ReadWriter, req kmsg.Request, resp kmsg.Response) error {
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, loginCorr)); err != nil {
		return err
	}
	frame, err := readFrame(conn, nil)
	if err != nil {
		return err
	}
	return loginAnswer(frame, req, resp)
}

// loginCorr numbers the engine's own requests: their answers are told by their order.
const loginCorr = 0x62707331

func loginAnswer(frame []byte, req kmsg.Request, resp kmsg.Response) error {
	if corr := int32(binary.BigEndian.Uint32(frame[4:])); corr != loginCorr {
		return fmt.Errorf("an answer with number %d to the login", corr)
	}
	return parseResponse(frame, head{key: req.Key(), version: req.GetVersion()}, resp)
}
