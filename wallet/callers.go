package wallet

import (
	"context"
	"strconv"
	"sync"

	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// callers are the open connections of the socket. The context of a request over one ends only with its answer, so who
// hung up is known here.
type callers struct {
	mu   sync.Mutex
	next uint64
	open map[string]caller
}

type caller struct {
	ctx    context.Context
	hangUp context.CancelFunc
}

// add names a new connection; hangUp is called when its other end is gone.
func (c *callers) add() (name string, hangUp func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[string]caller)
	}
	c.next++
	name = "socket " + strconv.FormatUint(c.next, 10)
	c.open[name] = caller{ctx, cancel}
	return name, cancel
}

func (c *callers) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x, ok := c.open[name]; ok {
		x.hangUp()
		delete(c.open, name)
	}
}

// context is the request's, and ends when its caller hangs up, too.
func (c *callers) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	x, ok := c.open[gethrpc.PeerInfoFromContext(ctx).RemoteAddr]
	c.mu.Unlock()
	if !ok { // over HTTP the request's context ends by itself
		return ctx, cancel
	}
	stop := context.AfterFunc(x.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
