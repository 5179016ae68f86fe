package blockstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/ethereum/go-ethereum/rlp"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/vfs"
)

// superblockMagic begins a copy of the superblock: magic 8 | length of the payload u32 | crc32c of the payload u32 |
// payload (RLP), integers big-endian.
const (
	superblockMagic       = "BORNSUP1"
	superblockHeaderBytes = 16
)

// superblock says a second time, beside the primary database, which blocks are irreversible and why. goleveldb comes
// back with an older LIB when the end of a journal is lost, and with none when its files are: with the superblock that
// shows, and the segments are enough to go on.
type superblock struct {
	Format   string
	Sequence uint64 // the copy with the higher one is the newer
	LIB      libMeta
	QC, FC   []byte // encoded certificates, empty if there is none
	Root     []byte
}

func encodeSuperblock(sequence uint64, st *state) ([]byte, error) {
	super := superblock{Format: format, Sequence: sequence, LIB: st.lib, Root: st.root}
	if st.qc != nil {
		super.QC = st.qc.Encode()
	}
	if st.fc != nil {
		super.FC = st.fc.Encode()
	}
	payload := mustRLP(&super)
	if len(payload) > maxSuperblockBytes {
		return nil, fmt.Errorf("the superblock has %d bytes, %d allowed", len(payload), maxSuperblockBytes)
	}
	b := make([]byte, 0, superblockHeaderBytes+len(payload))
	b = append(b, superblockMagic...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload))) //nolint:gosec // bounded
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...), nil
}

// decodeSuperblock ignores what an earlier, longer copy left behind the payload.
func decodeSuperblock(b []byte) (*superblock, error) {
	if len(b) < superblockHeaderBytes || string(b[:8]) != superblockMagic {
		return nil, errors.New("it does not begin as a superblock does")
	}
	payload, length := b[superblockHeaderBytes:], binary.BigEndian.Uint32(b[8:])
	if uint64(length) > uint64(len(payload)) {
		return nil, fmt.Errorf("it has %d bytes of %d", len(payload), length)
	}
	payload = payload[:length]
	if crc32.Checksum(payload, castagnoli) != binary.BigEndian.Uint32(b[12:]) {
		return nil, errors.New("its checksum is wrong")
	}
	super := new(superblock)
	if err := rlp.DecodeBytes(payload, super); err != nil {
		return nil, err
	}
	for _, c := range [][]byte{super.QC, super.FC} {
		if len(c) == 0 {
			continue
		}
		if _, err := block.DecodeCertificate(c); err != nil {
			return nil, err
		}
	}
	return super, nil
}

// superblocks writes the two copies. One of them is durable at every moment: the other is written again and again until
// it is synced, and then they change roles. So a kill of the process loses nothing of it, and a power cut at most
// superblockSyncWrites commits. Owned by Store.run (and by Open before it starts).
type superblocks struct {
	files    [2]vfs.File
	current  int // the copy that is written; the other is durable
	sequence uint64
	unsynced int // times that it was written since the other was synced
}

func superblockName(i int) string { return fmt.Sprintf("SUPER.%d", i) }

// readSuperblock gives the newest sound copy, nil if there is none. One copy that is not sound is what a power cut leaves;
// two are damage. An error says that a copy could not be read, or that the store is another program's.
func (s *Store) readSuperblock() (newest *superblock, err error) {
	var unsound []error
	for i := range s.super.files {
		b, err := vfs.ReadFile(s.fs, superblockName(i), superblockHeaderBytes+maxSuperblockBytes)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", superblockName(i), err)
		}
		super, err := decodeSuperblock(b)
		if err != nil {
			unsound = append(unsound, fmt.Errorf("%s: %w", superblockName(i), err))
			continue
		}
		if super.Format != format {
			return nil, formatError(super.Format)
		}
		if newest == nil || super.Sequence > newest.Sequence {
			newest, s.super.current, s.super.sequence = super, 1-i, super.Sequence
		}
	}
	if len(unsound) == len(s.super.files) {
		s.finding(ProblemSuperblock, 0, fmt.Sprintf("no copy of the superblock is sound, it is written again from the database %s: %v", metaDir, errors.Join(unsound...)))
	} else if len(unsound) > 0 {
		s.log.Info("one copy of the superblock is not whole and is written again", zap.Error(unsound[0]))
	}
	return newest, nil
}

// writeSuperblock makes the current copy say what the state says, durably now, or else with one of the next writes. The
// first one of a process opens the files, and makes both copies sound.
func (s *Store) writeSuperblock(st *state, durable bool) error {
	w := &s.super
	switch {
	case !st.has:
		return nil
	case w.files[0] != nil && w.files[1] != nil:
		return w.write(st, durable)
	}
	for range w.files { // the second copy is touched when the first is durable: a crash leaves one that is sound or absent
		f, err := s.fs.Open(superblockName(w.current), os.O_RDWR|os.O_CREATE)
		if err != nil {
			return fmt.Errorf("open %s: %w", superblockName(w.current), err)
		}
		w.files[w.current] = f
		if err := errors.Join(w.write(st, true), s.fs.SyncDir(".")); err != nil {
			return err
		}
	}
	return nil
}

func (w *superblocks) write(st *state, durable bool) error {
	name := superblockName(w.current)
	b, err := encodeSuperblock(w.sequence+1, st)
	if err == nil {
		err = vfs.WriteAll(w.files[w.current], b, 0)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	w.sequence++
	w.unsynced++
	if !durable && w.unsynced < superblockSyncWrites {
		return nil
	}
	if err := w.files[w.current].Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	w.current, w.unsynced = 1-w.current, 0
	return nil
}

func (w *superblocks) close() error {
	var errs []error
	for _, f := range w.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// setBackError says that the primary database contradicts the superblock or itself: it has lost its newest entries.
type setBackError struct{ text string }

func (e setBackError) Error() string { return e.text }

// checkAgainst holds what the primary database says against the superblock, which is written after it, and against itself.
// A setBackError says that it has lost its newest entries.
func (s *Store) checkAgainst(super *superblock) error {
	switch {
	case super == nil:
	case !s.has:
		return setBackError{fmt.Sprintf("it names no last irreversible block, the superblock names block %d", super.LIB.Height)}
	case s.lib.Height < super.LIB.Height:
		return setBackError{fmt.Sprintf("it names block %d as the last irreversible one, the superblock names block %d", s.lib.Height, super.LIB.Height)}
	case s.lib.Height == super.LIB.Height && s.lib.Hash != super.LIB.Hash:
		return s.lostMeta("it says that block %d is %s, the superblock that it is %s", s.lib.Height, s.lib.Hash, super.LIB.Hash)
	}
	return contradiction(s.lib, s.sealed)
}

// checkSegmentEnd holds a superblock that a primary database is rebuilt from against the segment it names. A record that
// cannot be read proves nothing: it is damaged, and fetched.
func (s *Store) checkSegmentEnd(super *superblock) error {
	e, err := s.readEntry(super.LIB.Height)
	if err != nil || e.Segment != super.LIB.Segment {
		return nil //nolint:nilerr // the index is completed from the segment later
	}
	r, err := s.soundRecordAt(s.activeSegment(), super.LIB.Height, int64(e.Offset)) //nolint:gosec // bounded
	if err != nil || r.Hash == super.LIB.Hash {
		return nil //nolint:nilerr // likewise
	}
	return s.lostMeta("the superblock says that block %d is %s, %s holds %s", super.LIB.Height, super.LIB.Hash, segmentName(e.Segment), r.Hash)
}
