package invariant

import "fmt"

// That panics with the message unless ok.
func That(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
