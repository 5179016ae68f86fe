package node

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/rdma"
	"github.com/bornode/bornode/transport/rdma/detect"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/shm"
	"github.com/bornode/bornode/transport/rdma/verbs"
)

// maxPorts bounds the ports of network devices that are offered to peers, so that with shared memory they fit what an
// upgrader takes.
const maxPorts = 7

// openUpgrader opens what links can leave tcp for; nil without an error if they shall not.
func (n *Node) openUpgrader() (link.Upgrader, error) {
	u, err := OpenUpgrader(&n.cfg.RDMA, n.store.Window(), n.log, n.reg)
	if u == nil {
		return nil, err
	}
	n.onClose(u.Close)
	return u, nil
}

// faster opens the devices over which links can leave tcp.
type faster struct {
	cfg    *config.RDMA
	window transport.Source
	log    *zap.Logger
	reg    prometheus.Registerer
}

// OpenUpgrader opens what links can leave tcp for, on devices that offer the window to peers; nil without an error if
// the settings say that they shall not. The caller closes it. reg may be nil.
func OpenUpgrader(cfg *config.RDMA, window transport.Source, log *zap.Logger, reg prometheus.Registerer) (*detect.Upgrader, error) {
	if cfg.Detect.Mode == detect.Off {
		return nil, nil
	}
	f := &faster{cfg, window, log, reg}
	var backends []detect.Backend
	if cfg.Detect.SHM {
		backends = append(backends, detect.BackendFunc(f.openSHM))
	}
	ports, err := verbs.Find(cfg.Device)
	switch {
	case err != nil:
		backends = append(backends, detect.BackendFunc(func() (*detect.Endpoint, error) { return nil, err }))
	case len(ports) > maxPorts:
		ports = ports[:maxPorts]
	}
	for _, p := range ports {
		backends = append(backends, detect.BackendFunc(func() (*detect.Endpoint, error) { return f.openPort(p) }))
	}
	return detect.New(cfg.Detect, backends, log.Named("rdma"), reg)
}

// openDevice puts channels on a fabric device and offers the window to the peers that use it.
func (f *faster) openDevice(fd fabric.Device, label string) (*rdma.Device, error) {
	reg := prometheus.WrapRegistererWith(prometheus.Labels{"device": label}, f.reg)
	d, err := rdma.Open(fd, f.cfg.Channel, f.log.Named("rdma"), reg)
	if err != nil {
		return nil, err
	}
	d.Serve(f.window)
	return d, nil
}

func (f *faster) openSHM() (*detect.Endpoint, error) {
	fd, err := shm.Open(f.cfg.SHM, f.log.Named("shm"))
	if err != nil {
		return nil, err
	}
	d, err := f.openDevice(fd, "host")
	if err != nil {
		return nil, err
	}
	return &detect.Endpoint{Device: detect.Wrap(d), Provider: d.Caps().Provider, Name: d.Caps().Device, Host: sameHost{fd}}, nil
}

// sameHost is shared memory's rendezvous as the upgrader asks for it.
type sameHost struct{ *shm.Device }

// Reach implements detect.Host.
func (h sameHost) Reach(ctx context.Context, rendezvous []byte) error {
	return errors.Join(ctx.Err(), h.Reachable(rendezvous))
}

// openPort opens one port of a network device.
func (f *faster) openPort(p verbs.Endpoint) (*detect.Endpoint, error) {
	cfg := f.cfg.Device
	named := cfg.Device != "" || cfg.Address != ""
	cfg.Device, cfg.Port, cfg.GIDIndex = p.Device, p.Port, p.GIDIndex
	fd, err := verbs.Open(cfg, f.log.Named("verbs"))
	if err != nil {
		return nil, err
	}
	d, err := f.openDevice(fd, p.Device)
	if err != nil {
		return nil, err
	}
	return &detect.Endpoint{
		Device: detect.Wrap(d), Provider: d.Caps().Provider, Name: p.String(), InfiniBand: p.Link == verbs.LinkInfiniBand,
		Port: p.Port, MTU: p.MTU, GID: p.GID, Addr: p.Addr, Named: named,
	}, nil
}
