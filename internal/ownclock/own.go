//go:build !clockfault

package ownclock

import "time"

// CanBeSet reports whether this program was built with a clock that a test can set. No release is.
const CanBeSet = false

// Now is the machine's own clock.
func Now() time.Time { return time.Now() }
