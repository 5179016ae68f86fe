package blockstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/blockstore"
)

// A table of a database that was cut anywhere keeps no store from opening, and costs nothing: what it held is found again.
func TestCutTables(t *testing.T) {
	for _, dir := range []string{"derived", "meta"} {
		t.Run(dir, func(t *testing.T) { testCutTables(t, dir) })
	}
}

func testCutTables(t *testing.T, dir string) {
	chain := line(nil, 40, 1, 6, 40)
	disk0 := derivedDisk(t, chain)
	for range 3 { // a start writes what the journal of its database holds to a table
		s, err := blockstore.Open(derivedConfig(disk0), nil, nil)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	names, err := disk0.List(dir)
	require.NoError(t, err)
	tables := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".ldb") {
			continue
		}
		tables++
		var size int
		require.NoError(t, disk0.Copy().Corrupt(dir+"/"+name, func(b []byte) []byte { size = len(b); return b }))
		for _, at := range []int{0, 1, size / 4, size / 3, size / 2, size - 100, size - 54, size - 49, size - 48, size - 47, size - 1} {
			disk := disk0.Copy()
			require.NoError(t, disk.Corrupt(dir+"/"+name, func(b []byte) []byte { return b[:max(0, at)] }))
			what := fmt.Sprintf("%s cut at %d of %d", name, at, size)
			s, err := blockstore.Open(derivedConfig(disk), nil, nil)
			require.NoError(t, err, what)
			s.AwaitCompletion()
			askAll(t, s, chain, false)
			require.NoError(t, s.Close(), what)
			s, err = blockstore.Open(derivedConfig(disk), nil, nil)
			require.NoError(t, err, what)
			s.AwaitCompletion()
			askAll(t, s, chain, true)
			require.NoError(t, s.Close(), what)
		}
	}
	require.NotZero(t, tables)
}
