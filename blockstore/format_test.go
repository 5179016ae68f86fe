package blockstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	folder "github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// A folder of a later format is refused before anything of it is touched; one without a FORMAT file gets one.
func TestLaterFormatOfTheFolderIsRefused(t *testing.T) {
	d := faultfs.New()
	cfg := DefaultConfig()
	cfg.FS = d
	for range 2 {
		s, err := Open(cfg, nil, nil)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		text, err := vfs.ReadFile(d, folder.FileName, 100)
		require.NoError(t, err)
		require.Equal(t, folder.Line(folder.Blocks, "2"), string(text))
		require.NoError(t, d.Remove(folder.FileName))
	}
	require.NoError(t, vfs.ReplaceFile(d, folder.FileName, []byte(folder.Line(folder.Blocks, "3"))))
	before := d.Changes()
	_, err := Inspect(cfg, nil)
	require.ErrorIs(t, err, folder.ErrUnknown)
	_, err = Open(cfg, nil, nil)
	require.ErrorIs(t, err, folder.ErrUnknown)
	require.Equal(t, before, d.Changes())
}
