package nodes

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// planted is a short run with faults at given times, in which a bug is to be seen.
func planted(seed uint64, bugs Bugs, faults ...Fault) *Scenario {
	s := Quiet(seed, 45*time.Second)
	s.Slot, s.Calm, s.Observers, s.TurnSlots, s.Bugs, s.Faults = time.Second, 20*time.Second, 1, 2, bugs, faults
	return s
}

// cutAt cuts the power of nodes in the middle of a slot; nothing that is not durable is kept.
func cutAt(at, off time.Duration, victims ...int) Fault {
	return Fault{At: at, What: fmt.Sprintf("power cut of nodes %v", victims), stops: true, run: func(w *world) {
		cutPowerOf(w, victims, 0)
		for _, i := range victims {
			w.nodes[i].startAfter(off)
		}
	}}
}

func requireFound(t *testing.T, r *Report, checker string) {
	t.Helper()
	for _, v := range r.Found {
		if v.Checker == checker {
			t.Log(v)
			return
		}
	}
	require.Failf(t, "the checker is silent", "%s did not fire; found: %v", checker, r.Err())
}

// Each checker fires over a bug that is planted for it, and none does without it.
func TestCheckersSeePlantedBugs(t *testing.T) {
	cut := cutAt(12*time.Second+300*time.Millisecond, time.Second, 1)
	rot := Fault{At: 12 * time.Second, What: "records rot, nothing of them is in memory, and no peer can mend them for a while", run: func(w *world) {
		w.splitGroups(map[int]int{4: 1})
		w.after(8*time.Second, w.joinGroups)
		n, r := w.nodes[4], rand.New(rand.NewPCG(1, 1))
		n.kill()
		for range 20 {
			n.flipBit(storeDir+"/segments/", r, 0)
		}
		n.startAfter(0)
	}}
	full := Fault{At: 12 * time.Second, What: "a full disk", run: func(w *world) {
		w.nodes[2].medium.setFull(true)
		w.after(3*time.Second, func() { w.mendDisk(2) })
	}}
	for _, c := range []struct {
		name, checker string
		bugs          Bugs
		faults        []Fault
	}{
		{"a vote log that does not sync", "vote log", Bugs{UnsyncedVotes: true}, []Fault{cut}},
		{"a block store that does not sync", "final", Bugs{UnsyncedBlocks: true}, []Fault{cut}},
		{"a store that answers null about damage", "answers", Bugs{NullOnDamage: true}, []Fault{rot}},
		{"a signer that votes again after a restore", "double sign", Bugs{VotesTwice: true}, []Fault{restoreOf(16*time.Second, 0, 4*time.Second)}},
		{"a node that ends without a word", "end", Bugs{EndsSilently: true}, []Fault{full}},
		{"a node that stays down", "liveness", Bugs{StaysDown: true}, []Fault{cutAt(24*time.Second, 0, 1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			requireFound(t, play(t, planted(1, c.bugs, c.faults...)), c.checker)
		})
	}
	t.Run("none", func(t *testing.T) {
		require.NoError(t, play(t, planted(1, Bugs{}, cut, rot, full, restoreOf(20*time.Second, 0, 4*time.Second))).Err())
	})
}
