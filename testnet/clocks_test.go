package testnet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clocks sets the clocks of a network's nodes, which run a program with the tag clockfault.
type clocks struct {
	t   *testing.T
	n   *Network
	dir string
}

func upWithClocks(t *testing.T) *clocks {
	c := &clocks{t: t, dir: t.TempDir()}
	settable := filepath.Join(c.dir, "bornode")
	out, err := exec.Command("go", "build", "-tags", "clockfault", "-o", settable, "../cmd/bornode").CombinedOutput()
	require.NoError(t, err, "%s", out)
	c.n = upNetwork(t, func(s *Spec) {
		s.Binary, s.Producers, s.Observers, s.Brokers, s.Direct = settable, 4, 0, 0, true
		s.Slot = 250 * time.Millisecond
	})
	for i := range c.n.Nodes {
		c.restart(i)
	}
	return c
}

func (c *clocks) file(node int) string { return filepath.Join(c.dir, c.n.Nodes[node].Account.Hex()) }

func (c *clocks) restart(node int) {
	require.NoError(c.t, c.n.Restart(c.t.Context(), node, "CLOCKFAULT_FILE="+c.file(node)))
}

func (c *clocks) set(off time.Duration, nodes ...int) {
	for _, i := range nodes {
		require.NoError(c.t, os.WriteFile(c.file(i), []byte(off.String()), 0o600))
	}
}

// goesOn waits until 10 more blocks are final everywhere, and logs the longest time for which a node's final block stood.
func (c *clocks) goesOn(what string) {
	c.t.Helper()
	from := until(c.t, c.n, 0, "an answer", func(Status) bool { return true }).Final
	var stood time.Duration
	for i := range c.n.Nodes {
		last, since := uint64(0), time.Now()
		until(c.t, c.n, i, what, func(s Status) bool {
			if s.Final > last {
				last, since = s.Final, time.Now()
			}
			stood = max(stood, time.Since(since))
			return s.Final > from+10
		})
	}
	c.t.Logf("%s: the last irreversible block stood for %s at most", what, stood.Round(10*time.Millisecond))
}

// logEnd is how long a node's log is.
func (c *clocks) logEnd(node int) int64 {
	c.t.Helper()
	info, err := os.Stat(c.n.Nodes[node].LogFile())
	require.NoError(c.t, err)
	return info.Size()
}

// tells waits for a line of a node's log behind a point of it.
func (c *clocks) tells(node int, since int64, line string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		b, err := os.ReadFile(c.n.Nodes[node].LogFile())
		return err == nil && strings.Contains(string(b[min(since, int64(len(b))):]), line)
	}, patience, 200*time.Millisecond, "node %d says: %s", node, line)
}

// The clock of one producer of four may show anything: blocks go on becoming final, its own node and the others name it, and
// it starts with that clock. A jump of all clocks at once, or of two for a moment, leaves no vote of a far slot behind, also when
// all producers are restarted meanwhile, one after the other.
func TestClocksThatJump(t *testing.T) {
	t.Parallel() // with one other network: it mostly waits
	c := upWithClocks(t)
	c.goesOn("right clocks")
	for _, off := range []time.Duration{time.Millisecond, -300 * time.Millisecond, 3 * time.Second, -time.Hour, 24 * time.Hour} {
		c.set(off, 3)
		c.goesOn("one clock is off by " + off.String())
	}
	c.tells(3, 0, "this machine's clock is off by more than max_clock_error")
	for i := range 3 {
		c.tells(i, 0, c.n.Nodes[3].Account.Hex())
	}
	started := c.logEnd(3)
	c.restart(3)
	c.goesOn("a start with a clock that is a day ahead")
	until(t, c.n, 3, "to vote", func(Status) bool {
		return metric(t, c.n.Nodes[3], "bornode_consensus_signer_silent_state") == 0
	})
	// Only a process that told that its clock is off tells that it is right again.
	c.tells(3, started, "this machine's clock is off by more than max_clock_error")
	c.set(0, 3)
	c.tells(3, started, "this machine's clock is right again")

	c.set(180*time.Second, 0, 1)
	c.goesOn("two clocks are 180 s ahead")
	c.set(0, 0, 1)
	c.goesOn("and right again")
	c.set(time.Hour, 0, 1, 2, 3)
	c.goesOn("all clocks jump by an hour")
	c.tells(0, 0, "the network's time is off by more than max_clock_error")
	started = c.logEnd(0)
	for i := range c.n.Nodes {
		c.restart(i)
		until(t, c.n, i, "to vote", func(Status) bool {
			return metric(t, c.n.Nodes[i], "bornode_consensus_signer_silent_state") == 0
		})
		c.goesOn(fmt.Sprintf("producer %d is restarted meanwhile", i))
	}
	c.tells(0, started, "the network's time is off by more than max_clock_error")
	c.set(0, 0, 1, 2, 3)
	c.goesOn("and back")
	c.tells(0, started, "the network's time is right again")
	for _, i := range []int{0, 1, 2, 3} {
		b, err := os.ReadFile(c.n.Nodes[i].LogFile())
		require.NoError(t, err)
		require.NotContains(t, string(b), "was signed when clocks were wrong", "node %d", i)
	}
	sameChain(t, c.n, 0, 1, 2, 3)
	requireNobodyGuilty(t, c.n)
}
