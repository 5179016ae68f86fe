package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/syndtr/goleveldb/leveldb/util"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/exit"
)

// A look at the database tells of damage and of another chain, and changes nothing.
func TestInspectTellsOfDamageAndChangesNothing(t *testing.T) {
	dir, chain := filepath.Join(t.TempDir(), "evidence"), common.Hash{7}
	findings, err := Inspect(t.Context(), dir, chain)
	require.NoError(t, err)
	require.Empty(t, findings, "a broker that never ran has none")
	d, err := openDatabase(dir, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, d.of(chain))
	for n := range 2000 {
		require.NoError(t, d.Put(fmt.Appendf(nil, "key %d", n), make([]byte, 100), nil))
	}
	require.NoError(t, d.Close())
	read := func() map[string]string {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		files := make(map[string]string)
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			files[e.Name()] = string(b)
		}
		return files
	}
	whole := read()
	findings, err = Inspect(t.Context(), dir, chain)
	require.NoError(t, err)
	require.Empty(t, findings)
	require.Equal(t, whole, read())
	findings, err = Inspect(t.Context(), dir, common.Hash{8})
	require.NoError(t, err)
	require.Len(t, findings, 1)
	require.Contains(t, findings[0].Problem, "of the chain with genesis")
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	for _, file := range append(logs, filepath.Join(dir, "CURRENT")) {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		b[len(b)/2] ^= 1
		require.NoError(t, os.WriteFile(file, b, 0o600))
		damaged := read()
		findings, err = Inspect(t.Context(), dir, chain)
		require.NoError(t, err)
		require.Len(t, findings, 1, file)
		require.Equal(t, damaged, read())
		b[len(b)/2] ^= 1
		require.NoError(t, os.WriteFile(file, b, 0o600))
	}
}

// Damage in a table shows only when it is read, and ends in a sentence with the remedy, which helps.
func TestADamagedTableEndsInARemedy(t *testing.T) {
	c := newChain(t)
	n := newNode(t, c, "a")
	n.open(t, c, quick)
	require.NoError(t, n.e.db.CompactRange(util.Range{}))
	n.close(t)
	tables, err := filepath.Glob(filepath.Join(n.dir, "*.ldb"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, file := range tables {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		b[3] ^= 1 // the first block: which chain the database is of
		require.NoError(t, os.WriteFile(file, b, 0o600))
	}
	_, err = Open(quick, Deps{Dir: n.dir, Chain: common.Hash{1}, Logger: zap.NewNop(), Registry: prometheus.NewRegistry()})
	var fault *exit.Fault
	require.ErrorAs(t, err, &fault)
	require.Equal(t, n.dir, fault.File)
	require.Contains(t, fault.Error(), "move the folder "+n.dir+" away and start again")
	require.NoError(t, os.Rename(n.dir, n.dir+".away"))
	n.open(t, c, quick)
	n.close(t)
}
