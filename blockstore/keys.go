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
//	m/form              "2": form of the entries below. Another one, or none beside m/hashed, is rebuilt
//	h | first 8 bytes of hash | height 5 bytes -> nothing
//	r | height | hash   receipts, go-ethereum's storage encoding
//	t | first 8 bytes of tx hash | height 5 bytes | index 3 bytes -> nothing
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
	keyForm    = "m/form"

	format      = "2"
	derivedForm = "2"

	prefixBytes = 8 // of a hash in a key of the derived database
	heightBytes = 5

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

// Entries of the indexes have 8 bytes of a hash, which name candidates; the height index, or the block itself, says which one
// it is. Anybody can find two transactions with the same 8 bytes, so there may be several candidates.
func hashPrefix(hash common.Hash) []byte { return append([]byte{prefixHash}, hash[:prefixBytes]...) }

func hashKey(hash common.Hash, height uint64) []byte {
	return appendHeight(hashPrefix(hash), height)
}

// splitHashKey gives the height of a key of the index by hash.
func splitHashKey(k []byte) (height uint64, ok bool) {
	if len(k) != 1+prefixBytes+heightBytes {
		return 0, false
	}
	return readHeight(k[1+prefixBytes:]), true
}

func txPrefix(tx common.Hash) []byte { return append([]byte{prefixTx}, tx[:prefixBytes]...) }

func txKey(tx common.Hash, height uint64, index int) []byte {
	k := appendHeight(txPrefix(tx), height)
	return append(k, byte(index>>16), byte(index>>8), byte(index)) //nolint:gosec // a block has fewer transactions than bytes / 2
}

// txPlace is where a transaction may be.
type txPlace struct {
	height uint64
	index  int
}

func splitTxKey(k []byte) (p txPlace, ok bool) {
	if len(k) != 1+prefixBytes+heightBytes+3 {
		return p, false
	}
	i := k[1+prefixBytes+heightBytes:]
	return txPlace{readHeight(k[1+prefixBytes:]), int(i[0])<<16 | int(i[1])<<8 | int(i[2])}, true
}

// appendHeight appends 5 bytes: more blocks than a chain has at one each millisecond in 30 years.
func appendHeight(k []byte, height uint64) []byte {
	return append(k, byte(height>>32), byte(height>>24), byte(height>>16), byte(height>>8), byte(height)) //nolint:gosec // said above
}

func readHeight(b []byte) uint64 {
	return uint64(b[0])<<32 | uint64(binary.BigEndian.Uint32(b[1:]))
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
