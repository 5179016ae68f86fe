package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/recovery"
)

// runUntilFinal runs a node until more blocks are final, and stops it.
func runUntilFinal(t *testing.T, c *config.Config, more uint64) {
	t.Helper()
	n, _ := open(t, c)
	from := n.chain.FinalHeader().Number.Uint64()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	require.Eventually(t, func() bool { return n.chain.FinalHeader().Number.Uint64() > from+more }, patience, 20*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	c.Consensus.NewKey = false
}

// inStore reads the block store of a stopped node.
func inStore(t *testing.T, c *config.Config, read func(s *blockstore.Store)) {
	t.Helper()
	s, err := InspectStore(c, zap.NewNop())
	require.NoError(t, err)
	read(s)
	require.NoError(t, s.Close())
}

// statement is a recovery under the folder's own producer from its last irreversible block on, above which others may be justified, signed
// by it: its account is the only recovery key. change may alter it before it is signed.
func statement(t *testing.T, c *config.Config, change func(*recovery.Statement)) *recovery.Signed {
	t.Helper()
	gen, err := LoadGenesis(c)
	require.NoError(t, err)
	zero, err := gen.Block()
	require.NoError(t, err)
	key, err := signer.Load(c.Path(c.Keys.Producer))
	require.NoError(t, err)
	number, previous, err := RecoveryInForce(c)
	require.NoError(t, err)
	p := gen.Parameters()
	proof, err := key.SignVote(block.PossessionDigest(p.ChainID, key.Account(), key.VoteKey()))
	require.NoError(t, err)
	slot, _ := p.SlotAt(time.Now())
	s := recovery.Statement{
		Genesis: zero.Hash(), Number: number + 1, Previous: previous, FirstSlot: slot + 1, MayUndo: true, Reason: "a test", Time: uint64(time.Now().Unix()), //nolint:gosec // after 1970
		Seats: []recovery.Seat{{Account: key.Account(), SealKey: key.Account(), VoteKey: key.VoteKey(), Proof: proof}},
	}
	inStore(t, c, func(st *blockstore.Store) {
		height, _ := st.LIB()
		h, err := st.HeaderByHeight(height)
		require.NoError(t, err)
		s.Base.Block = recovery.Block{Height: height, Slot: h.Slot(), Hash: h.Hash(), StateRoot: h.Header.Root}
	})
	if change != nil {
		change(&s)
	}
	return signedBy(t, key, &s)
}

// signedBy is a statement with the signature of one account.
func signedBy(t *testing.T, key *signer.Local, s *recovery.Statement) *recovery.Signed {
	t.Helper()
	out := &recovery.Signed{Statement: *s}
	seal, err := key.SignSeal(out.Hash())
	require.NoError(t, err)
	require.NoError(t, out.AddSignature(recovery.Signature{Signer: key.Account(), Seal: seal}))
	return out
}

// A node goes on by a recovery: its first block names it, the vote log was set aside, and all of that again for a second one.
func TestApplyRecovery(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 3)
	for number := uint64(1); number <= 2; number++ {
		s := statement(t, c, nil)
		done, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
		require.NoError(t, err)
		require.Equal(t, s.Hash(), done.Hash)
		require.True(t, done.HasBase)
		require.FileExists(t, filepath.Join(done.SetAside, "votes.log"))
		again, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
		require.NoError(t, err)
		require.True(t, again.Already)
		at, hash, err := RecoveryInForce(c)
		require.NoError(t, err)
		require.Equal(t, number, at)
		require.Equal(t, s.Hash(), hash)

		runUntilFinal(t, c, 3)
		inStore(t, c, func(st *blockstore.Store) {
			first, err := st.HeaderByHeight(s.Statement.Base.Height + 1)
			require.NoError(t, err)
			require.Equal(t, s.Hash(), first.Record.Recovery)
			require.GreaterOrEqual(t, first.Slot(), s.Statement.FirstSlot)
			require.Equal(t, s.Statement.Base.Hash, first.Parent())
			by, err := first.Signer(s.Statement.Domain())
			require.NoError(t, err)
			require.Equal(t, first.Header.Coinbase, by)
		})
	}
	applied := filepath.Join(c.Path(RecoveryFolder), appliedName(2))
	b, err := os.ReadFile(applied)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(applied, b[:len(b)-40], 0o600))
	_, err = New(t.Context(), c, zap.NewNop(), telemetry.NewRegistry())
	require.ErrorContains(t, err, "cannot be used")
	inStore(t, c, func(st *blockstore.Store) {
		report, err := CheckFolder(t.Context(), c, st, false, zap.NewNop())
		require.NoError(t, err)
		require.False(t, report.Sound())
	})
	require.NoError(t, os.Remove(applied))
	_, err = New(t.Context(), c, zap.NewNop(), telemetry.NewRegistry())
	require.ErrorContains(t, err, "apply it again")
}

// Reversible blocks behind the base are copied, and left out at the next start.
func TestApplyRecoverySetsBlocksAside(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	var base recovery.Block
	inStore(t, c, func(st *blockstore.Store) {
		height, _ := st.LIB()
		h, err := st.HeaderByHeight(height)
		require.NoError(t, err)
		base = recovery.Block{Height: height, Slot: h.Slot(), Hash: h.Hash(), StateRoot: h.Header.Root}
	})
	n, _ := open(t, c)
	key, err := signer.Load(c.Path(c.Keys.Producer))
	require.NoError(t, err)
	parent, err := n.store.HeaderByHeight(base.Height)
	require.NoError(t, err)
	p := n.gen.Parameters()
	b := twin(t, block.Domain{Genesis: n.chain.Genesis().Hash()}, key, parent, parent.Slot()+1, p.HeaderTime(parent.Slot()+1), 1)
	for _, h := range mustReversible(t, n) {
		require.NoError(t, n.store.Finalize(block.FinalUpdate{Drop: []common.Hash{h.Hash()}}))
	}
	require.NoError(t, n.store.PutReversible([]*block.Block{b}))
	require.NoError(t, n.close())

	s := statement(t, c, func(s *recovery.Statement) { s.Base.Block = base })
	done, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
	require.NoError(t, err)
	require.Equal(t, 1, done.Undone)
	f, err := os.Open(filepath.Join(done.SetAside, "above-base.blocks"))
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // only read
	file, err := blockstore.NewImportReader(f, 0)
	require.NoError(t, err)
	kept, err := file.Next()
	require.NoError(t, err)
	require.Equal(t, b.Hash(), kept.Hash())
	inStore(t, c, func(st *blockstore.Store) {
		_, err := st.Block(b.Hash())
		require.NoError(t, err, "an application deletes nothing")
	})
	runUntilFinal(t, c, 3)
	inStore(t, c, func(st *blockstore.Store) {
		h, err := st.HeaderByHeight(base.Height + 1)
		require.NoError(t, err)
		require.Equal(t, s.Hash(), h.Record.Recovery)
	})
}

func mustReversible(t *testing.T, n *Node) []*block.Block {
	t.Helper()
	blocks, err := n.store.Reversible()
	require.NoError(t, err)
	return blocks
}

// A node whose final chain does not lead to the base refuses, keeps the evidence, and signs nothing any more.
func TestRecoveryOfAnotherHistoryIsRefused(t *testing.T) {
	for name, change := range map[string]func(*recovery.Statement){
		"another block":        func(s *recovery.Statement) { s.Base.Hash[0]++ },
		"a block that is past": func(s *recovery.Statement) { s.Base.Height--; s.Base.Hash[0]++ },
	} {
		t.Run(name, func(t *testing.T) {
			c := folder(t)
			runUntilFinal(t, c, 3)
			s := statement(t, c, change)
			_, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
			require.ErrorIs(t, err, ErrOtherHistory)
			number, _, err := RecoveryInForce(c)
			require.NoError(t, err)
			require.Zero(t, number)
			n, _ := open(t, c)
			defer n.close() //nolint:errcheck // a test's end
			require.Len(t, n.driver.Alarms(), 1)
			require.Contains(t, n.driver.Alarms()[0].Text, "a recovery that the operators signed")
			require.True(t, n.driver.Status().Silent)
		})
	}
	c := folder(t)
	runUntilFinal(t, c, 3)
	s := statement(t, c, func(s *recovery.Statement) { s.Base.StateRoot[0]++ })
	_, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
	require.ErrorIs(t, err, recovery.ErrInvalid)
}

// Who did not sign enough, and what does not follow, is refused; of two with one predecessor the operator names one, and one that is
// applied stays.
func TestWhichRecoveryIsApplied(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	good := statement(t, c, nil)
	unsigned := &recovery.Signed{Statement: good.Statement}
	_, err := ApplyRecovery(t.Context(), c, unsigned, ApplyOptions{}, zap.NewNop())
	require.ErrorContains(t, err, "0 of the 1 recovery keys signed")
	_, err = ApplyRecovery(t.Context(), c, statement(t, c, func(s *recovery.Statement) { s.Number, s.Previous = 2, common.Hash{1} }), ApplyOptions{}, zap.NewNop())
	require.ErrorIs(t, err, recovery.ErrInvalid)
	_, err = ApplyRecovery(t.Context(), c, statement(t, c, func(s *recovery.Statement) { s.Seats[0].Proof[5]++ }), ApplyOptions{}, zap.NewNop())
	require.ErrorContains(t, err, "holds its vote key")

	rival := statement(t, c, func(s *recovery.Statement) { s.Reason = "another" })
	gen, err := LoadGenesis(c)
	require.NoError(t, err)
	known, err := loadRecoveries(c, gen)
	require.NoError(t, err)
	isNew, err := known.keepShown(c, rival)
	require.NoError(t, err)
	require.True(t, isNew)
	_, err = ApplyRecovery(t.Context(), c, good, ApplyOptions{}, zap.NewNop())
	require.ErrorIs(t, err, ErrRivalRecovery)
	_, err = ApplyRecovery(t.Context(), c, good, ApplyOptions{Named: rival.Hash()}, zap.NewNop())
	require.Error(t, err)
	_, err = ApplyRecovery(t.Context(), c, good, ApplyOptions{Named: good.Hash()}, zap.NewNop())
	require.NoError(t, err)
	_, err = ApplyRecovery(t.Context(), c, rival, ApplyOptions{Named: rival.Hash()}, zap.NewNop())
	require.ErrorIs(t, err, ErrRivalRecovery, "what is applied stays")
	_, hash, err := RecoveryInForce(c)
	require.NoError(t, err)
	require.Equal(t, good.Hash(), hash)
}

// A valid recovery that a peer shows is kept, told once and never applied; one that nobody signed is the peer's fault.
func TestRecoveryShownByAPeer(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	s := statement(t, c, nil)
	n, _ := open(t, c)
	defer n.close() //nolint:errcheck // a test's end
	_, err := n.book.Meet("peer", [][]byte{(&recovery.Signed{Statement: s.Statement}).Encode()})
	require.Error(t, err)
	require.Empty(t, n.book.Alarms())
	for range 2 {
		same, err := n.book.Meet("peer", [][]byte{s.Encode()})
		require.NoError(t, err)
		require.False(t, same)
	}
	require.Len(t, rpcConsensus{n}.Alarms(), 1)
	require.Contains(t, rpcConsensus{n}.Alarms()[0].Text, s.Hash().Hex())
	require.Empty(t, n.book.Shown(), "nothing is applied")
	same, err := n.book.Meet("peer", nil)
	require.NoError(t, err)
	require.True(t, same, "nodes of the old domain stay together")
	require.NoError(t, n.close())

	n, _ = open(t, c)
	require.Len(t, n.book.Alarms(), 1, "a restart forgets nothing")
	require.NoError(t, n.close())
	_, err = ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
	require.NoError(t, err)
	rival := statement(t, c, func(x *recovery.Statement) { x.Number, x.Previous, x.Reason = 1, common.Hash{}, "another" })
	n, _ = open(t, c)
	require.Empty(t, n.book.Alarms())
	same, err = n.book.Meet("peer", [][]byte{s.Encode()})
	require.NoError(t, err)
	require.True(t, same)
	require.Equal(t, [][]byte{s.Encode()}, n.book.Shown())
	same, err = n.book.Meet("peer", [][]byte{rival.Encode()})
	require.NoError(t, err)
	require.False(t, same)
	require.Contains(t, n.book.Alarms()[0].Text, "two recoveries")
	require.Len(t, n.book.Shown(), 2, "both are shown")
}

// A backup holds the recoveries that its blocks go by: the folder made of it goes on by them, and is a copy as any other.
func TestBackupOfARecoveredNode(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	settings := filepath.Join(c.DataDir, config.FileName)
	written := *c
	written.DataDir = config.Default().DataDir
	require.NoError(t, config.Write(settings, &written, false))
	s := statement(t, c, nil)
	_, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
	require.NoError(t, err)
	runUntilFinal(t, c, 2)
	o := BackupOptions{Dir: filepath.Join(t.TempDir(), "backup"), Settings: settings}
	_, err = Backup(t.Context(), c, o, func() (*blockstore.Cut, error) { return CutOfStopped(c, zap.NewNop()) })
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "restored")
	_, err = Restore(t.Context(), RestoreOptions{Backup: o.Dir, Dir: dir}, zap.NewNop())
	require.NoError(t, err)
	restored := *c
	restored.DataDir, restored.Keys.Producer = dir, ""
	_, hash, err := RecoveryInForce(&restored)
	require.NoError(t, err)
	require.Equal(t, s.Hash(), hash)
	n, _ := open(t, &restored)
	require.NoError(t, n.chain.Replay(t.Context()))
	require.Greater(t, n.driver.Status().LIB.Height, s.Statement.Base.Height)
	require.NoError(t, n.close())
}

// A statement that is not the next one is refused with the name of what comes before it, and an import of blocks that go on by a
// recovery which the folder lacks with the command that applies it.
func TestWhatARecoveryNeedsIsNamed(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	second := statement(t, c, func(s *recovery.Statement) { s.Number, s.Previous = 2, common.Hash{7} })
	_, err := ApplyRecovery(t.Context(), c, second, ApplyOptions{}, zap.NewNop())
	require.ErrorIs(t, err, recovery.ErrInvalid)
	require.ErrorContains(t, err, "apply those of the domains 1 to 1 first, in order, with bornode recover apply")
	require.ErrorContains(t, err, "recovery/applied-0001.json")

	err = nameRecovery(c, fmt.Errorf("block 7 %w", consensus.ErrRecovered))
	require.ErrorIs(t, err, consensus.ErrRecovered)
	require.ErrorContains(t, err, "bornode recover apply FILE --dir "+c.DataDir)
	other := errors.New("another")
	require.Equal(t, other, nameRecovery(c, other))
	require.NoError(t, nameRecovery(c, nil))
}

// A survivor that waits for the base of a recovery whose only holder is lost makes no recovery from below it: neither is one prepared of
// its report nor applied.
func TestRecoveryFromBelowABaseIsRefused(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	archive := filepath.Join(t.TempDir(), "folder.tar.gz")
	packFolder(t, c.DataDir, archive)
	behind := *c
	behind.DataDir = t.TempDir()
	unpackFolder(t, archive, behind.DataDir)
	runUntilFinal(t, c, 3)
	first := statement(t, c, nil)
	done, err := ApplyRecovery(t.Context(), &behind, first, ApplyOptions{}, zap.NewNop())
	require.NoError(t, err)
	require.False(t, done.HasBase)

	r, err := SurvivorReport(&behind, zap.NewNop(), time.Now())
	require.NoError(t, err)
	require.Less(t, r.Justified.Height, first.Statement.Base.Height)
	require.Equal(t, first.Hash(), r.Recovery)
	require.Zero(t, r.Under, "what it holds is of the domain before")
	_, _, err = PrepareRecovery(&behind, PrepareOptions{Reports: []*recovery.Report{r}, Reason: "a test", Now: time.Now()}, zap.NewNop())
	require.ErrorContains(t, err, "until they have it")
	_, err = ApplyRecovery(t.Context(), &behind, statement(t, &behind, nil), ApplyOptions{}, zap.NewNop())
	require.ErrorIs(t, err, recovery.ErrInvalid)
	require.ErrorContains(t, err, "until they have it")
	number, _, err := RecoveryInForce(&behind)
	require.NoError(t, err)
	require.Equal(t, uint64(1), number)
}

// A folder of release 0.3, which knows no recoveries, is refused by it before the recovery counts.
func TestAppliedRecoveryKeepsEarlierProgramsOut(t *testing.T) {
	s, _ := goldenStand(t, filepath.Join(goldenFolders, "0.3.0"))
	r := statement(t, s.cfg, func(s *recovery.Statement) { s.MayUndo = false })
	said := func() string {
		b, err := os.ReadFile(filepath.Join(s.cfg.Path(s.cfg.Consensus.Dir), format.FileName))
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, format.Line(format.Consensus, "2"), said())

	_, err := ApplyRecovery(t.Context(), s.cfg, r, ApplyOptions{}, zap.NewNop())
	require.NoError(t, err)
	require.Equal(t, format.Line(format.Consensus, "3"), said())
	requireWhole(t, s)
}

// A survivor that went on after its report, beside producers that were only cut off, holds a justified block above the base. A recovery that
// says that no final block is undone is not applied there but by its operator's word.
func TestRecoveryBelowAJustifiedBlockIsRefused(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	key, lib, domain := producerOf(t, c)
	b := child(t, c, lib, 1)
	putReversible(t, c, b)
	gen, err := LoadGenesis(c)
	require.NoError(t, err)
	st, err := OpenStore(c, zap.NewNop())
	require.NoError(t, err)
	root, err := dpos.DecodeRoot(st.Root())
	require.NoError(t, err)
	m, err := dpos.New(dpos.DefaultConfig(gen.Parameters(), common.Address{}), root)
	require.NoError(t, err)
	require.NoError(t, m.Step(dpos.HeaderEvent{Header: dpos.HeaderOf(b.SealedHeader)}))
	source, err := m.Source(b.Hash())
	require.NoError(t, err)
	qc := block.NewCertificate(block.Link{Kind: block.Prevote, Source: source, Target: b.Point()}, []block.Schedule{gen.Schedule()}, func(common.Address) bool { return true })
	qc.Aggregate, err = key.SignVote(domain.VoteDigest(qc.Link))
	require.NoError(t, err)
	require.NoError(t, st.Finalize(block.FinalUpdate{QC: qc}))
	require.NoError(t, st.Close())

	s := statement(t, c, func(s *recovery.Statement) { s.MayUndo = false })
	require.Equal(t, lib.Hash(), s.Statement.Base.Hash)
	err = tryApply(t, c, s)
	require.ErrorIs(t, err, ErrReportedLess)
	require.ErrorContains(t, err, b.Hash().Hex())
	require.Empty(t, consensus.CheckForkEvidence(c.Path(c.Consensus.Dir)), "operators decide; nothing is proven")
	done, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{MayUndo: true}, zap.NewNop())
	require.NoError(t, err)
	require.Equal(t, 1, done.Undone)
}
