//go:build clockfault

package ownclock

import (
	"os"
	"strings"
	"time"
)

// CanBeSet reports whether this program was built with a clock that a test can set. No release is.
const CanBeSet = true

// Variable names the file that holds by how much the clock is off, as a duration ("-3s"); it is read with each reading of
// the clock. Without the variable, or the file, the clock is right.
const Variable = "CLOCKFAULT_FILE"

// Now is the machine's clock, off by what the file says.
func Now() time.Time {
	text, err := os.ReadFile(os.Getenv(Variable))
	if err != nil {
		return time.Now()
	}
	off, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return time.Now() // half written: the next reading will do
	}
	return time.Now().Add(off)
}
