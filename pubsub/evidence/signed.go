package evidence

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/bornode/bornode/pubsub/proof"
)

func signedPrefix(id ID) []byte {
	return binary.BigEndian.AppendUint32(append([]byte{keySigned}, id.Topic[:]...), uint32(id.Partition)) //nolint:gosec // not negative
}

// keepSigned keeps what a leader signed, and holds it against what it signed before.
func (e *Evidence) keepSigned(heads *proof.Heads, i int, signature []byte, signer common.Address) error {
	s, err := heads.Signed(i, signature)
	if err != nil || s.Leaves == 0 {
		return err
	}
	id := ID{s.Topic, s.Partition}
	key := append(binary.BigEndian.AppendUint64(signedPrefix(id), uint64(s.Leaves)), signer[:8]...) //nolint:gosec // not negative
	switch v, err := e.db.Get(key, nil); {
	case errors.Is(err, leveldb.ErrNotFound):
	case err != nil:
		return err
	default:
		old, err := proof.DecodeSignedHead(v)
		if err != nil {
			return fmt.Errorf("a signed head that was kept: %w", err)
		}
		if old.Head == s.Head {
			return nil
		}
		return e.accuse(old, s)
	}
	if err := e.db.Put(key, s.Encode(), &opt.WriteOptions{Sync: false}); err != nil {
		return err
	}
	return e.trimSigned(id)
}

// trimSigned forgets the oldest heads of a partition.
func (e *Evidence) trimSigned(id ID) error {
	it := e.db.NewIterator(util.BytesPrefix(signedPrefix(id)), nil)
	defer it.Release()
	var w leveldb.Batch
	n := 0
	for ok := it.Last(); ok; ok = it.Prev() {
		if n++; n > keepSigned {
			w.Delete(it.Key())
		}
	}
	if err := it.Error(); err != nil || w.Len() == 0 {
		return err
	}
	return e.db.Write(&w, nil)
}

// accuse keeps a report where two heads contradict each other, and raises an alarm once.
func (e *Evidence) accuse(a, b *proof.SignedHead) error {
	who, err := proof.ForkedHeads(e.deps.Chain, a, b)
	if !errors.Is(err, proof.ErrForked) {
		return err
	}
	r := proof.Report{Genesis: e.deps.Chain, Kind: proof.TwoHeads, First: a.Encode(), Second: b.Encode()}
	file, err := r.Encode()
	if err != nil {
		return err
	}
	hash := crypto.Keccak256(signedPrefix(ID{a.Topic, a.Partition}), who[:]) // one for a broker and partition
	key := append([]byte{keyReport}, hash[:8]...)
	if known, err := e.db.Has(key, nil); err != nil || known || len(e.Reports()) >= maxReports {
		return err
	}
	if err := e.db.Put(key, file, &opt.WriteOptions{Sync: true}); err != nil {
		return err
	}
	e.alarm(Alarm{Topic: a.Topic, Partition: a.Partition, Offset: -1,
		Text: fmt.Sprintf("broker %s signed two histories of %d batches; borcli topic report writes what shows it", who, a.Leaves)})
	return nil
}

// Reports are the files (proof.Report) that show which brokers lied, at most maxReports.
func (e *Evidence) Reports() [][]byte {
	it := e.db.NewIterator(util.BytesPrefix([]byte{keyReport}), nil)
	defer it.Release()
	var out [][]byte
	for it.Next() {
		out = append(out, append([]byte(nil), it.Value()...))
	}
	return out
}
