package consensus

import (
	"bytes"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

func count(c prometheus.Counter) int {
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	f, err := reg.Gather()
	if err != nil {
		panic(err)
	}
	return int(f[0].GetMetric()[0].GetCounter().GetValue())
}

func level(g prometheus.Gauge) int {
	reg := prometheus.NewRegistry()
	reg.MustRegister(g)
	f, err := reg.Gather()
	if err != nil {
		panic(err)
	}
	return int(f[0].GetMetric()[0].GetGauge().GetValue())
}

const txsPerBlock = 3

// history runs four producers for some slots, stops them and gives the blocks of one of them, final ones first, and
// the count of the final ones.
func (l *lab) history(slots int) (blocks []*block.Block, final int) {
	for _, m := range l.nodes {
		m.chain.txs = txsPerBlock
	}
	l.start()
	return l.rest(slots)
}

// rest lets the running producers run for some slots more, then is as history.
func (l *lab) rest(slots int) (blocks []*block.Block, final int) {
	l.slots(slots)
	for _, m := range l.nodes {
		m.kill()
	}
	from := l.nodes[0]
	blocks = from.chain.finals()
	return append(blocks, must(from.chain.Reversible())...), len(blocks)
}

func (l *lab) joiner() *member {
	m := l.observer()
	m.start(nil)
	return m
}

func TestCertifiedRange(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.params.EpochBlocks = 5
		for _, m := range l.nodes {
			m.chain.params = l.params
		}
		blocks, _ := l.history(62)
		changes, certs := 0, 0
		for _, b := range blocks {
			if len(b.Record.Next) > 0 {
				changes++
			}
			if b.Record.FC != nil {
				certs++
			}
		}
		require.GreaterOrEqual(t, changes, 3)

		m := l.joiner()
		r, err := m.driver.AddRange(m.ctx, blocks, Certified)
		require.NoError(t, err)
		require.LessOrEqual(t, r.Rest, 4)
		require.EqualValues(t, len(blocks)-r.Rest, r.Applied)
		require.Equal(t, r.Applied+1, r.Next)
		require.Equal(t, r.Applied, m.chain.lib())
		require.Equal(t, 1, m.chain.imports)
		require.Zero(t, m.chain.recoveries, "no sender is recovered below a certificate")
		require.Equal(t, len(blocks), count(m.driver.m.seals), "every seal, once")
		pairings := count(m.driver.m.aggregates)
		require.LessOrEqual(t, pairings, 2*changes+1, "one for each step of a change of schedule, and the newest")
		require.Less(t, pairings, certs/2)
		require.GreaterOrEqual(t, pairings, 1)

		// What is left comes live, and the same blocks again change nothing.
		for _, b := range blocks[len(blocks)-r.Rest:] {
			require.NoError(t, m.driver.AddBlock(m.ctx, b))
		}
		require.Equal(t, blocks[len(blocks)-1].Hash(), m.driver.Status().Head.Hash)
		again, err := m.driver.AddRange(m.ctx, blocks[:r.Applied], Certified)
		require.NoError(t, err)
		require.GreaterOrEqual(t, again.Applied, r.Applied)
		require.Equal(t, 1, m.chain.imports)
	})
}

func TestFullRange(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		blocks, _ := l.history(20)
		m := l.joiner()
		r, err := m.driver.AddRange(m.ctx, blocks, Full)
		require.NoError(t, err)
		require.NotZero(t, r.Applied)
		require.Equal(t, int(r.Applied)*txsPerBlock, m.chain.recoveries)
		require.Equal(t, len(blocks), count(m.driver.m.seals))
		require.GreaterOrEqual(t, count(m.driver.m.aggregates), int(r.Applied)-3, "each certificate")

		m = l.joiner()
		forged := append([]*block.Block(nil), blocks...)
		h := &block.SealedHeader{Header: blocks[2].Header, Record: blocks[2].Record, Seal: blocks[2].Seal}
		h.Seal[5] ^= 1
		forged[2] = &block.Block{SealedHeader: h, Transactions: blocks[2].Transactions, Senders: blocks[2].Senders}
		for _, mode := range []Mode{Full, Certified} {
			_, err = m.driver.AddRange(m.ctx, forged, mode)
			require.ErrorIs(t, err, ErrInvalid, "the seal is part of no hash, but it is stored and served again: %s", mode)
		}
		require.Zero(t, m.chain.imports)
	})
}

func TestRangeInBatches(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		blocks, _ := l.history(60)
		m := l.joiner()
		at, calls := uint64(1), 0
		for at < uint64(len(blocks)-3) {
			r, err := m.driver.AddRange(m.ctx, blocks[at-1:min(int(at)+9, len(blocks))], Certified)
			require.NoError(t, err)
			require.Greater(t, r.Next, at)
			at = r.Next
			calls++
		}
		require.Equal(t, calls, m.chain.imports)
		require.Zero(t, m.chain.recoveries)
	})
}

func TestRangesThatAreRefused(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		blocks, _ := l.history(20)
		m := l.joiner()
		bad := func(i int, change func(b *block.Block)) []*block.Block {
			out := append([]*block.Block(nil), blocks...)
			h, r := *blocks[i].Header, *blocks[i].Record
			out[i] = &block.Block{SealedHeader: &block.SealedHeader{Header: &h, Record: &r, Seal: blocks[i].Seal}, Transactions: blocks[i].Transactions, Senders: blocks[i].Senders}
			change(out[i])
			return out
		}
		newest := len(blocks) - 1
		for ; blocks[newest].Record.FC == nil; newest-- {
		}
		for name, x := range map[string][]*block.Block{
			"other sender": bad(3, func(b *block.Block) { b.Senders = append([]common.Address{{9}}, b.Senders[1:]...) }),
			"other record": bad(3, func(b *block.Block) { b.Record.BodyDigest[0] ^= 1 }),
			"broken link":  append(append([]*block.Block(nil), blocks[:4]...), blocks[5:]...),
			"twice":        append(append([]*block.Block(nil), blocks[:4]...), blocks[3:]...),
			"forged certificate": bad(newest, func(b *block.Block) {
				c := *b.Record.FC
				c.Aggregate[95] ^= 1
				b.Record.FC = &c
				x := b.Record.Hash()
				b.Header.Extra = x[:]
			})[:newest+1],
			"wrong parent of the first": func() []*block.Block {
				x := bad(0, func(b *block.Block) { b.Header.ParentHash = common.Hash{7} })
				return x[:1]
			}(),
		} {
			_, err := m.driver.AddRange(m.ctx, x, Certified)
			require.ErrorIs(t, err, ErrInvalid, name)
		}
		_, err := m.driver.AddRange(m.ctx, blocks[5:], Certified)
		require.ErrorIs(t, err, ErrUnknownParent)
		_, err = m.driver.AddRange(m.ctx, make([]*block.Block, maxRangeBlocks+1), Certified)
		require.ErrorIs(t, err, ErrInvalid)
		require.Zero(t, m.chain.imports)
		require.Zero(t, m.driver.Status().LIB.Height)

		r, err := m.driver.AddRange(m.ctx, blocks[:3], Certified)
		require.NoError(t, err)
		require.NotZero(t, r.Rest)
		_, err = m.driver.AddRange(m.ctx, nil, Certified)
		require.NoError(t, err)
	})
}

// The newest certificate comes from a peer's handshake: the range is final to its end.
func TestRangeUpToAPeersCertificate(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		blocks, final := l.history(20)
		fc := l.nodes[0].driver.Status().FC
		require.Equal(t, blocks[final-1].Hash(), fc.Target.Hash)

		m := l.joiner()
		require.ErrorIs(t, m.driver.AddCertificate(fc), ErrUnknownParent)
		r, err := m.driver.AddRange(m.ctx, blocks[:final], Certified)
		require.NoError(t, err)
		require.EqualValues(t, final, r.Applied)
		require.Zero(t, r.Rest)

		// One that lies does no more harm than to be forgotten.
		forged := *fc
		forged.Aggregate[40] ^= 1
		m = l.joiner()
		require.ErrorIs(t, m.driver.AddCertificate(&forged), ErrUnknownParent)
		r, err = m.driver.AddRange(m.ctx, blocks[:final], Certified)
		require.NoError(t, err)
		require.Less(t, r.Applied, uint64(final))
		require.NotZero(t, r.Applied)
	})
}

// Votes are lost for a while: blocks go on without certificates. A joiner enters that stretch block by block and goes
// back to certified ranges behind it.
func TestRangeThroughAStall(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		for _, m := range l.nodes {
			m.chain.txs = txsPerBlock
		}
		l.start()
		l.slots(10)
		l.setMute(true)
		l.slots(60)
		l.setMute(false)
		blocks, _ := l.rest(30)
		m := l.joiner()
		m.driver.stall = 16
		at, entered := uint64(1), 0
		for at < uint64(len(blocks)-3) {
			to := min(int(at)+19, len(blocks))
			r, err := m.driver.AddRange(m.ctx, blocks[at-1:to], Certified)
			require.NoError(t, err)
			require.Greater(t, r.Next, at, "progress")
			at = r.Next
			entered += r.Entered
		}
		require.NotZero(t, entered)
		require.GreaterOrEqual(t, m.chain.imports, 2)
		require.GreaterOrEqual(t, m.driver.Status().LIB.Height, uint64(len(blocks)-4))
	})
}

// A producer that was cut off catches up by a range while new blocks arrive.
func TestRangeWhileLive(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(5)
		m := l.nodes[3]
		l.setCut(3, true)
		l.slots(30)
		l.setCut(3, false)
		r, err := m.driver.AddRange(m.ctx, l.nodes[0].chain.finals(), Certified)
		require.NoError(t, err)
		require.Equal(t, r.Applied, m.driver.Status().LIB.Height)
		require.NotZero(t, m.chain.imports)
		l.slots(20)
		s := m.driver.Status()
		require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2))
		require.Equal(t, l.nodes[0].driver.Status().Head, s.Head)
	})
}

func TestBacklogJoinsWhatWaits(t *testing.T) {
	var b backlog
	h := func(i byte) common.Hash { return common.Hash{i} }
	fin := func(hs ...common.Hash) finalWork {
		return finalWork{update: block.FinalUpdate{Hashes: hs}}
	}
	b.addHead(h(1))
	b.addFinal(fin(h(1)))
	b.addHead(h(3))
	b.addFinal(fin(h(2), h(3)))
	b.addImport(&importWork{})
	b.addHead(h(9))
	b.build, b.safe = &dpos.Produce{Slot: 5}, h(9)

	var got []work
	for w, ok := b.peek(); ok; w, ok = b.peek() {
		b.drop(w)
		got = append(got, w)
	}
	require.Len(t, got, 6)
	require.Equal(t, h(3), got[0].head)
	require.Equal(t, []common.Hash{h(1), h(2), h(3)}, got[1].fin.update.Hashes)
	require.NotNil(t, got[2].imp)
	require.Equal(t, h(9), got[3].head)
	require.NotNil(t, got[4].build, "a slot does not wait for what only readers see")
	require.Equal(t, h(9), got[5].safe)
}

// A forged certificate that some peer told of is neither the fault of who sends the blocks, nor does it stay, nor does
// it push out a genuine one.
func TestForgedHint(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		blocks, final := l.history(20)
		fc := l.nodes[0].driver.Status().FC
		require.Equal(t, blocks[final-1].Hash(), fc.Target.Hash)
		forge := func(i byte) *block.Certificate {
			x := *fc
			x.Aggregate[40] ^= i
			return &x
		}
		m := l.joiner()
		r, err := m.driver.AddRange(m.ctx, blocks[:final], Certified) // up to what the range itself proves
		require.NoError(t, err)
		require.Less(t, r.Applied, uint64(final))
		rest := blocks[r.Applied:final]
		few := *fc
		few.Bitmaps = slices.Clone(fc.Bitmaps)
		few.Bitmaps[0] = bytes.Repeat([]byte{0}, len(few.Bitmaps[0]))
		for _, x := range []*block.Certificate{forge(1), &few} {
			require.ErrorIs(t, m.driver.AddCertificate(x), ErrUnknownParent)
		}
		r, err = m.driver.AddRange(m.ctx, rest, Certified)
		require.NoError(t, err, "the sender is not to blame")
		require.Equal(t, len(rest), r.Rest)
		p, _ := m.driver.hints.Peek(fc.Target.Hash)
		require.Empty(t, p.fc, "what is forged is forgotten")

		require.ErrorIs(t, m.driver.AddCertificate(fc), ErrUnknownParent)
		for i := range byte(maxHintsOfBlock - 1) {
			require.ErrorIs(t, m.driver.AddCertificate(forge(i+1)), ErrUnknownParent)
		}
		bad := slices.Clone(rest)
		bad[0] = &block.Block{SealedHeader: bad[0].SealedHeader, Transactions: nil, Senders: nil}
		_, err = m.driver.AddRange(m.ctx, bad, Certified)
		require.ErrorIs(t, err, ErrInvalid, "for the range's own faults its sender is")
		r, err = m.driver.AddRange(m.ctx, rest, Certified)
		require.NoError(t, err)
		require.EqualValues(t, final, r.Applied)
	})
}
