package node

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/telemetry"
)

// stateOf is every file of a folder with its contents and the time of its last change.
func stateOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		files[path] = string(data) + info.ModTime().String()
		return err
	}))
	return files
}

// removeFormats removes all FORMAT files: the folder is one of a version from before there were any.
func removeFormats(t *testing.T, c *config.Config) {
	t.Helper()
	for _, f := range foldersOf(c) {
		require.NoError(t, os.RemoveAll(filepath.Join(f.dir, format.FileName)))
	}
}

// requireFormats checks that every folder says of each kind of data in which form it is.
func requireFormats(t *testing.T, c *config.Config) {
	t.Helper()
	for _, f := range foldersOf(c) {
		text, err := os.ReadFile(filepath.Join(f.dir, format.FileName))
		require.NoError(t, err)
		require.Contains(t, string(text), line(f.kind, 0), f.dir)
	}
}

// line is what a FORMAT file says of a kind whose version is so much above this program's.
func line(kind format.Kind, above int) string {
	return format.Line(kind, strconv.Itoa(format.Version(kind)+above))
}

// A folder of an earlier program without FORMAT files is refused by what its segments say, and not marked as one of this
// program: the program that wrote it can still use it.
func TestAFolderWithoutFormatsIsKnownByItsSegments(t *testing.T) {
	s := newStand(t)
	s.start()
	s.until("blocks are final", func() bool { return s.n.chain.FinalHeader().Number.Uint64() > 1 })
	s.stop()
	removeFormats(t, s.cfg)
	segments, err := filepath.Glob(filepath.Join(s.cfg.Path(s.cfg.Store.Dir), "segments", "*.seg"))
	require.NoError(t, err)
	require.Len(t, segments, 1)
	sound, err := os.ReadFile(segments[0])
	require.NoError(t, err)
	const sum = block.SegmentHeaderBytes - 4
	earlier := append([]byte("BORNSEG2"), sound[8:]...)
	require.NoError(t, os.WriteFile(segments[0], earlier, 0o600))
	require.NoError(t, CheckFormats(s.cfg), "a header with a wrong checksum is damaged")
	binary.BigEndian.PutUint32(earlier[sum:], crc32.Checksum(earlier[:sum], crc32.MakeTable(crc32.Castagnoli)))
	require.NoError(t, os.WriteFile(segments[0], earlier, 0o600))
	before := stateOf(t, s.cfg.DataDir)
	_, err = New(t.Context(), s.cfg, zap.NewNop(), telemetry.NewRegistry())
	require.ErrorIs(t, err, format.ErrUnknown)
	require.ErrorContains(t, err, "file "+segments[0]+" holds blocks of form BORNSEG2, and this program knows form BORNSEG3: use the program that wrote it")
	require.Equal(t, before, stateOf(t, s.cfg.DataDir))
	require.NoError(t, os.WriteFile(segments[0], sound, 0o600))
	n, _ := open(t, s.cfg)
	require.NoError(t, n.close())
}

// Every folder of a node names its format, also one of before; a format that is not known is refused in one sentence, and
// nothing in any folder is touched.
func TestEveryFolderNamesItsFormat(t *testing.T) {
	s := newStand(t)
	n, _ := open(t, s.cfg)
	require.NoError(t, n.close())
	s.cfg.Consensus.NewKey = false
	requireFormats(t, s.cfg)
	removeFormats(t, s.cfg)
	n, _ = open(t, s.cfg)
	require.NoError(t, n.close())
	requireFormats(t, s.cfg)
	for _, f := range foldersOf(s.cfg) {
		file := filepath.Join(f.dir, format.FileName)
		sound, err := os.ReadFile(file)
		require.NoError(t, err)
		later := strings.Replace(string(sound), line(f.kind, 0), line(f.kind, 1), 1)
		require.NoError(t, os.WriteFile(file, []byte(later), 0o600))
		before := stateOf(t, s.cfg.DataDir)
		_, err = New(t.Context(), s.cfg, zap.NewNop(), telemetry.NewRegistry())
		require.ErrorIs(t, err, format.ErrUnknown)
		known := format.Version(f.kind)
		require.Equal(t, fmt.Sprintf("folder %s holds %s data of format %d, and this program knows format %d: use the program that wrote it (%s says so; nothing was changed)",
			f.dir, f.kind, known+1, known, file), err.Error())
		require.ErrorIs(t, CheckFormats(s.cfg), format.ErrUnknown)
		require.Equal(t, before, stateOf(t, s.cfg.DataDir), f.kind)
		require.NoError(t, os.WriteFile(file, sound, 0o600))
	}
	n, _ = open(t, s.cfg)
	require.NoError(t, n.close())
}
