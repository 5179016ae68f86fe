package evidence

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/proof"
)

// Witness is what this broker says of a topic's checkpoints, to clients to whom another broker showed one of them.
type Witness struct {
	Replica  bool       // it keeps the topic, and compares; else the rest is empty
	Seq      uint64     // the newest checkpoint that agrees with its log; 0: none
	Root     proof.Hash // of that
	Pending  []uint64   // checkpoints that are not compared yet, oldest first
	Disputes [][]byte   // proof.Dispute: those that are not what its log gives, oldest first
}

// Witness tells what this broker found of a topic's checkpoints.
func (e *Evidence) Witness(topic [32]byte) (w Witness, err error) {
	t, ok := e.deps.Ledger.Topic(topic)
	if e.off() || !ok || !e.keeps(&t) {
		return w, nil
	}
	// Disputes are read last: what is neither waiting nor disputed then was compared.
	w.Replica = true
	if w.Seq, w.Root, err = e.agreed(topic); err != nil && !errors.Is(err, ErrNotProved) {
		return w, err
	}
	err = e.scan(keyPending, topic, func(key, _ []byte) bool {
		w.Pending = append(w.Pending, binary.BigEndian.Uint64(key[33:]))
		return len(w.Pending) < maxPending
	})
	if err != nil {
		return w, err
	}
	return w, e.scan(keyDispute, topic, func(_, value []byte) bool {
		w.Disputes = append(w.Disputes, append([]byte(nil), value...))
		return len(w.Disputes) < keepDisputes
	})
}

// scan reads what the database keeps of a topic under a letter, until f has enough.
func (e *Evidence) scan(letter byte, topic [32]byte, f func(key, value []byte) bool) error {
	it := e.db.NewIterator(util.BytesPrefix(append([]byte{letter}, topic[:]...)), nil)
	defer it.Release()
	for it.Next() && f(it.Key(), it.Value()) {
	}
	return it.Error()
}

func disputeKey(d *proof.Dispute) []byte {
	return binary.BigEndian.AppendUint32(seqKey(keyDispute, d.Topic, d.Seq), uint32(d.Partition+1)) //nolint:gosec // not negative
}

// dispute signs and keeps what this broker says against a checkpoint.
func (e *Evidence) dispute(d *proof.Dispute) error {
	sig, err := e.deps.Sign(d.Digest(e.deps.Chain))
	if err != nil {
		return fmt.Errorf("sign a dispute of checkpoint %d: %w", d.Seq, err)
	}
	if len(sig) != len(d.Signature) {
		return fmt.Errorf("sign a dispute of checkpoint %d: a signature of %d bytes", d.Seq, len(sig))
	}
	copy(d.Signature[:], sig)
	if err := e.db.Put(disputeKey(d), d.Encode(), &opt.WriteOptions{Sync: true}); err != nil {
		return err
	}
	var all [][]byte
	err = e.scan(keyDispute, d.Topic, func(key, _ []byte) bool {
		all = append(all, append([]byte(nil), key...))
		return true
	})
	var w leveldb.Batch
	for len(all) > keepDisputes {
		w.Delete(all[0])
		all = all[1:]
	}
	if err != nil || w.Len() == 0 {
		return err
	}
	return e.db.Write(&w, nil)
}

// disputeWithheld is the dispute of a checkpoint of which nobody shows what it stands for.
func (e *Evidence) disputeWithheld(k watchedKey) {
	v, err := e.db.Get(seqKey(keyPending, k.topic, k.seq), nil)
	if err == nil && len(v) == 8+20+32+8 {
		err = e.dispute(&proof.Dispute{Topic: k.topic, Seq: k.seq, Root: proof.Hash(v[28:60]), Partition: -1, Offset: -1})
	}
	if err != nil {
		e.log.Warn("a checkpoint that nobody explains cannot be disputed; clients are not warned of it", zap.Stringer("topic", common.Hash(k.topic)), zap.Uint64("checkpoint", k.seq), zap.Error(err))
	}
}

// withdraw forgets what was said against a checkpoint that agrees after all.
func (e *Evidence) withdraw(k watchedKey) error {
	var w leveldb.Batch
	err := e.scan(keyDispute, k.topic, func(key, _ []byte) bool {
		if binary.BigEndian.Uint64(key[33:]) == k.seq {
			w.Delete(append([]byte(nil), key...))
		}
		return true
	})
	if err != nil || w.Len() == 0 {
		return err
	}
	return e.db.Write(&w, nil)
}
