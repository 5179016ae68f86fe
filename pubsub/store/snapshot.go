package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// A snapshot is the state of all partitions as of the end of its segment:
//
//	magic 8 | segment u32 | next partition number u32 | partitions u32 | body bytes u32 | crc32c of the body u32 | crc32c of the 28 bytes before u32
//	per partition, varints: number, topic 32, partition, retention bytes, retention age, start, end, committed, promised,
//	entered, epochs {epoch, start}, producers {id, epoch, seen, batches {first sequence, last sequence, base, next}}
const (
	snapMagic       = "BORNTSN1"
	snapHeaderBytes = 32
	maxSnapBytes    = 1 << 30
)

var errSnapshot = errors.New("not a readable snapshot")

// beginSnapshot makes the room for the state as of the end of a full segment. It is filled from then on: by touch with the
// partitions that change, just before they do, and by fillSnapshot with those that do not, so that appends never wait for
// all of it. wal.mu is held.
func (s *Store) beginSnapshot(j *sealJob) {
	j.snap = make([]byte, snapHeaderBytes, snapHeaderBytes+int(s.snapBytes)+4096)
	j.nextNumber = s.nextNumber
}

// touch notes the state of a partition for the snapshots that are being made and do not have it. It is called before
// every change, behind the record that tells of it. The caller holds mu and wal.mu.
func (p *Partition) touch() {
	if p.snapped+1 >= p.s.wal.seg {
		return
	}
	for _, j := range p.s.wal.jobs {
		if j.seg > p.snapped {
			j.snap = p.encode(j.snap)
			j.parts++
		}
	}
	p.snapped = p.s.wal.seg - 1
}

// fillSnapshot adds what has not changed since the segment was full, a piece at a time, and ends the snapshot.
func (s *Store) fillSnapshot(j *sealJob) {
	parts := s.partitionsAfter(0, maxPartitions)
	for ; len(parts) > 0; parts = parts[min(partitionsPerHold, len(parts)):] {
		s.wal.mu.Lock()
		for _, p := range parts[:min(partitionsPerHold, len(parts))] {
			if p.snapped < j.seg && !p.deleted {
				j.snap = p.encode(j.snap)
				j.parts++
				p.snapped = j.seg
			}
		}
		s.wal.mu.Unlock()
	}
	b := j.snap
	copy(b, snapMagic)
	be.PutUint32(b[8:], j.seg)
	be.PutUint32(b[12:], j.nextNumber)
	be.PutUint32(b[16:], j.parts)
	be.PutUint32(b[20:], uint32(len(b)-snapHeaderBytes)) //nolint:gosec // partitions and producers are bounded
	be.PutUint32(b[24:], crc32.Checksum(b[snapHeaderBytes:], castagnoli))
	be.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	s.snapBytes = int64(len(b))
}

func (p *Partition) encode(b []byte) []byte {
	v := binary.AppendVarint
	b = binary.AppendUvarint(b, uint64(p.number))
	b = append(b, p.id.Topic[:]...)
	for _, x := range [...]int64{int64(p.id.Partition), p.retention.Bytes, int64(p.retention.Age), p.start, p.end,
		p.committed.Load(), int64(p.promised), int64(p.entered), int64(len(p.epochs))} {
		b = v(b, x)
	}
	for _, e := range p.epochs {
		b = v(v(b, int64(e.Epoch)), e.Start)
	}
	b = v(b, int64(len(p.producers)))
	for id, r := range p.producers {
		b = v(v(v(v(b, id), int64(r.epoch)), r.seen), int64(r.n))
		for _, x := range r.sent[:r.n] {
			b = v(v(v(v(b, int64(x.firstSeq)), int64(x.lastSeq)), x.base), x.next)
		}
	}
	return b
}

// snapReader reads varints; the first error stays.
type snapReader struct {
	b   []byte
	err error
}

func (r *snapReader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errSnapshot, what)
	}
}

func (r *snapReader) num(low, high int64) int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 || v < low || v > high {
		r.fail("a number is out of range")
		r.b = nil
		return low
	}
	r.b = r.b[n:]
	return v
}

func (r *snapReader) bytes(n int) []byte {
	if len(r.b) < n {
		r.fail("it ends early")
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// decodeSnapshot makes the partitions of a snapshot.
func (s *Store) decodeSnapshot(b []byte, seg uint32) (parts []*Partition, nextNumber uint32, err error) {
	if len(b) < snapHeaderBytes || string(b[:8]) != snapMagic || crc32.Checksum(b[:28], castagnoli) != be.Uint32(b[28:]) ||
		be.Uint32(b[8:]) != seg || int64(be.Uint32(b[20:])) != int64(len(b)-snapHeaderBytes) ||
		crc32.Checksum(b[snapHeaderBytes:], castagnoli) != be.Uint32(b[24:]) {
		return nil, 0, errSnapshot
	}
	nextNumber = be.Uint32(b[12:])
	n := be.Uint32(b[16:])
	r := &snapReader{b: b[snapHeaderBytes:]}
	for i := uint32(0); i < n && r.err == nil; i++ {
		parts = append(parts, s.decodePartition(r))
	}
	if len(r.b) > 0 {
		r.fail("bytes behind its end")
	}
	return parts, nextNumber, r.err
}

func (s *Store) decodePartition(r *snapReader) *Partition {
	const i32max = 1<<31 - 1
	number, n := binary.Uvarint(r.b)
	if n <= 0 || number == 0 || number > 1<<32-1 { // they count from 1
		r.fail("partition number")
		n = 0
	}
	r.b = r.b[n:]
	var id ID
	copy(id.Topic[:], r.bytes(32))
	id.Partition = int32(r.num(-1<<31, i32max)) //nolint:gosec // checked
	p := newPartition(s, id, uint32(number))    //nolint:gosec // checked
	p.retention.Bytes = r.num(0, math.MaxInt64)
	p.retention.Age = time.Duration(r.num(0, math.MaxInt64))
	p.start = r.num(0, maxOffset)
	p.end = r.num(p.start, maxOffset)
	p.committed.Store(r.num(0, maxOffset))
	p.savedCommitted.Store(p.committed.Load())
	p.promised, p.entered = int32(r.num(-1, i32max)), int32(r.num(-1, i32max)) //nolint:gosec // checked
	for i := r.num(0, maxEpochs); i > 0 && r.err == nil; i-- {
		p.epochs = append(p.epochs, EpochStart{int32(r.num(0, i32max)), r.num(0, maxOffset)}) //nolint:gosec // checked
	}
	for i := r.num(0, 2*maxProducers); i > 0 && r.err == nil; i-- {
		id := r.num(0, 1<<63-1)
		x := &producer{epoch: int16(r.num(math.MinInt16, math.MaxInt16)), seen: r.num(math.MinInt64, math.MaxInt64)} //nolint:gosec // checked
		x.n = uint8(r.num(0, producerBatches))                                                                       //nolint:gosec // checked
		for j := range x.sent[:x.n] {
			x.sent[j] = sentBatch{int32(r.num(0, i32max)), int32(r.num(0, i32max)), r.num(0, maxOffset), r.num(0, maxOffset)} //nolint:gosec // checked
		}
		p.producers[id] = x
	}
	return p
}
