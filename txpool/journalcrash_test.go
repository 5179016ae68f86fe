package txpool

import (
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// journalTrial does to a journal what the pool does, and knows what a start must find.
type journalTrial struct {
	t       *testing.T
	txs     []*types.Transaction
	pool    map[common.Hash]*types.Transaction
	durable []common.Hash // what the last rewriting that returned has kept
	written []common.Hash // all that a kill may not lose
}

func newJournalTrial(t *testing.T, txs []*types.Transaction) *journalTrial {
	return &journalTrial{t: t, txs: txs, pool: make(map[common.Hash]*types.Transaction)}
}

func (x *journalTrial) get(h common.Hash) *types.Transaction { return x.pool[h] }

// start opens the journal of a disk as the pool does, all that it holds being good.
func (x *journalTrial) start(fs vfs.FS) (*journal, error) {
	j := newJournal(fs, "journal")
	txs, err := j.load(len(x.txs), zap.NewNop())
	if err != nil {
		return nil, err
	}
	clear(x.pool)
	for _, tx := range txs {
		x.pool[tx.Hash()] = tx
		j.held = append(j.held, tx.Hash())
	}
	return j, x.rewrite(j)
}

func (x *journalTrial) rewrite(j *journal) error {
	if err := j.rewrite(x.get); err != nil {
		return err
	}
	x.durable, x.written = append([]common.Hash(nil), j.held...), append([]common.Hash(nil), j.held...)
	return nil
}

// accept appends the next transactions.
func (x *journalTrial) accept(j *journal, from, to int) error {
	for _, tx := range x.txs[from:to] {
		x.pool[tx.Hash()] = tx
		j.held = append(j.held, tx.Hash())
		if err := j.append(journalOf(x.t, tx)); err != nil {
			return err
		}
		x.written = append(x.written, tx.Hash())
	}
	return nil
}

// run is a life of a journal: made, appended to, rewritten without what left the pool, closed, and opened again.
func (x *journalTrial) run(fs vfs.FS) error {
	j, err := x.start(fs)
	if err != nil {
		return err
	}
	leave := func(n int) error { delete(x.pool, x.txs[n].Hash()); return x.rewrite(j) }
	for _, step := range []func() error{
		func() error { return x.accept(j, 0, 3) }, func() error { return leave(1) },
		func() error { return x.accept(j, 3, 4) }, func() error { return leave(0) },
		func() error { return j.close() }, func() error { j, err = x.start(fs); return err },
		func() error { return x.accept(j, 4, 6) }, func() error { return leave(3) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return j.close()
}

// requireFound checks that a start on a disk finds these transactions.
func (x *journalTrial) requireFound(d *faultfs.Disk, want []common.Hash, at int, seed uint64) {
	x.t.Helper()
	j, err := x.start(d)
	require.NoError(x.t, err, "operation %d, seed %d", at, seed)
	for _, h := range want {
		require.Contains(x.t, j.held, h, "operation %d, seed %d", at, seed)
	}
	require.NoError(x.t, j.close())
}

func journalTransactions(t *testing.T) []*types.Transaction {
	t.Helper()
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	var txs []*types.Transaction
	for nonce := range uint64(6) {
		txs = append(txs, ss[0].tx(t, c, nonce, 1))
	}
	return txs
}

// A power cut at any operation loses nothing that a rewriting had kept, and never keeps the pool from starting. What a start
// has read is durable after it.
func TestJournalSurvivesAPowerCutAtAnyOperation(t *testing.T) {
	txs := journalTransactions(t)
	for at, ended := 1, false; !ended; at++ {
		for seed := range uint64(6) {
			d := faultfs.New()
			d.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == at} }, seed)
			x := newJournalTrial(t, txs)
			err := x.run(d)
			left := d.Crashed()
			if left == nil {
				require.NoError(t, err)
				left, ended = d.Crash(seed), true
			}
			leaving := x.leaving()
			x.requireFound(left, leaving, at, seed)
			x.requireFound(left.Crash(0), x.durable, at, seed)
		}
	}
}

// leaving is what is durable and is in the pool: a rewriting under way may have left out what has left the pool.
func (x *journalTrial) leaving() (kept []common.Hash) {
	for _, h := range x.durable {
		if x.pool[h] != nil {
			kept = append(kept, h)
		}
	}
	return kept
}

// The kill of a process at any operation, or a disk that fails there, loses nothing that was appended; a power cut behind the
// start that follows does not either.
func TestJournalOfAKilledProcessIsDurableWhenItIsOpen(t *testing.T) {
	txs := journalTransactions(t)
	killed := errors.New("killed")
	for at, ended := 1, false; !ended; at++ {
		d := faultfs.New()
		d.SetPlan(func(c faultfs.Change) faultfs.Verdict {
			if c.Number >= at {
				return faultfs.Verdict{Err: killed}
			}
			return faultfs.Verdict{}
		}, 0)
		x := newJournalTrial(t, txs)
		ended = x.run(d) == nil
		var want []common.Hash
		for _, h := range x.written {
			if x.pool[h] != nil {
				want = append(want, h)
			}
		}
		left := d.Killed()
		x.requireFound(left, want, at, 0)
		x.requireFound(left.Crash(0), want, at, 0)
	}
}

// A journal whose folder cannot be synced is told, and goes on in the file that has its name.
func TestJournalGoesOnWhenItsNameIsNotDurable(t *testing.T) {
	txs := journalTransactions(t)
	broken := errors.New("the disk is broken")
	d := faultfs.New()
	x := newJournalTrial(t, txs)
	j, err := x.start(d)
	require.NoError(t, err)
	require.NoError(t, x.accept(j, 0, 2))
	d.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Kind == faultfs.SyncDir {
			return faultfs.Verdict{Err: broken}
		}
		return faultfs.Verdict{}
	}, 0)
	require.ErrorIs(t, x.rewrite(j), broken)
	require.NoError(t, x.accept(j, 2, 4))
	d.SetPlan(nil, 0)
	x.requireFound(d.Killed(), x.written, 0, 0)
	require.Len(t, x.written, 4)
}

// A power cut while a damaged journal is set aside takes nothing of what stands before the damage.
func TestDamagedJournalSurvivesAPowerCut(t *testing.T) {
	txs := journalTransactions(t)
	for at, ended := 1, false; !ended; at++ {
		d := faultfs.New()
		x := newJournalTrial(t, txs)
		require.NoError(t, vfs.ReplaceFile(d, "journal", append(journalOf(t, txs[:3]...), make([]byte, 100)...)))
		begin := d.Changes()
		d.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == begin+at} }, 1)
		_, err := x.start(d)
		left := d.Crashed()
		if left == nil {
			require.NoError(t, err)
			left, ended = d.Crash(1), true
		}
		x.requireFound(left, []common.Hash{txs[0].Hash(), txs[1].Hash(), txs[2].Hash()}, at, 1)
	}
}
