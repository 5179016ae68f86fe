// Package pause is the wait that a context ends.
package pause
