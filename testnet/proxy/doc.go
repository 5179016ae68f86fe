// Package proxy stands between the processes of a test network and disturbs real TCP: it passes, delays, black-holes,
// half-opens and resets connections between pairs of nodes, as told over a Unix socket. The nodes know nothing of it:
// they dial the proxy's addresses.
//
// A Proxy's table of routes and rules is guarded by one mutex; every connection has two goroutines that copy one
// direction each and end with the connection or with Close. What is held back by a delay is bounded by
// maxDelayedBytes per direction. It knows nothing of the bytes it moves.
package proxy
