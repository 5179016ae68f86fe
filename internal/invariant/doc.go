// Package invariant asserts what must hold inside the node. A broken invariant is a bug of ours and panics; peer or
// client input never reaches an assertion. Cheap checks (That) are always on; costly ones belong behind Costly,
// which is true only under the build tag "invariants". It holds no state.
package invariant
