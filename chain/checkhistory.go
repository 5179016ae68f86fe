package chain

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// historyIndexEntry is the size of an entry in the index of a table of go-ethereum's freezer: number of a data file (2),
// and where an item ends in it (4). The first entry says instead how many items were cut from the beginning.
const historyIndexEntry = 6

// wholeHistory is up to which change every table of the state's history is whole: what a start would leave of files that
// are not of equal length. A table that lost its index has nothing.
func wholeHistory(dir string) (uint64, error) {
	indexes, err := filepath.Glob(filepath.Join(dir, "*.meta"))
	if err != nil || len(indexes) == 0 {
		return 0, err
	}
	least := ^uint64(0)
	for _, meta := range indexes {
		items, err := wholeItems(strings.TrimSuffix(meta, ".meta"))
		if err != nil {
			return 0, err
		}
		least = min(least, items)
	}
	return least, nil
}

// wholeItems counts the items of one table, with those cut from its beginning, up to the first that its files do not hold.
func wholeItems(table string) (uint64, error) {
	kind := "c" // compressed
	index, err := os.ReadFile(table + ".cidx")
	if os.IsNotExist(err) {
		kind = "r"
		index, err = os.ReadFile(table + ".ridx")
	}
	if os.IsNotExist(err) || err == nil && len(index) < historyIndexEntry {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	entry := func(i int) (file uint16, end uint32) {
		b := index[i*historyIndexEntry:]
		return binary.BigEndian.Uint16(b), binary.BigEndian.Uint32(b[2:])
	}
	file, cut := entry(0)
	items, before, size := uint64(cut), uint32(0), int64(-1)
	for i := 1; i < len(index)/historyIndexEntry; i++ {
		at, end := entry(i)
		if at == file+1 {
			file, before, size = at, 0, -1
		}
		if at != file || end < before {
			break
		}
		if size < 0 {
			st, err := os.Stat(fmt.Sprintf("%s.%04d.%sdat", table, file, kind))
			if os.IsNotExist(err) {
				break
			}
			if err != nil {
				return 0, err
			}
			size = st.Size()
		}
		if int64(end) > size {
			break
		}
		items, before = items+1, end
	}
	return items, nil
}
