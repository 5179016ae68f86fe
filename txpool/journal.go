package txpool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"go.uber.org/zap"
)

// journal is the file of transactions submitted at this node: RLP values one after another, in the order of acceptance.
// It is written before a transaction's acceptance is answered, without fsync: it survives the process, not a power cut.
// It is rewritten without what left the pool when so much was appended as was left at the last time, and a named slack.
// Owned by Pool.run.
type journal struct {
	path string
	file *os.File      // nil: it could not be written; the next rewriting tries again
	held []common.Hash // of the transactions in the file, those that left the pool included
	size int64         // bytes of the file, all of whole transactions
	kept int64         // bytes that the last rewriting left
}

// errTorn says that the last value of a journal was not written whole: the process ended while it wrote.
var errTorn = errors.New("the last transaction is not whole")

// openJournal reads the journal, adds what is in it, and opens it for appending. A torn tail is cut off. A journal that
// is damaged or cannot be read is set aside, and what could be read of it is used. The error says that no journal can be
// written.
func (p *Pool) openJournal() error {
	j := &journal{path: p.cfg.Journal}
	txs, err := readJournal(j.path, journalReadable(&p.cfg))
	switch {
	case errors.Is(err, errTorn):
		p.log.Info("the torn end of the transaction journal is cut off", zap.String("file", j.path), zap.Int("whole", len(txs)))
	case err != nil:
		aside, e := setAsideJournal(j.path, time.Now())
		if e != nil {
			return fmt.Errorf("transaction journal %s is damaged (%w) and cannot be set aside: %w; move it away by hand", j.path, err, e)
		}
		p.log.Warn("the transaction journal is damaged and set aside; transactions behind the damage are lost unless peers have them: submit them again",
			zap.String("file", aside), zap.Int("read", len(txs)), zap.Error(err))
	}
	for i := range txs {
		j.held = append(j.held, txs[i].Hash())
	}
	if len(txs) > 0 {
		errs, added := make([]error, len(txs)), 0
		p.precheck(txs, errs)
		good, _ := p.splitAllowed(txs, errs)
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

// journalReadable is how many transactions a journal may hold: a full pool, as much appended again, and the slack.
func journalReadable(cfg *Config) int {
	return int(2*cfg.GlobalSlots) + journalSlackBytes/minTransactionBytes //nolint:gosec // validated
}

// readJournal reads all whole transactions of the file; no file is an empty journal. The error is errTorn if only the
// last one is not whole, else it says why the file is damaged.
func readJournal(path string, limit int) ([]*types.Transaction, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return decodeJournal(f, limit)
}

// decodeJournal stops at the first value that is no transaction.
func decodeJournal(r io.Reader, limit int) (txs []*types.Transaction, err error) {
	s := rlp.NewStream(bufio.NewReader(r), 0)
	for {
		_, size, err := s.Kind()
		switch {
		case errors.Is(err, io.EOF):
			return txs, nil
		case err == nil && size > maxJournalLine:
			return txs, fmt.Errorf("behind %d transactions is a value of %d bytes, a transaction has at most %d", len(txs), size, maxJournalLine)
		case len(txs) == limit:
			return txs, fmt.Errorf("it holds more than %d transactions", limit)
		}
		tx := new(types.Transaction)
		if err == nil {
			err = s.Decode(tx)
		}
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return txs, errTorn // the bound above holds for what is missing: one transaction
		case err != nil:
			return txs, fmt.Errorf("what follows %d transactions is none: %w", len(txs), err)
		}
		txs = append(txs, tx)
	}
}

// setAsideJournal renames the journal to a dated name beside it.
func setAsideJournal(path string, now time.Time) (string, error) {
	dated := path + ".damaged-" + now.UTC().Format("20060102T150405Z")
	aside := dated
	for i := 2; i <= maxAsideTries; i++ {
		if _, err := os.Lstat(aside); errors.Is(err, os.ErrNotExist) {
			return aside, os.Rename(path, aside)
		}
		aside = fmt.Sprintf("%s-%d", dated, i)
	}
	return "", fmt.Errorf("%d files of that name are there", maxAsideTries)
}

// journalAccepted appends what was accepted of local transactions.
func (p *Pool) journalAccepted(rs []*request) {
	j := p.journal
	var buf []byte
	for _, r := range rs {
		if !r.local {
			continue
		}
		for i, tx := range r.txs {
			if r.errs[i] != nil {
				continue
			}
			b, err := rlp.EncodeToBytes(tx)
			if err != nil {
				continue // decoded before: cannot fail
			}
			j.held = append(j.held, tx.Hash())
			buf = append(buf, b...)
		}
	}
	if len(buf) == 0 {
		return
	}
	if err := j.append(buf); err != nil {
		p.log.Error("transaction journal cannot be written; transactions submitted here may be lost if the node stops. Free space on the disk; it is tried again every pool.rejournal",
			zap.String("file", j.path), zap.Error(err))
	}
	if j.size > 2*j.kept+journalSlackBytes || len(j.held) > journalReadable(&p.cfg) {
		p.rewriteJournal()
	}
}

// append writes whole transactions behind the whole ones of the file. After an error nothing more is appended to the
// file, since what was written of buf may be torn.
func (j *journal) append(buf []byte) error {
	if j.file == nil {
		return nil // told when it failed
	}
	n, err := j.file.Write(buf)
	if err == nil {
		j.size += int64(n)
		return nil
	}
	if e := j.file.Truncate(j.size); e != nil {
		err = errors.Join(err, e, j.file.Close())
		j.file = nil
	}
	return err
}

// rewriteJournal replaces the file by one with only the transactions still in the pool.
func (p *Pool) rewriteJournal() {
	j := p.journal
	if err := j.rewrite(p.legacy.Get); err != nil {
		p.log.Error("transaction journal cannot be rewritten", zap.String("file", j.path), zap.Error(err))
		j.kept = j.size // not again at every transaction
	}
}

// rewrite writes what get still gives, in the order of acceptance, to a file that takes the journal's place when it is
// whole.
func (j *journal) rewrite(get func(common.Hash) *types.Transaction) (err error) {
	f, err := os.OpenFile(j.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	w := bufio.NewWriter(f)
	held, size, seen := j.held[:0:0], int64(0), make(map[common.Hash]bool, len(j.held))
	for _, h := range j.held {
		tx := get(h)
		if tx == nil || seen[h] {
			continue
		}
		seen[h] = true
		b, err := rlp.EncodeToBytes(tx)
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		held, size = append(held, h), size+int64(len(b))
	}
	if err := errors.Join(w.Flush(), f.Sync()); err != nil {
		return err
	}
	if err := os.Rename(j.path+".new", j.path); err != nil {
		return err
	}
	old := j.file
	j.file, j.held, j.size, j.kept = f, held, size, size
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
