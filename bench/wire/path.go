package wire

import (
	"context"
	"fmt"
	"strings"

	"github.com/bornode/bornode/transport"
)

// Levels at which a path is used.
const (
	Socket  = "socket"  // bytes, messages of a known size
	Channel = "channel" // frames of a transport.Provider
	LinkUp  = "link"    // messages of a transport.Link: lanes, credits, resend
)

// Ways of waiting for a message.
const (
	Polled = "polled" // the receiver never sleeps
	Slept  = "slept"  // it sleeps at once
	Spin   = "spin"   // it polls as long as a node's configuration says, then sleeps
)

// Path is one way from process to process.
type Path struct {
	Provider string `json:"provider"` // raw-tcp, tcp, shm, rdma, rdma-rxe
	Level    string `json:"level"`
	Wait     string `json:"wait"`
}

// String is the path as in tables.
func (p Path) String() string { return fmt.Sprintf("%s %s, %s", p.Provider, p.Level, p.Wait) }

// ParsePath reads "provider/level/wait".
func ParsePath(s string) (Path, error) {
	f := strings.Split(s, "/")
	if len(f) != 3 {
		return Path{}, fmt.Errorf("path %q: write it as provider/level/wait, for example raw-tcp/socket/slept", s)
	}
	return Path{Provider: f[0], Level: f[1], Wait: f[2]}, nil
}

// end is one end of a path, with one peer. One goroutine sends on a lane, another receives from it; close by anyone
// wakes both.
type end interface {
	// send hands over n equal messages, at once where the path can. The payload is not changed afterwards.
	send(lane transport.Lane, payload []byte, n int) error
	// receive waits for the next message of the lane, of the given size, and returns its first byte.
	receive(lane transport.Lane, size int) (byte, error)
}

// carrier makes the ends of one kind of path in one of the two processes. The far one offers, the near one answers the
// offer, then both join at the same time, the far one with the answer. Blobs are the carrier's own affair.
type carrier interface {
	offer(ctx context.Context, peers int) ([][]byte, error)
	answer(ctx context.Context, offer [][]byte) ([][]byte, error)
	join(ctx context.Context, answer [][]byte) ([]end, error)
	// close closes the ends too. It may be called by anyone, more than once.
	close() error
}

// newCarrier makes the carrier of a path.
func newCarrier(p Path) (carrier, error) {
	switch {
	case p.Provider == rawTCP && p.Level == Socket && p.Wait != Spin:
		return &sockets{polled: p.Wait == Polled}, nil
	case p.Provider == libp2pTCP && p.Level == LinkUp && p.Wait == Slept:
		return new(hosts), nil
	}
	c, err := newChannels(p)
	if err != nil {
		return nil, fmt.Errorf("there is no path %s: %w", p, err)
	}
	return c, nil
}

// Provider names beside those of package rdma.
const (
	rawTCP    = "raw-tcp"
	libp2pTCP = "tcp"
)

// Paths lists what can be measured on this machine, the ones to compare with first, and why something is missing.
func Paths() (paths []Path, missing []string) {
	paths = []Path{
		{rawTCP, Socket, Polled},
		{rawTCP, Socket, Slept},
		{libp2pTCP, LinkUp, Slept},
	}
	fast, missing := fastPaths()
	return append(paths, fast...), missing
}
