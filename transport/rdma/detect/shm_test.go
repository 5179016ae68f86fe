//go:build linux

package detect

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/rdma"
	"github.com/bornode/bornode/transport/rdma/shm"
)

// memory is shared memory of this host as a backend; it opens a new device each time it is asked.
type memory struct {
	t testing.TB

	mu     sync.Mutex
	device *rdma.Device
}

// reachable is the rendezvous of a device.
type reachable struct{ *shm.Device }

func (r reachable) Reach(ctx context.Context, rendezvous []byte) error {
	return errors.Join(ctx.Err(), r.Reachable(rendezvous))
}

func (m *memory) Open() (*Endpoint, error) {
	fd, err := shm.Open(shm.DefaultConfig(), testLog(m.t).Named("shm"))
	if err != nil {
		return nil, err
	}
	cfg := rdma.DefaultConfig()
	cfg.PoolBytes = 64 << 20
	d, err := rdma.Open(fd, cfg, testLog(m.t).Named("rdma"), nil)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.device = d
	return &Endpoint{Device: Wrap(d), Provider: d.Caps().Provider, Name: d.Caps().Device, Host: reachable{fd}}, nil
}

func (m *memory) breakAll(peer transport.PeerID) int {
	m.mu.Lock()
	d := m.device
	m.mu.Unlock()
	return d.Break(peer)
}

// overMemory opens shared memory for every host.
func overMemory(t testing.TB, _ int) ([]Backend, breakable) {
	m := &memory{t: t}
	return []Backend{m}, m
}

// TestConformance is the whole stack: tcp, and shared memory as soon as the two sides agreed on it.
func TestConformance(t *testing.T) {
	conformance.Run(t, newStack(overMemory).harness("shm"))
}

// BenchmarkLink is a link over shared memory, with the hosts above it as they are in a node.
func BenchmarkLink(b *testing.B) {
	h := newStack(overMemory).harness("shm")
	require.NotNil(b, h.Ready)
	conformance.Benchmark(b, h)
}
