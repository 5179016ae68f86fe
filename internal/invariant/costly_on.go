//go:build invariants

package invariant

// Costly reports whether checks that cost more than a comparison run.
const Costly = true
