// Package mem is a network inside one process, for tests: hosts of one Network reach each other by frames in memory,
// under the same link layer as on tcp. It uses only channels, mutexes, condition variables and timers, so it runs in
// testing/synctest bubbles on virtual time.
//
// Faults are set per pair of hosts at any moment: latency, silence (a black hole that takes frames and delivers
// none), refusal of new connections, duplicated frames, and resets of the connection at once or after a number of
// frames. A host may serve a window (Host.Serve), which its peers read with faults of their own: none at all, slow, an end
// after so many bytes, changed bytes. Identities are not proved: a host is who its name says.
//
// A pipe is owned by its mutex; each host has the goroutines of its link.Peers and one per connection being set up.
package mem
