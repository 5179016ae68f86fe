package blocksync

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma"
	"github.com/bornode/bornode/transport/rdma/detect"
	"github.com/bornode/bornode/transport/rdma/shm"
	"github.com/bornode/bornode/transport/tcp"
)

// fastHost is a host on tcp whose links are given out once they are carried by shared memory.
type fastHost struct {
	*tcp.Host
	upgrader *detect.Upgrader
	links    chan transport.Link
	wg       sync.WaitGroup

	mu     sync.Mutex
	source transport.Source
	device *rdma.Device
}

// Serve offers a window over shared memory.
func (f *fastHost) Serve(src transport.Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.source = src
	f.device.Serve(src)
}

type sameHost struct{ *shm.Device }

func (h sameHost) Reach(_ context.Context, rendezvous []byte) error { return h.Reachable(rendezvous) }

func newFastHost(t *testing.T) *fastHost {
	f := &fastHost{links: make(chan transport.Link, 64)}
	open := func() (*detect.Endpoint, error) {
		fd, err := shm.Open(shm.DefaultConfig(), nil)
		if err != nil {
			return nil, err
		}
		d, err := rdma.Open(fd, rdma.DefaultConfig(), nil, nil)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		d.Serve(f.source)
		f.device = d
		return &detect.Endpoint{Device: detect.Wrap(d), Provider: "shm", Name: "host", Host: sameHost{fd}}, nil
	}
	up := detect.DefaultConfig()
	up.ProbeTimeout = time.Minute
	var err error
	f.upgrader, err = detect.New(up, []detect.Backend{detect.BackendFunc(open)}, nil, nil)
	require.NoError(t, err)
	id, err := tcp.GenerateIdentity()
	require.NoError(t, err)
	cfg := tcp.DefaultConfig()
	cfg.Listen, cfg.Upgrader = []string{"/ip4/127.0.0.1/tcp/0"}, f.upgrader
	cfg.Link.CloseTimeout = 15 * time.Second // as on tcp
	f.Host, err = tcp.New(cfg, id, nil, nil)
	require.NoError(t, err)
	f.wg.Go(f.forward)
	return f
}

// forward holds every link back until it has left tcp.
func (f *fastHost) forward() {
	defer close(f.links)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for l := range f.Host.Links() {
		waiting.Go(func() {
			poll := time.NewTicker(time.Millisecond)
			defer poll.Stop()
			for l.Path().Provider != "shm" {
				select {
				case <-l.Done():
					return
				case <-poll.C:
				}
			}
			f.links <- l
		})
	}
}

func (f *fastHost) Links() <-chan transport.Link { return f.links }

func (f *fastHost) Close() error {
	err := errors.Join(f.Host.Close(), f.upgrader.Close())
	f.wg.Wait()
	return err
}
