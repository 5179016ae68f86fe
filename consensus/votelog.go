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
//	header   "BORVLOG2", 20 bytes account, 32 bytes genesis hash, u32 crc32c of those
//	entry*   u32 length of payload, u32 crc32c of (length, payload), payload
//
// Integers are big-endian. Entries are only appended; a start and a rewrite make a new file and rename it over the old one.
const (
	voteLogName       = "votes.log"
	voteLogLock       = "votes.lock"
	voteLogKind       = "BORVLOG" // begins the magic of every version
	voteLogMagic      = voteLogKind + "2"
	voteLogHeaderSize = len(voteLogMagic) + common.AddressLength + common.HashLength + 4
	entryHeaderSize   = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrLocked means that another process uses the same vote log.
var ErrLocked = errors.New("vote log is in use by another process")

// logState says what was found when the vote log was opened.
type logState uint8

const (
	logGood    logState = iota // read to its end, but for a torn tail
	logMissing                 // there was none; a new one was made
	logDamaged                 // entries in its middle are lost: what was signed is not fully known
)

// voteLog is the append-only file of everything this producer signed. It is used by one goroutine at a time.
type voteLog struct {
	fs     vfs.FS
	path   string // of the file, as errors and the log name it
	header []byte
	f      vfs.File
	lock   io.Closer
	size   int64
	buf    []byte
	failed error // of the first write that failed: what the file holds is unknown since
}

// openVoteLog locks the directory, reads the log and writes it again, so that all that it returns is durable: a process that
// was killed, or a disk that failed, leaves entries that can be read and that a power cut still takes away, and what the
// machine knows as signed it sends. Bytes that are no whole entry are left out; a copy of the file is kept then. The
// payloads are in the order written. dir names the directory for errors.
// The marker opens a file made for want of one unless the key is new, and closes a damaged one: it stays there until
// the driver takes it out, so that a second crash does not make the log look complete.
func openVoteLog(fs vfs.FS, dir string, account common.Address, genesis common.Hash, marker []byte, newKey bool, log *zap.Logger) (l *voteLog, payloads [][]byte, st logState, err error) {
	if err := format.Check(fs, dir, format.Consensus); err != nil {
		return nil, nil, 0, err
	}
	if err := fs.Mkdir("."); err != nil {
		return nil, nil, 0, fmt.Errorf("make directory of the vote log: %w", err)
	}
	lock, err := fs.Lock(voteLogLock)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, nil, 0, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("lock the vote log: %w", err)
	}
	l = &voteLog{fs: fs, path: filepath.Join(dir, voteLogName), header: voteLogHeader(account, genesis), lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	raw, err := vfs.ReadFile(fs, voteLogName, maxVoteLogBytes)
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
	payloads, good := parseEntries(raw[voteLogHeaderSize:])
	rest := raw[voteLogHeaderSize+good:]
	if later := salvage(rest); len(later) > 0 {
		payloads, st = append(append(payloads, later...), marker), logDamaged
	}
	if len(rest) > 0 {
		if err := l.keepDamaged(raw, len(rest), log); err != nil {
			return l, nil, 0, err
		}
	}
	return l, payloads, st, l.rewrite(payloads)
}

// keepDamaged keeps a copy of a vote log whose last bytes are no whole entries, before they are left out.
func (l *voteLog) keepDamaged(raw []byte, cut int, log *zap.Logger) error {
	to, err := aside.KeepBytes(l.fs, voteLogName, bytes.NewReader(raw), int64(len(raw)), maxDamagedLogs, time.Now())
	if err != nil {
		return fmt.Errorf("the vote log %s ends in %d bytes that are no whole entries: %w", l.path, cut, err)
	}
	log.Warn("set aside: a copy of the vote log, in which bytes that are no whole entries were found; a crash while an entry was written leaves such at its end, anything else is damage",
		zap.String("file", l.path), zap.String("to", filepath.Join(filepath.Dir(l.path), to)), zap.Int("position", len(raw)-cut), zap.Int("bytes", cut))
	return nil
}

func voteLogHeader(account common.Address, genesis common.Hash) []byte {
	b := append([]byte(voteLogMagic), account[:]...)
	b = append(b, genesis[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func checkVoteLogHeader(path string, raw []byte, account common.Address, genesis common.Hash) error {
	want := voteLogHeader(account, genesis)
	if len(raw) < voteLogHeaderSize {
		return fmt.Errorf("vote log %s is cut short within its header: restore it, or move it away and start without it", path)
	}
	got := raw[:voteLogHeaderSize]
	if bytes.Equal(got, want) {
		return nil
	}
	sum := len(got) - 4
	if version := got[:len(voteLogMagic)]; bytes.HasPrefix(got, []byte(voteLogKind)) && string(version) != voteLogMagic &&
		binary.BigEndian.Uint32(got[sum:]) == crc32.Checksum(got[:sum], castagnoli) {
		return fmt.Errorf("vote log %s is of form %s, and this program knows %s: use the program that wrote it", path, version, voteLogMagic)
	}
	if !bytes.HasPrefix(got, []byte(voteLogMagic)) || binary.BigEndian.Uint32(got[sum:]) != crc32.Checksum(got[:sum], castagnoli) {
		return fmt.Errorf("vote log %s has a damaged header: restore it, or move it away and start without it", path)
	}
	n := len(voteLogMagic)
	return fmt.Errorf("vote log %s belongs to account %s on chain %x, this node signs for %s on chain %s: give each producer its own data directory",
		path, common.BytesToAddress(got[n:n+common.AddressLength]), got[n+common.AddressLength:sum], common.BytesToAddress(want[n:n+common.AddressLength]), common.BytesToHash(want[n+common.AddressLength:sum]))
}

// appendEntry appends one framed payload to b.
func appendEntry(b, payload []byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload))) //nolint:gosec // ours, below maxEntryBytes
	sum := crc32.Update(crc32.Checksum(b[at:at+4], castagnoli), castagnoli, payload)
	b = binary.BigEndian.AppendUint32(b, sum)
	return append(b, payload...)
}

// nextEntry reads the entry at the start of b, or reports false.
func nextEntry(b []byte) (payload []byte, size int, ok bool) {
	if len(b) < entryHeaderSize {
		return nil, 0, false
	}
	n := int(binary.BigEndian.Uint32(b))
	if n == 0 || n > maxEntryBytes || len(b) < entryHeaderSize+n {
		return nil, 0, false
	}
	payload = b[entryHeaderSize : entryHeaderSize+n]
	sum := crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, payload)
	return payload, entryHeaderSize + n, binary.BigEndian.Uint32(b[4:]) == sum
}

// parseEntries reads entries until the first that is not whole; good is the count of bytes up to there.
func parseEntries(b []byte) (payloads [][]byte, good int) {
	for {
		p, n, ok := nextEntry(b[good:])
		if !ok {
			return payloads, good
		}
		payloads, good = append(payloads, p), good+n
	}
}

// salvage looks for whole entries behind a bad one. A write that was cut off leaves none; damage in the middle of the
// file does, and what lies between is lost.
func salvage(b []byte) (payloads [][]byte) {
	for at := 0; at < len(b); {
		if p, n, ok := nextEntry(b[at:]); ok {
			payloads, at = append(payloads, p), at+n
		} else {
			at++
		}
	}
	return payloads
}

// append makes the payloads durable: one write and one fsync for all. After an error the log must not be used again, and
// refuses to be.
func (l *voteLog) append(payloads [][]byte) error {
	if len(payloads) == 0 || l.failed != nil {
		return l.failed
	}
	l.buf = l.buf[:0]
	for _, p := range payloads {
		l.buf = appendEntry(l.buf, p)
	}
	failpoint.Hit("consensus-votelog-before")
	err := vfs.WriteAll(l.f, l.buf, l.size)
	if err == nil {
		failpoint.Hit("consensus-votelog-written")
		err = l.f.Sync()
	}
	if err != nil {
		return l.fail("write", err)
	}
	l.size += int64(len(l.buf))
	failpoint.Hit("consensus-votelog-after")
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
		b = appendEntry(b, p)
	}
	if err := vfs.ReplaceFile(l.fs, voteLogName, b); err != nil {
		return l.fail("rewrite", err)
	}
	f, err := l.fs.Open(voteLogName, os.O_RDWR)
	if err != nil {
		return l.fail("open", err)
	}
	old := l.f
	l.f, l.size = f, int64(len(b))
	if old != nil {
		err = old.Close()
	}
	return err
}

func (l *voteLog) fail(what string, err error) error {
	l.failed = fmt.Errorf("%s vote log %s: %w", what, l.path, err)
	return l.failed
}

// close releases the file and the lock.
func (l *voteLog) close() error {
	var err error
	if l.f != nil {
		err = l.f.Close()
		l.f = nil
	}
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
		l.lock = nil
	}
	return err
}
