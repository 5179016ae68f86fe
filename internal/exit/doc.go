// Package exit says how a program ends: its exit codes, and faults, which are errors that name a file, the cause and the
// remedy in one sentence. It keeps no state and ends nothing itself: that is main's, or the fatal hook of main's logger.
package exit
