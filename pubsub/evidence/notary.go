package evidence

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/proof"
)

// notary makes the checkpoints of the topics whose first partition this broker leads.
func (e *Evidence) notary(ctx context.Context) {
	tick := time.NewTicker(e.cfg.Checkpoint)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var topics []Topic
		for _, t := range e.deps.Ledger.Topics() {
			if len(t.Partitions) > 0 && t.Partitions[0].Leader == e.deps.Self && !e.out.sending(t.ID) {
				topics = append(topics, t)
			}
		}
		e.round(ctx, topics)
	}
}

// round gathers the heads of all partitions and queues the checkpoints.
func (e *Evidence) round(ctx context.Context, topics []Topic) {
	foreign := map[string][]ID{} // by leader
	accounts := map[string]common.Address{}
	for i := range topics {
		for p := range topics[i].Partitions {
			if x := &topics[i].Partitions[p]; x.Leader != e.deps.Self {
				foreign[x.Leader] = append(foreign[x.Leader], ID{topics[i].ID, int32(p)})
				accounts[x.Leader] = x.Account
			}
		}
	}
	heads := map[ID]proof.Head{}
	for leader, ids := range foreign {
		for len(ids) > 0 {
			n := min(len(ids), maxAskHeads)
			if err := e.askHeads(ctx, leader, accounts[leader], ids[:n], heads); err != nil {
				e.log.Debug("a leader gives no heads; its topics get their checkpoints later", zap.String("broker", leader), zap.Error(err))
				break
			}
			ids = ids[n:]
		}
	}
	for i := range topics {
		if ctx.Err() != nil {
			return
		}
		if err := e.checkpoint(ctx, &topics[i], heads); err != nil {
			e.log.Warn("a topic gets no checkpoint now; it is tried again in the next interval", topicFields(topics[i].ID, err)...)
		}
	}
}

// checkpoint queues one where the topic grew.
func (e *Evidence) checkpoint(ctx context.Context, t *Topic, foreign map[ID]proof.Head) error {
	heads := make([]proof.Head, len(t.Partitions))
	grown := false
	for p := range t.Partitions {
		id := ID{t.ID, int32(p)}
		h, ok := foreign[id]
		if t.Partitions[p].Leader == e.deps.Self {
			var err error
			if h, err = e.trees.head(id); err != nil {
				return err
			}
		} else if !ok {
			return nil // its leader is not there: next time
		}
		heads[p] = h
		grown = grown || h.Leaves > 0
	}
	if !grown {
		return nil
	}
	root, leaves, err := proof.TopicRoot(heads)
	if err != nil {
		return err
	}
	mark, err := e.deps.Ledger.Mark(ctx, t.ID)
	if err != nil {
		return err
	}
	if uint64(leaves) <= mark.Leaves {
		return nil // nothing new, or a new leader whose tree is not complete yet
	}
	if err := e.notBehind(t.ID, mark, heads); err != nil {
		return err
	}
	rec := headsRecord{Root: root, Heads: heads}
	if err := e.db.Put(headsKey(t.ID, mark.Seq+1, root), rec.encode(), &opt.WriteOptions{Sync: false}); err != nil {
		return err
	}
	e.out.checkpoint(contracts.Checkpoint{Topic: t.ID, Seq: mark.Seq + 1, Root: root, Leaves: uint64(leaves)})
	return nil
}

// notBehind refuses heads that are smaller than those of the checkpoint before.
func (e *Evidence) notBehind(topic [32]byte, mark Mark, heads []proof.Head) error {
	before, err := e.heads(topic, mark.Seq, mark.Root)
	if err != nil {
		return nil //nolint:nilerr // not kept here: other brokers compare
	}
	for p := range before.Heads {
		if p < len(heads) && heads[p].Leaves < before.Heads[p].Leaves {
			return fmt.Errorf("partition %d has %d leaves, %d in checkpoint %d", p, heads[p].Leaves, before.Heads[p].Leaves, mark.Seq)
		}
	}
	return nil
}

// askHeads asks a leader for the heads of its partitions; the answer is signed by its account.
func (e *Evidence) askHeads(ctx context.Context, leader string, account common.Address, ids []ID, out map[ID]proof.Head) error {
	var q []byte
	for _, id := range ids {
		q = binary.BigEndian.AppendUint32(append(q, id.Topic[:]...), uint32(id.Partition))
	}
	a, err := e.deps.Peers.Ask(ctx, leader, AskHeads, q)
	if err != nil {
		return err
	}
	if len(a) < crypto.SignatureLength || (len(a)-crypto.SignatureLength)%proof.HeadBytes != 0 || len(a) > crypto.SignatureLength+len(ids)*proof.HeadBytes {
		return fmt.Errorf("heads in %d bytes", len(a))
	}
	list, signature := make([]proof.Head, 0, len(ids)), a[len(a)-crypto.SignatureLength:]
	for a = a[:len(a)-crypto.SignatureLength]; len(a) > 0; a = a[proof.HeadBytes:] {
		h, err := proof.DecodeHead(a)
		if err != nil {
			return err
		}
		list = append(list, h)
	}
	if len(list) == 0 {
		return nil // it leads none of them any more
	}
	signed, err := proof.NewHeads(list)
	if err != nil {
		return err
	}
	who, err := proof.Signer(signed.Digest(e.deps.Chain), signature)
	if err != nil {
		return err
	}
	if who != account {
		return fmt.Errorf("heads are signed by %s, the leader is %s", who, account)
	}
	wanted := make(map[ID]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	for i, h := range list {
		id := ID{h.Topic, h.Partition}
		if !wanted[id] {
			continue
		}
		out[id] = h
		if err := e.keepSigned(signed, i, signature, account); err != nil {
			return err
		}
	}
	return nil
}

// Answer answers a question of another broker: one of AskHeads, AskLeaves, AskCheckpoint.
func (e *Evidence) Answer(_ context.Context, kind uint8, q []byte) ([]byte, error) {
	if e.off() { // its trees stand still: nobody may take them for the log
		return nil, ErrOff
	}
	switch kind {
	case AskHeads:
		return e.answerHeads(q)
	case AskLeaves:
		return e.answerLeaves(q)
	case AskCheckpoint:
		if len(q) != 32+8+32 {
			return nil, fmt.Errorf("question of %d bytes", len(q))
		}
		r, err := e.heads([32]byte(q), binary.BigEndian.Uint64(q[32:]), proof.Hash(q[40:]))
		if err != nil {
			return nil, err
		}
		return r.encode(), nil
	}
	return nil, fmt.Errorf("questions of kind %d are not known", kind)
}

func (e *Evidence) answerHeads(q []byte) ([]byte, error) {
	if len(q)%36 != 0 || len(q) > 36*maxAskHeads {
		return nil, fmt.Errorf("question of %d bytes", len(q))
	}
	var list []proof.Head
	for ; len(q) > 0; q = q[36:] {
		id := ID{[32]byte(q), int32(binary.BigEndian.Uint32(q[32:]))}
		if t, ok := e.deps.Ledger.Topic(id.Topic); !ok || id.Partition < 0 || int(id.Partition) >= len(t.Partitions) || t.Partitions[id.Partition].Leader != e.deps.Self {
			continue
		}
		h, err := e.trees.head(id)
		if err != nil {
			return nil, err
		}
		list = append(list, h)
	}
	if len(list) == 0 {
		return make([]byte, crypto.SignatureLength), nil
	}
	signed, err := proof.NewHeads(list)
	if err != nil {
		return nil, err
	}
	sig, err := e.deps.Sign(signed.Digest(e.deps.Chain))
	if err != nil {
		return nil, err
	}
	var out []byte
	for i := range list {
		out = list[i].Append(out)
	}
	return append(out, sig...), nil
}

func leavesQuestion(id ID, from int64, count int) []byte {
	q := binary.BigEndian.AppendUint32(append([]byte(nil), id.Topic[:]...), uint32(id.Partition))
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(q, uint64(from)), uint32(count))
}

func (e *Evidence) answerLeaves(q []byte) ([]byte, error) {
	if len(q) != 48 {
		return nil, fmt.Errorf("question of %d bytes", len(q))
	}
	id := ID{[32]byte(q), int32(binary.BigEndian.Uint32(q[32:]))}
	from, n := int64(binary.BigEndian.Uint64(q[36:])), int64(min(binary.BigEndian.Uint32(q[44:]), maxAskLeaves))
	if id.Partition < 0 || from < 0 || from > proof.MaxLeaves {
		return nil, fmt.Errorf("leaves from %d of partition %d", from, id.Partition)
	}
	list, err := e.trees.leaves(id, from, from+n)
	if err != nil {
		return nil, err
	}
	var out []byte
	for i := range list {
		out = list[i].Append(out)
	}
	return out, nil
}

// askLeaves asks one broker for consecutive leaves from a number on.
func (e *Evidence) askLeaves(ctx context.Context, peer string, id ID, from int64, count int) ([]proof.Leaf, error) {
	a, err := e.deps.Peers.Ask(ctx, peer, AskLeaves, leavesQuestion(id, from, count))
	if err != nil {
		return nil, err
	}
	if len(a)%proof.LeafBytes != 0 || len(a) > maxAskLeaves*proof.LeafBytes {
		return nil, fmt.Errorf("leaves in %d bytes", len(a))
	}
	var out []proof.Leaf
	for ; len(a) > 0; a = a[proof.LeafBytes:] {
		l, err := proof.DecodeLeaf(a)
		if err != nil {
			return nil, err
		}
		if len(out) > 0 && l.Base != out[len(out)-1].Next() {
			return nil, fmt.Errorf("leaf of offset %d behind one up to %d", l.Base, out[len(out)-1].Next())
		}
		out = append(out, l)
	}
	return out, nil
}

// fill takes the leaves of batches that retention removed from the log here from the partition's other brokers. The next
// checkpoint shows whether they were true.
func (e *Evidence) fill(ctx context.Context, id ID, gap *gapError) error {
	t, err := e.trees.get(id)
	if err != nil {
		return err
	}
	topic, _ := e.deps.Ledger.Topic(id.Topic)
	if int(id.Partition) >= len(topic.Partitions) {
		return gap
	}
	x := &topic.Partitions[id.Partition]
	for _, peer := range append([]string{x.Leader}, x.Replicas...) {
		if peer == e.deps.Self || peer == "" {
			continue
		}
		for t.next < gap.start {
			leaves, aerr := e.askLeaves(ctx, peer, id, t.edge.Size(), maxAskLeaves)
			if aerr != nil || len(leaves) == 0 || leaves[0].Base != t.next && t.edge.Size() > 0 {
				err = aerr
				break
			}
			for i := range leaves { // the log has the rest
				if leaves[i].Base >= gap.start {
					leaves = leaves[:i]
					break
				}
			}
			if len(leaves) == 0 {
				break // it has nothing of the gap, whatever it says
			}
			if err := e.trees.add(t, leaves, false); err != nil {
				return err
			}
		}
		if t.next >= gap.start {
			return nil
		}
	}
	return fmt.Errorf("%w, and no other broker gave the leaves between; nothing of the partition is proved until one does, or the evidence folder is put back from a copy: %w", gap, errOr(err, ErrUnknown))
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
