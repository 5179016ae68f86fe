package blockstore

import (
	"errors"
	"fmt"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// DerivedSizes are bytes on disk of the tables of the database of derived data, by what they hold.
type DerivedSizes struct {
	Hashes, Receipts, Transactions int64
}

// CompactDerived compacts the databases and tells where the bytes of the one of derived data are, as it estimates them.
// For measuring: it takes long on a large store, and readers wait for the disk meanwhile.
func (s *Store) CompactDerived() (sizes DerivedSizes, err error) {
	if err := s.gate.check(); err != nil {
		return sizes, err
	}
	if err := s.meta.CompactRange(util.Range{}); err != nil {
		return sizes, fmt.Errorf("compact %s: %w", metaDir, err)
	}
	prefixes := []byte{prefixHash, prefixReceipts, prefixTx}
	ranges := make([]util.Range, 0, len(prefixes))
	for _, p := range prefixes {
		ranges = append(ranges, *util.BytesPrefix([]byte{p}))
	}
	var n leveldb.Sizes
	err = s.useDerived(func(db *leveldb.DB) (err error) {
		err = db.CompactRange(util.Range{})
		if errors.Is(err, leveldb.ErrClosed) { // what goleveldb tells those that wait when a compaction meets damage; the next call tells the cause
			err = db.CompactRange(util.Range{})
		}
		if err != nil {
			return err
		}
		n, err = db.SizeOf(ranges)
		return err
	})
	if err != nil {
		return sizes, fmt.Errorf("compact and measure %s: %w", derivedDir, err)
	}
	return DerivedSizes{Hashes: n[0], Receipts: n[1], Transactions: n[2]}, nil
}
