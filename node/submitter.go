package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/event"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/chain"
)

const (
	// maxSubmissions bounds the calls of a submitter that are not final yet.
	maxSubmissions = 256
	// maxSubmitTries is how often a call is sent again that blocks took but whose effect reverted or got lost.
	maxSubmitTries = 16
)

// Errors of a submission.
var (
	errSubmitBusy  = errors.New("too many transactions of this node wait for a block; try again when some are final")
	errSubmitEnded = errors.New("the node ends; the transaction may or may not reach a block")
	errSubmitTries = errors.New("the transaction failed in blocks too often although it succeeds when it is tried")
)

// submitterChain is what a submitter needs of the chain.
type submitterChain interface {
	senderChain
	CurrentHeader() *types.Header
	FinalHeader() *types.Header
	SubscribeHead(ch chan<- chain.HeadEvent) event.Subscription
	SubscribeFinal(ch chan<- chain.FinalEvent) event.Subscription
	// Height is that of the block of the executed branch with a transaction; false: it is in none.
	Height(tx common.Hash) (uint64, bool)
}

// submission is one call on its way to a final block.
type submission struct {
	ctx   context.Context // of who waits: nothing is sent after its end
	kind  string
	data  []byte
	done  chan error // buffered
	f     *flight
	tries int
}

// submitter sends calls of one account to one contract, each in its own transaction and in the order they came, and
// sends them again until they are final. run's goroutine owns all but the channel.
type submitter struct {
	out   *sender
	chain submitterChain
	take  chan *submission
	ended chan struct{}
	log   *zap.Logger
	sent  *prometheus.CounterVec // kind, result
	open  []*submission          // in order of sending
}

func newSubmitter(out *sender, c submitterChain, log *zap.Logger, reg prometheus.Registerer) (*submitter, error) {
	s := &submitter{out: out, chain: c, log: log, take: make(chan *submission, maxSubmissions), ended: make(chan struct{})}
	out.held = func(tx common.Hash) bool {
		for _, x := range s.open {
			if x.f != nil && x.f.tx.Hash() == tx {
				return true
			}
		}
		return false
	}
	s.sent = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "bornode", Subsystem: "topics_broker", Name: "transactions_total",
		Help: "transactions of the broker's account by kind and result: sent, final, refused"}, []string{"kind", "result"})
	if reg != nil {
		if err := reg.Register(s.sent); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Submit sends a call and returns when it is final. The error is a refusal when the contract does not take it, else
// ctx's or one that says why it was given up; the call may still reach a block then. Calls may be concurrent; those
// under way at one time go into blocks in the order in which they came.
func (s *submitter) Submit(ctx context.Context, kind string, data []byte) error {
	x := &submission{ctx: ctx, kind: kind, data: data, done: make(chan error, 1)}
	select {
	case s.take <- x:
	case <-s.ended:
		return errSubmitEnded
	default:
		return errSubmitBusy
	}
	select {
	case err := <-x.done:
		return err
	case <-s.ended:
		return errSubmitEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run follows what is under way until ctx ends.
func (s *submitter) run(ctx context.Context) {
	defer close(s.ended)
	heads := make(chan chain.HeadEvent, eventBuffer)
	finals := make(chan chain.FinalEvent, eventBuffer)
	hs, fs := s.chain.SubscribeHead(heads), s.chain.SubscribeFinal(finals)
	defer hs.Unsubscribe()
	defer fs.Unsubscribe()
	for {
		take := s.take
		if len(s.open) >= maxSubmissions {
			take = nil
		}
		select {
		case <-ctx.Done():
			return
		case x := <-take:
			s.start(ctx, x)
			continue
		case <-heads:
		case <-finals:
		}
		for len(heads) > 0 { // one look for all that waits
			<-heads
		}
		for len(finals) > 0 {
			<-finals
		}
		s.look(ctx)
	}
}

// start sends a new call at once.
func (s *submitter) start(ctx context.Context, x *submission) {
	if x.ctx.Err() == nil && !s.send(ctx, x, s.chain.CurrentHeader()) {
		s.open = append(s.open, x)
	}
}

// look moves every call on.
func (s *submitter) look(ctx context.Context) {
	h, final := s.chain.CurrentHeader(), s.chain.FinalHeader().Number.Uint64()
	open := s.open[:0]
	for _, x := range s.open {
		if !s.move(ctx, x, h, final) {
			open = append(open, x)
		}
	}
	clear(s.open[len(open):])
	s.open = open
}

// move reports whether a call's way has ended.
func (s *submitter) move(ctx context.Context, x *submission, h *types.Header, final uint64) bool {
	if x.f == nil {
		return x.ctx.Err() != nil || s.send(ctx, x, h)
	}
	switch s.out.follow(x.f, h) {
	case landed:
		if at, ok := s.chain.Height(x.f.tx.Hash()); ok && at <= final {
			return s.end(x, "final", nil)
		}
	case failed:
		at, ok := s.chain.Height(x.f.tx.Hash())
		if !ok || at > final {
			return false // another branch may still win
		}
		return s.again(ctx, x, h)
	case lost:
		return s.again(ctx, x, h)
	case outbid:
		return s.send(ctx, x, h)
	}
	return false
}

// again sends a call once more whose transaction came to nothing.
func (s *submitter) again(ctx context.Context, x *submission, h *types.Header) bool {
	x.f = nil
	if x.tries++; x.tries >= maxSubmitTries {
		return s.end(x, "refused", errSubmitTries)
	}
	return x.ctx.Err() != nil || s.send(ctx, x, h)
}

// send puts a call into the pool, in place of its transaction that pays too little, if it has one. It reports whether
// the call's way has ended: the contract refuses it. Another failure is tried again at the next head.
func (s *submitter) send(ctx context.Context, x *submission, h *types.Header) bool {
	gas, err := s.out.try(ctx, h, x.data)
	if x.f != nil && err != nil {
		return false // what is under way decides
	}
	if errors.As(err, new(refusal)) {
		return s.end(x, "refused", err)
	}
	if err == nil {
		var f *flight
		var fresh bool
		if f, fresh, err = s.out.send(h, x.data, gas, x.f); err == nil {
			x.f = f
			if fresh {
				s.sent.WithLabelValues(x.kind, "sent").Inc()
			}
			return false
		}
	}
	if x.f != nil {
		return false
	}
	if x.tries++; x.tries >= maxSubmitTries {
		return s.end(x, "refused", fmt.Errorf("%s is not sent: %w", x.kind, err))
	}
	s.log.Debug("not sent yet", zap.String("kind", x.kind), zap.Error(err))
	return false
}

func (s *submitter) end(x *submission, result string, err error) bool {
	s.sent.WithLabelValues(x.kind, result).Inc()
	x.done <- err
	return true
}
