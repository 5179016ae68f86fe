// Package sim runs networks of consensus/dpos machines in virtual time: a seeded, single-threaded queue of events,
// models of latency, partitions, crashes with and without the vote log, changes of schedule, and Byzantine producers
// up to (or, on demand, above) f. Checkers that share no code with the machine watch every vote, block and final
// block; each is proven by a planted bug (dpos.Bugs) that makes it fire. The same seed gives the same run, event by
// event. Seeds run side by side, one goroutine each; nothing is shared between them. There is no real I/O, no real
// signature and no execution here: those belong to the drivers' own tests. sim/model searches small cases exhaustively.
package sim
