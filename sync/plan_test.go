package blocksync

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

func TestPlan(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(head, lib, justified uint64) Position {
		return Position{Head: ref(head, head, byte(justified)), LIB: ref(lib, lib, 0), Justified: justified}
	}
	peer := func(id string, p Position) peerView {
		return peerView{id: transport.PeerID(id), pos: p, canRange: true, rangeTo: p.LIB.Height}
	}
	type ps = []peerView
	with := func(p peerView, f func(*peerView)) peerView { f(&p); return p }
	for _, c := range []struct {
		name    string
		local   Position
		current State
		peers   ps
		want    decision
	}{
		{"alone", at(10, 8, 9), InSync, nil, decision{}},
		{"level", at(100, 98, 99), InSync, ps{peer("a", at(100, 98, 99))}, decision{}},
		{"below the LIB of one", at(10, 8, 9), InSync, ps{peer("a", at(10, 8, 9)), peer("b", at(100, 98, 99)), peer("c", at(90, 88, 89))}, decision{state: LIBCatchup, target: 98}},
		{"behind within the reversible range", at(98, 96, 97), InSync, ps{peer("a", at(104, 97, 103))}, decision{state: HeadCatchup, ask: "a"}},
		{"the best is asked", at(98, 96, 97), InSync, ps{peer("a", at(104, 97, 103)), peer("b", at(102, 97, 104))}, decision{state: HeadCatchup, ask: "b"}},
		{"one block at the tip starts nothing", at(99, 97, 98), InSync, ps{peer("a", at(100, 98, 99))}, decision{}},
		{"nor does its LIB", Position{Head: ref(99, 100, 0), LIB: ref(97, 98, 0), Justified: 99}, InSync,
			ps{peer("a", Position{Head: ref(100, 101, 0), LIB: ref(100, 101, 0), Justified: 100})}, decision{}},
		{"unless it lasts", at(99, 97, 98), InSync, ps{with(peer("a", at(100, 98, 99)), func(p *peerView) { p.since = now.Add(-time.Second) })}, decision{state: HeadCatchup, ask: "a"}},
		{"slow links allow more", at(96, 94, 95), InSync, ps{with(peer("a", at(99, 96, 98)), func(p *peerView) { p.latency = 1100 * time.Millisecond })}, decision{}},
		{"its head is here already", at(98, 96, 97), InSync, ps{with(peer("a", at(104, 97, 103)), func(p *peerView) { p.headHere = true })}, decision{}},
		{"backed off", at(98, 96, 97), InSync, ps{with(peer("a", at(104, 97, 103)), func(p *peerView) { p.notAsk = now.Add(1) })}, decision{}},
		{"range backed off", at(10, 8, 9), InSync, ps{with(peer("a", at(100, 98, 99)), func(p *peerView) { p.notRange, p.notAsk = now.Add(1), now.Add(1) })}, decision{}},
		{"serves no ranges", at(10, 8, 9), InSync, ps{with(peer("a", at(100, 98, 99)), func(p *peerView) { p.canRange, p.notAsk = false, now.Add(1) })}, decision{}},
		{"pruned above us", at(10, 8, 9), InSync, ps{with(peer("a", at(100, 98, 99)), func(p *peerView) { p.pos.First, p.notAsk = 50, now.Add(1) })}, decision{}},
		{"pruned above us, another has the beginning", at(10, 8, 9), InSync,
			ps{with(peer("a", at(100, 98, 99)), func(p *peerView) { p.pos.First = 50 }), peer("b", at(60, 58, 59))}, decision{state: LIBCatchup, target: 98}},
		{"a running sync goes on to the last block", at(97, 97, 97), LIBCatchup, ps{peer("a", at(100, 98, 99))}, decision{state: LIBCatchup, target: 98}},
		{"done", at(98, 98, 98), LIBCatchup, ps{peer("a", at(98, 98, 98))}, decision{}},
		{"higher justified wins over higher head", at(110, 90, 95), InSync, ps{peer("a", at(105, 90, 103))}, decision{state: HeadCatchup, ask: "a"}},
		{"lower justified is not asked", at(105, 90, 103), InSync, ps{peer("a", at(110, 90, 95))}, decision{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := plan(planInput{local: c.local, peers: c.peers, slot: 500 * time.Millisecond, current: c.current, now: now})
			require.Equal(t, c.want, got)
		})
	}
}
