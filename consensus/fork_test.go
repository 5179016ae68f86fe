package consensus

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/mem"
)

// syncedDriver is a driver as the sync manager sees it.
type syncedDriver struct{ *Driver }

func refOf(p Place) blocksync.Ref {
	return blocksync.Ref{Height: p.Height, Slot: p.Slot, Hash: p.Hash}
}

func (d syncedDriver) CheckHeader(h *block.SealedHeader) error { return d.Driver.CheckHeader(h) }

func (d syncedDriver) AddRange(ctx context.Context, blocks []*block.Block, _ blocksync.Mode) (blocksync.RangeResult, error) {
	r, err := d.Driver.AddRange(ctx, blocks, Full)
	return blocksync.RangeResult{Applied: r.Applied, Rest: r.Rest}, err
}

func (d syncedDriver) AddVotes(vs []block.Vote) ([]blocksync.VoteVerdict, error) {
	got, err := d.Driver.AddVotes(vs)
	out := make([]blocksync.VoteVerdict, len(got))
	for i := range got {
		out[i] = blocksync.VoteVerdict(got[i])
	}
	return out, err
}

func (d syncedDriver) Status() blocksync.DriverStatus {
	s := d.Driver.Status()
	return blocksync.DriverStatus{Head: refOf(s.Head), LIB: refOf(s.LIB), Justified: s.Justified, QC: s.QC, FC: s.FC, Seats: s.Seats}
}

// storedBlocks are a member's blocks as the sync manager sees them.
type storedBlocks struct{ m *member }

func (b storedBlocks) Range(from, to uint64, _ int, fn func(uint64, []byte) error) error {
	for _, x := range b.m.chain.finals() {
		if x.Number() >= from && x.Number() <= to {
			if err := fn(x.Number(), x.Encode()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b storedBlocks) FirstHeight() uint64 { return 0 }

func (b storedBlocks) HeaderByHeight(h uint64) (*block.SealedHeader, error) {
	return b.m.finalHeader(h)
}

func (b storedBlocks) Header(h common.Hash) (*block.SealedHeader, error) {
	if x := b.m.chain.get(h); x != nil {
		return x.SealedHeader, nil
	}
	return nil, os.ErrNotExist
}

func (b storedBlocks) Block(h common.Hash) (*block.Block, error) {
	if x := b.m.chain.get(h); x != nil {
		return x, nil
	}
	return nil, os.ErrNotExist
}

func (b storedBlocks) Replace(uint64, *block.Block) error { return os.ErrNotExist }

// finalHeader is the irreversible header of a height.
func (m *member) finalHeader(height uint64) (*block.SealedHeader, error) {
	finals := m.chain.finals()
	if height == 0 {
		return assemble(&m.lab.params, common.Hash{}, 0, 0, common.Address{}, &block.Record{}, nil, nil).SealedHeader, nil
	}
	if height > uint64(len(finals)) {
		return nil, os.ErrNotExist
	}
	return finals[height-1].SealedHeader, nil
}

// startOn opens and runs a node that tells forks.
func (m *member) startOn() {
	m.start(func(_ *Config, d *Deps) {
		d.FinalHeader = m.finalHeader
		d.Registry = prometheus.NewRegistry()
	})
}

// link runs a sync manager for each member on a network in memory and connects the two, until the function that it gives
// is called.
func link2(t *testing.T, a, b *member) (stop func()) {
	network := mem.NewNetwork()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	hosts := make([]transport.Host, 2)
	for i, m := range []*member{a, b} {
		h, err := network.NewHost(transport.PeerID([]string{"a", "b"}[i]), link.DefaultConfig(), nil, nil)
		require.NoError(t, err)
		hosts[i] = h
		s, err := blocksync.New(blocksync.DefaultConfig(), blocksync.Deps{
			Host: h, Driver: syncedDriver{m.driver}, Blocks: storedBlocks{m}, Params: m.lab.params, Genesis: m.lab.genesis,
			Classify: func(error) blocksync.Verdict { return blocksync.VerdictIrrelevant }, Log: zap.NewNop(),
			CheckSeal: func(*block.SealedHeader) error { return nil },
		})
		require.NoError(t, err)
		go func() { ended <- s.Run(ctx) }()
	}
	require.NoError(t, hosts[0].Dial(ctx, hosts[1].Addrs()[0]))
	return func() {
		cancel()
		for i := range hosts {
			require.NoError(t, <-ended)
			require.NoError(t, hosts[i].Close())
		}
	}
}

// twoHistories gives two producers' nodes that hold conflicting final histories of one genesis, made with the same keys,
// of different lengths.
func (l *lab) twoHistories() (a, b *member) {
	dirs := [2]string{filepath.Join(l.dir, "a"), filepath.Join(l.dir, "b")}
	var disks [2]*disk
	for i, dir := range dirs {
		l.dir = dir
		l.mu.Lock()
		l.seals, l.votes = make(map[string]common.Hash), make(map[string]block.Link)
		l.mu.Unlock()
		for _, m := range l.nodes {
			m.chain = newFakeChain(l.params, l.genesis, l.schedule, newDisk())
		}
		l.start()
		l.slots(10 + 6*i)
		for _, m := range l.nodes {
			m.kill()
			require.NoError(l.t, m.err)
		}
		disks[i] = l.nodes[i].chain.disk
	}
	l.wg.Wait()
	l.mu.Lock()
	l.seals, l.votes = make(map[string]common.Hash), make(map[string]block.Link)
	l.mu.Unlock()
	l.nodes = nil // each of them is on its own from here on
	for i, p := range []**member{&a, &b} {
		*p = &member{lab: l, id: i, chain: newFakeChain(l.params, l.genesis, l.schedule, disks[i])}
		l.dir = dirs[i]
		(*p).startOn()
	}
	return a, b
}

// Two halves with conflicting certified histories meet: neither follows the other, both keep evidence, raise the alarm and
// sign nothing more, also after a restart.
func TestForkIsToldOnBothSides(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		a, b := l.twoHistories()
		defer a.kill()
		defer b.kill()
		was := [2]Place{a.driver.Status().LIB, b.driver.Status().LIB}
		require.Less(t, was[0].Height, was[1].Height)
		require.Empty(t, a.driver.Alarms())
		stop := link2(t, a, b)
		time.Sleep(20 * time.Second)
		stop()
		for i, m := range []*member{a, b} {
			require.Equal(t, was[i], m.driver.Status().LIB, "nobody follows the other")
			requireForkAlarm(t, m)
			e, err := readForkEvidence(vfsOf(m), filepath.Base(m.driver.Alarms()[0].File))
			require.NoError(t, err)
			other, err := e.OtherBlock()
			require.NoError(t, err)
			require.NotNil(t, []*member{b, a}[i].chain.get(other.Hash), "it names a block of the other history")
			require.Nil(t, m.chain.get(other.Hash))
			found := CheckForkEvidence(filepath.Dir(m.driver.Alarms()[0].File))
			require.Len(t, found, 1)
			require.Contains(t, found[0].Problem, other.Hash.String())
			require.False(t, found[0].Harmless)
		}

		l.dir = filepath.Dir(filepath.Dir(a.driver.Alarms()[0].File))
		a.kill()
		a.startOn()
		requireForkAlarm(t, a)
	})
}

func requireForkAlarm(t *testing.T, m *member) {
	t.Helper()
	alarms := m.driver.Alarms()
	require.Len(t, alarms, 1)
	require.Equal(t, "fork", alarms[0].Kind)
	require.FileExists(t, alarms[0].File)
	require.Equal(t, 1, level(m.driver.m.forks))
	time.Sleep(time.Second)
	s := m.driver.Status()
	require.True(t, s.Silent)
	require.Contains(t, s.Why, "two histories of this chain are final")
}

// What is no proof raises nothing: a forged certificate, one by too few, one for a block that is ours.
func TestNoProofIsNoFork(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		a, b := l.twoHistories()
		defer a.kill()
		defer b.kill()
		justified := a.driver.Status().QC
		require.Equal(t, block.Prevote, justified.Kind)
		theirs, a := a.driver.Status().FC, b // the longer history is shown the shorter one
		forged := *theirs
		forged.Aggregate[40] ^= 1
		few := l.certified(theirs.Link, 1, 2)
		prevotes := *theirs
		prevotes.Kind = block.Prevote
		own := a.driver.Status().FC
		for _, c := range []*block.Certificate{&forged, few, &prevotes, justified, own} {
			require.Error(t, a.driver.AddCertificate(c))
			require.Empty(t, a.driver.Alarms())
		}
		require.ErrorIs(t, a.driver.AddCertificate(theirs), ErrBelowLIB)
		require.Len(t, a.driver.Alarms(), 1)
		for range 3 {
			require.Error(t, a.driver.AddCertificate(theirs))
		}
		require.Len(t, a.driver.Alarms(), 1, "one block of another history, one alarm")
	})
}

// A range of another history, which a certificate in it proves final, is evidence too, though it reaches above LIB.
func TestRangeOfAnotherHistory(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		a, b := l.twoHistories()
		defer a.kill()
		defer b.kill()
		lib := a.driver.Status().LIB
		blocks := b.chain.finals()[lib.Height:]
		require.NotEmpty(t, blocks)
		_, err := a.driver.AddRange(a.ctx, blocks, Full)
		require.ErrorIs(t, err, ErrInvalid)
		require.Len(t, a.driver.Alarms(), 1)
		e, err := readForkEvidence(vfsOf(a), filepath.Base(a.driver.Alarms()[0].File))
		require.NoError(t, err)
		require.NotEmpty(t, e.Headers)
	})
}

// Evidence that is damaged still ends signing, and fsck tells of it.
func TestDamagedForkEvidenceCounts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fork-20260101T000000Z-01020304.evidence"), []byte("BORFORK1 damaged"), 0o600))
	f, err := openForks(&Config{Dir: dir}, zap.NewNop())
	require.NoError(t, err)
	require.True(t, f.halted.Load())
	require.Len(t, f.alarms, 1)
	found := CheckForkEvidence(dir)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Problem, "cannot be read")
	require.Empty(t, CheckForkEvidence(filepath.Join(dir, "none")))
}

func vfsOf(m *member) vfs.FS { return vfs.OS(filepath.Dir(m.driver.Alarms()[0].File), vfs.Private) }

// Places of evidence are bounded by kind: however many old certificates of a history that a recovery undid are shown, they take one,
// and a fork of today is kept all the same.
func TestUndoneHistoriesTakeNoPlaceOfForks(t *testing.T) {
	dir := t.TempDir()
	f, err := openForks(&Config{Dir: dir}, zap.NewNop())
	require.NoError(t, err)
	show := func(i byte, by byte) bool {
		point := block.Point{Slot: uint64(i) + 1, Hash: common.Hash{i, by}}
		c := block.Certificate{Link: block.Link{Kind: block.Precommit, Source: point, Target: point}, Bitmaps: [][]byte{{7}}}
		e := &ForkEvidence{Time: 1_800_000_000, Met: "a test", Own: []byte{1}, Other: c.Encode()}
		if by > 0 {
			e.Undone, e.UndoneBy = true, common.Hash{by}
		}
		_, isNew, err := f.keep(e, point.Hash)
		require.NoError(t, err)
		return isNew
	}
	for i := range byte(3 * maxForkFiles) {
		require.Equal(t, i == 0, show(i, 1))
		require.Equal(t, i == 0, show(i, 2), "each recovery tells of what it undoes")
	}
	require.False(t, f.halted.Load())
	require.Len(t, f.alarms, 2)
	for i := range byte(3 * maxForkFiles) {
		require.Equal(t, i < maxForkFiles, show(i, 0))
	}
	require.True(t, f.halted.Load())
	require.Len(t, f.alarms, 2+maxForkFiles)
	require.LessOrEqual(t, len(f.known), maxForkFiles, "what is remembered of others is bounded")

	again, err := openForks(&Config{Dir: dir}, zap.NewNop())
	require.NoError(t, err)
	require.True(t, again.halted.Load(), "nor does a restart sign")
	require.Len(t, again.alarms, 2+maxForkFiles)
	f = again
	require.False(t, show(40, 0), "the places are taken")
	require.False(t, show(41, 1))
	undone := 0
	for _, x := range CheckForkEvidence(dir) {
		if strings.Contains(x.Problem, "which the recovery undoes") {
			undone++
		}
	}
	require.Equal(t, 2, undone)
}

// Once a fork is met the crypto goroutine signs nothing that was queued before: neither votes nor our own vote in a tally, which is
// counted without it.
func TestHaltedSignerSignsNothing(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(8)
		d := l.nodes[0].driver
		point := block.Point{Slot: 1_000_000, Hash: common.Hash{5}}
		link := block.Link{Kind: block.Prevote, Source: point, Target: point}
		tally := dpos.Tally{ID: 1, Link: link, Schedules: []block.Schedule{l.schedule}}
		for i, s := range l.signers {
			v := block.Vote{Link: link, Voter: s.Account()}
			if i > 0 {
				var err error
				v.Signature, err = s.SignVote(labDomain.VoteDigest(link))
				require.NoError(t, err)
			}
			tally.Votes = append(tally.Votes, v)
		}
		d.forks.halted.Store(true)
		signer := newVoteSigner(d)
		s := signer.do(job{tally: &tally, own: 0})
		require.NoError(t, s.err)
		require.NotNil(t, s.certificate, "three of four are a quorum")
		require.Equal(t, 3, s.certificate.Count(0))
		require.Empty(t, s.bad, "nobody is blamed")
		require.True(t, s.withheld)
		s = signer.do(job{sign: []block.Vote{tally.Votes[0]}})
		require.NoError(t, s.err)
		require.Empty(t, s.votes)
		require.Zero(t, signer.sigs.Len(), "nothing was signed")
	})
}

// Evidence that found no room is written when there is some: without its file a restart would sign again. Until then the alarm says so.
func TestEvidenceWithoutRoomIsKeptLater(t *testing.T) {
	disk := faultfs.New()
	full := true
	disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if full {
			return faultfs.Verdict{Err: syscall.ENOSPC}
		}
		return faultfs.Verdict{}
	}, 1)
	for _, undone := range []bool{false, true} {
		full = true
		f := newForkAlarms("folder", disk)
		point := block.Point{Slot: 7, Hash: common.Hash{1}}
		c := block.Certificate{Link: block.Link{Kind: block.Precommit, Source: point, Target: point}, Bitmaps: [][]byte{{7}}}
		e := &ForkEvidence{Time: 1_800_000_000, Met: "a test", Own: []byte{1}, Other: c.Encode(), Undone: undone}
		for i := range 2 {
			_, isNew, err := f.keep(e, point.Hash)
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.Equal(t, i == 0, isNew)
			require.Len(t, f.alarms, 1)
			require.Empty(t, f.alarms[0].File)
			require.Contains(t, f.alarms[0].Text, "could not be written")
		}
		full = false
		paths := f.writeUnsaved()
		require.Len(t, paths, 1)
		path := paths[0]
		require.Len(t, f.alarms, 1)
		require.Equal(t, path, f.alarms[0].File)
		require.NotContains(t, f.alarms[0].Text, "could not be written")
		kept, err := readForkEvidence(disk, filepath.Base(path))
		require.NoError(t, err)
		require.Equal(t, undone, kept.Undone)
		path, _, err = f.keep(e, point.Hash)
		require.NoError(t, err)
		require.Empty(t, path, "it is written once")
		require.Empty(t, f.writeUnsaved())
	}
}
