package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

// seen is what is known of one transaction.
type seen struct {
	due, included, final time.Time // due: when the rate asked for it, however late it was handed over
	accepted             bool
	head                 uint64 // of the node that accepted it, right after
}

// follower watches the chain and owns what is known of each transaction.
type follower struct {
	client *rpc.Client

	mu         sync.Mutex
	txs        map[common.Hash]*seen
	accepted   int
	refused    int
	offered    int
	firstError string
	finals     int
	twice      int
	lastFinal  time.Time
	progress   chan struct{} // capacity 1: something became final or was answered

	head, final uint64
}

func newFollower(c *rpc.Client, n int) *follower {
	return &follower{client: c, txs: make(map[common.Hash]*seen, n), progress: make(chan struct{}, 1)}
}

type blockHashes struct {
	Number       hexutil.Uint64 `json:"number"`
	Transactions []common.Hash  `json:"transactions"`
}

func (f *follower) block(ctx context.Context, tag string) (*blockHashes, error) {
	var b *blockHashes
	if err := f.client.CallContext(ctx, &b, "eth_getBlockByNumber", tag, false); err != nil {
		return nil, err
	}
	if b == nil {
		return nil, fmt.Errorf("block %s is not known there", tag)
	}
	return b, nil
}

// heights are the numbers of head and LIB.
func (f *follower) heights(ctx context.Context) (head, final uint64, err error) {
	var fin struct {
		Head  struct{ Number hexutil.Uint64 }
		Final struct{ Number hexutil.Uint64 }
	}
	err = f.client.CallContext(ctx, &fin, "bor_finality")
	return uint64(fin.Head.Number), uint64(fin.Final.Number), err
}

func (f *follower) start(ctx context.Context) error {
	head, final, err := f.heights(ctx)
	if err != nil {
		return fmt.Errorf("load: bor_finality: %w", err)
	}
	f.head, f.final = head, final
	return nil
}

func (f *follower) run(ctx context.Context) error {
	t := time.NewTicker(followEvery)
	defer t.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		err := f.advance(ctx)
		if err == nil {
			failures = 0
			continue
		}
		if failures++; failures > 250 || errors.Is(err, context.Canceled) {
			return err
		}
	}
}

func (f *follower) advance(ctx context.Context) error {
	head, final, err := f.heights(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	for f.head < head {
		b, err := f.block(ctx, hexutil.EncodeUint64(f.head+1))
		if err != nil {
			break // a switch of branches made the chain shorter for a moment
		}
		f.head++
		f.mark(b.Transactions, now, false)
	}
	for f.final < final {
		b, err := f.block(ctx, hexutil.EncodeUint64(f.final+1))
		if err != nil {
			return err
		}
		f.final++
		f.mark(b.Transactions, now, true)
	}
	return nil
}

func (f *follower) mark(hashes []common.Hash, now time.Time, final bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range hashes {
		s := f.txs[h]
		if s == nil {
			continue
		}
		if s.included.IsZero() {
			s.included = now
		}
		if !final {
			continue
		}
		if !s.final.IsZero() {
			f.twice++
			continue
		}
		s.final, f.lastFinal = now, now
		f.finals++
	}
	f.wake()
}

func (f *follower) wake() {
	select {
	case f.progress <- struct{}{}:
	default:
	}
}

// awaitFinal returns when everything accepted is final or ctx ends.
func (f *follower) awaitFinal(ctx context.Context) {
	for {
		f.mu.Lock()
		done := f.finals >= f.accepted
		f.mu.Unlock()
		if done {
			return
		}
		select {
		case <-f.progress:
		case <-ctx.Done():
			return
		}
	}
}

// sendAll offers txs to one endpoint at its share of the rate, in batches of one tick.
func (f *follower) sendAll(ctx context.Context, url string, txs []*types.Transaction, o Options) {
	client, err := rpc.DialContext(ctx, url)
	if err != nil {
		f.refuse(len(txs), err)
		return
	}
	defer client.Close()
	raw := make([]hexutil.Bytes, len(txs))
	for i, tx := range txs {
		raw[i], _ = tx.MarshalBinary() // just signed; cannot fail
	}
	rate := float64(o.Rate) / float64(len(o.Endpoints))
	begun := time.Now()
	t := time.NewTicker(tick)
	defer t.Stop()
	for next := 0; next < len(txs); {
		due := min(int(time.Since(begun).Seconds()*rate)+1, len(txs))
		for next < due {
			n := min(due-next, maxPerBatch)
			f.send(ctx, client, txs[next:next+n], raw[next:next+n], func(i int) time.Time {
				return begun.Add(time.Duration(float64(next+i) / rate * float64(time.Second)))
			})
			next += n
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// send offers one batch; dueAt says when each of its transactions was due.
func (f *follower) send(ctx context.Context, client *rpc.Client, txs []*types.Transaction, raw []hexutil.Bytes, dueAt func(i int) time.Time) {
	var head hexutil.Uint64
	batch := make([]rpc.BatchElem, len(txs), len(txs)+1)
	f.mu.Lock()
	for i, tx := range txs {
		f.txs[tx.Hash()] = &seen{due: dueAt(i)}
		batch[i] = rpc.BatchElem{Method: "eth_sendRawTransaction", Args: []any{raw[i]}, Result: new(common.Hash)}
	}
	f.offered += len(txs)
	f.mu.Unlock()
	err := client.BatchCallContext(ctx, append(batch, rpc.BatchElem{Method: "eth_blockNumber", Result: &head}))
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range batch {
		e := batch[i].Error
		if err != nil {
			e = err
		}
		if e != nil {
			f.refused++
			if f.firstError == "" {
				f.firstError = e.Error()
			}
			continue
		}
		x := f.txs[txs[i].Hash()]
		x.accepted, x.head = true, uint64(head)
		f.accepted++
	}
	f.wake()
}

func (f *follower) refuse(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.offered += n
	f.refused += n
	if f.firstError == "" {
		f.firstError = err.Error()
	}
}

func (f *follower) result(o Options, begun time.Time, offered time.Duration) *Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &Result{Kind: o.Kind, Offered: f.offered, Accepted: f.accepted, Refused: f.refused, FirstError: f.firstError, Twice: f.twice}
	var inclusion, finality []time.Duration
	for h, s := range f.txs {
		if s.accepted {
			r.Hashes, r.Heads = append(r.Hashes, h), append(r.Heads, s.head)
		}
		if !s.included.IsZero() {
			r.Included++
			inclusion = append(inclusion, s.included.Sub(s.due))
		}
		if !s.final.IsZero() {
			r.Final++
			finality = append(finality, s.final.Sub(s.due))
		} else if s.accepted {
			r.Missing++
		}
	}
	r.Inclusion, r.Finality = percentiles(inclusion), percentiles(finality)
	if offered > 0 {
		r.OfferedTPS = round(float64(r.Offered) / offered.Seconds())
	}
	if took := f.lastFinal.Sub(begun); took > 0 {
		r.Seconds, r.FinalTPS = round(took.Seconds()), round(float64(r.Final)/took.Seconds())
	}
	return r
}

func percentiles(d []time.Duration) Percentiles {
	if len(d) == 0 {
		return Percentiles{}
	}
	slices.Sort(d)
	at := func(p float64) float64 {
		i := min(int(math.Ceil(p*float64(len(d))))-1, len(d)-1)
		return round(float64(d[max(i, 0)]) / float64(time.Millisecond))
	}
	return Percentiles{P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1)}
}

func round(x float64) float64 { return math.Round(x*100) / 100 }
