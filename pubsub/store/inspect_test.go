package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/vfs"
)

// filledFolder is the folder of a closed store with several full segments.
func filledFolder(t *testing.T) (cfg Config) {
	t.Helper()
	cfg = testConfig()
	cfg.Dir = t.TempDir()
	s, err := Open(cfg, vfs.OS(cfg.Dir, vfs.Public), nil, nil)
	require.NoError(t, err)
	p := create(t, s, 1)
	for n := range 300 {
		add(t, p, 2, plain(n, 1+n%4, 50+n%700))
		if n%20 == 0 {
			synced(t, s)
		}
	}
	sealed(t, s)
	require.NoError(t, s.Close())
	segments, err := filepath.Glob(filepath.Join(cfg.Dir, "*.log"))
	require.NoError(t, err)
	require.Greater(t, len(segments), 2, "it has full segments")
	return cfg
}

func readFolder(t *testing.T, dir string) map[string]string {
	t.Helper()
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

// A look at a store tells of damage in every kind of file that costs something, and changes nothing.
func TestInspectTellsOfDamageAndChangesNothing(t *testing.T) {
	cfg := filledFolder(t)
	inspect := func() []exit.Finding {
		t.Helper()
		before := readFolder(t, cfg.Dir)
		findings, err := Inspect(t.Context(), cfg, nil)
		require.NoError(t, err)
		require.Equal(t, before, readFolder(t, cfg.Dir), "a look changes nothing")
		return findings
	}
	require.Empty(t, inspect())
	whole := readFolder(t, cfg.Dir)
	snapshots, err := filepath.Glob(filepath.Join(cfg.Dir, "*.snap"))
	require.NoError(t, err)
	for _, name := range []string{logName(1), logName(2), indexName(2), filepath.Base(snapshots[len(snapshots)-1])} {
		damaged := []byte(whole[name])
		damaged[len(damaged)/3] ^= 4
		if name == indexName(2) { // its entries have no checksum: what they point at has
			damaged = []byte(whole[name])
			damaged[40] ^= 4
		}
		require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, name), damaged, 0o600))
		findings := inspect()
		require.NotEmpty(t, findings, name)
		require.Equal(t, filepath.Join(cfg.Dir, name), findings[0].File)
		if strings.HasSuffix(name, logSuffix) { // which snapshots cover
			require.Contains(t, findings[0].Remedy, "the broker starts with it", name)
			s, err := Open(cfg, vfs.OS(cfg.Dir, vfs.Public), nil, nil)
			require.NoError(t, err)
			require.NoError(t, s.Close())
			kept, err := filepath.Glob(filepath.Join(cfg.Dir, name+".damaged-*"))
			require.NoError(t, err)
			require.Empty(t, kept, "a start does not read it")
		}
		require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, name), []byte(whole[name]), 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(cfg.Dir, logName(2))))
	require.NotEmpty(t, inspect(), "a lost segment")
	findings, err := Inspect(t.Context(), Config{Dir: filepath.Join(cfg.Dir, "none")}, nil)
	require.NoError(t, err)
	require.Empty(t, findings, "a broker that never ran has no store")
}
