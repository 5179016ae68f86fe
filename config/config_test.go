package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// The commented file in the tree is the defaults, and parses to them.
func TestCommentedFile(t *testing.T) {
	want := Commented(Default())
	if os.Getenv("BORNODE_UPDATE") != "" {
		require.NoError(t, os.WriteFile(FileName, want, 0o644))
	}
	got, err := os.ReadFile(FileName)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run `make docs`")
	c, err := Load(FileName, nil, nil)
	require.NoError(t, err)
	require.Equal(t, string(want), string(Commented(c)))
}

// A file that was cut off anywhere is refused, not read with defaults in the place of what is lost.
func TestFileThatWasCutOffIsRefused(t *testing.T) {
	whole := string(Commented(Default()))
	for cut := len(firstLine); cut < len(whole)-1; cut += 37 {
		_, err := Load(write(t, whole[:cut]), nil, nil)
		require.Error(t, err, "%d of %d bytes", cut, len(whole))
	}
	_, err := Load(write(t, whole[:strings.LastIndex(whole, "\n[")]), nil, nil)
	require.ErrorContains(t, err, "is cut off")
	_, err = Load(write(t, whole+"\n# added by hand\n"), nil, nil)
	require.NoError(t, err)
	_, err = Load(write(t, "[sync]\nmode = \"full\"\n"), nil, nil)
	require.NoError(t, err, "a file written by hand promises no last line")
}

func TestEverySettingHasAComment(t *testing.T) {
	for _, s := range sections(Default()) {
		for _, f := range s.fields {
			require.NotEmpty(t, f.comment, f.key)
		}
	}
}

func TestUnknownKeysNameTheNearest(t *testing.T) {
	_, err := Load(write(t, "[sync]\nmod = \"full\"\n"), nil, nil)
	require.ErrorContains(t, err, `unknown key "sync.mod"; did you mean "sync.mode"?`)
	_, err = Load("", []string{"BORNODE_SYNC_MODES=full"}, nil)
	require.ErrorContains(t, err, "BORNODE_SYNC_MODES sets nothing; did you mean \"BORNODE_SYNC_MODE\"?")
	_, err = Load("", []string{"BORNODE_COLOUR=red"}, nil)
	require.EqualError(t, err, "environment: BORNODE_COLOUR sets nothing; bornode config prints all settings")
	_, err = Load(write(t, "colour = \"red\"\n"), nil, nil)
	require.ErrorContains(t, err, `unknown key "colour"; bornode config prints all settings`)
	_, err = Load(write(t, "[sync\n"), nil, nil)
	require.ErrorContains(t, err, "not valid TOML")
	_, err = Load(write(t, "[sync]\nheartbeat = \"soon\"\n"), nil, nil)
	require.ErrorContains(t, err, "heartbeat")
	_, err = Load(filepath.Join(t.TempDir(), "none.toml"), nil, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A value of another kind is one line that names the setting, however it came, and no type or function of Go.
func TestValuesOfAnotherKindAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"[rpc]\nlog_range = \"many\"\n":   `rpc.log_range (BORNODE_RPC_LOG_RANGE) is "many": use a whole number from 0 on`,
		"[sync]\nheartbeat = \"soon\"\n":  `sync.heartbeat (BORNODE_SYNC_HEARTBEAT) is "soon": use a duration such as 500ms, 10s or 2h`,
		"[duties]\nenabled = \"often\"\n": `duties.enabled (BORNODE_DUTIES_ENABLED) is "often": use true or false`,
		"[p2p]\npeers = [[1]]\n":          "p2p.peers",
		// What the decoder would take, as another value than the operator wrote.
		"[store]\nkeep_blocks = -5\n":     `store.keep_blocks (BORNODE_STORE_KEEP_BLOCKS) is "-5": use a whole number from 0 on`,
		"[store]\nkeep_days = true\n":     `store.keep_days (BORNODE_STORE_KEEP_DAYS) is "true": use a whole number from 0 on`,
		"[store]\nkeep_blocks = 1.5\n":    `store.keep_blocks (BORNODE_STORE_KEEP_BLOCKS) is "1.5": use a whole number from 0 on`,
		"[store]\nrepair_wait = 5\n":      `store.repair_wait (BORNODE_STORE_REPAIR_WAIT) is "5": use a duration such as 500ms, 10s or 2h`,
		"[store]\nkeep_blocks = [1000]\n": "store.keep_blocks",
	} {
		_, err := Load(write(t, text), nil, nil)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
		require.NotContains(t, err.Error(), "strconv")
	}
	for value, want := range map[string]string{"-3": "use a whole number from 0 on", "99999999999999999999": "use a whole number from 0 on of at most 64 bits"} {
		_, err := Load("", []string{"BORNODE_RPC_LOG_RANGE=" + value}, nil)
		require.EqualError(t, err, "configuration: rpc.log_range (BORNODE_RPC_LOG_RANGE) is \""+value+"\": "+want)
	}
}

func TestFlagsBeatEnvironmentBeatsFile(t *testing.T) {
	path := write(t, "[sync]\nmode = \"full\"\nheartbeat = \"3s\"\n[p2p]\npeers = [\"a\"]\n[log]\nlevel = \"warn\"\n")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(flags)
	require.NoError(t, flags.Parse([]string{"--log.level=debug", "--p2p.peers=x,y"}))
	c, err := Load(path, []string{"BORNODE_LOG_LEVEL=error", "BORNODE_SYNC_HEARTBEAT=4s", "BORNODE_LONG=1", "HOME=/"}, flags)
	require.NoError(t, err)
	require.Equal(t, "debug", c.Log.Level)
	require.Equal(t, 4*time.Second, c.Sync.Heartbeat)
	require.Equal(t, "full", c.Sync.Mode)
	require.Equal(t, []string{"x", "y"}, c.P2P.Peers)
}

func TestInvalidSettingsAreNamed(t *testing.T) {
	_, err := Load(write(t, "[log]\nlevel = \"loud\"\n"), nil, nil)
	require.ErrorContains(t, err, `log.level is "loud"`)
	_, err = Load(write(t, "genesis = \"\"\n"), nil, nil)
	require.ErrorContains(t, err, "genesis is empty")
}
