package blockstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// long is true for the long form of the tests.
var long = os.Getenv("BORNODE_LONG") == "1"

// seeds is how many seeds a test takes: in storms, in the long form, else.
func seeds(storm, longer, short int) int {
	switch {
	case os.Getenv("BORNODE_STORMS") != "":
		return storm
	case long:
		return longer
	}
	return short
}

// The crash tests run a script of steps. Each step is one call that the store promises to make durable whole or not at
// all, so what is found after a crash must be the state after the last acknowledged step, or after the step that was
// under way. Nothing else is demanded: not that the step under way is absent, nor anything of derived data but that it
// is right where it is present.

// view is what the script's steps are about.
type view struct {
	lib        common.Hash
	first      uint64
	root       string
	meta       string
	reversible string // sorted hashes
}

func viewOf(s *blockstore.Store) (view, error) {
	_, lib := s.LIB()
	v := view{lib: lib, first: s.FirstHeight(), root: string(s.Root())}
	m, err := s.Meta("key")
	if err != nil {
		return v, err
	}
	v.meta = string(m)
	blocks, err := s.Reversible()
	v.reversible = set(blocks...)
	return v, err
}

func set(blocks ...*block.Block) string {
	var names []string
	for _, b := range blocks {
		names = append(names, b.Hash().Hex())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

type step struct {
	name  string
	run   func(*blockstore.Store) error
	after view
}

// script is a small life of a store: every kind of commit, several segments, a losing branch, a pruning.
func script() (steps []step, chain []*block.Block) {
	chain = line(nil, 16, 1, 1, 700)
	fork := line(chain[2], 2, 2, 1, 100)
	var now view
	add := func(name string, change func(*view), run func(*blockstore.Store) error) {
		change(&now)
		steps = append(steps, step{name, run, now})
	}
	lib := func(f block.FinalUpdate) func(*view) {
		return func(v *view) { v.lib, v.root = f.Hashes[len(f.Hashes)-1], string(f.Root) }
	}
	appendFinal := func(from, to int, reversible ...*block.Block) {
		f := final(chain[from:to]...)
		add(fmt.Sprintf("append %d..%d", from, to-1), func(v *view) { lib(f)(v); v.reversible = set(reversible...) },
			func(s *blockstore.Store) error { return s.AppendFinal(chain[from:to], f) })
	}
	put := func(after string, blocks ...*block.Block) {
		add("put reversible", func(v *view) { v.reversible = after }, func(s *blockstore.Store) error { return s.PutReversible(blocks) })
	}
	appendFinal(0, 1)
	put(set(chain[1:5]...), chain[1:5]...)
	put(set(append(fork, chain[1:5]...)...), fork...)
	add("receipts", func(*view) {}, func(s *blockstore.Store) error {
		for _, b := range append(fork, chain[:5]...) {
			if err := s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)); err != nil {
				return err
			}
		}
		return nil
	})
	f1 := final(chain[1:3]...)
	add("finalize 1, 2", func(v *view) { lib(f1)(v); v.reversible = set(append(fork, chain[3:5]...)...) },
		func(s *blockstore.Store) error { return s.Finalize(f1) })
	f2 := final(chain[3])
	f2.Drop = hashes(fork...)
	add("finalize 3, drop the fork", func(v *view) { lib(f2)(v); v.reversible = set(chain[4]) },
		func(s *blockstore.Store) error { return s.Finalize(f2) })
	add("meta", func(v *view) { v.meta = "value" }, func(s *blockstore.Store) error { return s.PutMeta("key", []byte("value"), true) })
	appendFinal(4, 13)
	put(set(chain[13:15]...), chain[13:15]...)
	add("prune", func(v *view) { v.first = 6 }, func(s *blockstore.Store) error { _, err := s.Prune(6); return err })
	appendFinal(13, 16)
	add("sync derived", func(*view) {}, func(s *blockstore.Store) error { return s.SyncDerived() })
	return steps, chain
}

func crashConfig(fs vfs.FS, small bool) blockstore.Config {
	cfg := config(fs)
	cfg.SegmentBytes = 4 << 10
	if small { // journals rotate and tables are compacted all the time
		cfg.MetaBuffer, cfg.IndexBuffer = 4<<10, 4<<10
	}
	return cfg
}

// runner runs the script on a disk and knows which states a crash now may leave.
type runner struct {
	t     *testing.T
	steps []step
	chain []*block.Block

	mu    sync.Mutex
	acked int // steps acknowledged
}

func newRunner(t *testing.T) *runner {
	steps, chain := script()
	return &runner{t: t, steps: steps, chain: chain}
}

// stateAfter is the state when n steps are done.
func (r *runner) stateAfter(n int) view {
	if n == 0 {
		return view{}
	}
	return r.steps[n-1].after
}

func (r *runner) done() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked
}

// run goes on with the script where it stands and returns the first error.
func (r *runner) run(fs vfs.FS, small bool) error {
	s, err := blockstore.Open(crashConfig(fs, small), nil, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	for n := r.done(); n < len(r.steps); n++ {
		if err := r.steps[n].run(s); err != nil {
			return fmt.Errorf("step %s: %w", r.steps[n].name, err)
		}
		r.mu.Lock()
		r.acked = n + 1
		r.mu.Unlock()
	}
	return s.Close()
}

// check opens what a crash left and checks it: the state after acked steps or after one more, every block served,
// nothing for fsck to find but lost receipts. It returns the number of steps whose effect is there.
func (r *runner) check(disk *faultfs.Disk, acked int, small bool, what string) int {
	r.t.Helper()
	s, err := blockstore.Open(crashConfig(disk, small), nil, nil)
	require.NoError(r.t, err, what)
	defer s.Close()
	for _, seg := range s.Segments() {
		f, err := disk.Open(seg.Name, os.O_RDONLY)
		require.NoError(r.t, err, what)
		size, err := f.Size()
		require.NoError(r.t, err, what)
		require.Equal(r.t, seg.Size, size, "%s: %s", what, seg.Name)
	}
	got, err := viewOf(s)
	require.NoError(r.t, err, what)
	n := acked
	if got != r.stateAfter(n) && n < len(r.steps) {
		n++
	}
	require.Equal(r.t, r.stateAfter(n), got, "%s: %d steps were acknowledged", what, acked)
	if height, _ := s.LIB(); !s.Empty() {
		requireChain(r.t, s, r.chain[s.FirstHeight():height+1])
	}
	report, err := s.Fsck(r.t.Context(), blockstore.FsckOptions{}, nil)
	require.NoError(r.t, err, what)
	require.True(r.t, report.Sound(), "%s: %+v", what, report)
	for _, p := range report.Problems {
		taken := p.Kind == blockstore.ProblemSuperblock || strings.Contains(p.Text, "the superblock names")
		require.False(r.t, taken && acked > 0, "%s: a crash is taken for damage: %+v", what, p)
	}
	r.checkWithoutMeta(disk, acked, what)
	return n
}

// checkWithoutMeta opens a copy of what a crash left whose primary database is lost as well: the superblock has a LIB that
// was reached, and the blocks up to it are there.
func (r *runner) checkWithoutMeta(disk *faultfs.Disk, acked int, what string) {
	r.t.Helper()
	if acked == 0 { // no LIB, or one that nobody was told of
		return
	}
	lost := disk.Copy()
	lost.Lose("meta/")
	s, err := blockstore.Open(crashConfig(lost, false), nil, nil)
	require.NoError(r.t, err, what)
	defer s.Close()
	height, hash := s.LIB()
	require.False(r.t, s.Empty(), what)
	require.LessOrEqual(r.t, int(height), len(r.chain)-1, what) //nolint:gosec // small
	require.Equal(r.t, r.chain[height].Hash(), hash, what)
	requireChain(r.t, s, r.chain[s.FirstHeight():height+1])
	require.Equal(r.t, string(final(r.chain[:height+1]...).Root), string(s.Root()), what)
}

// finish runs the rest of the script on what a crash left: the store must be fully usable again.
func (r *runner) finish(disk *faultfs.Disk, from int, small bool, what string) {
	r.t.Helper()
	r.acked = from
	require.NoError(r.t, r.run(disk, small), what)
	require.Equal(r.t, len(r.steps), r.check(disk, len(r.steps), small, what))
}

// TestCrashAtEveryChange crashes the machine before the 1st, 2nd, ... change of the disk, with nothing unsynced kept
// and with several choices of what is.
func TestCrashAtEveryChange(t *testing.T) {
	points := 0
	for _, small := range []bool{false, true} {
		for seed := range uint64(seeds(25, 8, 3)) { //nolint:gosec // positive
			for at := 1; ; at++ {
				r, disk := newRunner(t), faultfs.New()
				disk.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == at} }, seed*1000+seed*uint64(at))
				err := r.run(disk, small)
				left := disk.Crashed()
				if left == nil {
					require.NoError(t, err)
					break
				}
				points++
				what := fmt.Sprintf("crash at change %d, seed %d, small buffers %v", at, seed, small)
				n := r.check(left, r.done(), small, what)
				if at%7 == 0 {
					r.finish(left, n, small, what)
				}
			}
		}
	}
	require.Greater(t, points, 500)
	t.Logf("%d crash points", points)
}

// TestCrashAgainAndAgain crashes at random changes, also while a store recovers from the crash before.
func TestCrashAgainAndAgain(t *testing.T) {
	for seed := range uint64(seeds(1500, 400, 60)) { //nolint:gosec // positive
		rng := rand.New(rand.NewPCG(seed, 7))
		small := rng.IntN(2) == 0
		r, disk := newRunner(t), faultfs.New()
		for crash := range 12 {
			at := rng.IntN(70)
			base := disk.Changes()
			disk.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number > base+at} }, rng.Uint64())
			err := r.run(disk, small)
			left := disk.Crashed()
			if left == nil {
				require.NoError(t, err)
				break
			}
			// The check opens a copy: the next round must recover by itself.
			r.acked = r.check(left.Copy(), r.done(), small, fmt.Sprintf("seed %d, crash %d at +%d", seed, crash, at))
			disk = left
		}
		r.finish(disk.Copy(), r.done(), small, fmt.Sprintf("seed %d", seed))
	}
}

// TestFailedChange lets one change fail, with nothing or a part of it done. The caller gets the cause, later writes
// are refused, reads go on, and after a restart the state is that before or after the step.
func TestFailedChange(t *testing.T) {
	stride := 3
	if long {
		stride = 1
	}
	for _, small := range []bool{false, true} {
		for i, cause := range []error{syscall.EIO, syscall.ENOSPC} {
			for at := 1 + i; ; at += stride {
				r, disk := newRunner(t), faultfs.New()
				var hit atomic.Bool
				var kind atomic.Uint32
				disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
					if c.Number != at {
						return faultfs.Verdict{}
					}
					kind.Store(uint32(c.Kind))
					hit.Store(true)
					return faultfs.Verdict{Err: cause, Short: at % 40}
				}, 0)
				what := fmt.Sprintf("%v at change %d, small buffers %v", cause, at, small)
				err := r.runFailing(disk, small, cause, func() faultfs.Kind { return faultfs.Kind(kind.Load()) }, what) //nolint:gosec // a Kind
				disk.SetPlan(nil, 0)
				left, crashed := disk.Copy(), disk.Crash(uint64(at)) //nolint:gosec // positive
				if !hit.Load() {
					require.NoError(t, err)
					break
				}
				if err != nil && faultfs.Kind(kind.Load()) != faultfs.Remove { //nolint:gosec // a Kind
					require.ErrorIs(t, err, cause, what)
				}
				n := r.check(left, r.done(), small, what+", killed")
				r.check(crashed, r.done(), small, what+", power cut")
				r.finish(left, n, small, what)
			}
		}
	}
}

// runFailing runs the script to the first error and checks how the failed store behaves.
func (r *runner) runFailing(disk *faultfs.Disk, small bool, cause error, kind func() faultfs.Kind, what string) error {
	s, err := blockstore.Open(crashConfig(disk, small), nil, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	for n, st := range r.steps {
		err := st.run(s)
		if err == nil {
			r.acked = n + 1
			continue
		}
		if kind() == faultfs.Remove { // nothing is lost
			require.ErrorIs(r.t, err, cause, what)
			return err
		}
		require.Error(r.t, s.Failed(), what)
		for _, later := range []error{err, s.Failed(), s.PutMeta("x", nil, true), s.PutMeta("x", nil, false), s.PutReversible(r.chain[:1]), s.Finalize(final(r.chain[0])), s.AppendFinal(r.chain[:1], final(r.chain[0])), s.PutReceipts(common.Hash{}, 0, nil), s.SyncDerived()} {
			require.ErrorIs(r.t, later, blockstore.ErrFailed, what)
			require.ErrorIs(r.t, later, cause, what)
		}
		got, viewErr := viewOf(s)
		require.NoError(r.t, viewErr, what)
		if got != r.stateAfter(n) {
			require.Equal(r.t, r.stateAfter(n+1), got, what)
		}
		if height, _ := s.LIB(); !s.Empty() {
			requireChain(r.t, s, r.chain[s.FirstHeight():height+1])
		}
		return err
	}
	return s.Close()
}

// failpoints are all names in this package; docs/storage.md lists them.
var failpoints = []string{
	"blockstore.segment.create.before", "blockstore.segment.create.after",
	"blockstore.segment.write.before", "blockstore.segment.write.after",
	"blockstore.segment.sync.before", "blockstore.segment.sync.after",
	"blockstore.index.write.after", "blockstore.index.sync.after",
	"blockstore.meta.commit.before", "blockstore.meta.commit.after",
	"blockstore.prune.commit.before", "blockstore.prune.commit.after", "blockstore.prune.segment.removed",
}

// TestCrashAtEveryFailpoint takes what a power cut and what a kill would leave at every hit of every fail point.
func TestCrashAtEveryFailpoint(t *testing.T) {
	for _, name := range failpoints {
		for nth := 1; ; nth++ {
			r, disk := newRunner(t), faultfs.New()
			type snapshot struct {
				disk  *faultfs.Disk
				acked int
			}
			var taken []snapshot
			disarm := failpoint.Arm(name, nth, func() {
				for seed := range uint64(3) {
					taken = append(taken, snapshot{disk.Crash(seed), r.done()})
				}
				taken = append(taken, snapshot{disk.Copy(), r.done()})
			})
			require.NoError(t, r.run(disk, nth%2 == 0))
			disarm()
			if taken == nil {
				require.Greater(t, nth, 1, "%s is never hit", name)
				break
			}
			for i, x := range taken {
				what := fmt.Sprintf("%s, hit %d, snapshot %d", name, nth, i)
				n := r.check(x.disk, x.acked, false, what)
				if strings.HasSuffix(name, ".commit.after") {
					require.Equal(t, x.acked+1, n, "%s: what is committed must be there", what)
				}
			}
		}
	}
}

// TestCrashUnderConcurrentPuts: whatever was acknowledged to any of several callers is there.
func TestCrashUnderConcurrentPuts(t *testing.T) {
	runs := seeds(400, 150, 20)
	root := child(nil, 0, 0, 0)
	for seed := range uint64(runs) { //nolint:gosec // positive
		rng := rand.New(rand.NewPCG(seed, 3))
		disk := faultfs.New()
		s, err := blockstore.Open(crashConfig(disk, seed%2 == 0), nil, nil)
		require.NoError(t, err)
		require.NoError(t, s.AppendFinal([]*block.Block{root}, final(root)))
		base, at := disk.Changes(), rng.IntN(60)
		disk.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number > base+at} }, seed)
		var mu sync.Mutex
		acked := make(map[common.Hash]bool)
		var wg sync.WaitGroup
		for w := range byte(6) {
			wg.Go(func() {
				for _, b := range line(root, 10, w, 1, 100) {
					if err := s.PutReversible([]*block.Block{b}); err != nil {
						if !errors.Is(err, faultfs.ErrCrashed) {
							t.Errorf("seed %d: %v", seed, err)
						}
						return
					}
					mu.Lock()
					acked[b.Hash()] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		left := disk.Crashed()
		if left == nil {
			left = disk.Crash(seed)
		}
		s.Close()
		after, err := blockstore.Open(crashConfig(left, false), nil, nil)
		require.NoError(t, err)
		blocks, err := after.Reversible()
		require.NoError(t, err)
		for _, b := range blocks {
			delete(acked, b.Hash())
		}
		require.Empty(t, acked, "seed %d: acknowledged, then lost", seed)
		require.NoError(t, after.Close())
	}
}

// TestLosersLeftBehindAreDroppedAtOpen: a branch that no commit dropped cannot be built on any more.
func TestLosersLeftBehindAreDroppedAtOpen(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 5, 1, 1, 40)
	fork := line(chain[1], 4, 2, 1, 40)
	require.NoError(t, s.AppendFinal(chain[:2], final(chain[:2]...)))
	require.NoError(t, s.PutReversible(append(chain[2:], fork...)))
	require.NoError(t, s.Finalize(final(chain[2]))) // names no losers
	got, err := s.Reversible()
	require.NoError(t, err)
	require.Len(t, got, 6)
	s = reopen(t, s, disk)
	got, err = s.Reversible()
	require.NoError(t, err)
	require.Equal(t, set(chain[3:]...), set(got...))
	require.NoError(t, s.Finalize(final(chain[3:]...)))
}

// TestSyncDerivedCoversEarlierJournals: goleveldb goes on with a new journal when its buffer is full; what lies in the
// old one must be durable too.
func TestSyncDerivedCoversEarlierJournals(t *testing.T) {
	disk := faultfs.New()
	s, err := blockstore.Open(crashConfig(disk, true), nil, nil)
	require.NoError(t, err)
	defer s.Close()
	chain := line(nil, 80, 1, 8, 40)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	for i, b := range chain {
		require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
		if i%8 != 7 {
			continue
		}
		require.NoError(t, s.SyncDerived())
		after, err := blockstore.Open(crashConfig(disk.Crash(0), false), nil, nil)
		require.NoError(t, err)
		for _, b := range chain[:i+1] {
			_, err := after.Receipts(b.Hash())
			require.NoError(t, err)
		}
		require.NoError(t, after.Close())
	}
}
