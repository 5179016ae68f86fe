package dpos

import (
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// Three message delays after production every block is final: block, prevotes, precommits.
func TestFinalAfterThreeDelays(t *testing.T) {
	for _, patience := range []bool{false, true} {
		p := testParams()
		p.Patience = patience
		net := newNetwork(t, 4, p, firstN(4))
		net.run(60 * time.Second)
		low, high := net.lib()
		require.EqualValues(t, 119, low)
		require.Equal(t, low, high)
		for h, at := range net.lastFinal {
			hash := net.finalised[h]
			require.Equal(t, 60*time.Millisecond, at-net.born[hash], "height %d", h)
		}
		for _, x := range net.peers {
			require.Empty(t, x.evid)
			require.Empty(t, x.dropped)
			require.Less(t, len(x.tree.nodes), 4)
			require.Less(t, len(x.finals[len(x.finals)-1].Root.tail), 4)
		}
	}
}

// Deliveries in any order, delays up to several slots: no fork of the final chain, and progress.
func TestReorderedDeliveries(t *testing.T) {
	for seed := range int64(6) {
		p := testParams()
		p.TurnSlots, p.Patience = 4, seed%2 == 0
		net := newNetwork(t, 4, p, firstN(4))
		rnd := rand.New(rand.NewSource(seed))
		net.delay = func(int, int, Event) time.Duration { return time.Duration(rnd.Intn(700)) * time.Millisecond }
		net.run(120 * time.Second)
		low, _ := net.lib()
		require.Greater(t, low, uint64(100), "seed %d", seed)
		for _, x := range net.peers {
			require.Empty(t, x.evid)
		}
	}
}

// One of four silent: the others finalise. Two silent: blocks go on, LIB stands, votes are sent again.
func TestSilentProducers(t *testing.T) {
	net := newNetwork(t, 4, testParams(), firstN(4))
	net.peers[3].down = true
	net.run(30 * time.Second)
	low, _ := net.lib()
	require.Greater(t, low, uint64(40))
	net.peers[2].down = true
	net.run(60 * time.Second)
	after, _ := net.lib()
	require.LessOrEqual(t, after, low+1)
	require.Greater(t, net.peers[0].Head().Height, after+25)
	require.Positive(t, net.peers[0].resent)
	// Back, with their logs: the LIB moves over all that was reversible.
	net.peers[2].restart(true)
	for _, h := range net.headers {
		net.send(0, 2, HeaderEvent{h})
	}
	net.run(70 * time.Second)
	low, _ = net.lib()
	require.Greater(t, low, after+40)
}

// A partition two by two makes two branches and nothing final; after it heals all agree.
func TestPartitionHeals(t *testing.T) {
	for _, patience := range []bool{false, true} {
		p := testParams()
		p.Patience = patience
		net := newNetwork(t, 4, p, firstN(4))
		cut := false
		net.delay = func(from, to int, _ Event) time.Duration {
			if cut && from/2 != to/2 {
				return -1
			}
			return 20 * time.Millisecond
		}
		net.run(10 * time.Second)
		before, _ := net.lib()
		cut = true
		net.run(25 * time.Second)
		_, during := net.lib()
		require.LessOrEqual(t, during, before+1)
		require.NotEqual(t, net.peers[0].Head().Hash, net.peers[2].Head().Hash)
		cut = false
		net.run(60*time.Second + 200*time.Millisecond)
		low, high := net.lib()
		require.Equal(t, low, high)
		require.Greater(t, low, during+50)
		for _, x := range net.peers {
			require.Empty(t, x.evid)
			require.Equal(t, net.peers[0].Head().Hash, x.Head().Hash)
		}
	}
}

// A change of schedule goes through its steps while the chain stays final; the leaver and the comer change places.
func TestEpochChangeOnNetwork(t *testing.T) {
	p := testParams()
	p.EpochBlocks = 10
	net := newNetwork(t, 6, p, firstN(4))
	net.next = func(h uint64) block.Schedule {
		if h < 50 {
			return scheduleOf(0, 1, 4, 5)
		}
		return scheduleOf(0, 1, 2, 4, 5, 3)
	}
	net.run(60 * time.Second)
	low, high := net.lib()
	require.Equal(t, low, high)
	require.Greater(t, low, uint64(100))
	s, err := net.peers[0].ScheduleFor(net.peers[0].Head().Hash)
	require.NoError(t, err)
	require.True(t, s.Equal(scheduleOf(0, 1, 2, 4, 5, 3)))
	stages := make(map[uint64]stage)
	for _, f := range net.peers[0].finals {
		stages[f.Height] = f.Root.own.stage
	}
	require.Equal(t, settled, stages[10])
	require.Equal(t, announced, stages[15])
	require.Equal(t, joint, stages[25])
	require.Equal(t, settled, stages[35])
}

// Crashes at random, with logs: nobody signs twice, and the chain goes on.
func TestCrashesAndRestarts(t *testing.T) {
	net := newNetwork(t, 4, testParams(), firstN(4))
	rnd := rand.New(rand.NewSource(1))
	for i := range 40 {
		net.run(time.Duration(i) * 700 * time.Millisecond)
		net.peers[rnd.Intn(4)].restart(true)
	}
	net.run(60 * time.Second)
	low, _ := net.lib()
	require.Greater(t, low, uint64(90))
	for _, x := range net.peers {
		require.Empty(t, x.evid)
	}
}

// One producer loses its log: it is silent until the chain proves a source from after its restart, then signs again.
func TestLostLog(t *testing.T) {
	net := newNetwork(t, 4, testParams(), firstN(4))
	net.run(10 * time.Second)
	x := net.peers[1]
	x.restart(false)
	net.run(10*time.Second + 100*time.Millisecond)
	require.True(t, x.Silent())
	require.Len(t, x.wal, 1)
	require.Equal(t, RecordFloor, x.wal[0].Kind)
	floor := x.wal[0].Slot
	require.GreaterOrEqual(t, floor, uint64(20)+x.cfg.ClockBound)
	net.run(30 * time.Second)
	require.False(t, x.Silent())
	require.Greater(t, len(x.wal), 10)
	for _, r := range x.wal[1:] {
		require.Greater(t, r.Slot, floor)
	}
	for _, y := range net.peers {
		require.Empty(t, y.evid)
	}
}
