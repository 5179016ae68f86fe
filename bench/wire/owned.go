package wire

import (
	"errors"
	"sync"
)

// owned closes what a carrier opened, the newest first. It may be closed by anyone, also while the carrier still
// opens: what comes later is closed at once.
type owned struct {
	mu     sync.Mutex
	closed bool
	list   []func() error
	err    error
}

func (o *owned) own(closer func() error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		o.err = errors.Join(o.err, closer())
		return
	}
	o.list = append(o.list, closer)
}

func (o *owned) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for i := len(o.list) - 1; i >= 0; i-- {
		o.err = errors.Join(o.err, o.list[i]())
	}
	o.list = nil
	return o.err
}
