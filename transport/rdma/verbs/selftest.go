//go:build linux && cgo

package verbs

import (
	"context"
	"errors"
	"fmt"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// windows is what a device's memory windows are good for.
type windows uint8

const (
	windowsNone    windows = iota // they do not work
	windowsLoose                  // bound to the queue pair, but reaching over the whole registration behind (software RoCE)
	windowsBounded                // as they should be
)

// String says how memory is exposed.
func (w windows) String() string {
	switch w {
	case windowsLoose:
		return "memory windows on registrations of their own"
	case windowsBounded:
		return "memory windows"
	}
	return "registrations instead of memory windows"
}

// probeWindows finds out what memory windows are good for: a queue pair connected with itself exposes a place through
// a window, writes there, and then just beside it. A failed bind breaks a queue pair, so this cannot be left to the
// first peer.
func (d *device) probeWindows() (_ windows, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), selfTestPatience)
	defer cancel()
	r, err := d.NewRegion(4096)
	if err != nil {
		return windowsNone, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	c, err := d.NewCQ(16)
	if err != nil {
		return windowsNone, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s, err := d.NewSRQ(4)
	if err != nil {
		return windowsNone, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	q, err := d.NewQP(fabric.QPConfig{CQ: c, SRQ: s, SendDepth: 4})
	if err != nil {
		return windowsNone, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	if err := q.Connect(ctx, q.Info(), true); err != nil { // its own follower
		return windowsNone, err
	}
	d.windows = windowsBounded // Expose asks for it; openAt sets what is found
	remote, err := q.Expose(r, 64, 8, fabric.RemoteWrite)
	if err != nil {
		return windowsNone, err
	}
	try := func(beside uint64) (fabric.Status, error) {
		if _, err := q.Post([]fabric.SendWR{{
			Op: fabric.OpWrite, Local: r.Bytes()[:8], Key: r.LocalKey(), Remote: remote.Addr + beside, RKey: remote.Key, Signaled: true,
		}}); err != nil {
			return 0, err
		}
		return completion(ctx, c)
	}
	copy(r.Bytes(), "windowed")
	switch status, err := try(0); {
	case err != nil:
		return windowsNone, err
	case status != fabric.StatusOK || string(r.Bytes()[64:72]) != "windowed":
		return windowsNone, fmt.Errorf("verbs: a write through a window did not arrive (%s)", status)
	}
	switch status, err := try(8); {
	case err != nil:
		return windowsNone, err
	case status == fabric.StatusOK:
		return windowsLoose, nil
	}
	return windowsBounded, nil
}

// completion waits for one completion without sleeping in Wait.
func completion(ctx context.Context, c fabric.CQ) (fabric.Status, error) {
	p := newPacer()
	defer p.timer.Stop()
	done := make([]fabric.Completion, 1)
	for {
		if n, err := c.Poll(done); err != nil || n == 1 {
			return done[0].Status, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-p.timer.C:
			p.again()
		}
	}
}
