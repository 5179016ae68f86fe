package blockstore

import (
	"fmt"
	"sync/atomic"
)

// gate is closed for ever by the first failed write. A write or sync that failed may have left anything behind it (a
// failed fsync even drops the pages), and goleveldb gives the sequence numbers of a failed write to the next one, so
// that one would be skipped when its journal is replayed: going on could lose what is acknowledged later.
type gate struct {
	err    atomic.Pointer[error]
	closed chan struct{} // when it is
}

func newGate() *gate { return &gate{closed: make(chan struct{})} }

// check is nil while the gate is open, else an error that wraps ErrFailed and the first cause.
func (g *gate) check() error {
	if p := g.err.Load(); p != nil {
		return *p
	}
	return nil
}

// fail closes the gate and returns what every writer gets from now on.
func (g *gate) fail(what string, cause error) error {
	err := fmt.Errorf("%w: %s: %w", ErrFailed, what, cause)
	if g.err.CompareAndSwap(nil, &err) {
		close(g.closed)
	}
	return g.check()
}
