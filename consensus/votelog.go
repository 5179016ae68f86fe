package consensus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/aside"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
)

// The vote log on disk (docs/storage.md):
//
//	header   "BORVLOG3", 20 bytes account, 32 bytes genesis hash, u32 crc32c of those
//	entry*   u32 length of payload, u32 crc32c of (length, synced, payload), u64 synced, payload
//
// Integers are big-endian. synced is how many bytes of the file were durable when the entry was written. Behind the entries of
// each sync stands a mark, an entry that says that they are durable; it becomes so itself with the next sync. So an entry that
// is not whole is damaged if anything behind it says that it was durable, and a torn write else. Entries are only appended; a
// start and a rewrite make a new file and rename it over the old one.
const (
	voteLogName       = "votes.log"
	marksLogName      = "marks.log" // of an observer: it holds marks of others alone, and no account
	voteLogKind       = "BORVLOG"   // begins the magic of every version
	voteLogMagic      = voteLogKind + "3"
	voteLogMagic2     = voteLogKind + "2" // release 0.3: entries do not tell what was durable
	voteLogHeaderSize = len(voteLogMagic) + common.AddressLength + common.HashLength + 4
	entryHeaderSize   = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrLocked means that another process uses the same vote log.
var ErrLocked = errors.New("vote log is in use by another process")

// logState says what was found when the vote log was opened.
type logState uint8

const (
	logGood    logState = iota // read to its end, but for a torn tail
	logMissing                 // there was none; a new one was made
	logDamaged                 // entries that were durable are lost: what was signed is not fully known
)

// voteLog is the append-only file of everything this producer signed. It is used by one goroutine at a time.
type voteLog struct {
	fs     vfs.FS
	name   string // of the file in its folder
	path   string // of the file, as errors and the log name it
	header []byte
	f      vfs.File
	lock   io.Closer
	size   int64
	synced int64 // bytes of the file that are durable
	buf    []byte
	failed error // of the first write that failed: what the file holds is unknown since
}

// openVoteLog locks the directory, reads the log and writes it again, so that all that it returns is durable: a process that
// was killed, or a disk that failed, leaves entries that can be read and that a power cut still takes away, and what the
// machine knows as signed it sends. Bytes that are no whole entry are left out; a copy of the file is kept then. The
// payloads are in the order written. dir names the directory for errors.
// The marker opens a file made for want of one unless the key is new, and closes a damaged one: it stays there until
// the driver takes it out, so that a second crash does not make the log look complete. A log of others' signatures alone has none (nil).
func openVoteLog(fs vfs.FS, dir, name string, account common.Address, genesis common.Hash, marker []byte, newKey bool, log *zap.Logger) (l *voteLog, payloads [][]byte, st logState, err error) {
	if err := format.Check(fs, dir, format.Consensus); err != nil {
		return nil, nil, 0, err
	}
	if err := fs.Mkdir("."); err != nil {
		return nil, nil, 0, fmt.Errorf("make directory of the vote log: %w", err)
	}
	lock, err := fs.Lock(strings.TrimSuffix(name, ".log") + ".lock")
	if errors.Is(err, vfs.ErrLocked) {
		return nil, nil, 0, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("lock the vote log: %w", err)
	}
	l = &voteLog{fs: fs, name: name, path: filepath.Join(dir, name), header: voteLogHeader(voteLogMagic, account, genesis), lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	raw, err := vfs.ReadFile(fs, l.name, maxVoteLogBytes)
	if err == nil {
		if err := checkVoteLogHeader(l.path, raw, account, genesis); err != nil {
			return l, nil, 0, err
		}
	}
	if err := format.Stamp(fs, dir, format.Consensus); err != nil {
		return l, nil, 0, err
	}
	if errors.Is(err, os.ErrNotExist) {
		if !newKey {
			payloads = [][]byte{marker}
		}
		return l, payloads, logMissing, l.rewrite(payloads)
	}
	if err != nil {
		return l, nil, 0, fmt.Errorf("read vote log %s: %w", l.path, err)
	}
	payloads, cut, damaged := readEntries(raw)
	if damaged {
		st = logDamaged
		if marker != nil {
			payloads = append(payloads, marker)
		}
	}
	if cut < len(raw) {
		if err := l.keepDamaged(raw, cut, damaged, marker != nil, log); err != nil {
			return l, nil, 0, err
		}
	}
	return l, payloads, st, l.rewrite(payloads)
}

// keepDamaged keeps a copy of a vote log in which bytes from cut on are no whole entry, before they are left out. signs tells a
// producer's log from an observer's.
func (l *voteLog) keepDamaged(raw []byte, cut int, damaged, signs bool, log *zap.Logger) error {
	to, err := aside.KeepBytes(l.fs, l.name, bytes.NewReader(raw), int64(len(raw)), maxDamagedLogs, time.Now())
	if err != nil {
		return fmt.Errorf("in the vote log %s bytes from %d on are no whole entry: %w", l.path, cut, err)
	}
	what := "a write that was never synced, as a crash leaves it: nothing that it stood for was signed"
	switch {
	case damaged && !signs:
		what = "entries that were on the disk are damaged: what this observer saw of the producers' signatures is not fully known, and it tells them the rest"
	case damaged:
		what = "entries that were on the disk are damaged: what this producer signed is not fully known, and it votes for nothing until the chain proves that this is safe"
	}
	log.Warn("set aside: a copy of the vote log, in which bytes are no whole entry; "+what,
		zap.String("file", l.path), zap.String("to", filepath.Join(filepath.Dir(l.path), to)), zap.Int("position", cut), zap.Int("bytes", len(raw)-cut))
	return nil
}

func voteLogHeader(magic string, account common.Address, genesis common.Hash) []byte {
	b := append([]byte(magic), account[:]...)
	b = append(b, genesis[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func checkVoteLogHeader(path string, raw []byte, account common.Address, genesis common.Hash) error {
	want := voteLogHeader(voteLogMagic, account, genesis)
	if len(raw) < voteLogHeaderSize {
		return fmt.Errorf("vote log %s is cut short within its header: restore it, or move it away and start without it", path)
	}
	got := raw[:voteLogHeaderSize]
	if bytes.Equal(got, want) || bytes.Equal(got, voteLogHeader(voteLogMagic2, account, genesis)) {
		return nil
	}
	sum := len(got) - 4
	if version := got[:len(voteLogMagic)]; bytes.HasPrefix(got, []byte(voteLogKind)) && string(version) != voteLogMagic && string(version) != voteLogMagic2 &&
		binary.BigEndian.Uint32(got[sum:]) == crc32.Checksum(got[:sum], castagnoli) {
		return fmt.Errorf("vote log %s is of form %s, and this program knows %s: use the program that wrote it", path, version, voteLogMagic)
	}
	if !bytes.HasPrefix(got, []byte(voteLogKind)) || binary.BigEndian.Uint32(got[sum:]) != crc32.Checksum(got[:sum], castagnoli) {
		return fmt.Errorf("vote log %s has a damaged header: restore it, or move it away and start without it", path)
	}
	n := len(voteLogMagic)
	return fmt.Errorf("vote log %s belongs to account %s on chain %x, this node signs for %s on chain %s: give each producer its own data directory",
		path, common.BytesToAddress(got[n:n+common.AddressLength]), got[n+common.AddressLength:sum], common.BytesToAddress(want[n:n+common.AddressLength]), common.BytesToHash(want[n+common.AddressLength:sum]))
}

// append makes the payloads durable, and with them all that was written before: one write and one fsync for all. After an
// error the log must not be used again, and refuses to be.
func (l *voteLog) append(payloads [][]byte) error {
	if len(payloads) == 0 || l.failed != nil {
		return l.failed
	}
	failpoint.Hit("consensus-votelog-before")
	if err := l.writeEntries(payloads); err != nil {
		return err
	}
	failpoint.Hit("consensus-votelog-written")
	if err := l.f.Sync(); err != nil {
		return l.fail("write", err)
	}
	l.synced = l.size
	failpoint.Hit("consensus-votelog-after")
	return l.writeEntries([][]byte{{payloadSynced}})
}

// writeEntries appends the payloads without a sync: they are durable once a later append is. Errors are as of append.
func (l *voteLog) writeEntries(payloads [][]byte) error {
	if len(payloads) == 0 || l.failed != nil {
		return l.failed
	}
	if l.f == nil {
		return l.fail("write", os.ErrClosed)
	}
	l.buf = l.buf[:0]
	for _, p := range payloads {
		l.buf = appendEntry(l.buf, uint64(l.synced), p) //nolint:gosec // not negative
	}
	if err := vfs.WriteAll(l.f, l.buf, l.size); err != nil {
		return l.fail("write", err)
	}
	l.size += int64(len(l.buf))
	return nil
}

// rewrite replaces the whole log by one that holds just these payloads: either the old file or the new one survives a
// crash, and the new one is durable when rewrite returns. After an error the log must not be used again, and refuses to be:
// what it appended might go to a file that has lost its name.
func (l *voteLog) rewrite(payloads [][]byte) error {
	if l.failed != nil {
		return l.failed
	}
	b := bytes.Clone(l.header)
	for _, p := range payloads {
		b = appendEntry(b, 0, p)
	}
	b = appendEntry(b, uint64(len(b)), []byte{payloadSynced}) // the file gets its name when it is durable
	if err := vfs.ReplaceFile(l.fs, l.name, b); err != nil {
		return l.fail("rewrite", err)
	}
	f, err := l.fs.Open(l.name, os.O_RDWR)
	if err != nil {
		return l.fail("open", err)
	}
	old := l.f
	l.f, l.size, l.synced = f, int64(len(b)), int64(len(b))
	if old != nil {
		err = old.Close()
	}
	return err
}

func (l *voteLog) fail(what string, err error) error {
	l.failed = fmt.Errorf("%s vote log %s: %w", what, l.path, err)
	return l.failed
}

// close makes what was written durable and releases the file and the lock.
func (l *voteLog) close() error {
	var err error
	if l.f != nil {
		if l.failed == nil && l.size > l.synced {
			if err = l.f.Sync(); err != nil {
				err = l.fail("close", err)
			}
		}
		err = errors.Join(err, l.f.Close())
		l.f = nil
	}
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
		l.lock = nil
	}
	return err
}
