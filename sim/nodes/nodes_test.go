package nodes

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/core"
	gethlog "github.com/ethereum/go-ethereum/log"
	"github.com/stretchr/testify/require"
)

// play runs a scenario in a bubble of its own.
func play(t *testing.T, s *Scenario) (r *Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		r, err = Run(s)
		require.NoError(t, err)
	})
	t.Logf("seed %d: final %d, %d blocks and %d votes heard, %d transactions, %d lives, %d answers, %d of them errors with a cause",
		s.Seed, r.Final, r.Blocks, r.Votes, r.Transactions, r.Lives, r.Answers, r.Excused)
	if r.Err() != nil || os.Getenv("BORNODE_TEST_LOG") != "" {
		t.Log("\n" + strings.Join(r.Log, "\n"))
		for i, lines := range r.Lines {
			t.Log(fmt.Sprintf("node %d\n", i) + strings.Join(lines, "\n"))
		}
	}
	return r
}

func TestMain(m *testing.M) {
	gethlog.SetDefault(gethlog.NewLogger(gethlog.DiscardHandler()))
	core.SenderCacher() // its goroutines stay: they must not belong to a bubble
	os.Exit(m.Run())
}

// TestSeeds plays random scenarios. BORNODE_NODES_SEED plays one seed, BORNODE_LONG=1 more of them, BORNODE_STORMS=1 sixty.
func TestSeeds(t *testing.T) {
	first, count := uint64(1), uint64(3)
	switch {
	case os.Getenv("BORNODE_STORMS") != "":
		count = 60
	case os.Getenv("BORNODE_LONG") != "":
		count = 6
	}
	if one := os.Getenv("BORNODE_NODES_SEED"); one != "" {
		n, err := strconv.ParseUint(one, 10, 64)
		require.NoError(t, err)
		first, count = n, 1
	}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := play(t, Random(seed))
			require.NoError(t, r.Err())
			require.NotZero(t, r.Transactions)
		})
	}
}

func TestQuiet(t *testing.T) {
	r := play(t, Quiet(1, 30*time.Second))
	require.NoError(t, r.Err())
	require.Greater(t, r.Final, uint64(40))
	require.NotZero(t, r.Transactions)
}
