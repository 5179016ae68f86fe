package consensus

import (
	"context"

	"github.com/bornode/bornode/block"
)

// Schedule is who produces the children of the preferred head.
func (d *Driver) Schedule() (s block.Schedule, err error) {
	if e := d.do(context.Background(), true, func(c *core) { s, err = c.machine.ScheduleFor(c.machine.Head().Hash) }); e != nil {
		return nil, e
	}
	return s, err
}

// Elects reports whether the end of the epoch in which children of the preferred head lie makes an election: not while
// a change of schedule is under way.
func (d *Driver) Elects() (yes bool, err error) {
	if e := d.do(context.Background(), true, func(c *core) { yes, err = c.machine.Elects(c.machine.Head().Hash) }); e != nil {
		return false, e
	}
	return yes, err
}
