// Package conformance is the test suite that every transport.Host has to pass, whatever provider moves its bytes:
// order, priority and credit of lanes, wrap-around of counters, reconnecting without loss or doubling, closing,
// gating, and peers that break the protocol. A provider's test calls Run with a Harness; the suite asserts behaviour,
// never speed.
//
// It owns no goroutine beyond those of a running test.
package conformance
