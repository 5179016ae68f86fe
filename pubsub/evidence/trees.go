package evidence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/proof"
)

// Keys of the database: a letter, then fields of fixed size.
const (
	keyLeaf    = 'l' // topic, partition, number -> leaf, hashes of level 1 and up that it completed
	keyHeads   = 'h' // topic, seq, start of the root -> heads of a checkpoint
	keyEntry   = 'o' // number -> topic, operation
	keyCommit  = 'c' // -> the commit under way
	keyChain   = 'g' // -> hash of the chain's first block
	keyDone    = 'd' // -> number of the newest commit that was final, account
	keyAgreed  = 'a' // topic -> seq and root of the newest checkpoint that was compared
	keyPending = 'w' // topic, seq -> checkpoint that waits to be compared
	keySigned  = 's' // topic, partition, count of leaves, start of the signer -> signed head of another leader
	keyReport  = 'r' // start of its hash -> report file
	keyDispute = 'x' // topic, seq, partition + 1 -> this broker's signed dispute of a checkpoint
)

func partitionKey(id ID) []byte {
	b := append(make([]byte, 0, 1+32+4+8), keyLeaf)
	return binary.BigEndian.AppendUint32(append(b, id.Topic[:]...), uint32(id.Partition))
}

func leafKey(id ID, n int64) []byte {
	return binary.BigEndian.AppendUint64(partitionKey(id), uint64(n))
}

// tree is one partition's: written by the worker, read by all.
type tree struct {
	id    ID
	mu    sync.Mutex
	edge  proof.Frontier
	next  int64 // offset after the last leaf
	last  []proof.Leaf
	hints []proof.Leaf  // of batches that this broker appended as leader and hashed for their receipts; oldest first
	grown chan struct{} // closed when leaves were added
}

// trees are those of all partitions that this broker keeps or kept.
type trees struct {
	db  *database
	log Log
	m   *metrics

	mu    sync.Mutex
	open  map[ID]*tree
	dirty map[ID]struct{}
	kick  chan struct{}
}

func newTrees(db *database, log Log, m *metrics) *trees {
	return &trees{db: db, log: log, m: m, open: map[ID]*tree{}, dirty: map[ID]struct{}{}, kick: make(chan struct{}, 1)}
}

// committed notes that a partition has more committed batches. It never blocks.
func (s *trees) committed(id ID) {
	s.mu.Lock()
	s.dirty[id] = struct{}{}
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *trees) takeDirty() []ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]ID, 0, len(s.dirty))
	for id := range s.dirty {
		ids = append(ids, id)
	}
	clear(s.dirty)
	return ids
}

// get opens the tree of a partition, as far as the database has it.
func (s *trees) get(id ID) (*tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.open[id]; t != nil {
		return t, nil
	}
	t := &tree{id: id, grown: make(chan struct{})}
	it := s.db.NewIterator(util.BytesPrefix(partitionKey(id)), nil)
	defer it.Release()
	if it.Last() {
		n := int64(binary.BigEndian.Uint64(it.Key()[37:])) + 1
		l, err := proof.DecodeLeaf(it.Value())
		if err != nil {
			return nil, fmt.Errorf("evidence of partition %d of topic %x, leaf %d: %w", id.Partition, id.Topic[:8], n-1, err)
		}
		if t.edge, err = proof.LoadFrontier(n, s.reader(id)); err != nil {
			return nil, err
		}
		t.next = l.Next()
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	if len(s.open) >= maxOpenTrees {
		for other := range s.open { // any: it is opened again when needed
			if _, busy := s.dirty[other]; !busy {
				delete(s.open, other)
				break
			}
		}
	}
	s.open[id] = t
	return t, nil
}

// reader reads the hashes of a tree: leaf n holds those that it completed.
func (s *trees) reader(id ID) tlog.HashReaderFunc {
	return func(at []int64) ([]proof.Hash, error) {
		out := make([]proof.Hash, len(at))
		for i, x := range at {
			level, n := tlog.SplitStoredHashIndex(x)
			v, err := s.db.Get(leafKey(id, (n+1)<<level-1), nil)
			if err != nil {
				return nil, fmt.Errorf("evidence of partition %d of topic %x, hash %d of level %d: %w", id.Partition, id.Topic[:8], n, level, err)
			}
			if level == 0 {
				l, err := proof.DecodeLeaf(v)
				if err != nil {
					return nil, err
				}
				out[i] = l.Hash(id.Topic, id.Partition)
				continue
			}
			from := proof.LeafBytes + 32*(level-1)
			if len(v) < from+32 {
				return nil, fmt.Errorf("evidence of partition %d of topic %x, leaf %d is damaged: remove the evidence directory, it is made again from the log", id.Partition, id.Topic[:8], n)
			}
			out[i] = proof.Hash(v[from : from+32])
		}
		return out, nil
	}
}

var errFull = errors.New("enough for one write")

// gapError says that the log begins above the tree's end.
type gapError struct {
	next, start int64
}

func (e *gapError) Error() string {
	return fmt.Sprintf("the log begins at offset %d, the tree ends at %d", e.start, e.next)
}

// advance adds what is committed of a partition. It gives whether there is more to do, or a *gapError.
func (s *trees) advance(id ID, durable bool) (more bool, err error) {
	t, err := s.get(id)
	if err != nil {
		return false, err
	}
	start, until, ok := s.log.Bounds(id)
	if !ok || until <= t.next {
		return false, nil
	}
	if start > t.next {
		return false, &gapError{t.next, start}
	}
	var leaves []proof.Leaf
	hints := t.takeHints()
	next := t.next
	err = s.log.Batches(id, t.next, until, func(h batch.Header, raw []byte) error {
		if h.BaseOffset != next {
			return &gapError{next, h.BaseOffset}
		}
		leaves = append(leaves, leafOf(&h, raw, hints))
		if next = h.NextOffset(); len(leaves) == maxBatchLeaves {
			return errFull
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFull) && len(leaves) == 0 {
		return false, err
	}
	return next < until, s.add(t, leaves, durable)
}

// hint keeps a leaf that was hashed for a receipt. The batch at a base offset of an epoch is one for ever: its leader gives
// the place once, so that the leaf is that of the log's batch once base and epoch are the same.
func (s *trees) hint(id ID, l proof.Leaf) {
	s.mu.Lock()
	t := s.open[id]
	s.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.hints) >= maxHints { // the worker is behind: it hashes itself
		t.hints = t.hints[:0]
	}
	t.hints = append(t.hints, l)
}

// takeHints gives the hints and forgets those of batches that are in the tree.
func (t *tree) takeHints() []proof.Leaf {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hints = slices.DeleteFunc(t.hints, func(l proof.Leaf) bool { return l.Base < t.next })
	return slices.Clone(t.hints)
}

func leafOf(h *batch.Header, raw []byte, hints []proof.Leaf) proof.Leaf {
	for i := range hints {
		if l := &hints[i]; l.Base == h.BaseOffset && l.Epoch == h.LeaderEpoch && l.Delta == h.LastOffsetDelta && l.Count == h.Count {
			return *l
		}
	}
	return proof.LeafOf(h, batch.Covered(raw))
}

// add stores consecutive leaves and then shows them.
func (s *trees) add(t *tree, leaves []proof.Leaf, durable bool) error {
	edge := t.edge.Clone()
	var w leveldb.Batch
	var value [proof.LeafBytes + 64*32]byte
	for i := range leaves {
		n := edge.Size()
		v := leaves[i].Append(value[:0])
		for _, h := range edge.Append(leaves[i].Hash(t.id.Topic, t.id.Partition))[1:] {
			v = append(v, h[:]...)
		}
		w.Put(leafKey(t.id, n), v)
	}
	if len(leaves) == 0 {
		return nil
	}
	if err := s.db.Write(&w, &opt.WriteOptions{Sync: durable}); err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	s.m.leaves.Add(float64(len(leaves)))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.edge, t.next = edge, leaves[len(leaves)-1].Next()
	t.last = append(t.last, leaves[max(0, len(leaves)-maxRecent):]...)
	if n := len(t.last) - maxRecent; n > 0 {
		t.last = append(t.last[:0], t.last[n:]...)
	}
	close(t.grown)
	t.grown = make(chan struct{})
	return nil
}

// head is the tree as it is.
func (s *trees) head(id ID) (proof.Head, error) {
	t, err := s.get(id)
	if err != nil {
		return proof.Head{}, err
	}
	t.mu.Lock()
	h := proof.Head{Topic: id.Topic, Partition: id.Partition, Leaves: t.edge.Size(), Root: t.edge.Root(), Next: t.next}
	t.mu.Unlock()
	if _, until, ok := s.log.Bounds(id); ok && until > h.Next { // after a restart nobody tells of what was committed before
		s.committed(id)
	}
	return h, nil
}

// headAt is the tree as it was at a size.
func (s *trees) headAt(id ID, size int64) (proof.Head, error) {
	h := proof.Head{Topic: id.Topic, Partition: id.Partition, Leaves: size}
	edge, err := proof.LoadFrontier(size, s.reader(id))
	if err != nil {
		return h, err
	}
	h.Root = edge.Root()
	if size > 0 {
		l, err := s.leaf(id, size-1)
		if err != nil {
			return h, err
		}
		h.Next = l.Next()
	}
	return h, nil
}

func (s *trees) leaf(id ID, n int64) (proof.Leaf, error) {
	v, err := s.db.Get(leafKey(id, n), nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return proof.Leaf{}, fmt.Errorf("leaf %d of partition %d of topic %x: %w", n, id.Partition, id.Topic[:8], ErrUnknown)
	}
	if err != nil {
		return proof.Leaf{}, err
	}
	return proof.DecodeLeaf(v)
}

// leaves reads consecutive leaves [from, to), or fewer where the tree ends.
func (s *trees) leaves(id ID, from, to int64) (out []proof.Leaf, err error) {
	it := s.db.NewIterator(&util.Range{Start: leafKey(id, from), Limit: leafKey(id, to)}, nil)
	defer it.Release()
	for it.Next() {
		l, err := proof.DecodeLeaf(it.Value())
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, it.Error()
}

// find is the number of the leaf that holds an offset, among the first size ones.
func (s *trees) find(id ID, offset, size int64) (int64, error) {
	var failed error
	n := sort.Search(int(size), func(i int) bool {
		l, err := s.leaf(id, int64(i))
		if err != nil && failed == nil {
			failed = err
		}
		return l.Next() > offset
	})
	if failed != nil {
		return 0, failed
	}
	if int64(n) == size || offset < 0 {
		return 0, fmt.Errorf("offset %d of partition %d of topic %x: %w", offset, id.Partition, id.Topic[:8], ErrNotProved)
	}
	return int64(n), nil
}
