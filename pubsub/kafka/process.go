package kafka

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// process does the ordered part of one request. x is the writer's after a nil error.
func (c *Conn) process(x *exchange, frame []byte) error {
	if c.login.raw {
		return c.rawToken(x, frame)
	}
	h, _, err := parseHead(frame)
	if err != nil {
		return err
	}
	x.key, x.correlation = h.Key, h.Correlation
	c.s.metrics.requests.WithLabelValues(c.s.table.apiName(h.Key)).Inc()
	_, own := ownKeys[h.Key]
	if !own {
		if err := c.mayAsk(h.Key); err != nil {
			c.release(x)
			return &last{err} // what it asked while it might is answered
		}
	}
	if !c.s.table.has(h.Key, h.Version) {
		return c.unsupported(x, h, frame)
	}
	h, req, err := ParseRequest(frame)
	if err != nil {
		return err
	}
	if h.ClientID != c.ClientID() {
		c.clientID.Store(&h.ClientID)
	}
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		return c.send1(x, c.s.apiVersions(req.Version, 0))
	case *kmsg.SASLHandshakeRequest:
		return c.handshake(x, req)
	case *kmsg.SASLAuthenticateRequest:
		return c.authenticate(x, req)
	case *kmsg.ProduceRequest:
		if req.Version < lowestProduce {
			return c.refuseProduce(x, req)
		}
	}
	reply := c.s.handler.Serve(c.ctx, c, req)
	if reply == nil {
		c.release(x)
		return nil
	}
	x.reply = reply
	return c.enqueue(x)
}

// mayAsk checks the login, for requests other than those of the login itself.
func (c *Conn) mayAsk(key int16) error {
	if !c.admitted() {
		return fmt.Errorf("%w: it sent %s before it logged in; set security.protocol to SASL_SSL (SASL_PLAINTEXT on loopback) and sasl.mechanism to PLAIN or OAUTHBEARER in the client",
			errLogin, c.s.table.apiName(key))
	}
	if s := c.session.Load(); s != nil && !s.Expires.IsZero() && !time.Now().Before(s.Expires) {
		return fmt.Errorf("%w: its session has expired and it did not log in again", errLogin)
	}
	return nil
}

func (c *Conn) send1(x *exchange, resp kmsg.Response) error {
	x.reply = Now(resp)
	return c.enqueue(x)
}

func (s *Server) apiVersions(version, code int16) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version, resp.ErrorCode, resp.ApiKeys = version, code, s.table.keys
	return resp
}

// unsupported answers a request that is not in the table, in whatever form can say so.
func (c *Conn) unsupported(x *exchange, h Header, frame []byte) error {
	if h.Key == kmsg.ApiVersions.Int16() {
		return c.send1(x, c.s.apiVersions(0, unsupportedVersion)) // every client can read version 0, and tries again
	}
	_, req, err := ParseRequest(frame)
	if err == nil {
		return c.send1(x, Refuse(req, kerr.UnsupportedVersion, ""))
	}
	if !errors.Is(err, ErrVersion) {
		return err
	}
	if req = kmsg.RequestForKey(h.Key); req == nil {
		x.frame = appendUnknown(nil, h.Correlation)
		return c.enqueue(x)
	}
	req.SetVersion(min(max(h.Version, 0), req.MaxVersion()))
	resp := Refuse(req, kerr.UnsupportedVersion, "")
	if !reflect.ValueOf(resp).Elem().FieldByName("ErrorCode").IsValid() {
		return fmt.Errorf("%w: %s version %d, whose answer has no room for an error", ErrVersion, kmsg.NameForKey(h.Key), h.Version)
	}
	return c.send1(x, resp)
}

// refuseProduce answers a producer whose batches have an old format. One that wants no answers is cut off, since
// nothing else could tell it.
func (c *Conn) refuseProduce(x *exchange, req *kmsg.ProduceRequest) error {
	if req.Acks == 0 {
		return fmt.Errorf("%w: it produced messages of a format before Kafka 0.11, which is not stored; use a newer client", ErrFrame)
	}
	return c.send1(x, Refuse(req, kerr.UnsupportedForMessageFormat, ""))
}
