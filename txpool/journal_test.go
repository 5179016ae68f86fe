package txpool

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// journalOf is a journal of these transactions.
func journalOf(t *testing.T, txs ...*types.Transaction) []byte {
	t.Helper()
	var all []byte
	for _, tx := range txs {
		b, err := rlp.EncodeToBytes(tx)
		require.NoError(t, err)
		all = append(all, b...)
	}
	return all
}

// What the pool has answered is in the file: a kill, which closes nothing, loses none of it.
func TestJournalSurvivesAKill(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	dir := t.TempDir()
	file := filepath.Join(dir, "journal")
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.Journal = file })
	for nonce := range uint64(50) {
		require.NoError(t, one(p, ss[0].tx(t, c, nonce, 1)))
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		killed := filepath.Join(dir, "killed")
		require.NoError(t, os.WriteFile(killed, b, 0o600))
		txs, err := readJournal(vfs.OS(dir, vfs.Private), "killed", 1000)
		require.NoError(t, err)
		require.Len(t, txs, int(nonce)+1) //nolint:gosec // small
	}
	q := open(t, c, func(cfg *Config, _ *Deps) { cfg.Journal = filepath.Join(dir, "killed") })
	require.Equal(t, uint64(50), q.Nonce(ss[0].addr))
}

// A damaged journal never keeps a node from starting: it is told and set aside whole, and what stands before the damage
// is used. A torn end, which a kill leaves, is no damage.
func TestDamagedJournalIsSetAside(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	whole := journalOf(t, ss[0].tx(t, c, 0, 1), ss[0].tx(t, c, 1, 1))
	third := journalOf(t, ss[0].tx(t, c, 2, 1))
	for name, x := range map[string]struct {
		file    []byte
		pending int
		damaged bool
	}{
		"whole":             {whole, 2, false},
		"empty":             {nil, 0, false},
		"torn":              {append(whole[:len(whole):len(whole)], third[:len(third)/2]...), 2, false},
		"one byte of a tx":  {append(whole[:len(whole):len(whole)], third[0]), 2, false},
		"zeros at the end":  {append(whole[:len(whole):len(whole)], make([]byte, 4096)...), 2, true},
		"zeros between":     {append(append(whole[:len(whole):len(whole)], 0, 0, 0), third...), 2, true},
		"a huge value":      {append(whole[:len(whole):len(whole)], 0xfb, 0xff, 0xff, 0xff, 0xff), 2, true},
		"a value of a text": {append([]byte("# not a journal"), whole...), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "journal")
			require.NoError(t, os.WriteFile(file, x.file, 0o600))
			core, logs := observer.New(zapcore.InfoLevel)
			p := open(t, c, func(cfg *Config, d *Deps) { cfg.Journal, d.Log = file, zap.New(core) })
			pending, _ := p.Stats()
			require.Equal(t, x.pending, pending)
			aside, err := filepath.Glob(file + ".damaged-*")
			require.NoError(t, err)
			if !x.damaged {
				require.Empty(t, aside)
				require.Empty(t, logs.FilterLevelExact(zapcore.WarnLevel).All())
				return
			}
			require.Len(t, aside, 1)
			kept, err := os.ReadFile(aside[0])
			require.NoError(t, err)
			require.Equal(t, x.file, kept)
			require.Len(t, logs.FilterLevelExact(zapcore.WarnLevel).All(), 1)
			fresh, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, whole[:min(len(whole), len(fresh))], fresh, "the new journal holds what was read")
		})
	}
}

// A directory in the journal's place is moved away too.
func TestUnreadableJournalIsSetAside(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	file := filepath.Join(t.TempDir(), "journal")
	require.NoError(t, os.Mkdir(file, 0o700))
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.Journal = file })
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 1)))
	txs, err := readJournal(vfs.OS(filepath.Dir(file), vfs.Private), filepath.Base(file), 10)
	require.NoError(t, err)
	require.Len(t, txs, 1)
}

// The journal shrinks while transactions go into blocks, without waiting for the next pool.rejournal.
func TestJournalIsBounded(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	file := filepath.Join(t.TempDir(), "journal")
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.Journal = file })
	const large = 100 << 10
	for nonce := range uint64(3 * journalSlackBytes / large) {
		tx := ss[0].sized(t, c, nonce, 1, large)
		require.NoError(t, one(p, tx))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(journalSlackBytes+2*large))
		c.include(c.CurrentHeader(), tx)
		settle(t, p)
	}
}

// After a write that failed the file holds whole transactions only, and the journal goes on.
func TestJournalGoesOnAfterAFailedWrite(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	file := filepath.Join(t.TempDir(), "journal")
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.Journal = file })
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 1)))
	require.NoError(t, p.journal.file.Close()) // its next write fails; the owner is idle
	require.NoError(t, one(p, ss[0].tx(t, c, 1, 1)))
	require.NoError(t, p.Close())
	txs, err := readJournal(vfs.OS(filepath.Dir(file), vfs.Private), filepath.Base(file), 10)
	require.NoError(t, err)
	require.Len(t, txs, 1)

	j := p.journal
	require.Nil(t, j.file)
	require.NoError(t, j.rewrite(func(h common.Hash) *types.Transaction {
		return map[common.Hash]*types.Transaction{ss[0].tx(t, c, 0, 1).Hash(): ss[0].tx(t, c, 0, 1), ss[0].tx(t, c, 1, 1).Hash(): ss[0].tx(t, c, 1, 1)}[h]
	}))
	txs, err = readJournal(vfs.OS(filepath.Dir(file), vfs.Private), filepath.Base(file), 10)
	require.NoError(t, err)
	require.Len(t, txs, 2, "what could not be appended is in the next file")
	require.NoError(t, j.close())
}

// A transaction that was accepted twice, as one that left the pool and came back, is once in the rewritten file.
func TestRewrittenJournalHoldsATransactionOnce(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	tx := ss[0].tx(t, c, 0, 1)
	j := newJournal(faultfs.New(), "journal")
	j.held = []common.Hash{tx.Hash(), tx.Hash()}
	require.NoError(t, j.rewrite(func(common.Hash) *types.Transaction { return tx }))
	txs, err := readJournal(j.fs, j.name, 10)
	require.NoError(t, err)
	require.Len(t, txs, 1)
	require.NoError(t, j.close())
}

// The journal is rewritten before it holds more transactions than a start reads.
func TestJournalHoldsNoMoreThanAStartReads(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.Journal = filepath.Join(t.TempDir(), "journal") })
	p.journal.held = make([]common.Hash, journalReadable(&p.cfg)) // of what left the pool; the owner is idle
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 1)))
	require.NoError(t, p.Close())
	require.Len(t, p.journal.held, 1)
}

// On a disk that is full the journal is not written again at every transaction.
func TestJournalThatCannotBeRewrittenIsNotTriedEachTime(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	d, tried := faultfs.New(), 0
	p := open(t, c, func(cfg *Config, deps *Deps) { cfg.Journal, deps.FS = "journal", d })
	d.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Kind != faultfs.Create {
			return faultfs.Verdict{}
		}
		tried++
		return faultfs.Verdict{Err: syscall.ENOSPC}
	}, 0)
	p.journal.size = journalSlackBytes + 1 // as if so much had been appended; the owner is idle
	for nonce := range uint64(5) {
		require.NoError(t, one(p, ss[0].tx(t, c, nonce, 1)))
	}
	require.NoError(t, p.Close())
	require.Equal(t, 1, tried)
}

// What the pool refused is not in the journal.
func TestRefusedTransactionIsNotInTheJournal(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	dir := t.TempDir()
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.Journal = filepath.Join(dir, "journal") })
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 10)))
	require.Error(t, one(p, ss[0].tx(t, c, 0, 9)), "it pays less than the one whose place it wants")
	txs, err := readJournal(vfs.OS(dir, vfs.Private), "journal", 1000)
	require.NoError(t, err)
	require.Len(t, txs, 1)
}
