package blockstore

import (
	"fmt"

	"github.com/syndtr/goleveldb/leveldb/util"
)

// DerivedSizes are bytes on disk of the tables of the database of derived data, by what they hold.
type DerivedSizes struct {
	Hashes, Receipts, Transactions int64
}

// CompactDerived compacts the whole database of derived data and tells where its bytes are, as the database estimates them.
// For measuring: it takes long on a large store, and readers wait for the disk meanwhile.
func (s *Store) CompactDerived() (sizes DerivedSizes, err error) {
	if err := s.gate.check(); err != nil {
		return sizes, err
	}
	if err := s.derived.CompactRange(util.Range{}); err != nil {
		return sizes, fmt.Errorf("compact %s: %w", derivedDir, s.derivedError(err))
	}
	prefixes := []byte{prefixHash, prefixReceipts, prefixTx}
	ranges := make([]util.Range, 0, len(prefixes))
	for _, p := range prefixes {
		ranges = append(ranges, *util.BytesPrefix([]byte{p}))
	}
	n, err := s.derived.SizeOf(ranges)
	if err != nil {
		return sizes, fmt.Errorf("measure %s: %w", derivedDir, s.derivedError(err))
	}
	return DerivedSizes{Hashes: n[0], Receipts: n[1], Transactions: n[2]}, nil
}
