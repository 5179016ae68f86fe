package dpos

import (
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// longChain is n headers of 21 producers, each with QC and FC for its parent, as a healthy network makes them.
func longChain(n int) ([]Header, *Root, *block.Certificate) {
	schedule := firstN(21)
	voters := make([]int, 15)
	for i := range voters {
		voters[i] = i
	}
	prev, source, before := Header{Hash: genesisHash}, block.Point{Hash: genesisHash}, block.Point{Hash: genesisHash}
	hs := make([]Header, n)
	for i := range hs {
		s := uint64(i + 1)
		h := Header{Parent: prev.Hash, Height: s, Slot: s, Producer: schedule.Owner(s, 12).Account, Empty: true}
		if i > 0 {
			h.QC = certFor(block.Link{Kind: block.Prevote, Source: before, Target: prev.Point()}, []block.Schedule{schedule}, voters...)
			before, source = prev.Point(), prev.Point()
		}
		h.Hash = common.Hash{byte(s >> 24), byte(s >> 16), byte(s >> 8), byte(s), 1}
		hs[i], prev = h, h
		_ = source
	}
	p := prev.Point()
	return hs, GenesisRoot(genesisHash, schedule), certFor(block.Link{Kind: block.Precommit, Source: p, Target: p}, []block.Schedule{schedule}, voters...)
}

func benchMachine(b *testing.B, root *Root) *Machine {
	p := testParams()
	p.TurnSlots, p.MaxReversible = 12, 1<<40
	m, err := New(DefaultConfig(p, common.Address{}), root)
	require.NoError(b, err)
	require.NoError(b, m.Step(Tick{time.Duration(1<<30) * p.Slot()}))
	return m
}

// Headers through RangeEvent, in ranges of 4,096.
func BenchmarkRange(b *testing.B) {
	hs, root, fc := longChain(4096)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		m := benchMachine(b, root)
		require.NoError(b, m.Step(RangeEvent{hs, fc}))
		m.Ready()
		m.Advance()
		n += len(hs)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "headers/s")
}

// Headers one by one onto a reversible branch that grows to 3,600, with Check and Ready for each, as live.
func BenchmarkHeaders(b *testing.B) {
	hs, root, _ := longChain(3600)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		m := benchMachine(b, root)
		for i := range hs {
			if _, err := m.Check(hs[i]); err != nil {
				b.Fatal(err)
			}
			if err := m.Step(HeaderEvent{hs[i]}); err != nil {
				b.Fatal(err)
			}
			if _, ok := m.Ready(); ok {
				m.Advance()
			}
		}
		n += len(hs)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "headers/s")
}

// Votes on one block of 128 producers.
func BenchmarkVotes(b *testing.B) {
	root := GenesisRoot(genesisHash, firstN(128))
	h := Header{Parent: genesisHash, Height: 1, Slot: 1, Producer: account(1), Hash: common.Hash{1}}
	ids := make([]int, 128)
	for i := range ids {
		ids[i] = i
	}
	vs := votesOn(block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: h.Point()}, ids...)
	p := testParams()
	n := 0
	for b.Loop() {
		m, err := New(DefaultConfig(p, common.Address{}), root)
		require.NoError(b, err)
		require.NoError(b, m.Step(HeaderEvent{h}))
		for i := range vs {
			if err := m.Step(VotesEvent{vs[i : i+1]}); err != nil {
				b.Fatal(err)
			}
			if _, ok := m.Ready(); ok {
				m.Advance()
			}
		}
		n += len(vs)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "votes/s")
}
