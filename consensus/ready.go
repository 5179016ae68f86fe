package consensus

import "context"

// awaitChain keeps the machine still until the chain executes: it gets no event, not even the time, so it wants no
// record, vote or block, and the wait for other producers' answers (rule 11) begins behind it. Calls that only read are
// answered.
func (c *core) awaitChain(ctx context.Context) error {
	if c.d.isReady() {
		return nil
	}
	c.d.log.Info("consensus waits: nothing is signed before the chain has executed its blocks again")
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.d.copied:
			return c.secondCopy()
		case <-c.d.deps.Ready:
			return nil
		case x := <-c.d.calls:
			if x.refused = !x.read && !x.early; !x.refused {
				x.fn(c)
			}
			close(x.done)
			if c.fatal != nil {
				return c.fatal
			}
		}
	}
}

// isReady reports whether the chain executes.
func (d *Driver) isReady() bool {
	if d.deps.Ready == nil {
		return true
	}
	select {
	case <-d.deps.Ready:
		return true
	default:
		return false
	}
}

// waitReady waits until the chain executes.
func (d *Driver) waitReady(ctx context.Context) error {
	if d.deps.Ready == nil {
		return nil
	}
	select {
	case <-d.deps.Ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.done:
		return ErrStopped
	}
}
