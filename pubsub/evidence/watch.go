package evidence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/proof"
)

// headsRecord is a checkpoint with the heads behind it. Height 0: it is not final yet.
type headsRecord struct {
	Height uint64
	Broker common.Address
	Root   proof.Hash
	Heads  []proof.Head
}

const headsFixed = 8 + 20 + 32

func (r *headsRecord) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, headsFixed+len(r.Heads)*proof.HeadBytes), r.Height)
	b = append(append(b, r.Broker[:]...), r.Root[:]...)
	for i := range r.Heads {
		b = r.Heads[i].Append(b)
	}
	return b
}

func decodeHeads(b []byte) (*headsRecord, error) {
	if len(b) < headsFixed || (len(b)-headsFixed)%proof.HeadBytes != 0 || len(b) > headsFixed+proof.MaxPartitions*proof.HeadBytes {
		return nil, fmt.Errorf("heads of a checkpoint in %d bytes", len(b))
	}
	r := &headsRecord{Height: binary.BigEndian.Uint64(b), Broker: common.Address(b[8:28]), Root: proof.Hash(b[28:60])}
	for b = b[headsFixed:]; len(b) > 0; b = b[proof.HeadBytes:] {
		h, err := proof.DecodeHead(b)
		if err != nil {
			return nil, err
		}
		r.Heads = append(r.Heads, h)
	}
	return r, nil
}

// headsKey has the root in it: a notary may make a checkpoint anew under the same number while the first one is on its way.
func headsKey(topic [32]byte, seq uint64, root proof.Hash) []byte {
	return append(seqKey(keyHeads, topic, seq), root[:8]...)
}

// heads are those behind a checkpoint, as kept here.
func (e *Evidence) heads(topic [32]byte, seq uint64, root proof.Hash) (*headsRecord, error) {
	v, err := e.db.Get(headsKey(topic, seq, root), nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return nil, fmt.Errorf("checkpoint %d of topic %x: %w", seq, topic[:8], ErrUnknown)
	}
	if err != nil {
		return nil, err
	}
	return decodeHeads(v)
}

// Final is told of the checkpoints in each block that became final, in order. They are kept until they were compared.
func (e *Evidence) Final(height uint64, list []proof.Checkpointed) error {
	if len(list) == 0 || e.off() {
		return nil
	}
	var w leveldb.Batch
	for i := range list {
		c := &list[i]
		v := binary.BigEndian.AppendUint64(nil, height)
		v = append(append(v, c.Broker[:]...), c.Root[:]...)
		w.Put(seqKey(keyPending, c.Topic, c.Seq), binary.BigEndian.AppendUint64(v, c.Leaves))
	}
	if err := e.db.Write(&w, nil); err != nil {
		return fmt.Errorf("note the checkpoints of block %d: %w", height, err)
	}
	for i := range list {
		e.watched.add(watchedKey{list[i].Topic, list[i].Seq})
	}
	return nil
}

type watchedKey struct {
	topic [32]byte
	seq   uint64
}

// watcher compares final checkpoints with the trees here.
type watcher struct {
	e    *Evidence
	kick chan struct{}

	mu    sync.Mutex
	tries map[watchedKey]int
	told  map[watchedKey]bool // an alarm was raised; it is compared all the same once it can be
}

func newWatcher(e *Evidence) (*watcher, error) {
	w := &watcher{e: e, kick: make(chan struct{}, 1), tries: map[watchedKey]int{}, told: map[watchedKey]bool{}}
	it := e.db.NewIterator(util.BytesPrefix([]byte{keyPending}), nil)
	defer it.Release()
	for it.Next() && len(w.tries) < maxWatched {
		w.tries[watchedKey{[32]byte(it.Key()[1:33]), binary.BigEndian.Uint64(it.Key()[33:])}] = 0
	}
	return w, it.Error()
}

func (w *watcher) add(k watchedKey) {
	w.mu.Lock()
	if len(w.tries) < maxWatched {
		w.tries[k] = 0
	} // others are read from the database when the program starts again
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(retryLeast)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.kick:
		}
		w.mu.Lock()
		todo := make([]watchedKey, 0, len(w.tries))
		for k := range w.tries {
			todo = append(todo, k)
		}
		w.mu.Unlock()
		for _, k := range todo {
			if ctx.Err() != nil {
				return
			}
			w.one(ctx, k)
		}
	}
}

// one compares one checkpoint and forgets it when that is settled either way.
func (w *watcher) one(ctx context.Context, k watchedKey) {
	done, err := w.e.compare(ctx, k)
	w.mu.Lock()
	defer w.mu.Unlock()
	if done {
		delete(w.tries, k)
		delete(w.told, k)
		if err := w.e.db.Delete(seqKey(keyPending, k.topic, k.seq), nil); err != nil {
			w.e.log.Warn("a compared checkpoint cannot be forgotten; it is compared once more after a restart", topicFields(k.topic, err)...)
		}
		return
	}
	w.tries[k]++
	if w.tries[k] == compareTries {
		w.e.log.Warn("a checkpoint waits to be compared with the log here", append(topicFields(k.topic, err), zap.Uint64("checkpoint", k.seq))...)
	}
	if w.tries[k] >= compareTries && errors.Is(err, errWithheld) && !w.told[k] {
		w.told[k] = true
		w.e.alarm(Alarm{Topic: k.topic, Partition: -1, Offset: -1, Seq: k.seq, Text: "no broker shows what its checkpoint stands for"})
		w.e.disputeWithheld(k)
	}
}

var (
	errWithheld = errors.New("no broker has the heads behind the checkpoint")
	errBehind   = errors.New("the log here is behind the checkpoint")
)

// compare settles a checkpoint: it agrees, or there is an alarm. Not settled: the reason.
func (e *Evidence) compare(ctx context.Context, k watchedKey) (done bool, err error) {
	v, err := e.db.Get(seqKey(keyPending, k.topic, k.seq), nil)
	if err != nil || len(v) != 8+20+32+8 {
		return true, err
	}
	c := proof.Checkpointed{Topic: k.topic, Seq: k.seq, Broker: common.Address(v[8:28]), Root: proof.Hash(v[28:60]), Leaves: binary.BigEndian.Uint64(v[60:])}
	topic, ok := e.deps.Ledger.Topic(k.topic)
	if !ok || !e.keeps(&topic) {
		return true, nil
	}
	r, err := e.headsOf(ctx, &topic, &c)
	if err != nil {
		return false, err
	}
	agreed := true
	for p := range r.Heads {
		same, err := e.compareHead(ctx, &r.Heads[p], &c)
		if err != nil {
			return false, err
		}
		agreed = agreed && same
	}
	r.Height, r.Broker = binary.BigEndian.Uint64(v), c.Broker
	if err := e.db.Put(headsKey(k.topic, k.seq, c.Root), r.encode(), &opt.WriteOptions{Sync: true}); err != nil {
		return false, err
	}
	if agreed {
		e.m.compared.Inc()
		if err := e.withdraw(k); err != nil {
			return false, err
		}
		return true, e.agree(k, c.Root)
	}
	return true, nil
}

// keeps reports whether this broker is a replica of some partition.
func (e *Evidence) keeps(t *Topic) bool {
	for p := range t.Partitions {
		if _, _, ok := e.deps.Log.Bounds(ID{t.ID, int32(p)}); ok {
			return true
		}
	}
	return false
}

// headsOf finds the heads behind a checkpoint: here, or with the notary and the other brokers.
func (e *Evidence) headsOf(ctx context.Context, t *Topic, c *proof.Checkpointed) (*headsRecord, error) {
	fits := func(r *headsRecord) bool {
		root, leaves, err := proof.TopicRoot(r.Heads)
		return err == nil && root == c.Root && uint64(leaves) == c.Leaves && r.Heads[0].Topic == c.Topic
	}
	if r, err := e.heads(c.Topic, c.Seq, c.Root); err == nil && fits(r) {
		return r, nil
	}
	asked := map[string]bool{e.deps.Self: true, "": true}
	q := append(seqKey(0, c.Topic, c.Seq)[1:], c.Root[:]...)
	for p := range t.Partitions {
		x := &t.Partitions[p]
		for _, peer := range append([]string{x.Leader}, x.Replicas...) {
			if asked[peer] {
				continue
			}
			asked[peer] = true
			if a, err := e.deps.Peers.Ask(ctx, peer, AskCheckpoint, q); err == nil {
				if r, err := decodeHeads(a); err == nil && fits(r) {
					r.Root = c.Root
					return r, nil
				}
			}
		}
	}
	return nil, errWithheld
}

// compareHead compares one head with the tree here, if this broker keeps the partition.
func (e *Evidence) compareHead(ctx context.Context, h *proof.Head, c *proof.Checkpointed) (same bool, err error) {
	id := ID{h.Topic, h.Partition}
	if _, _, ok := e.deps.Log.Bounds(id); !ok {
		return true, nil
	}
	own, err := e.trees.head(id)
	if err != nil {
		return false, err
	}
	if own.Leaves < h.Leaves {
		e.trees.committed(id)
		return false, errBehind
	}
	if own, err = e.trees.headAt(id, h.Leaves); err != nil {
		return false, err
	}
	fork := own.CheckConsistent(h, nil)
	if fork == nil {
		return true, nil
	}
	offset := e.firstDifference(ctx, id, h, c.Seq)
	where := fmt.Sprintf("from offset %d on", offset)
	if offset < 0 {
		where = "at an offset that its leader does not show"
	}
	e.alarm(Alarm{Topic: id.Topic, Partition: id.Partition, Offset: offset, Seq: c.Seq,
		Text: fmt.Sprintf("the checkpoint of broker %s and the log here differ %s (%v)", c.Broker, where, fork)})
	return false, e.dispute(&proof.Dispute{Topic: id.Topic, Seq: c.Seq, Root: c.Root, Partition: id.Partition, Offset: offset, Own: own})
}

// firstDifference is the offset of the first leaf that the leader shows and that is another here; -1: it shows none. It is
// looked for behind the newest checkpoint that agreed, then before it: a leader may change what was bound long ago.
func (e *Evidence) firstDifference(ctx context.Context, id ID, h *proof.Head, seq uint64) int64 {
	bound := int64(0)
	if last, root, err := e.agreed(id.Topic); err == nil && last < seq {
		if r, err := e.heads(id.Topic, last, root); err == nil && int(id.Partition) < len(r.Heads) {
			bound = r.Heads[id.Partition].Leaves
		}
	}
	offset := e.differs(ctx, id, bound, h.Leaves)
	if offset < 0 {
		offset = e.differs(ctx, id, max(0, bound-maxSearched), bound)
	}
	return offset
}

// differs compares the leaves [from, to) with those that the partition's leader shows.
func (e *Evidence) differs(ctx context.Context, id ID, from, to int64) int64 {
	t, _ := e.deps.Ledger.Topic(id.Topic)
	if int(id.Partition) >= len(t.Partitions) {
		return -1
	}
	for from < to && ctx.Err() == nil {
		theirs, err := e.askLeaves(ctx, t.Partitions[id.Partition].Leader, id, from, int(min(to-from, maxAskLeaves)))
		if err != nil || len(theirs) == 0 {
			return -1
		}
		ours, err := e.trees.leaves(id, from, from+int64(len(theirs)))
		if err != nil {
			return -1
		}
		for i := range ours {
			if ours[i] != theirs[i] {
				return ours[i].Base
			}
		}
		from += int64(len(theirs))
	}
	return -1
}

func agreedKey(topic [32]byte) []byte { return append([]byte{keyAgreed}, topic[:]...) }

// agreed is the newest checkpoint of a topic that agrees with the trees here.
func (e *Evidence) agreed(topic [32]byte) (seq uint64, root proof.Hash, err error) {
	v, err := e.db.Get(agreedKey(topic), nil)
	if errors.Is(err, leveldb.ErrNotFound) || err == nil && len(v) != 8+32 {
		return 0, root, fmt.Errorf("topic %x has no checkpoint that agrees: %w", topic[:8], ErrNotProved)
	}
	if err != nil {
		return 0, root, err
	}
	return binary.BigEndian.Uint64(v), proof.Hash(v[8:]), nil
}

// agree notes that a checkpoint agrees, and forgets the heads of old ones: proofs are made under the newest.
func (e *Evidence) agree(k watchedKey, root proof.Hash) error {
	if last, _, err := e.agreed(k.topic); err == nil && last >= k.seq {
		return nil
	}
	var w leveldb.Batch
	w.Put(agreedKey(k.topic), append(binary.BigEndian.AppendUint64(nil, k.seq), root[:]...))
	if k.seq > keepHeads {
		low := k.seq - keepHeads
		it := e.db.NewIterator(&util.Range{Start: seqKey(keyHeads, k.topic, 0), Limit: seqKey(keyHeads, k.topic, low)}, nil)
		defer it.Release()
		for it.Next() {
			w.Delete(it.Key())
		}
		if err := it.Error(); err != nil {
			return err
		}
	}
	return e.db.Write(&w, nil)
}
