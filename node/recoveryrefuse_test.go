package node

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/recovery"
	blocksync "github.com/bornode/bornode/sync"
)

// tryApply tries to apply a recovery and gives what came of it; a refused one leaves the folder in the domain that it was in.
func tryApply(t *testing.T, c *config.Config, s *recovery.Signed) error {
	t.Helper()
	_, was, err := RecoveryInForce(c)
	require.NoError(t, err)
	_, err = ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
	if _, now, known := RecoveryInForce(c); err != nil {
		require.NoError(t, known)
		require.Equal(t, was, now)
	}
	return err
}

// What the recovery keys signed is refused all the same if it is of another chain, begins later than a day after it was prepared,
// names the base by other numbers, or does not follow the recovery in force.
func TestRecoveriesThatDoNotFit(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 3)
	for name, change := range map[string]func(*recovery.Statement){
		"another chain":     func(s *recovery.Statement) { s.Genesis[0]++ },
		"a distant slot":    func(s *recovery.Statement) { s.FirstSlot += 25 * 36_000 },
		"another slot":      func(s *recovery.Statement) { s.Base.Slot++ },
		"another height":    func(s *recovery.Statement) { s.Base.Height++ },
		"an earlier height": func(s *recovery.Statement) { s.Base.Height-- },
	} {
		require.ErrorIs(t, tryApply(t, c, statement(t, c, change)), recovery.ErrInvalid, name)
	}
	first := statement(t, c, nil)
	require.NoError(t, tryApply(t, c, first))
	for name, change := range map[string]func(*recovery.Statement){
		"a number left out": func(s *recovery.Statement) { s.Number = 3 },
		"other predecessor": func(s *recovery.Statement) { s.Previous[0]++ },
	} {
		require.ErrorIs(t, tryApply(t, c, statement(t, c, change)), recovery.ErrInvalid, name)
	}
	second := statement(t, c, nil)
	gen, err := LoadGenesis(c)
	require.NoError(t, err)
	require.NoError(t, VerifyRecoveries(gen, []*recovery.Signed{first, second}))
	require.ErrorIs(t, VerifyRecoveries(gen, []*recovery.Signed{second}), recovery.ErrInvalid)
	require.ErrorIs(t, VerifyRecoveries(gen, []*recovery.Signed{second, first}), recovery.ErrInvalid)
	require.ErrorIs(t, VerifyRecoveries(gen, []*recovery.Signed{{Statement: first.Statement}}), recovery.ErrInvalid)
	require.NoError(t, tryApply(t, c, second))

	rival := statement(t, c, func(s *recovery.Statement) { s.Number, s.Previous, s.Reason = 2, first.Hash(), "another" })
	require.ErrorIs(t, tryApply(t, c, rival), ErrRivalRecovery)
	require.FileExists(t, filepath.Join(c.Path(RecoveryFolder), shownName(rival.Hash())), "it is kept to be compared")
}

// What a folder holds of recoveries is verified whenever it is read: one that was applied must be whole, signed and the next one; one
// that a peer showed is left out if it is not.
func TestFilesOfRecoveriesAreVerified(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	gen, err := LoadGenesis(c)
	require.NoError(t, err)
	s := statement(t, c, nil)
	unsigned := &recovery.Signed{Statement: s.Statement}
	next := statement(t, c, func(x *recovery.Statement) { x.Number, x.Previous = 2, s.Hash() })

	require.NoError(t, writeRecovery(c, shownName(common.Hash{1}), unsigned, vfs.ReplaceFile))
	require.NoError(t, os.WriteFile(filepath.Join(c.Path(RecoveryFolder), shownName(common.Hash{2})), []byte("{"), 0o600))
	known, err := loadRecoveries(c, gen)
	require.NoError(t, err)
	require.Empty(t, known.shown)

	require.NoError(t, writeRecovery(c, appliedName(1), unsigned, vfs.ReplaceFile))
	_, err = loadRecoveries(c, gen)
	require.ErrorIs(t, err, recovery.ErrInvalid)
	require.NoError(t, writeRecovery(c, appliedName(1), s, vfs.ReplaceFile))
	require.NoError(t, writeRecovery(c, appliedName(2), next, vfs.ReplaceFile))
	list, err := LoadRecoveries(c, gen)
	require.NoError(t, err)
	require.Equal(t, []common.Hash{s.Hash(), next.Hash()}, []common.Hash{list[0].Hash(), list[1].Hash()})
	require.NoError(t, os.Remove(filepath.Join(c.Path(RecoveryFolder), appliedName(1))))
	_, err = loadRecoveries(c, gen)
	require.ErrorIs(t, err, recovery.ErrInvalid)
}

// Recoveries that peers show are kept up to a bound, as files and in memory.
func TestShownRecoveriesAreBounded(t *testing.T) {
	c := folder(t)
	var known recoveries
	for i := range maxShown + 3 {
		isNew, err := known.keepShown(c, &recovery.Signed{Statement: recovery.Statement{Number: 1, Reason: fmt.Sprint(i)}})
		require.NoError(t, err)
		require.Equal(t, i < maxShown, isNew)
	}
	files, err := os.ReadDir(c.Path(RecoveryFolder))
	require.NoError(t, err)
	require.Len(t, files, maxShown)
}

// Consensus and execution get all that they need of a statement.
func TestWhatConsensusAndChainGetOfARecovery(t *testing.T) {
	x := recovery.Statement{
		Base: recovery.Base{Block: recovery.Block{Height: 7, Slot: 20, Hash: common.Hash{1}}}, FirstSlot: 40, Lost: []common.Address{{3}},
		Seats: []recovery.Seat{{Account: common.Address{1}, VoteKey: block.BLSKey{1}}, {Account: common.Address{2}, VoteKey: block.BLSKey{2}}},
	}
	known := recoveries{applied: []*recovery.Signed{{Statement: x}}}
	forMachine, forChain := known.forMachine(), known.forChain()
	require.Len(t, forMachine, 1)
	require.Equal(t, x.Hash(), forMachine[0].Hash)
	require.Equal(t, block.Point{Slot: 20, Hash: common.Hash{1}}, forMachine[0].Base)
	require.Equal(t, uint64(7), forMachine[0].Height)
	require.Equal(t, uint64(40), forMachine[0].FirstSlot)
	require.Equal(t, x.Schedule(), forMachine[0].Schedule)
	require.Equal(t, x.Schedule(), forChain[x.Hash()].Schedule)
	require.Equal(t, x.Lost, forChain[x.Hash()].Lost)
	require.Equal(t, blocksync.VerdictInvalid, classify(fmt.Errorf("a block %w", consensus.ErrRecovered)), "its handshake showed the same recoveries")
}

// In a handshake the first recovery is the one that the peer goes by, and who shows none goes by none.
func TestFirstShownRecoveryIsThePeers(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	s := statement(t, c, nil)
	require.NoError(t, tryApply(t, c, s))
	rival := statement(t, c, func(x *recovery.Statement) { x.Number, x.Previous, x.Reason = 1, common.Hash{}, "another" })
	n, _ := open(t, c)
	defer n.close() //nolint:errcheck // a test's end
	for _, x := range []struct {
		shown [][]byte
		same  bool
	}{{[][]byte{s.Encode(), rival.Encode()}, true}, {[][]byte{rival.Encode(), s.Encode()}, false}, {nil, false}} {
		same, err := n.book.Meet("peer", x.shown)
		require.NoError(t, err)
		require.Equal(t, x.same, same)
	}
}

// The file that says that a recovery is applied comes last: while copies of what it leaves out cannot be made, it is not applied.
func TestRecoveryIsAppliedLast(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	broken := filepath.Join(c.Path(c.Consensus.Dir), "old.log")
	require.NoError(t, os.Symlink(filepath.Join(c.DataDir, "nowhere"), broken))
	s := statement(t, c, nil)
	require.ErrorContains(t, tryApply(t, c, s), "set aside")
	require.NoError(t, os.Remove(broken))
	require.NoError(t, tryApply(t, c, s))
}

// producerOf is the folder's producer and the last irreversible header.
func producerOf(t *testing.T, c *config.Config) (key *signer.Local, lib *block.SealedHeader, domain block.Domain) {
	t.Helper()
	key, err := signer.Load(c.Path(c.Keys.Producer))
	require.NoError(t, err)
	inStore(t, c, func(st *blockstore.Store) {
		height, _ := st.LIB()
		lib, err = st.HeaderByHeight(height)
		require.NoError(t, err)
		zero, err := st.HeaderByHeight(0)
		require.NoError(t, err)
		domain = block.Domain{Genesis: zero.Hash()}
	})
	return key, lib, domain
}

// putReversible makes these the only reversible blocks of a stopped node.
func putReversible(t *testing.T, c *config.Config, blocks ...*block.Block) {
	t.Helper()
	st, err := OpenStore(c, zap.NewNop())
	require.NoError(t, err)
	old, err := st.Reversible()
	require.NoError(t, err)
	for _, b := range slices.Backward(old) {
		require.NoError(t, st.Finalize(block.FinalUpdate{Drop: []common.Hash{b.Hash()}}))
	}
	require.NoError(t, st.PutReversible(blocks))
	require.NoError(t, st.Close())
}

// child is a block on a parent, some slots later.
func child(t *testing.T, c *config.Config, parent *block.SealedHeader, slots uint64) *block.Block {
	t.Helper()
	key, _, domain := producerOf(t, c)
	return twin(t, domain, key, parent, parent.Slot()+slots, parent.Header.Time, 1)
}

func blockOf(h *block.SealedHeader) recovery.Block {
	return recovery.Block{Height: h.Number(), Slot: h.Slot(), Hash: h.Hash(), StateRoot: h.Header.Root}
}

// A reversible base: its ancestors stay, and only what is beside it or above it is set aside.
func TestReversibleBaseKeepsItsAncestors(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	_, lib, _ := producerOf(t, c)
	first := child(t, c, lib, 1)
	base, beside := child(t, c, first.SealedHeader, 1), child(t, c, first.SealedHeader, 2)
	above := child(t, c, base.SealedHeader, 3)
	putReversible(t, c, first, base, beside, above)
	s := statement(t, c, func(s *recovery.Statement) {
		s.Base.Block, s.FirstSlot = blockOf(base.SealedHeader), base.Slot()+1
	})
	done, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
	require.NoError(t, err)
	require.True(t, done.HasBase)
	require.Equal(t, 2, done.Undone)
	f, err := os.ReadFile(filepath.Join(done.SetAside, "above-base.blocks"))
	require.NoError(t, err)
	file, err := blockstore.NewImportReader(bytes.NewReader(f), 0)
	require.NoError(t, err)
	var aside []common.Hash
	for range 2 {
		b, err := file.Next()
		require.NoError(t, err)
		aside = append(aside, b.Hash())
	}
	require.ElementsMatch(t, []common.Hash{beside.Hash(), above.Hash()}, aside)
}

// A chain that was recovered is imported by whoever applied the recovery, and its blocks are restored from such a file.
func TestImportOfARecoveredChain(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	s := statement(t, c, nil)
	require.NoError(t, tryApply(t, c, s))
	runUntilFinal(t, c, 3)
	var file bytes.Buffer
	var last uint64
	inStore(t, c, func(st *blockstore.Store) {
		zero, err := st.HeaderByHeight(0)
		require.NoError(t, err)
		w := blockstore.NewExportWriter(&file, zero.Hash())
		last, _ = st.LIB()
		for height := uint64(1); height <= last; height++ {
			b, err := st.BlockByHeight(height)
			require.NoError(t, err)
			require.NoError(t, w.Block(b.Encode()))
		}
		qc, fc := st.Certificates()
		require.NoError(t, w.End(qc, fc))
	})
	read := func() *blockstore.ImportReader {
		r, err := blockstore.NewImportReader(bytes.NewReader(file.Bytes()), 0)
		require.NoError(t, err)
		return r
	}
	other := *c
	other.DataDir, other.Keys.Producer = t.TempDir(), ""
	genesis, err := os.ReadFile(c.Path(c.Genesis))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(other.Path(other.Genesis), genesis, 0o600))
	_, _, err = Import(t.Context(), &other, read(), zap.NewNop(), func(uint64) {})
	require.ErrorIs(t, err, consensus.ErrRecovered)
	other.DataDir = t.TempDir()
	require.NoError(t, os.WriteFile(other.Path(other.Genesis), genesis, 0o600))
	done, err := ApplyRecovery(t.Context(), &other, s, ApplyOptions{}, zap.NewNop())
	require.NoError(t, err)
	require.False(t, done.HasBase)
	_, to, err := Import(t.Context(), &other, read(), zap.NewNop(), func(uint64) {})
	require.NoError(t, err)
	require.Greater(t, to, s.Statement.Base.Height)

	st, err := OpenStore(&other, zap.NewNop())
	require.NoError(t, err)
	defer st.Close() //nolint:errcheck // a test's end
	base := s.Statement.Base.Height
	restored, err := RestoreBlocks(&other, st, bytes.NewReader(file.Bytes()), blockstore.HeightRanges{{First: base, Last: base + 1}})
	require.NoError(t, err, "seals are checked in the domain of their slot")
	require.Equal(t, 2, restored)
}

// strangerKeys are a new producer's.
func strangerKeys(t *testing.T) PublicKeys {
	t.Helper()
	s, err := signer.Generate(rand.Reader)
	require.NoError(t, err)
	key, proof := s.VoteKey(), s.ProvePossession(4711)
	return PublicKeys{Account: s.Account(), BLSKey: key[:], Proof: proof[:]}
}

// The operators' word that final blocks may be undone is asked for when it is needed, and stands in the statement only then.
func TestMayUndoIsAskedFor(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	o := PrepareOptions{New: []PublicKeys{strangerKeys(t)}, Reason: "a test", Now: time.Now(), MayUndo: true}
	prepare := func() (*recovery.Statement, error) {
		r, err := SurvivorReport(c, zap.NewNop(), o.Now)
		require.NoError(t, err)
		o.Reports = []*recovery.Report{r}
		s, _, err := PrepareRecovery(c, o, zap.NewNop())
		return s, err
	}
	s, err := prepare()
	require.NoError(t, err)
	require.False(t, s.MayUndo, "nothing is undone")
	require.Len(t, s.Seats, 2)
	require.NotZero(t, o.Reports[0].Precommit)

	for _, slot := range []uint64{o.Reports[0].NewestSlot, s.FirstSlot + 25*36_000} {
		o.FirstSlot = slot
		_, err = prepare()
		require.ErrorContains(t, err, "first slot")
	}
	o.FirstSlot = s.FirstSlot + 100
	s, err = prepare()
	require.NoError(t, err)
	require.Equal(t, o.FirstSlot, s.FirstSlot)

	require.NoError(t, os.Remove(filepath.Join(c.Path(c.Consensus.Dir), "votes.log")))
	o.FirstSlot, o.MayUndo = 0, false
	_, err = prepare()
	require.ErrorIs(t, err, ErrMayUndo)
	o.MayUndo = true
	s, err = prepare()
	require.NoError(t, err)
	require.True(t, s.MayUndo)
}

// A report may know more final blocks than the folder, or fewer: the newest certificate of both counts, and a final block that the
// base does not descend from is a fork.
func TestFinalBlocksOfReportsAndFolder(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 3)
	r, err := SurvivorReport(c, zap.NewNop(), time.Now())
	require.NoError(t, err)
	key, lib, _ := producerOf(t, c)
	first := child(t, c, lib, 1)
	other := child(t, c, lib, 2)
	above := child(t, c, other.SealedHeader, 1)
	putReversible(t, c, first, other, above)
	r.LIB = blockOf(lib)
	prepare := func(change func(r *recovery.Report)) (*recovery.Statement, error) {
		x := *r
		change(&x)
		x.QC = nil
		if x.Justified != x.LIB {
			x.QC = certify(t, key, r, block.Prevote, x.Justified.Point())
		}
		x.Seal, err = key.SignSeal(x.Digest())
		require.NoError(t, err)
		s, _, err := PrepareRecovery(c, PrepareOptions{Reports: []*recovery.Report{&x}, Reason: "a test", Now: time.Now(), MayUndo: true}, zap.NewNop())
		return s, err
	}
	final := certify(t, key, r, block.Precommit, first.Point())
	s, err := prepare(func(x *recovery.Report) { x.LIB = blockOf(first.SealedHeader); x.Justified, x.FC = x.LIB, final })
	require.NoError(t, err)
	require.Equal(t, final, s.Base.FC, "newer than the folder's")
	forged := *final
	forged.Aggregate = r.FC.Aggregate
	_, err = prepare(func(x *recovery.Report) { x.LIB = blockOf(first.SealedHeader); x.Justified, x.FC = x.LIB, &forged })
	require.ErrorContains(t, err, "is final")
	_, err = prepare(func(x *recovery.Report) {
		x.LIB, x.Justified, x.FC = blockOf(first.SealedHeader), blockOf(above.SealedHeader), final
	})
	require.ErrorContains(t, err, "this is a fork")

	var zero recovery.Block
	inStore(t, c, func(st *blockstore.Store) {
		h, err := st.HeaderByHeight(0)
		require.NoError(t, err)
		zero = blockOf(h)
	})
	s, err = prepare(func(x *recovery.Report) { x.LIB, x.FC, x.Justified = zero, nil, blockOf(first.SealedHeader) })
	require.NoError(t, err)
	require.NotNil(t, s.Base.FC)
	require.Equal(t, lib.Point(), s.Base.FC.Target, "the folder's, which the report does not know")
	_, err = prepare(func(x *recovery.Report) {
		x.LIB.Height, x.LIB.Hash = lib.Number()-1, common.Hash{1}
		x.LIB.Slot--
		x.FC, x.Justified = certify(t, key, r, block.Precommit, x.LIB.Point()), blockOf(first.SealedHeader)
	})
	require.ErrorContains(t, err, "this is a fork")
	_, err = prepare(func(x *recovery.Report) { x.Number, x.Recovery = 1, common.Hash{1}; x.Justified, x.FC = x.LIB, nil })
	require.ErrorContains(t, err, "apply the same on all nodes first")
}
