package blockstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/syndtr/goleveldb/leveldb"

	"github.com/bornode/bornode/block"
)

// Keys of the meta database (primary data).
//
//	m/format            "2": written once when the store is created
//	m/lib               libMeta
//	m/qc m/fc m/root    proof of the LIB, consensus root
//	m/damaged           heights of the blocks that a repair found damaged and did not restore (RLP)
//	g | segment u32     segmentMeta of a sealed segment
//	b | height | hash   encoded reversible block
//	k | name            values of PutMeta
//
// Keys of the derived database.
//
//	m/hashed            height: up to here every hash -> height is durable
//	m/txs               height: receipts and transactions of the blocks below it are durable here, but for receipts that a
//	                    rebuild of this database lost; all ones (of an older program): of the blocks up to m/hashed
//	m/old               folder of a damaged database that was set aside, while its receipts are copied from it
//	h | hash            height
//	r | height | hash   receipts, go-ethereum's storage encoding
//	t | tx hash | first 8 bytes of block hash -> height | index u32 | other 24 bytes of block hash
const (
	keyFormat  = "m/format"
	keyLIB     = "m/lib"
	keyQC      = "m/qc"
	keyFC      = "m/fc"
	keyRoot    = "m/root"
	keyDamaged = "m/damaged"
	keyHashed  = "m/hashed"
	keyTxs     = "m/txs"
	keyOld     = "m/old"

	format = "2"

	prefixSegment    = 'g'
	prefixReversible = 'b'
	prefixUser       = 'k'
	prefixHash       = 'h'
	prefixReceipts   = 'r'
	prefixTx         = 't'
)

// libMeta is the commit record: everything of the segments up to End in Segment is durable and irreversible.
type libMeta struct {
	Height       uint64
	Hash         common.Hash
	First        uint64 // lowest height served
	Generation   uint32
	Segment      uint32 // active segment
	SegmentFirst uint64 // its first height
	End          uint64 // where its next record goes
}

// segmentMeta describes a sealed segment.
type segmentMeta struct {
	First, Last uint64
	Size        uint64
}

func segmentKey(n uint32) []byte { return binary.BigEndian.AppendUint32([]byte{prefixSegment}, n) }

func blockKey(prefix byte, height uint64, hash common.Hash) []byte {
	k := make([]byte, 0, 41)
	k = append(k, prefix)
	k = binary.BigEndian.AppendUint64(k, height)
	return append(k, hash[:]...)
}

func splitBlockKey(k []byte) (height uint64, hash common.Hash, ok bool) {
	if len(k) != 41 {
		return 0, hash, false
	}
	copy(hash[:], k[9:])
	return binary.BigEndian.Uint64(k[1:]), hash, true
}

func userKey(name string) []byte { return append([]byte{prefixUser}, name...) }

func hashKey(hash common.Hash) []byte { return append([]byte{prefixHash}, hash[:]...) }

func txPrefix(tx common.Hash) []byte { return append([]byte{prefixTx}, tx[:]...) }

func txKey(tx, blockHash common.Hash) []byte { return append(txPrefix(tx), blockHash[:8]...) }

func txValue(height uint64, index uint32, blockHash common.Hash) []byte {
	v := make([]byte, 0, 36)
	v = binary.BigEndian.AppendUint64(v, height)
	v = binary.BigEndian.AppendUint32(v, index)
	return append(v, blockHash[8:]...)
}

func splitTx(k, v []byte) (loc TxLocation, ok bool) {
	if len(k) != 41 || len(v) != 36 {
		return loc, false
	}
	copy(loc.Block[:8], k[33:])
	copy(loc.Block[8:], v[12:])
	loc.Height, loc.Index = binary.BigEndian.Uint64(v), uint64(binary.BigEndian.Uint32(v[8:]))
	return loc, true
}

// get returns nil for an absent key.
func get(db *leveldb.DB, key []byte) ([]byte, error) {
	v, err := db.Get(key, nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return nil, nil
	}
	return v, err
}

func getRLP(db *leveldb.DB, key string, v any) (found bool, err error) {
	b, err := get(db, []byte(key))
	if err != nil || b == nil {
		return false, err
	}
	if err := rlp.DecodeBytes(b, v); err != nil {
		return false, fmt.Errorf("value of %s: %w", key, err)
	}
	return true, nil
}

func getCertificate(db *leveldb.DB, key string) (*block.Certificate, error) {
	b, err := get(db, []byte(key))
	if err != nil || b == nil {
		return nil, err
	}
	return block.DecodeCertificate(b)
}

func mustRLP(v any) []byte {
	b, err := rlp.EncodeToBytes(v)
	if err != nil {
		panic(fmt.Sprintf("blockstore: encode %T: %v", v, err)) // our own plain values; cannot fail
	}
	return b
}
