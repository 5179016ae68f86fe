// Package model searches every run of the voting rules at small bounds for two conflicting final blocks. It is written
// from the rules alone (consensus/dpos/SPEC.md; "rule 6" means the same there), shares no code with package dpos, and
// its tests hold the machine against it: the machine never votes what the model forbids, and both accept the same
// records and certificates.
//
// Bounds: 4 producers of which 1 is Byzantine, every tree of up to 4 blocks. A tree is parents, slots (only their order
// matters to the rules, ties included) and the certificates in the records. For the change of schedule every block ends
// an epoch, and the search starts either before the announcement (Announcing) or where both schedules begin to count
// (Changing); the schedules differ in 1 to 3 of 4 seats and share the Byzantine producer. Since it signs everything, one
// such producer in each schedule would be the same.
//
// A run is the honest producers' votes in some order. An honest producer casts any vote that rules 3, 5 and 6 allow: it
// may know all that exists, or nothing. The Byzantine producer has signed every vote from the start, so a certificate
// exists once q-1 honest votes of each schedule that counts do. A block exists once its parent and the certificates in
// its record do; existing forbids nothing, so the tree is fixed before the run and needs no transition of its own. Anyone
// may make a block of any slot: more than rule 1 allows.
//
// Reductions, each without loss:
//   - trees equal but for the names of blocks of one slot are searched once; so are states equal but for the names of
//     honest producers that sit in the same schedules;
//   - a tree without two conflicting blocks has nothing to disagree on;
//   - a record does not carry QC(A) beside FC(B) for A not above B, as FC(B) proves more (the tests check that such
//     records are valid); without a change of schedule it carries no FC, as FC(A) needs QC(A) and proves no newer source;
//   - with a change of schedule, only trees are searched in which it takes effect: if all blocks count under the old
//     schedule, or all under both, a run without the other votes is a run of the search without a change.
//
// Not modelled: liveness, fork choice and patience (an honest vote is not bound to the preferred branch, so whatever they
// choose is covered), execution, clocks, rule 10's slowing, WAL and restarts, signatures, evidence, a second change, and
// schedules that differ between branches (the end-of-epoch call is deterministic, but branches may hold different state;
// an announced schedule takes effect only after its block is final, which is what the search proves unique).
//
// Search is a pure function of Options and keeps no state. With BORNODE_LONG=1 the tests search every record at 4 blocks
// and the changes of schedule (about 30 million states, under a minute on one core); without it 4 blocks of one schedule.
// Search takes 5 blocks too: 537 million states and no violation, in some minutes.
package model
