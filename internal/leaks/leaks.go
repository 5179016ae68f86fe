package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds the wait for goroutines that are ending; a leak takes all of it.
const patience = time.Minute

// Main runs a package's tests, looks for goroutines that they left, and ends the process.
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := find(patience, options); err != nil {
			fmt.Fprintf(os.Stderr, "the tests passed and left goroutines: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// None fails a test that leaves goroutines.
func None(t testing.TB, options ...goleak.Option) {
	t.Helper()
	if err := find(patience, options); err != nil {
		t.Error(err)
	}
}

func find(wait time.Duration, options []goleak.Option) error {
	for end := time.Now().Add(wait); ; {
		err := goleak.Find(options...) // waits a little itself
		if err == nil || !time.Now().Before(end) {
			return err
		}
	}
}
