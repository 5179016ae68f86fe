package telemetry

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	gethlog "github.com/ethereum/go-ethereum/log"
	"github.com/stretchr/testify/require"
)

// capture is a logger of go-ethereum that writes into b at a level, and the causes that were called critical.
func capture(t *testing.T, b *bytes.Buffer, level string) (log gethlog.Logger, critical *[]string) {
	t.Helper()
	to, err := NewLogger(LogConfig{Level: level, Format: "json"}, b)
	require.NoError(t, err)
	critical = new([]string)
	return gethlog.NewLogger(newEthereumHandler(to, func(message string, cause error) {
		*critical = append(*critical, message+": "+cause.Error())
	})), critical
}

func TestEthereumLogsWithTheProjectsKeys(t *testing.T) {
	var b bytes.Buffer
	log, critical := capture(t, &b, "debug")
	log = log.With("database", "/state/kv")
	log.Trace("a node of a trie")
	log.Debug("detail")
	log.Info("Persisted dirty state", "number", 7)
	log.Warn("Truncating dangling head", "err", errors.New("short file"), "long", strings.Repeat("x", 5000))
	log.Error("RPC method crashed")
	log.Warn("Served eth_call", "err", "execution reverted")
	out := b.String()
	require.NotContains(t, out, "a node of a trie")
	require.Contains(t, out, `"level":"debug","ts"`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 5)
	require.Contains(t, lines[1], `"msg":"Persisted dirty state","file":"/state/kv","height":"7"`)
	require.Contains(t, lines[1], `"level":"debug"`)
	require.Contains(t, lines[2], `"level":"warn"`)
	require.Contains(t, lines[2], `"error":"short file"`)
	require.Less(t, len(lines[2]), 1000)
	require.Contains(t, lines[3], `"level":"error"`)
	require.Contains(t, lines[4], `"level":"debug"`, "a client's error is no trouble of the node")
	require.Empty(t, *critical)
}

// A library that repeats itself with each request does not fill the disk.
func TestEthereumLogsAreBounded(t *testing.T) {
	var b bytes.Buffer
	log, _ := capture(t, &b, "info")
	for range 1000 {
		log.Error("again")
		log.Info("noise")
	}
	require.LessOrEqual(t, strings.Count(b.String(), "again"), 2*libraryLines) // the minute may end meanwhile
	require.NotContains(t, b.String(), "noise")
}

// log.Crit reaches the one who ends the process, whatever the level, with its cause.
func TestEthereumCritHasItsCause(t *testing.T) {
	var b bytes.Buffer
	log, critical := capture(t, &b, "error")
	log.Log(gethlog.LevelCrit, "Failed to write states", "err", errors.New("no space left on device"))
	log.Log(gethlog.LevelCrit, "Failed to truncate", "typ", "state")
	log.Log(gethlog.LevelCrit, "Gone")
	require.Equal(t, []string{"Failed to write states: no space left on device", "Failed to truncate: typ state", "Gone: no cause is given"}, *critical)
}
