package blockstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/failpoint"
)

// op is one operation for the writer: either stage, which is made durable together with its neighbours, or alone,
// which runs by itself between two groups.
type op struct {
	stage func(*stage) error
	alone func() error
	bytes int
	err   error
	done  chan struct{}
}

// submit queues an operation; wait gives its result.
func (s *Store) submit(o *op) (wait func() error) {
	o.done = make(chan struct{})
	select {
	case <-s.closing:
		return func() error { return ErrClosed }
	default:
	}
	select {
	case s.ops <- o:
	case <-s.closing:
		return func() error { return ErrClosed }
	}
	return func() error {
		select {
		case <-o.done:
			return o.err
		case <-s.stopped:
		}
		select {
		case <-o.done: // answered just before the end
			return o.err
		default:
			return ErrClosed
		}
	}
}

// run is the writer: the only goroutine that changes primary data. It ends when Close was called and the queue is
// empty.
func (s *Store) run() {
	defer close(s.stopped)
	for {
		var first *op
		select {
		case first = <-s.ops:
		case <-s.closing:
			select {
			case first = <-s.ops:
			default:
				return
			}
		}
		group, next := s.collect(first)
		s.commit(group)
		if next != nil {
			s.runAlone(next)
		}
	}
}

// collect takes what is waiting, up to a bound or an operation that must run alone.
func (s *Store) collect(first *op) (group []*op, alone *op) {
	if first.alone != nil {
		return nil, first
	}
	group = []*op{first}
	for bytes := first.bytes; len(group) < maxGroupOps && bytes < maxGroupBytes; {
		select {
		case o := <-s.ops:
			if o.alone != nil {
				return group, o
			}
			group = append(group, o)
			bytes += o.bytes
		default:
			return group, nil
		}
	}
	return group, nil
}

func (s *Store) runAlone(o *op) {
	if o.err = s.gate.check(); o.err == nil {
		o.err = o.alone()
	}
	close(o.done)
}

// stage gathers what a group changes, before anything of it is written.
type stage struct {
	s       *Store
	batch   *leveldb.Batch
	next    state // the state after the group; rev and finalising are not used
	added   map[common.Hash]addedBlock
	removed map[common.Hash]bool
	records []placed
	heights map[uint64]common.Hash // of records
	sealed  int                    // segments sealed by the group
	final   map[common.Hash][]byte // encoded blocks that leave the reversible ones for a segment
}

type addedBlock struct {
	reversible
	payload []byte
}

func (s *Store) newStage() *stage {
	next := s.state // only this goroutine changes it
	next.rev, next.finalising = nil, nil
	return &stage{
		s: s, batch: new(leveldb.Batch), next: next,
		added: make(map[common.Hash]addedBlock), removed: make(map[common.Hash]bool),
		heights: make(map[uint64]common.Hash), final: make(map[common.Hash][]byte),
	}
}

// find gives a reversible block as the group will leave it, nil if there is none.
func (st *stage) find(hash common.Hash) *reversible {
	if a, ok := st.added[hash]; ok {
		return &a.reversible
	}
	if st.removed[hash] {
		return nil
	}
	return st.s.rev[hash]
}

// payload gives the encoding of a reversible block.
func (st *stage) payload(r *reversible) ([]byte, error) {
	if a, ok := st.added[r.hash]; ok {
		return a.payload, nil
	}
	b, err := st.s.meta.Get(blockKey(prefixReversible, r.height, r.hash), nil)
	if err != nil {
		return nil, ErrCorrupt{Height: r.height, Cause: err}
	}
	return b, nil
}

func (st *stage) add(a addedBlock) {
	st.added[a.hash] = a
	delete(st.removed, a.hash)
	st.batch.Put(blockKey(prefixReversible, a.height, a.hash), a.payload)
}

func (st *stage) remove(r *reversible) {
	st.leaveReversible(r)
	st.batch.Delete(blockKey(prefixReversible, r.height, r.hash))
}

// leaveReversible takes a block out of the reversible ones. Its encoding stays in the database.
func (st *stage) leaveReversible(r *reversible) {
	delete(st.added, r.hash)
	st.removed[r.hash] = true
}

// isFinal reports whether the group leaves this block irreversible at this height.
func (st *stage) isFinal(height uint64, hash common.Hash) (bool, error) {
	if !st.next.has || height > st.next.lib.Height || height < st.next.lib.First {
		return false, nil
	}
	if h, ok := st.heights[height]; ok {
		return h == hash, nil
	}
	e, err := st.s.entry(height)
	if err != nil {
		return false, err
	}
	return e.Hash == hash, nil
}

// commit makes a group durable and answers its operations.
func (s *Store) commit(group []*op) {
	if len(group) == 0 {
		return
	}
	defer func() {
		for _, o := range group {
			close(o.done)
		}
	}()
	if err := s.gate.check(); err != nil {
		for _, o := range group {
			o.err = err
		}
		return
	}
	start := time.Now()
	st := s.newStage()
	for _, o := range group {
		o.err = o.stage(st)
	}
	if st.batch.Len() == 0 {
		return
	}
	if err := s.persist(st); err != nil {
		err = s.gate.fail("commit", err)
		for _, o := range group {
			if o.err == nil {
				o.err = err
			}
		}
		return
	}
	s.metrics.commits.Inc()
	s.metrics.grouped.Add(float64(len(group)))
	s.metrics.seconds.Observe(time.Since(start).Seconds())
}

// persist writes in the order that makes any prefix harmless: records, then their index, then the one batch that
// moves the LIB over them.
func (s *Store) persist(st *stage) error {
	if len(st.records) > 0 {
		if err := s.persistRecords(st); err != nil {
			return err
		}
		if len(st.final) > 0 {
			s.mu.Lock()
			s.finalising = st.final
			s.mu.Unlock()
		}
	}
	failpoint.Hit("blockstore.meta.commit.before")
	if err := s.meta.Write(st.batch, &opt.WriteOptions{Sync: true}); err != nil {
		return fmt.Errorf("commit to %s: %w", metaDir, err)
	}
	failpoint.Hit("blockstore.meta.commit.after")
	if err := s.writeSuperblock(&st.next, st.sealed > 0); err != nil {
		return err
	}
	s.publish(st)
	if st.sealed > 0 {
		return s.markHashed(s.lib.Height)
	}
	return nil
}

func (s *Store) persistRecords(st *stage) error {
	if err := s.keepActiveName(); err != nil {
		return err
	}
	if err := s.w.append(s.fs, st.records); err != nil {
		return err
	}
	entries := make([]IndexEntry, len(st.records))
	hashes := new(leveldb.Batch)
	var size int
	for i := range st.records {
		entries[i] = st.records[i].entry
		size += len(st.records[i].rec)
		hashes.Put(hashKey(entries[i].Hash, entries[i].Height), nil)
	}
	if err := s.w.writeIndex(s.fs, entries); err != nil {
		return err
	}
	if st.sealed > 0 { // Open completes the index of the active segment only
		if err := s.w.flushIndex(); err != nil {
			return err
		}
	}
	s.metrics.appended.Add(float64(size))
	if err := s.useDerived(func(db *leveldb.DB) error { return db.Write(hashes, nil) }); err != nil {
		return fmt.Errorf("write to %s: %w", derivedDir, err)
	}
	return nil
}

// publish shows a durable group to the readers, to those in other processes after those in this one.
func (s *Store) publish(st *stage) {
	s.show(st)
	if len(st.records) > 0 {
		s.page.publish(s.directory())
	}
}

func (s *Store) show(st *stage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rev := s.rev
	s.state = st.next
	s.rev = rev
	for hash := range st.removed {
		delete(rev, hash)
	}
	for hash, a := range st.added {
		rev[hash] = &reversible{height: a.height, hash: a.hash, parent: a.parent}
	}
}

// indexHashes writes hash -> height for a range of irreversible blocks. Called by Open only.
func (s *Store) indexHashes(from, to uint64) error {
	batch := new(leveldb.Batch)
	for h := from; h <= to; h++ {
		e, err := s.entry(h)
		if err != nil {
			s.log.Error("a damaged block is missing from the hash index; run bornode fsck", zap.Uint64("height", h))
			continue
		}
		batch.Put(hashKey(e.Hash, h), nil)
		if batch.Len() == 4096 {
			if err := s.derived.db.Write(batch, nil); err != nil {
				return err
			}
			batch.Reset()
		}
	}
	return s.derived.db.Write(batch, nil)
}

// markHashed makes all derived data written so far durable and notes that hash -> height is complete up to a height, and
// up to where the index of transactions is: what lies in the journal before these marks is durable when they are.
func (s *Store) markHashed(height uint64) error {
	if !s.hashed {
		return nil // Open did not get as far as completing the hash index
	}
	err := s.useDerived(func(db *leveldb.DB) error {
		marks := new(leveldb.Batch)
		if s.hashing.Load() == nil {
			marks.Put([]byte(keyHashed), binary.BigEndian.AppendUint64(nil, height))
		} else {
			marks.Delete([]byte(keyHashed)) // an empty batch would not be synced
		}
		if s.filling.Load() == nil {
			marks.Put([]byte(keyTxs), binary.BigEndian.AppendUint64(nil, s.advanceIndexed(db)))
		}
		return db.Write(marks, &opt.WriteOptions{Sync: true})
	})
	if isDamage(err) && s.isClosing() && s.gate.check() == nil {
		s.markDerived(damagedForNextStart, err)
		return nil
	}
	if err != nil {
		return s.gate.fail("write to "+derivedDir, err)
	}
	return nil
}
