// Package usage puts mistakes on a command line into words, alike in all programs: an unknown command or flag, a value
// of another kind, an argument too many. Each message names what was given, what is taken, and where to read more. It
// keeps no state and runs on the goroutine that parses the command line; the programs choose the exit code.
package usage
