package ownclock

import (
	"go/build"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock that can be set is in no program that is built without its tag.
func TestReleaseHasNoClockThatCanBeSet(t *testing.T) {
	tagged := build.Default
	tagged.BuildTags = []string{"clockfault"}
	plain := build.Default
	plain.BuildTags = nil
	for name, want := range map[string][2]bool{"fault.go": {false, true}, "own.go": {true, false}} {
		in, err := plain.MatchFile(".", name)
		require.NoError(t, err)
		require.Equal(t, want[0], in, "%s without the tag", name)
		in, err = tagged.MatchFile(".", name)
		require.NoError(t, err)
		require.Equal(t, want[1], in, "%s with it", name)
	}
}

func TestNowIsTheMachinesClock(t *testing.T) {
	if CanBeSet {
		t.Setenv("CLOCKFAULT_FILE", "")
	}
	before := time.Now()
	now := Now()
	require.False(t, now.Before(before))
	require.False(t, time.Now().Before(now))
}
