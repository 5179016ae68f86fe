package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func loaded(t *testing.T, environ []string, args ...string) (*settings, error) {
	t.Helper()
	cmd := runCommand()
	require.NoError(t, cmd.ParseFlags(args))
	return load(environ, cmd.Flags())
}

func TestDefaultFileLoadsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.toml")
	require.NoError(t, os.WriteFile(path, []byte(commented(defaults())), 0o600))
	t.Setenv("HOME", "/home/somebody")
	s, err := loaded(t, nil, "--config", path)
	require.NoError(t, err)
	want := defaults()
	want.Wallet.Dir = "/home/somebody/.borwallet"
	want.Wallet.ChainIDs = []uint64{}
	require.Equal(t, want, s)
}

func TestOrderOfSettings(t *testing.T) {
	dir := t.TempDir()
	file := []byte("scrypt = \"light\"\nchain_ids = [1, 2]\nmax_unlock = \"1h\"\nconnections = 3\n[log]\nlevel = \"warn\"\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, configName), file, 0o600))
	s, err := loaded(t, []string{"BORWALLET_DIR=" + dir, "BORWALLET_MAX_UNLOCK=2h", "BORWALLET_CONNECTIONS=4", "PATH=/bin"}, "--connections", "5", "--raw_hashes")
	require.NoError(t, err)
	require.Equal(t, dir, s.Wallet.Dir)
	require.Equal(t, "light", s.Wallet.Scrypt)
	require.Equal(t, []uint64{1, 2}, s.Wallet.ChainIDs)
	require.Equal(t, 2*time.Hour, s.Wallet.MaxUnlock)
	require.Equal(t, 5, s.Wallet.Connections)
	require.True(t, s.Wallet.RawHashes)
	require.Equal(t, "warn", s.Log.Level)

	s, err = loaded(t, []string{"BORWALLET_CONFIG=" + filepath.Join(dir, configName), "BORWALLET_CHAIN_IDS=7,8"}, "--dir", t.TempDir())
	require.NoError(t, err)
	require.Equal(t, []uint64{7, 8}, s.Wallet.ChainIDs)
	require.Equal(t, "light", s.Wallet.Scrypt)
}

func TestWrongSettings(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.toml")
	for text, want := range map[string]string{
		`sokcet = "x"`:             `unknown key "sokcet"; did you mean "socket"?`,
		"[log]\nlevle = \"warn\"":  `unknown key "log.levle"; did you mean "log.level"?`,
		`zzzz = 1`:                 `unknown key "zzzz"; known are dir, socket`,
		`scrypt = `:                "not valid TOML",
		`scrypt = "none"`:          "use standard or light",
		`connections = "many"`:     "connections",
		`http = "0.0.0.0:1"`:       "which other hosts can reach",
		"[log]\nformat = \"xml\"":  "log.format",
		"[wallet]\nsocket = \"x\"": `unknown key "wallet.socket"`,
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := loaded(t, nil, "--config", path)
		require.ErrorContains(t, err, want)
	}
	_, err := loaded(t, []string{"BORWALLET_SOKCET=x"}, "--dir", dir)
	require.ErrorContains(t, err, "BORWALLET_SOKCET sets nothing; did you mean \"BORWALLET_SOCKET\"?")
	_, err = loaded(t, nil, "--config", filepath.Join(dir, "none.toml"))
	require.ErrorContains(t, err, "none.toml")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Chmod(path, 0o622))
	_, err = loaded(t, nil, "--config", path)
	require.ErrorContains(t, err, "run chmod go-w "+path)
}

// Every command has its help, and no flag takes a secret.
func TestHelp(t *testing.T) {
	for _, cmd := range root().Commands() {
		var out bytes.Buffer
		r := root()
		r.SetOut(&out)
		r.SetArgs([]string{cmd.Name(), "--help"})
		require.NoError(t, r.Execute())
		require.Contains(t, out.String(), cmd.Short)
		require.Nil(t, cmd.Flags().Lookup("password"))
	}
}

// The document shows the settings as they are.
func TestDocumentShowsTheSettings(t *testing.T) {
	text, err := os.ReadFile("../../docs/wallet.md")
	require.NoError(t, err)
	require.Contains(t, string(text), "```toml\n"+commented(defaults())+"```\n", "put the output of borwallet config into docs/wallet.md")
}
