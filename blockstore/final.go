package blockstore

import (
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// PutReversible stores blocks, parents before children, each on the LIB or on a reversible block (in an empty store:
// on anything). All or none of them are durable when it returns; concurrent calls share one sync. Blocks that are
// already there, reversible or irreversible, are passed over. An error that wraps ErrUnlinked stores nothing.
func (s *Store) PutReversible(blocks []*block.Block) error {
	if len(blocks) == 0 {
		return s.gate.check()
	}
	added := make([]addedBlock, 0, len(blocks))
	size := 0
	for _, b := range blocks {
		payload := b.Received() // the bytes that came are the bytes stored
		if payload == nil {
			payload = b.Encode()
		}
		if len(payload) > maxPayloadBytes {
			return fmt.Errorf("%v has %d bytes, %d allowed", b, len(payload), maxPayloadBytes)
		}
		size += len(payload)
		added = append(added, addedBlock{reversible{b.Number(), b.Hash(), b.Parent()}, payload})
	}
	err := s.submit(&op{bytes: size, stage: func(st *stage) error { return st.putReversible(added) }})()
	if err == nil {
		for i, b := range blocks {
			s.blocks.put(b, len(added[i].payload))
			s.headers.Add(added[i].hash, b.SealedHeader)
		}
	}
	return err
}

func (st *stage) putReversible(blocks []addedBlock) error {
	fresh := make(map[common.Hash]uint64, len(blocks))
	var todo []addedBlock
	for _, a := range blocks {
		if _, twice := fresh[a.hash]; twice || st.find(a.hash) != nil {
			continue
		}
		final, err := st.isFinal(a.height, a.hash)
		if err != nil {
			return err
		}
		if final {
			continue
		}
		parentHeight, linked := fresh[a.parent]
		if p := st.find(a.parent); p != nil {
			parentHeight, linked = p.height, true
		} else if st.next.has && a.parent == st.next.lib.Hash {
			parentHeight, linked = st.next.lib.Height, true
		}
		switch {
		case linked && a.height != parentHeight+1:
			return fmt.Errorf("%w: block %d %s has a parent of height %d", ErrUnlinked, a.height, a.hash, parentHeight)
		case !linked && st.next.has:
			return fmt.Errorf("%w: the parent of block %d %s is neither block %d nor reversible", ErrUnlinked, a.height, a.hash, st.next.lib.Height)
		}
		fresh[a.hash] = a.height
		todo = append(todo, a)
	}
	for _, a := range todo {
		st.add(a)
	}
	return nil
}

// Finalize makes reversible blocks irreversible, deletes losing ones and keeps the proof, in one commit that a crash
// leaves whole or undone. f.Hashes continue the LIB one by one; hashes that are irreversible already are passed over.
// With no hashes it only deletes and keeps the proof. A nil certificate or root leaves the stored one. f.Drop of
// blocks that are not reversible here are passed over. In an empty store the first hash becomes the first block.
func (s *Store) Finalize(f block.FinalUpdate) error {
	dropped := s.transactionsOf(f.Drop)
	err := s.submit(&op{stage: func(st *stage) error { return st.finalize(f) }})()
	if err == nil {
		err = s.forgetTransactions(dropped)
	}
	return err
}

func (st *stage) finalize(f block.FinalUpdate) error {
	items := make([]finalBlock, 0, len(f.Hashes))
	for _, hash := range f.Hashes {
		r := st.find(hash)
		if r == nil {
			height, known, err := st.finalHeight(hash)
			if err != nil {
				return err
			}
			if !known {
				return fmt.Errorf("make block %s irreversible: %w", hash, ErrNotFound)
			}
			items = append(items, finalBlock{height: height, hash: hash})
			continue
		}
		payload, err := st.payload(r)
		if err != nil {
			return err
		}
		items = append(items, finalBlock{height: r.height, hash: hash, parent: r.parent, payload: payload})
	}
	return st.moveLIB(items, f)
}

// finalHeight finds a block that the group leaves irreversible.
func (st *stage) finalHeight(hash common.Hash) (uint64, bool, error) {
	for h, x := range st.heights {
		if x == hash {
			return h, true, nil
		}
	}
	return st.s.finalHeight(hash)
}

// AppendFinal appends certified blocks that need not have been reversible here, oldest first, continuing the LIB; f
// holds the proof for the last of them (f.Hashes may be empty, else its last is the last block). It returns when they
// are durable. Blocks that are irreversible already are passed over.
func (s *Store) AppendFinal(blocks []*block.Block, f block.FinalUpdate) error {
	return s.AppendFinalAsync(blocks, f)()
}

// AppendFinalAsync queues the same and returns; wait returns when it is durable, with its result, and may be called
// from any goroutine, or never. Operations take effect in the order of the calls, and what is waiting shares one sync.
// The blocks can be read when they are durable, not before. A crash loses only a suffix of what was not waited for.
// At most a bounded number of operations wait; beyond it the call blocks.
func (s *Store) AppendFinalAsync(blocks []*block.Block, f block.FinalUpdate) (wait func() error) {
	refuse := func(err error) func() error { return func() error { return err } }
	if err := s.gate.check(); err != nil {
		return refuse(err)
	}
	items := make([]finalBlock, 0, len(blocks))
	size := 0
	for _, b := range blocks {
		rec, err := encodeRecord(b)
		if err != nil {
			return refuse(err)
		}
		size += len(rec)
		items = append(items, finalBlock{height: b.Number(), hash: b.Hash(), parent: b.Parent(), rec: rec})
	}
	if n := len(f.Hashes); n > 0 && (len(blocks) == 0 || f.Hashes[n-1] != blocks[len(blocks)-1].Hash()) {
		return refuse(fmt.Errorf("append irreversible blocks: the proof is for %s, which is not the last block", f.Hashes[n-1]))
	}
	return s.submit(&op{bytes: size, stage: func(st *stage) error { return st.moveLIB(items, f) }})
}

// Sync returns when all operations queued before it are durable.
func (s *Store) Sync() error {
	return s.submit(&op{alone: func() error { return nil }})()
}

// finalBlock is a block that becomes irreversible: rec, or payload if the record is still to be made; neither if it
// is known to be irreversible already.
type finalBlock struct {
	height       uint64
	hash, parent common.Hash
	rec, payload []byte
}

// moveLIB checks that the blocks continue the LIB, then stages everything: after the checks nothing can fail.
func (st *stage) moveLIB(items []finalBlock, f block.FinalUpdate) error {
	todo := items[:0:0]
	has, height, hash := st.next.has, st.next.lib.Height, st.next.lib.Hash
	for _, it := range items {
		if st.next.has && it.height <= st.next.lib.Height {
			same, err := st.isFinal(it.height, it.hash)
			if err != nil {
				return err
			}
			if !same {
				return fmt.Errorf("%w: block %d %s is not the irreversible block of that height", ErrUnlinked, it.height, it.hash)
			}
			continue
		}
		if has && (it.height != height+1 || it.parent != hash) {
			return fmt.Errorf("%w: block %d %s does not follow block %d %s", ErrUnlinked, it.height, it.hash, height, hash)
		}
		has, height, hash = true, it.height, it.hash
		todo = append(todo, it)
	}
	before := st.next.lib
	hadLIB := st.next.has
	for i, it := range todo {
		st.place(it, i == len(todo)-1)
	}
	if len(todo) > 0 && hadLIB { // the copy of the LIB before
		st.batch.Delete(blockKey(prefixReversible, before.Height, before.Hash))
	}
	for _, hash := range f.Drop {
		if r := st.find(hash); r != nil {
			st.remove(r)
		}
	}
	if len(todo) > 0 {
		st.batch.Put([]byte(keyLIB), mustRLP(&st.next.lib))
	}
	st.keepProof(f)
	return nil
}

// place gives a block its place in the active segment or begins a new one. The last block of a commit, the LIB, has its
// encoding left in the database until the next one is there: a start needs this block before it can ask a peer for it.
func (st *stage) place(it finalBlock, last bool) {
	if it.rec == nil {
		it.rec = recordOf(it.height, it.hash, it.payload)
	}
	lib := &st.next.lib
	size := uint64(len(it.rec))
	switch {
	case !st.next.has:
		st.next.has = true
		*lib = libMeta{First: it.height, Generation: 1, Segment: 1, SegmentFirst: it.height, End: segmentHeaderBytes}
	case lib.End > segmentHeaderBytes && lib.End+size > uint64(st.s.cfg.SegmentBytes): //nolint:gosec // validated
		m := segmentMeta{First: lib.SegmentFirst, Last: lib.Height, Size: lib.End}
		st.batch.Put(segmentKey(lib.Segment), mustRLP(&m))
		st.next.sealed = append(slices.Clip(st.next.sealed), sealedSegment(lib.Segment, m))
		st.sealed++
		lib.Segment, lib.SegmentFirst, lib.End = lib.Segment+1, it.height, segmentHeaderBytes
	}
	st.records = append(st.records, placed{rec: it.rec, entry: IndexEntry{
		Height: it.height, Hash: it.hash, Segment: lib.Segment, Length: uint32(size - recordHeaderBytes), //nolint:gosec // bounded
		Offset: lib.End,
	}})
	st.heights[it.height] = it.hash
	lib.End += size
	lib.Height, lib.Hash = it.height, it.hash
	r := st.find(it.hash)
	if r != nil {
		st.leaveReversible(r)
		st.final[it.hash] = it.rec[recordHeaderBytes:]
	}
	switch key := blockKey(prefixReversible, it.height, it.hash); {
	case r != nil && !last:
		st.batch.Delete(key)
	case r == nil && last:
		st.batch.Put(key, it.rec[recordHeaderBytes:])
	}
}

func (st *stage) keepProof(f block.FinalUpdate) {
	if f.QC != nil {
		st.next.qc = f.QC
		st.batch.Put([]byte(keyQC), f.QC.Encode())
	}
	if f.FC != nil {
		st.next.fc = f.FC
		st.batch.Put([]byte(keyFC), f.FC.Encode())
	}
	if f.Root != nil {
		st.next.root = slices.Clone(f.Root)
		st.batch.Put([]byte(keyRoot), f.Root)
	}
}
