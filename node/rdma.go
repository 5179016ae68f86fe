package node

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

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
	cfg := &n.cfg.RDMA
	if cfg.Detect.Mode == detect.Off {
		return nil, nil
	}
	var backends []detect.Backend
	if cfg.Detect.SHM {
		backends = append(backends, detect.BackendFunc(n.openSHM))
	}
	ports, err := verbs.Find(cfg.Device)
	switch {
	case err != nil:
		backends = append(backends, detect.BackendFunc(func() (*detect.Endpoint, error) { return nil, err }))
	case len(ports) > maxPorts:
		ports = ports[:maxPorts]
	}
	for _, p := range ports {
		backends = append(backends, detect.BackendFunc(func() (*detect.Endpoint, error) { return n.openPort(p) }))
	}
	u, err := detect.New(cfg.Detect, backends, n.log.Named("rdma"), n.reg)
	if err != nil {
		return nil, err
	}
	n.onClose(u.Close)
	return u, nil
}

// openDevice puts channels on a fabric device and offers the node's history to the peers that use it.
func (n *Node) openDevice(fd fabric.Device, label string) (*rdma.Device, error) {
	reg := prometheus.WrapRegistererWith(prometheus.Labels{"device": label}, n.reg)
	d, err := rdma.Open(fd, n.cfg.RDMA.Channel, n.log.Named("rdma"), reg)
	if err != nil {
		return nil, err
	}
	d.Serve(n.store.Window())
	return d, nil
}

func (n *Node) openSHM() (*detect.Endpoint, error) {
	fd, err := shm.Open(n.cfg.RDMA.SHM, n.log.Named("shm"))
	if err != nil {
		return nil, err
	}
	d, err := n.openDevice(fd, "host")
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
func (n *Node) openPort(p verbs.Endpoint) (*detect.Endpoint, error) {
	cfg := n.cfg.RDMA.Device
	named := cfg.Device != "" || cfg.Address != ""
	cfg.Device, cfg.Port, cfg.GIDIndex = p.Device, p.Port, p.GIDIndex
	fd, err := verbs.Open(cfg, n.log.Named("verbs"))
	if err != nil {
		return nil, err
	}
	d, err := n.openDevice(fd, p.Device)
	if err != nil {
		return nil, err
	}
	return &detect.Endpoint{
		Device: detect.Wrap(d), Provider: d.Caps().Provider, Name: p.String(), InfiniBand: p.Link == verbs.LinkInfiniBand,
		Port: p.Port, MTU: p.MTU, GID: p.GID, Addr: p.Addr, Named: named,
	}, nil
}
