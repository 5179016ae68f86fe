package kafka

import (
	"context"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/token"
)

// Handler does the work of requests. Serve is called by the connection's reader, for one request at a time, in the
// order in which the client sent them; ctx ends with the connection. Serve does what must be done in order and returns
// without waiting for anything long; nil means that the client gets no answer (a Produce with acks=0). The request, and
// the byte slices in it, belong to the handler.
type Handler interface {
	Serve(ctx context.Context, c *Conn, req kmsg.Request) Reply
	// Closed is called once for every connection, after its last Serve and Reply have returned.
	Closed(c *Conn)
}

// Reply makes the answer to a request. The connection's writer calls it when all earlier answers are written, and may
// leave it uncalled if the connection ends before. It may wait, until ctx ends at the latest. A nil response closes the
// connection.
type Reply func(ctx context.Context) kmsg.Response

// Now is the Reply that has its answer already.
func Now(resp kmsg.Response) Reply { return func(context.Context) kmsg.Response { return resp } }

// Session is who a client proved to be.
type Session struct {
	Principal string         // "User:0x..." or "Pseudonym:0x..."
	Account   common.Address // zero for a pseudonym
	Token     *token.Token   // what it showed; nil where no tokens are used
	Expires   time.Time      // when the client must have logged in again; zero: never
	Guest     bool           // anybody can be such a principal: it makes room for others when all connections are taken
}

// Authenticator checks what a client shows at its login. mechanism is "PLAIN" (user and password) or "OAUTHBEARER"
// (user: the authorization id, mostly empty; secret: the bearer token). The text of the error is told to the client.
// It is called by many goroutines at once.
type Authenticator interface {
	Authenticate(mechanism, user, secret string) (*Session, error)
}

// Admitter may be implemented by a Handler that has a last word on a login, after the authenticator: its error, whose
// text is told to the client, refuses. It is called for a login again on the same connection too, which always has the
// same principal.
type Admitter interface {
	Admit(c *Conn, s *Session) error
}
