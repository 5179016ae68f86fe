package blocksync

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

const receiptsGas = 3 * receiptsPieceBytes * 4 // of each block of these tests: its receipts have up to three pieces

// modelReceipts has the receipts of a model's final blocks, which are made of the hash, and knows which are missing.
type modelReceipts struct {
	n      *modelNode
	wanted chan struct{} // of the model's repairs

	mu         sync.Mutex
	missing    map[uint64]bool // not stored
	lost       map[uint64]bool // noted by a reader
	impossible map[uint64]error
	stored     int
}

// receiptsOf are two pieces and a bit.
func receiptsOf(hash common.Hash) []byte { return bytes.Repeat(hash[:], (2*receiptsPieceBytes+320)/32) }

func withReceipts(r **modelReceipts) nodeOption {
	return func(_ *Config, d *Deps) {
		*r = &modelReceipts{n: d.Driver.(*modelNode), wanted: d.Repairs.(*modelRepairs).wanted, missing: map[uint64]bool{}, lost: map[uint64]bool{}, impossible: map[uint64]error{}}
		d.Receipts = *r
	}
}

// lose is a reader that meets receipts which are not stored.
func (r *modelReceipts) lose(heights ...uint64) {
	r.mu.Lock()
	for _, h := range heights {
		r.missing[h], r.lost[h] = true, true
		delete(r.impossible, h)
	}
	r.mu.Unlock()
	select {
	case r.wanted <- struct{}{}:
	default:
	}
}

func (r *modelReceipts) ProvenReceipts(height uint64, hash common.Hash) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, err := r.n.HeaderByHeight(height)
	if err != nil || r.missing[height] || h.Hash() != hash {
		return nil, errModelMissing
	}
	return receiptsOf(hash), nil
}

func (r *modelReceipts) LostReceipts() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.lost))
}

func (r *modelReceipts) PutProvenReceipts(height uint64, encoded []byte) error {
	h, err := r.n.HeaderByHeight(height)
	if err != nil {
		return err
	}
	if !bytes.Equal(encoded, receiptsOf(h.Hash())) {
		return fmt.Errorf("model: %w", block.ErrWrongReceipts)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.missing, height)
	delete(r.lost, height)
	r.stored++
	return nil
}

func (r *modelReceipts) ReceiptsImpossible(height uint64, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.impossible[height] = cause
}

func (r *modelReceipts) cause(height uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.impossible[height]
}

// servesReceipts is the handshake of a peer that may be asked for receipts.
func servesReceipts(h *Handshake) { h.Modes |= ServeReceipts }

func (s *script) receiptsRequest() *ReceiptsRequest {
	s.l.t.Helper()
	r, err := DecodeReceiptsRequest(s.next(0, TypeReceiptsRequest))
	require.NoError(s.l.t, err)
	return r
}

// sendReceipts answers a request with bytes, cut into pieces.
func (s *script) sendReceipts(q *ReceiptsRequest, all []byte) {
	s.l.t.Helper()
	for rest := all; len(rest) > 0; {
		n := min(len(rest), receiptsPieceBytes)
		piece := ReceiptsPiece{ReqIndex: q.ReqIndex, Height: q.Height, Total: uint64(len(all)), Bytes: rest[:n]}
		s.send(transport.LaneCatchUp, TypeReceipts, piece.Encode())
		rest = rest[n:]
	}
}

// Missing receipts come from a peer that has them, in pieces, on every provider; more of them than are fetched at a time.
func TestMissingReceiptsAreFetched(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(40, chainShape{gas: receiptsGas})
		var have, lacks *modelReceipts
		l.node("b", chain, withReceipts(&have)).dial(l.node("a", chain, withReceipts(&lacks)).host)
		have.lose(7) // both lack these
		var heights []uint64
		for h := uint64(1); h <= 3*maxReceiptRepairs; h++ {
			heights = append(heights, h)
		}
		lacks.lose(heights...)
		l.eventually(func() bool { return slices.Equal(lacks.LostReceipts(), []uint64{7}) }, "all but one")
		l.eventually(func() bool { return lacks.cause(7) != nil }, "readers of the one that nobody has are told")
	})
}

// A peer of release 0.3.0, which knows no receipts_request, is never sent one; without another peer readers are told.
func TestAPeerThatServesNoReceiptsIsNotAsked(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(40, chainShape{gas: receiptsGas})
		var r *modelReceipts
		n := l.node("n", chain, withReceipts(&r))
		old := l.script("old", n).at(chain[40], chain[38], 39)
		old.edit = func(h *Handshake) { h.Modes = ServeRange | ServePull | AnswersQuestions }
		old.hello().next(0, TypeNotice)
		r.lose(7)
		l.eventually(func() bool { return r.cause(7) != nil }, "told")
		old.quiet(3*time.Second, 0, TypeReceiptsRequest)
		require.Equal(l.t, []uint64{7}, r.LostReceipts())
	})
}

// Receipts that the header does not prove send the peer away and are not stored; another peer is asked.
func TestWrongReceiptsAreCharged(t *testing.T) {
	for name, answer := range map[string]func(s *script, q *ReceiptsRequest, right []byte){
		"of another block": func(s *script, q *ReceiptsRequest, _ []byte) { s.sendReceipts(q, receiptsOf(common.Hash{1})) },
		"cut short":        func(s *script, q *ReceiptsRequest, right []byte) { s.sendReceipts(q, right[:len(right)-1]) },
		"more than the gas pays for": func(s *script, q *ReceiptsRequest, _ []byte) {
			p := ReceiptsPiece{ReqIndex: q.ReqIndex, Height: q.Height, Total: receiptsGas/4 + 65, Bytes: make([]byte, receiptsPieceBytes)}
			s.send(transport.LaneCatchUp, TypeReceipts, p.Encode())
		},
		"small pieces": func(s *script, q *ReceiptsRequest, right []byte) {
			p := ReceiptsPiece{ReqIndex: q.ReqIndex, Height: q.Height, Total: uint64(len(right)), Bytes: right[:100]}
			s.send(transport.LaneCatchUp, TypeReceipts, p.Encode())
		},
		"another total": func(s *script, q *ReceiptsRequest, right []byte) {
			p := ReceiptsPiece{ReqIndex: q.ReqIndex, Height: q.Height, Total: uint64(len(right)), Bytes: right[:receiptsPieceBytes]}
			s.send(transport.LaneCatchUp, TypeReceipts, p.Encode())
			p.Total++
			s.send(transport.LaneCatchUp, TypeReceipts, p.Encode())
		},
	} {
		t.Run(name, func(t *testing.T) {
			onMem(t, func(l *lab) {
				chain := newChain(40, chainShape{gas: receiptsGas})
				var r, other *modelReceipts
				n := l.node("n", chain, withReceipts(&r))
				bad := l.script("bad", n).at(chain[40], chain[38], 39)
				bad.edit = servesReceipts
				bad.hello().next(0, TypeNotice)
				r.lose(7)
				q := bad.receiptsRequest()
				require.Equal(l.t, &ReceiptsRequest{ReqIndex: q.ReqIndex, Height: 7, Hash: chain[7].Hash()}, q)
				answer(bad, q, receiptsOf(chain[7].Hash()))
				bad.goneWith(Validation)
				require.Equal(l.t, []uint64{7}, r.LostReceipts())
				l.node("good", chain, withReceipts(&other)).dial(n.host)
				l.eventually(func() bool { return len(r.LostReceipts()) == 0 }, "fetched from another peer")
			})
		})
	}
}

// Refused requests, peers that fall silent and answers to earlier requests do not count against anybody; the next peer is
// asked, and receipts that an execution made meanwhile are not asked for any more.
func TestReceiptsComeFromAnotherPeer(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(40, chainShape{gas: receiptsGas})
		var r *modelReceipts
		n := l.node("n", chain, withReceipts(&r), func(c *Config, _ *Deps) { c.RequestTimeout = 2 * time.Second })
		connect := func(name string) *script {
			s := l.script(name, n).at(chain[40], chain[38], 39)
			s.edit = servesReceipts
			s.hello().next(0, TypeNotice)
			return s
		}
		refuses := connect("refuses")
		r.lose(7)
		first := refuses.receiptsRequest()
		refuses.refuse(first.ReqIndex, CodeUnknown, 7)
		l.eventually(func() bool { return r.cause(7) != nil }, "nobody else is there")
		silent := connect("silent")
		q := silent.receiptsRequest()
		whole := receiptsOf(chain[7].Hash())
		silent.send(transport.LaneCatchUp, TypeReceipts, (&ReceiptsPiece{ReqIndex: q.ReqIndex, Height: 7, Total: uint64(len(whole)), Bytes: whole[:receiptsPieceBytes]}).Encode())
		third := connect("third")
		again := third.receiptsRequest() // after the time-out
		silent.sendReceipts(q, whole)    // too late
		silent.sendReceipts(again, receiptsOf(common.Hash{1}))
		l.pass(100 * time.Millisecond)
		third.sendReceipts(q, receiptsOf(common.Hash{1})) // of a request to another peer
		third.sendReceipts(again, whole)
		l.eventually(func() bool { return len(r.LostReceipts()) == 0 }, "fetched")
		require.Equal(l.t, 1, r.stored)

		r.lose(9)
		q = third.receiptsRequest()
		require.NoError(l.t, r.PutProvenReceipts(9, receiptsOf(chain[9].Hash()))) // executed meanwhile
		l.eventually(func() bool {
			open := make(chan int, 1)
			n.m.post(func() { open <- len(n.m.repairs) })
			return <-open == 0
		}, "not wanted any more")
		third.sendReceipts(q, receiptsOf(chain[9].Hash()))
		third.quiet(time.Second, 0, TypeGoAway)
		silent.quiet(time.Second, 0, TypeGoAway)
	})
}

// Receipts of a damaged block wait for the block.
func TestReceiptsOfADamagedBlockWaitForIt(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(40, chainShape{gas: receiptsGas})
		var r, other *modelReceipts
		n := l.node("n", chain, withReceipts(&r))
		n.do(func() { n.corrupt[7] = true })
		r.lose(7)
		n.repairs.note(7)
		require.Error(l.t, n.repairs.ReadRepaired(context.Background(), func() error { return n.Range(7, 7, 1, func(uint64, []byte) error { return nil }) }))
		l.node("good", chain, withReceipts(&other)).dial(n.host)
		l.eventually(func() bool { return len(r.LostReceipts()) == 0 && len(n.repairs.Damaged()) == 0 }, "both")
	})
}
