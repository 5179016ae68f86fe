package nodes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// Where troubles of a disk strike: prefixes of files.
var (
	readPlaces  = []string{storeDir + "/segments/", storeDir + "/index/", storeDir + "/meta/", storeDir + "/derived/", stateDir + "/", storeDir + "/"}
	writePlaces = []string{storeDir + "/segments/", storeDir + "/index/", storeDir + "/meta/", storeDir + "/derived/", storeDir + "/SUPER", stateDir + "/", consensusDir + "/", poolDir + "/", ""}
	// A write that is lost without a word in the vote log is a forgotten vote, as a restored copy makes it: see rotVotes.
	silentPlaces = []string{storeDir + "/segments/", storeDir + "/index/", storeDir + "/derived/", stateDir + "/"}
	rotPlaces    = []string{storeDir + "/segments/", storeDir + "/index/", storeDir + "/meta/", storeDir + "/derived/", storeDir + "/SUPER", stateDir + "/kv/"}
)

// Random draws a scenario with faults. A signer that has forgotten what it signed, by a restored copy or a damaged vote log,
// is as good as silent until the chain proves that it may vote, and relies on others that still hold its votes: in a run
// with one of these no other machine stops.
func Random(seed uint64) *Scenario {
	r := rand.New(rand.NewPCG(seed, 0xfa17))
	s := Quiet(seed, 90*time.Second)
	s.Slot, s.Calm = time.Second, 40*time.Second
	d := &drawer{r: r, nodes: s.Producers + s.Observers, producers: s.Producers, victim: r.IntN(s.Producers + s.Observers)}
	for range 2 + r.IntN(4) {
		at := 6*time.Second + time.Duration(r.Int64N(int64(s.Length-s.Calm-12*time.Second)))
		s.Faults = append(s.Faults, d.draw(at))
	}
	if r.IntN(4) == 0 {
		s.Faults = slices.DeleteFunc(s.Faults, func(f Fault) bool { return f.stops })
		s.Faults = append(s.Faults, d.drawForgetting(15*time.Second+time.Duration(r.Int64N(int64(20*time.Second)))))
	}
	return s
}

// drawer draws faults for one scenario.
type drawer struct {
	r                *rand.Rand
	nodes, producers int
	victim           int // whose disk damages what is on it: a block that all have damaged would be nobody's
}

func (d *drawer) node() int                  { return d.r.IntN(d.nodes) }
func (d *drawer) place(from []string) string { return from[d.r.IntN(len(from))] }
func (d *drawer) between(a, b time.Duration) time.Duration {
	return a + time.Duration(d.r.Int64N(int64(b-a)))
}

func (d *drawer) draw(at time.Duration) Fault {
	kinds := []func(time.Duration) Fault{
		d.powerCut, d.powerCut, d.plannedCut, d.plannedCut, d.kill, d.failsOnce, d.failsOnce, d.failsForGood, d.fullDisk, d.slowDisk,
		d.rot, d.rot, d.silentWrite, d.partition, d.delay, d.clock,
	}
	return kinds[d.r.IntN(len(kinds))](at)
}

// powerCut cuts the power of one, several or all nodes in one moment.
func (d *drawer) powerCut(at time.Duration) Fault {
	victims := d.r.Perm(d.nodes)[:1]
	switch d.r.IntN(3) {
	case 0:
		victims = d.r.Perm(d.nodes)[:1+d.r.IntN(d.nodes)]
	case 1:
		victims = d.r.Perm(d.nodes)
	}
	seed, off := d.r.Uint64N(1000), d.between(0, 5*time.Second)
	return Fault{At: at, What: fmt.Sprintf("power cut of nodes %v for %v, seed %d", victims, off, seed), stops: true, run: func(w *world) {
		cutPowerOf(w, victims, seed)
		for _, i := range victims {
			w.nodes[i].startAfter(off)
		}
	}}
}

// cutPowerOf cuts all in one moment: no life sees the end of another.
func cutPowerOf(w *world, victims []int, seed uint64) {
	for _, i := range victims {
		if l := w.nodes[i].life; l != nil {
			l.die(nil, func() *faultfs.Disk {
				if cut := l.drive.disk.Crashed(); cut != nil {
					return cut
				}
				return l.drive.disk.Crash(seed)
			})
		}
	}
	for _, i := range victims {
		w.nodes[i].cutPower(seed)
	}
}

// plannedCut cuts a node's power right before one of the coming changes of its disk.
func (d *drawer) plannedCut(at time.Duration) Fault {
	i, t := d.node(), trouble{kind: writes, below: d.place(writePlaces), after: d.r.IntN(12), what: cutsPower}
	if d.r.IntN(2) == 0 {
		t.kind = syncs
	}
	return Fault{At: at, What: fmt.Sprintf("power cut of node %d at %s %d below %q", i, t.kind, t.after+1, t.below), stops: true, run: func(w *world) {
		w.nodes[i].medium.add(t)
	}}
}

func (d *drawer) kill(at time.Duration) Fault {
	i, off := d.node(), d.between(0, 4*time.Second)
	return Fault{At: at, What: fmt.Sprintf("kill of node %d, started again after %v", i, off), stops: true, run: func(w *world) {
		w.nodes[i].kill()
		w.nodes[i].startAfter(off)
	}}
}

func (d *drawer) failing(forGood bool) (i int, t trouble) {
	t = trouble{kind: access(d.r.IntN(3)), after: d.r.IntN(20), forGood: forGood, what: fails} //nolint:gosec // small
	t.below = d.place(writePlaces)
	if t.kind == reads {
		t.below = d.place(readPlaces)
	}
	return d.node(), t
}

func (d *drawer) failsOnce(at time.Duration) Fault {
	i, t := d.failing(false)
	return Fault{At: at, What: fmt.Sprintf("node %d: EIO at %s %d below %q", i, t.kind, t.after+1, t.below), stops: true, run: func(w *world) {
		w.nodes[i].medium.add(t)
	}}
}

func (d *drawer) failsForGood(at time.Duration) Fault {
	i, t := d.failing(true)
	until := d.between(2*time.Second, 9*time.Second)
	return Fault{At: at, What: fmt.Sprintf("node %d: EIO at each %s below %q for %v", i, t.kind, t.below, until), stops: true, run: func(w *world) {
		w.nodes[i].medium.add(t)
		w.after(until, func() { w.mendDisk(i) })
	}}
}

// mendDisk ends the troubles of a node's disk, and has it started if they ended it.
func (w *world) mendDisk(i int) {
	w.nodes[i].medium.heal()
	w.nodes[i].startAfter(time.Second)
}

func (d *drawer) fullDisk(at time.Duration) Fault {
	i, until := d.node(), d.between(time.Second, 8*time.Second)
	return Fault{At: at, What: fmt.Sprintf("node %d: the disk is full for %v", i, until), stops: true, run: func(w *world) {
		w.nodes[i].medium.setFull(true)
		w.after(until, func() { w.mendDisk(i) })
	}}
}

func (d *drawer) slowDisk(at time.Duration) Fault {
	i, until, slow := d.node(), d.between(time.Second, 10*time.Second), d.between(10*time.Millisecond, 1500*time.Millisecond)
	return Fault{At: at, What: fmt.Sprintf("node %d: a sync takes %v for %v", i, slow, until), run: func(w *world) {
		w.nodes[i].medium.setSlow(slow)
		w.after(until, func() { w.nodes[i].medium.setSlow(0) })
	}}
}

// rot flips bits of a file of the victim, and may kill it then, so that a start meets them.
func (d *drawer) rot(at time.Duration) Fault {
	place, seed, flips, then := d.place(rotPlaces), d.r.Uint64(), 1+d.r.IntN(3), d.r.IntN(2) == 0
	return Fault{At: at, What: fmt.Sprintf("node %d: %d bits flip below %q, killed then: %v", d.victim, flips, place, then), stops: true, run: func(w *world) {
		n := w.nodes[d.victim]
		for range flips {
			n.flipBit(place, rand.New(rand.NewPCG(seed, 1)), 0)
		}
		if then {
			w.after(time.Second, func() {
				n.kill()
				n.startAfter(time.Second)
			})
		}
	}}
}

// flipBit damages one byte of a file below a place, at its end if tail is above 0.
func (n *node) flipBit(place string, r *rand.Rand, tail int) {
	disk := n.disk
	if n.life != nil {
		disk = n.life.drive.disk
	}
	files := make(map[string]int)
	disk.Each(func(name string, data []byte) {
		if strings.HasPrefix(name, place) && len(data) > 0 && !strings.HasSuffix(name, "LOCK") {
			files[name] = len(data)
		}
	})
	if len(files) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(files))
	name := names[r.IntN(len(names))]
	at := r.IntN(files[name])
	if tail > 0 {
		at = files[name] - 1 - r.IntN(min(tail, files[name]))
	}
	bit := byte(1) << r.IntN(8)
	n.w.note("node %d: bit %#x of byte %d of %d of %s flips", n.id, bit, at, files[name], name)
	n.medium.hurt("rot of " + name)
	_ = disk.Corrupt(name, func(data []byte) []byte { // the file is there
		data[at] ^= bit
		return data
	})
}

// silentWrite has a write of the victim lost or misplaced, without a word.
func (d *drawer) silentWrite(at time.Duration) Fault {
	t := trouble{kind: silently, below: d.place(silentPlaces), after: d.r.IntN(10), what: isLost}
	if d.r.IntN(2) == 0 {
		t.what = isMisplaced
	}
	return Fault{At: at, What: fmt.Sprintf("node %d: write %d below %q is %s", d.victim, t.after+1, t.below, t.what), stops: true, run: func(w *world) {
		w.nodes[d.victim].medium.add(t)
	}}
}

func (d *drawer) partition(at time.Duration) Fault {
	group := make(map[int]int)
	for i := range d.nodes {
		group[i] = d.r.IntN(2 + d.r.IntN(2))
	}
	until := d.between(2*time.Second, 15*time.Second)
	return Fault{At: at, What: fmt.Sprintf("the network splits into groups %v for %v", group, until), run: func(w *world) {
		w.splitGroups(group)
		w.after(until, w.joinGroups)
	}}
}

func (d *drawer) delay(at time.Duration) Fault {
	late, until := d.between(20*time.Millisecond, 1500*time.Millisecond), d.between(time.Second, 8*time.Second)
	return Fault{At: at, What: fmt.Sprintf("every message takes %v for %v", late, until), run: func(w *world) {
		w.setLatency(late)
		w.after(until, func() { w.setLatency(w.s.Latency) })
	}}
}

// clock moves a node's clock by up to five slots, or has it go wrong by up to 5 %.
func (d *drawer) clock(at time.Duration) Fault {
	i, offset, drift := d.node(), d.between(-5*time.Second, 5*time.Second), 0.0
	if d.r.IntN(2) == 0 {
		offset, drift = 0, d.r.Float64()/10-0.05
	}
	until := d.between(3*time.Second, 20*time.Second)
	return Fault{At: at, What: fmt.Sprintf("node %d: the clock is off by %v and drifts by %.3f for %v", i, offset, drift, until), run: func(w *world) {
		w.nodes[i].clock.set(offset, drift)
		w.after(until, func() { w.nodes[i].clock.set(0, 0) })
	}}
}

// drawForgetting draws how a signer comes to lack what it has signed.
func (d *drawer) drawForgetting(at time.Duration) Fault {
	i := d.r.IntN(d.producers)
	if d.r.IntN(2) == 0 {
		return restoreOf(at, i, d.between(time.Second, 10*time.Second))
	}
	seed, tail := d.r.Uint64(), 0
	if d.r.IntN(2) == 0 {
		tail = 200
	}
	return Fault{At: at, What: fmt.Sprintf("node %d: a bit of the vote log flips, it is killed then", i), stops: true, run: func(w *world) {
		n := w.nodes[i]
		n.kill()
		n.flipBit(consensusDir+"/votes.log", rand.New(rand.NewPCG(seed, 1)), tail)
		n.logFrom = time.Now()
		n.startAfter(time.Second)
	}}
}

// restoreOf has a node come back with a copy of its disk that is so old.
func restoreOf(at time.Duration, i int, old time.Duration) Fault {
	return Fault{At: at - old, What: fmt.Sprintf("node %d: the disk is copied, and restored after %v", i, old), stops: true, run: func(w *world) {
		n := w.nodes[i]
		if n.life == nil {
			return
		}
		copied := n.life.drive.disk.Copy()
		height, hash := n.told.get()
		w.after(old, func() {
			if hash != (common.Hash{}) {
				n.restore(copied, height, hash)
			}
		})
	}}
}
