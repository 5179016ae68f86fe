package wallet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/format"
)

// A folder of wallets names its format, also one of before; a later format is refused and left as it is.
func TestWalletFolderNamesItsFormat(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Dir = filepath.Join(t.TempDir(), "wallets")
	file := filepath.Join(cfg.Dir, format.FileName)
	for range 2 {
		s, err := Open(cfg, nil, nil)
		require.NoError(t, err)
		s.Close()
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, format.Line(format.Wallet, "1"), string(text))
		require.NoError(t, os.Remove(file))
	}
	require.NoError(t, os.WriteFile(file, []byte(format.Line(format.Wallet, "2")), 0o600))
	require.NoError(t, os.Remove(filepath.Join(cfg.Dir, "lock")))
	_, err := Open(cfg, nil, nil)
	require.ErrorIs(t, err, format.ErrUnknown)
	require.ErrorContains(t, err, "folder "+cfg.Dir+" holds wallet data of format 2")
	require.NoFileExists(t, filepath.Join(cfg.Dir, "lock"))
}
