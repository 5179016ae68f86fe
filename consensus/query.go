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
