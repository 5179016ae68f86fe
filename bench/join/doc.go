// Package join measures a node that joins: how long it takes to get a history from one server over each provider, and
// what processor time that costs the joiner and the server. The history is made once by forge and kept.
//
// The server is a real node process with the finished history and no new blocks. Two phases are measured. In the
// transfer phase the joiner is a process (Transfer) with the real host, sync manager and block store, but a driver that
// only checks digests and appends: receive, check, store, no execution. In the whole join it is a node process
// with an empty folder. Both begin when the joiner, running already, is told of the server, and end when the last
// irreversible block is durable, or when the node says that it is in sync.
//
// Processor time is read from the two processes' CPU clocks ten times a second and at both ends. Runs of all routes
// (tcp, shm push, shm pull) are interleaved, each with two new processes; the server's files are in the page cache.
// Measure owns all processes and folders of a run and has ended or removed them when it returns; it is one goroutine
// but for the sampler.
package join
