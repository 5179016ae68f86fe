// Package dpos is the consensus machine: slots, schedules, votes, certificates, fork choice, finality, evidence. The
// rules are in SPEC.md beside it, numbered as in the design; code refers to them as "rule 6".
//
// The machine is pure and deterministic: no clock, goroutine, I/O, randomness or signature check, and no result that
// depends on the order of a map. Events go in by Step, duties come out of Ready; the same events give the same duties.
//
//	for ev := range events {
//		if err := m.Step(ev); err != nil { ... }   // a refused event changed nothing
//		for {
//			rd, ok := m.Ready()
//			if !ok { break }
//			// records durable, then votes, production, tallies, head, final, ...
//			m.Advance()
//		}
//	}
//
// A Machine belongs to one goroutine, the driver's (package consensus). What Ready and the queries return may be read
// anywhere: the machine never changes it afterwards.
//
// Invariants: every block in the tree descends from the LIB; a block's context (source, proven final block, schedules)
// is a function of its own chain; our signatures obey rules 3 to 6 against all we ever signed, or were told of.
//
// It does not verify signatures, bodies or the content of announced schedules (execution does), keeps no bodies, counts
// no empty slots for jailing (the chain does, from headers), and knows no peers.
package dpos
