// Package leaks fails a test, or a package's tests, that leave goroutines running.
//
// It asks goleak, which by itself waits less than half a second for those that are ending. On a machine with much else to
// do that is short, so that it is asked again for a minute before what is left counts.
package leaks
