//go:build linux && cgo

package verbs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// probeWindows finds out whether memory windows work: a queue pair connected with itself exposes a place through a
// window and writes there. A failed bind breaks a queue pair, so this cannot be left to the first peer.
func (d *device) probeWindows() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), selfTestPatience)
	defer cancel()
	r, err := d.NewRegion(4096)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	c, err := d.NewCQ(16)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	f, err := d.NewQP(fabric.QPConfig{CQ: c, SendDepth: 4})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	q := f.(*qp)
	if err := q.Connect(ctx, q.Info(), true); err != nil { // its own follower: the secret arrives here too
		return err
	}
	d.windows = true
	defer func() { d.windows = err == nil }()
	remote, err := q.Expose(r, 0, 8, fabric.RemoteWrite)
	if err != nil {
		return err
	}
	mem := r.Bytes()
	copy(mem[64:], "windowed")
	if _, err := q.Post([]fabric.SendWR{{
		Op: fabric.OpWrite, Local: mem[64:72], Key: r.LocalKey(), Remote: remote.Addr, RKey: remote.Key, Signaled: true,
	}}); err != nil {
		return err
	}
	done := make([]fabric.Completion, 1)
	for {
		n, err := c.Poll(done)
		switch {
		case err != nil:
			return err
		case n == 1 && done[0].Status != fabric.StatusOK:
			return fmt.Errorf("verbs: write through a window: %s", done[0].Status)
		case n == 1 && string(mem[:8]) != "windowed":
			return errors.New("verbs: what was written through a window did not arrive")
		case n == 1:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		time.Sleep(pollPause)
	}
}
