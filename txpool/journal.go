package txpool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"go.uber.org/zap"
)

// journal is the file of transactions submitted at this node: RLP values one after another. It is written when a
// transaction is accepted, without fsync: it survives the process, not a power cut. Owned by Pool.run.
type journal struct {
	path string
	file *os.File
	held map[common.Hash]*types.Transaction
}

// openJournal reads the journal, adds what is in it, and opens it for appending. A torn tail is cut off.
func (p *Pool) openJournal() error {
	j := &journal{path: p.cfg.Journal, held: make(map[common.Hash]*types.Transaction)}
	txs, err := readJournal(j.path)
	if err != nil {
		return err
	}
	for i := range txs {
		j.held[txs[i].Hash()] = txs[i]
	}
	if len(txs) > 0 {
		errs, added := make([]error, len(txs)), 0
		p.precheck(txs, errs)
		good, _ := allowed(txs, errs)
		for _, err := range p.legacy.Add(good, true) {
			if err == nil {
				added++
			}
		}
		p.log.Info("transactions of the journal are in the pool", zap.Int("read", len(txs)), zap.Int("added", added))
	}
	p.journal = j
	p.slots = p.count()
	p.rewriteJournal()
	if j.file == nil {
		return fmt.Errorf("open transaction journal %s: cannot write; check the directory and its permissions", j.path)
	}
	return nil
}

// readJournal reads all whole transactions of the file; no file is an empty journal.
func readJournal(path string) ([]*types.Transaction, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open transaction journal: %w", err)
	}
	defer f.Close()
	return decodeJournal(f), nil
}

// decodeJournal stops at the first value that is no transaction: the rest was not written whole.
func decodeJournal(r io.Reader) []*types.Transaction {
	var txs []*types.Transaction
	s := rlp.NewStream(bufio.NewReader(r), 0)
	for {
		_, size, err := s.Kind()
		if err != nil || size > maxJournalLine {
			return txs
		}
		tx := new(types.Transaction)
		if err := s.Decode(tx); err != nil {
			return txs
		}
		txs = append(txs, tx)
	}
}

func (p *Pool) journalAccepted(rs []*request) {
	var buf []byte
	for _, r := range rs {
		if !r.local {
			continue
		}
		for i, tx := range r.txs {
			if r.errs[i] != nil {
				continue
			}
			p.journal.held[tx.Hash()] = tx
			b, err := rlp.EncodeToBytes(tx)
			if err != nil {
				continue // decoded before: cannot fail
			}
			buf = append(buf, b...)
		}
	}
	if len(buf) == 0 || p.journal.file == nil {
		return
	}
	if _, err := p.journal.file.Write(buf); err != nil {
		p.log.Error("transaction journal cannot be written; transactions submitted here may be lost if the node stops", zap.Error(err))
	}
}

// rewriteJournal replaces the file by one with only the transactions still in the pool.
func (p *Pool) rewriteJournal() {
	j := p.journal
	for h := range j.held {
		if !p.legacy.Has(h) {
			delete(j.held, h)
		}
	}
	if err := j.rewrite(); err != nil {
		p.log.Error("transaction journal cannot be rewritten", zap.String("file", j.path), zap.Error(err))
	}
}

func (j *journal) rewrite() error {
	tmp := j.path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, tx := range j.held {
		if err := rlp.Encode(w, tx); err != nil {
			f.Close()
			return err
		}
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	if err := os.Rename(tmp, j.path); err != nil {
		f.Close()
		return err
	}
	old := j.file
	j.file = f
	if old != nil {
		return old.Close()
	}
	return nil
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
