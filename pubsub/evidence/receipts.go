package evidence

import (
	"context"
	"time"

	"github.com/bornode/bornode/pubsub/proof"
)

type wanted struct {
	p    proof.Placed
	done chan signed // buffered
}

type signed struct {
	r   *proof.Receipt
	err error
}

// signer signs receipts in groups: all that came while the signature before was made, or while its interval ran.
type signer struct {
	interval time.Duration
	deps     Deps
	m        *metrics
	queue    chan wanted
}

func newSigner(interval time.Duration, deps Deps, m *metrics) *signer {
	return &signer{interval: interval, deps: deps, m: m, queue: make(chan wanted, maxReceiptQueue)}
}

// begin queues a batch for the next group; nil: the queue is full.
func (s *signer) begin(p proof.Placed) chan signed {
	w := wanted{p, make(chan signed, 1)}
	select {
	case s.queue <- w:
		return w.done
	default:
		return nil
	}
}

// end waits for what begin gave.
func (s *signer) end(ctx context.Context, p proof.Placed, done chan signed) (*proof.Receipt, error) {
	if done == nil {
		done = make(chan signed, 1)
		select {
		case s.queue <- wanted{p, done}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case x := <-done:
		return x.r, x.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *signer) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		var group []wanted
		select {
		case <-ctx.Done():
			return
		case w := <-s.queue:
			group = append(group, w)
		}
		pause.Reset(s.interval)
	gather:
		for len(group) < proof.MaxReceiptGroup {
			select {
			case w := <-s.queue:
				group = append(group, w)
			default:
				break gather
			}
		}
		s.group(group)
	}
}

func (s *signer) group(group []wanted) {
	placed := make([]proof.Placed, len(group))
	for i := range group {
		placed[i] = group[i].p
	}
	receipts, err := proof.SignReceipts(s.deps.Chain, s.deps.Now().UnixMilli(), placed, s.deps.Sign)
	s.m.signatures.Inc()
	for i := range group {
		if err != nil {
			group[i].done <- signed{err: err}
			continue
		}
		s.m.receipts.Inc()
		group[i].done <- signed{r: &receipts[i]}
	}
}
