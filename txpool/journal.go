package txpool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/aside"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
)

// journal is the file of transactions submitted at this node: RLP values one after another, in the order of acceptance.
// It is written before a transaction's acceptance is answered, without fsync: that survives the process, not a power cut.
// What a rewriting keeps is durable when the rewriting returns. It is rewritten without what left the pool when so much was appended as was left at the last time, and a named slack.
// Owned by Pool.run.
type journal struct {
	fs   vfs.FS
	name string
	path string        // of the file, as errors and the log name it
	file vfs.File      // nil: it could not be written; the next rewriting tries again
	held []common.Hash // of the transactions in the file, those that left the pool included
	size int64         // bytes of the file, all of whole transactions
	kept int64         // bytes that the last rewriting left
}

// errTorn says that the last value of a journal was not written whole: the process ended while it wrote.
var errTorn = errors.New("the last transaction is not whole")

// openJournal reads the journal, adds what is in it, and opens it for appending. The error says that no journal can be
// written.
func (p *Pool) openJournal() error {
	j := newJournal(p.deps.FS, p.cfg.Journal)
	if err := format.Stamp(j.fs, filepath.Dir(j.path), format.Pool); errors.Is(err, format.ErrUnknown) {
		return fmt.Errorf("open transaction journal %s: %w", j.path, err)
	} else if err != nil {
		return fmt.Errorf("open transaction journal %s: cannot write; check the directory and its permissions: %w", j.path, err)
	}
	txs, err := j.load(journalReadable(&p.cfg), p.log)
	if err != nil {
		return err
	}
	for i := range txs {
		j.held = append(j.held, txs[i].Hash())
	}
	if len(txs) > 0 {
		added := 0
		for _, err := range p.putBack(txs) {
			if err == nil {
				added++
			}
		}
		p.publish()
		p.log.Info("transactions of the journal are in the pool", zap.Int("read", len(txs)), zap.Int("added", added))
	}
	p.journal = j
	p.rewriteJournal()
	if j.file == nil {
		return fmt.Errorf("open transaction journal %s: cannot write; check the directory and its permissions", j.path)
	}
	return nil
}

// newJournal is the journal with this path in a file system, or with no file system in that of the operating system.
func newJournal(fs vfs.FS, path string) *journal {
	if fs == nil {
		return &journal{fs: vfs.OS(filepath.Dir(path), vfs.Private), name: filepath.Base(path), path: path}
	}
	return &journal{fs: fs, name: path, path: path}
}

// load reads the journal. A torn tail is left out. A journal that is damaged or cannot be read is set aside, and what could
// be read of it is used. The error says that it cannot be set aside.
func (j *journal) load(limit int, log *zap.Logger) ([]*types.Transaction, error) {
	txs, err := readJournal(j.fs, j.name, limit)
	switch {
	case errors.Is(err, errTorn):
		log.Info("the torn end of the transaction journal is cut off", zap.String("file", j.path), zap.Int("whole", len(txs)))
	case err != nil:
		to, e := aside.KeepLink(j.fs, j.name, maxDamagedJournals, time.Now()) // the journal stays until a rewriting has what was read of it
		if e != nil {
			to, e = aside.KeepMoved(j.fs, j.name, maxDamagedJournals, time.Now()) // no file: a folder has one name
		}
		if e != nil {
			return nil, fmt.Errorf("transaction journal %s is damaged (%w) and cannot be set aside: %w; move it away by hand", j.path, err, e)
		}
		log.Warn("the transaction journal is damaged and set aside; transactions behind the damage are lost unless peers have them: submit them again",
			zap.String("file", filepath.Join(filepath.Dir(j.path), to)), zap.Int("read", len(txs)), zap.Error(err))
	}
	return txs, nil
}

// journalReadable is how many transactions a journal may hold: a full pool, as much appended again, and the slack.
func journalReadable(cfg *Config) int {
	return int(2*cfg.GlobalSlots) + journalSlackBytes/minTransactionBytes //nolint:gosec // validated
}

// readJournal reads all whole transactions of the file; no file is an empty journal. The error is errTorn if only the
// last one is not whole, else it says why the file is damaged.
func readJournal(fs vfs.FS, name string, limit int) ([]*types.Transaction, error) {
	f, err := fs.Open(name, os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return decodeJournal(io.NewSectionReader(f, 0, size), limit)
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
	err := vfs.WriteAll(j.file, buf, j.size)
	if err == nil {
		j.size += int64(len(buf))
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
	if err := j.rewrite(p.Get); err != nil {
		p.log.Error("transaction journal cannot be rewritten", zap.String("file", j.path), zap.Error(err))
		j.kept = j.size // not again at every transaction
	}
}

// rewrite writes what get still gives, in the order of acceptance, to a file that takes the journal's place when it is
// durable, and is durable there when rewrite returns. After an error the journal goes on in the file that has its name.
func (j *journal) rewrite(get func(common.Hash) *types.Transaction) error {
	held, size, seen := j.held[:0:0], int64(0), make(map[common.Hash]bool, len(j.held))
	err := vfs.ReplaceFileBy(j.fs, j.name, func(file io.Writer) error {
		w := bufio.NewWriter(file)
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
		return w.Flush()
	})
	if err != nil && !errors.Is(err, vfs.ErrNotDurable) {
		return err
	}
	f, openErr := j.fs.Open(j.name, os.O_RDWR)
	err = errors.Join(err, openErr, j.close()) // the old file has no name any more
	if openErr == nil {
		j.file, j.held, j.size, j.kept = f, held, size, size
	}
	return err
}

// close closes the file; nothing is appended any more.
func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	f := j.file
	j.file = nil
	return f.Close()
}
