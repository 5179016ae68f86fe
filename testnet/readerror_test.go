package testnet

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/testnet/load"
)

// readFault fails one read of a node's files with an I/O error, counted from its arming; 0 fails none.
type readFault struct {
	at   int64
	seen atomic.Int64
	name atomic.Pointer[string] // of the file whose read failed
}

func (f *readFault) decide(name string) error {
	if filepath.Base(name) == "bornode.log" { // the tests read it
		return nil
	}
	if n := f.seen.Add(1); n != f.at {
		return nil
	}
	f.name.Store(&name)
	return syscall.EIO
}

// startWithFault starts the node and waits until it makes final blocks or ends; it reports which, with its last line.
func (p *powerNode) startWithFault(t *testing.T, f *readFault, above uint64) (up bool, last string) {
	t.Helper()
	p.mount.FailReads(f.decide)
	require.NoError(t, p.n.startNode(p.x))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := p.n.await(ctx, p.x, func(s Status) bool { return s.Final > above })
	p.mount.FailReads(nil)
	require.NoError(t, ctx.Err(), "it neither runs nor ends: %v", err)
	return err == nil, lastLines(p.x.LogFile(), 1)
}

// asideOf lists what the starts of a node have set aside.
func asideOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*/aside/*", "*.damaged-*", "*/*.damaged-*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		names = append(names, found...)
	}
	return names
}

// TestReadErrorAtAStart: one read that fails, anywhere in the start after a kill, removes nothing and sets nothing aside: the node
// goes on, or ends with a sentence and starts the next time as if nothing had been.
func TestReadErrorAtAStart(t *testing.T) {
	points := 5
	if os.Getenv("BORNODE_STORMS") != "" {
		points = 200
	}
	n := upNetwork(t, func(s *Spec) {
		s.Producers, s.Observers, s.Slot = 1, 0, 50*time.Millisecond
		s.Set = append(s.Set, "chain.flush_blocks=128")
	})
	r, err := n.Load(t.Context(), LoadOptions{Kind: load.Contract, Rate: 100, Duration: 8 * time.Second, Follow: -1, Drain: patience})
	require.NoError(t, err)
	require.Zero(t, r.Missing)
	p := moveToMount(t, n, 0)
	before := until(t, n, 0, "an answer", func(Status) bool { return true })
	finalAbove(t, n, before.Final+100, 0)
	require.NoError(t, n.Kill(t.Context(), 0))
	whole := p.mount.Disk().Copy()
	plug := func() {
		p.unplug(t)
		p.plugIn(t, whole.Copy())
	}

	counted := new(readFault)
	plug()
	up, last := p.startWithFault(t, counted, before.Final+100)
	require.True(t, up, last)
	require.NoError(t, n.Kill(t.Context(), 0))
	reads := counted.seen.Load()
	usual := asideReasons(t, p.x.Dir)     // a kill within a commit leaves a record beyond LIB, which every start sets aside
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any
	t.Logf("a start reads %d times; seed %d", reads, seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ended := 0
	for range points {
		f := &readFault{at: 1 + rng.Int64N(reads)}
		plug()
		up, last := p.startWithFault(t, f, before.Final+100)
		file := "none"
		if name := f.name.Load(); name != nil {
			file = *name
		}
		if up {
			require.NoError(t, n.Kill(t.Context(), 0))
		} else {
			ended++
			require.True(t, strings.HasPrefix(last, "bornode: "), "read %d, of %s: %s", f.at, file, last)
		}
		require.Subset(t, usual, asideReasons(t, p.x.Dir), "read %d, of %s: %s", f.at, file, last)
		require.NoError(t, n.Restart(t.Context(), 0), "after read %d, of %s: %s", f.at, file, last)
		until(t, n, 0, "it goes on", func(s Status) bool { return s.Final > before.Final+100 })
		require.NoError(t, n.Kill(t.Context(), 0))
		require.Subset(t, append([]string{"beyond-lib"}, usual...), asideReasons(t, p.x.Dir), "read %d, of %s: %s", f.at, file, last)
	}
	t.Logf("%d starts of %d ended with a sentence", ended, points)
	out, err := bornode(t, nil, "fsck", "--dir", p.x.Dir)
	require.NoError(t, err, out)
	p.unplug(t)
}

// asideReasons are the reasons of the folders that a node set aside, in order of time.
func asideReasons(t *testing.T, dir string) (reasons []string) {
	t.Helper()
	for _, path := range asideOf(t, dir) {
		_, reason, _ := strings.Cut(filepath.Base(path), "Z-")
		reasons = append(reasons, reason)
	}
	return reasons
}
