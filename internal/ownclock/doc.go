// Package ownclock reads the clock of the machine that the node runs on, uncorrected: what nodes tell each other (rule 12
// of consensus/dpos) and go by while they know too few other clocks.
//
// A program built with the tag clockfault shows a clock that a test sets through a file; without the tag that code is not
// in the program. Now may be called from any goroutine.
package ownclock
