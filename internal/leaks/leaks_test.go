package leaks

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

// What still runs when goleak has looked once, and then ends, is no leak; what goes on is.
func TestWhatEndsLateIsNoLeak(t *testing.T) {
	before := goleak.IgnoreCurrent()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); <-end }()
	require.Error(t, find(0, []goleak.Option{before}))
	go func() {
		for range 2 { // each takes as long as goleak waits
			_ = goleak.Find(before)
		}
		close(end)
	}()
	None(t, before)
	<-ended
}
