// Package clock gives a node the time of its network (rule 12 of consensus/dpos/SPEC.md): the lower median of the
// clocks of the producers whose votes count, set once and then run on the machine's monotonic clock.
//
// It is a pure core: Combine and Time know neither sockets nor clocks, the caller brings every reading. All durations
// that name an instant are nanoseconds since 1970 (wall clocks) or since an origin of the caller's (the monotonic clock).
// Nothing here is safe for concurrent use; package consensus guards its Time with a mutex.
package clock
