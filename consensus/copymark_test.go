package consensus

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder that is marked as a copy is forgetful: without a log, where the settings say that the key is new, and with a
// good log that somebody put there. It stays so over a crash right after the mark has gone.
func TestAMarkedCopyIsForgetful(t *testing.T) {
	const forgot = "it may have signed what its vote log does not hold"
	inBubble(t, 4, func(l *lab) {
		m := l.nodes[0]
		dir := ""
		note := func(cfg *Config, _ *Deps) {
			require.True(t, cfg.NewKey)
			dir = cfg.Dir
		}
		m.start(note)
		require.NotContains(t, m.driver.Status().Why, forgot, "a new key has forgotten nothing")
		m.kill()
		m.start(note)
		require.NotContains(t, m.driver.Status().Why, forgot, "its log is good")
		m.kill()
		require.NoError(t, MarkCopied(dir))
		for range 2 {
			m.start(note)
			require.Contains(t, m.driver.Status().Why, forgot, "a good log in a copy is an old one")
			require.NoFileExists(t, filepath.Join(dir, copyMark))
			m.kill()
		}

		o := l.nodes[1]
		o.start(func(cfg *Config, _ *Deps) {
			cfg.Dir = filepath.Join(cfg.Dir, "restored")
			require.NoError(t, MarkCopied(cfg.Dir))
		})
		require.Contains(t, o.driver.Status().Why, forgot, "a copy without a log, and the settings say that the key is new")
		o.kill()
	})
}
