// Package recovery holds what operators sign and exchange when a network has lost more producers than its rules can bear
// (DESIGN §7 rule 13): the statement of a recovery with its signatures, the reports of the survivors that it is prepared from,
// and the choice of the block to go on from. Two statements beside each other show which keys signed both.
//
// All of it is pure: no clock, no disk, no goroutine, no state. Values are plain data and must not be changed once they were
// handed to another goroutine. Every decoder here takes bytes of strangers: it bounds every length, returns an error that wraps
// ErrInvalid and never panics. What a node does with a recovery is decided elsewhere (consensus/dpos, consensus, node).
package recovery
