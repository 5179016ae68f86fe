package consensus

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// logTrial does to a vote log what a producer does, and knows what a start must find.
type logTrial struct {
	t       *testing.T
	l       *voteLog
	began   bool       // an open has returned: the log exists
	known   []string   // acknowledged: returned by an open, an append or a rewrite
	pending [][]string // what the log may hold instead, since an operation did not return
}

func bytesOf(texts []string) (payloads [][]byte) {
	for _, s := range texts {
		payloads = append(payloads, []byte(s))
	}
	return payloads
}

// openOn opens the log of a disk and checks that it tells all that was acknowledged, and nothing that never was.
func (x *logTrial) openOn(fs vfs.FS, newKey bool) error {
	x.l = nil
	l, payloads, st, err := openVoteLog(fs, "disk", voteLogName, logAccount, logGenesis, lostMarker(), newKey, zap.NewNop())
	if err != nil {
		return err
	}
	x.l = l
	got := texts(payloads)
	if !x.began {
		require.Contains(x.t, []logState{logMissing, logGood}, st)
	} else {
		require.Equal(x.t, logGood, st, "a log that was opened before is neither lost nor damaged by a power cut")
		require.True(x.t, slices.Equal(got, x.known) || slices.ContainsFunc(x.pending, func(p []string) bool { return slices.Equal(got, p) }),
			"found %q, acknowledged %q, under way %q", got, x.known, x.pending)
	}
	x.began, x.known, x.pending = true, got, nil
	return nil
}

func (x *logTrial) append(texts ...string) error {
	for n := range texts {
		x.pending = append(x.pending, append(slices.Clone(x.known), texts[:n+1]...)) // a torn write leaves the first ones
	}
	if err := x.l.append(bytesOf(texts)); err != nil {
		return err
	}
	x.known, x.pending = append(slices.Clone(x.known), texts...), nil
	return nil
}

func (x *logTrial) rewrite(texts ...string) error {
	x.pending = [][]string{texts}
	if err := x.l.rewrite(bytesOf(texts)); err != nil {
		return err
	}
	x.known, x.pending = texts, nil
	return nil
}

// run is a life of a vote log: begun, appended to, compacted, closed, and opened again.
func (x *logTrial) run(fs vfs.FS) error {
	if err := x.openOn(fs, true); err != nil {
		return err
	}
	steps := []func() error{
		func() error { return x.append("e1") },
		func() error { return x.append("e2 is longer", "e3", "e4") },
		func() error { return x.append(fmt.Sprintf("e5%600d", 5)) },
		func() error { return x.rewrite("e3", "e4") },
		func() error { return x.append("e6") },
		x.l.close,
		func() error { return x.openOn(fs, false) },
		func() error { return x.append("e7", "e8") },
		func() error { return x.rewrite("e8") },
		func() error { return x.append("e9") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return x.l.close()
}

const crashSeeds = 6

// A power cut at any operation loses no acknowledged entry, and the log that is found goes on.
func TestVoteLogSurvivesAPowerCutAtAnyOperation(t *testing.T) {
	for at, ended := 1, false; !ended; at++ {
		for seed := range uint64(crashSeeds) {
			d := faultfs.New()
			d.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == at} }, seed)
			x := &logTrial{t: t}
			err := x.run(d)
			left := d.Crashed()
			if left == nil {
				require.NoError(t, err)
				left, ended = d.Crash(seed), true
			}
			require.NoError(t, x.openOn(left, !x.began), "operation %d, seed %d", at, seed)
			require.NoError(t, x.append("after"))
			x.requireDurable(left)
		}
	}
}

// requireDurable checks that a power cut now takes nothing of what is known.
func (x *logTrial) requireDurable(d *faultfs.Disk) {
	x.t.Helper()
	require.NoError(x.t, x.openOn(d.Crash(0), false))
	require.Empty(x.t, x.pending)
}

// What a start finds behind the kill of a process is durable before the start returns: the machine sends again what it
// knows as signed, and a power cut must not take the entry away after that.
func TestVoteLogOfAKilledProcessIsDurableWhenItIsOpen(t *testing.T) {
	for at, ended := 1, false; !ended; at++ {
		killed := errors.New("killed")
		d := faultfs.New()
		d.SetPlan(func(c faultfs.Change) faultfs.Verdict {
			if c.Number >= at {
				return faultfs.Verdict{Err: killed}
			}
			return faultfs.Verdict{}
		}, 0)
		x := &logTrial{t: t}
		if err := x.run(d); err == nil {
			ended = true
		}
		left := d.Killed()
		require.NoError(t, x.openOn(left, !x.began), "operation %d", at)
		x.requireDurable(left)
	}
}

// After a failed sync the entry can be read and never reaches the disk by itself. The log takes nothing more, and the next
// start makes durable what it reads.
func TestVoteLogEndsWithAFailedSync(t *testing.T) {
	for at, hit := 1, true; hit; at++ {
		hit = false
		broken, syncs := errors.New("the disk is broken"), 0
		d := faultfs.New()
		d.SetPlan(func(c faultfs.Change) faultfs.Verdict {
			if c.Kind == faultfs.Sync || c.Kind == faultfs.SyncDir {
				if syncs++; syncs == at {
					hit = true
					return faultfs.Verdict{Err: broken, Lost: c.Kind == faultfs.Sync}
				}
			}
			return faultfs.Verdict{}
		}, 0)
		x := &logTrial{t: t}
		err := x.run(d)
		if !hit {
			require.NoError(t, err)
			break
		}
		require.ErrorIs(t, err, broken, "sync %d", at)
		if x.l != nil {
			require.ErrorIs(t, x.l.append([][]byte{[]byte("late")}), broken, "the log was used after an error")
			require.ErrorIs(t, x.l.rewrite(nil), broken)
			_ = x.l.close()
		}
		d.SetPlan(nil, 0)
		require.NoError(t, x.openOn(d, !x.began))
		x.requireDurable(d)
	}
}

// The mark of a copy goes when the log says durably what the mark says: a power cut at any operation leaves one of them, also
// beside a good log with entries.
func TestCopyMarkSurvivesAPowerCutAtAnyOperation(t *testing.T) {
	made := faultfs.New()
	l, _, _, err := openVoteLog(made, "disk", voteLogName, logAccount, logGenesis, lostMarker(), true, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, l.append(bytesOf([]string{"e1", "e2"})))
	require.NoError(t, l.close())
	require.NoError(t, vfs.ReplaceFile(made, copyMark, []byte("copy")))
	d := &Driver{log: zap.NewNop()}
	open := func(disk *faultfs.Disk) (payloads [][]byte, isCopy bool, err error) {
		if isCopy, err = markedCopy(disk); err != nil {
			return nil, false, err
		}
		l, payloads, st, err := openVoteLog(disk, "disk", voteLogName, logAccount, logGenesis, lostMarker(), false, zap.NewNop())
		if err != nil {
			return nil, isCopy, err
		}
		if isCopy {
			payloads, err = d.openLogOfCopy(disk, l, payloads, st)
		}
		return payloads, isCopy, errors.Join(err, l.close())
	}
	for n, cuts := 0, true; cuts; n++ {
		disk, at := made.Copy(), 0
		disk.SetPlan(func(faultfs.Change) faultfs.Verdict {
			at++
			return faultfs.Verdict{Crash: at == n+1}
		}, uint64(n)) //nolint:gosec // small
		_, _, err := open(disk)
		left := disk
		if cuts = err != nil; cuts {
			left = disk.Crashed()
			require.NotNil(t, left)
		} else {
			disk.SetPlan(nil, 0)
			isCopy, err := markedCopy(disk)
			require.NoError(t, err)
			require.False(t, isCopy)
		}
		payloads, _, err := open(left)
		require.NoError(t, err)
		require.Equal(t, []string{"e1", "e2"}, texts(payloads[:2]))
		require.Contains(t, payloads, lostMarker(), "a power cut at operation %d", n)
	}
}
