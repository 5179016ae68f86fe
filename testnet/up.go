package testnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bornode/bornode/testnet/proxy"
)

// Up makes a network and starts it. It returns when blocks become final on every node. When it fails, what it started
// is stopped; the folder stays for a look at the logs.
func Up(ctx context.Context, spec Spec) (*Network, error) {
	if err := spec.prepare(); err != nil {
		return nil, err
	}
	n, err := create(spec)
	if err != nil {
		return nil, err
	}
	if err := n.startAll(ctx); err != nil {
		return nil, errors.Join(err, n.Down(context.WithoutCancel(ctx)))
	}
	return n, nil
}

func create(spec Spec) (*Network, error) {
	if err := os.MkdirAll(spec.Dir, 0o755); err != nil {
		return nil, err
	}
	count := spec.Producers + spec.Observers
	base, lock, err := claimPorts(spec.BasePort, count)
	if err != nil {
		return nil, err
	}
	n := &Network{Dir: spec.Dir, Binary: spec.Binary, BasePort: base, SlotMS: spec.Slot.Milliseconds(), Direct: spec.Direct,
		Settings: spec.Set, NodeEnv: spec.NodeEnv, portsLock: lock}
	for i := range count {
		role := "producer"
		if i >= spec.Producers {
			role = "observer"
		}
		if _, err := n.addNode(role, spec.SyncMode); err != nil {
			return nil, err
		}
	}
	if err := n.makeBrokers(spec.Brokers); err != nil {
		return nil, err
	}
	if err := n.writeGenesis(spec); err != nil {
		return nil, err
	}
	return n, n.save()
}

// addNode gives the next node its folder, keys and addresses.
func (n *Network) addNode(role, mode string) (*Node, error) {
	i := len(n.Nodes)
	if i >= maxNodes {
		return nil, fmt.Errorf("testnet: the network has %d nodes, no more are allowed", maxNodes)
	}
	httpPort, wsPort, p2p, metrics := nodePorts(n.BasePort, i)
	x := &Node{Index: i, Role: role, Dir: filepath.Join(n.Dir, "node"+strconv.Itoa(i)), SyncMode: mode,
		HTTP: "http://" + loopback(httpPort), WS: "ws://" + loopback(wsPort), P2P: loopback(p2p), Metrics: loopback(metrics)}
	if err := os.MkdirAll(x.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := makeKeys(x); err != nil {
		return nil, err
	}
	n.Nodes = append(n.Nodes, x)
	return x, nil
}

// patience is how long a start, or a transaction, may take: a slow machine's time, and what does not depend on the machine, the slots for
// which producers that start sign nothing and wait for each other.
func (n *Network) patience() time.Duration {
	return startTimeout + startSlots*time.Duration(n.SlotMS)*time.Millisecond
}

func (n *Network) startAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.patience())
	defer cancel()
	if err := n.startProxy(ctx); err != nil {
		return err
	}
	for _, x := range n.Nodes {
		if err := n.connectRoutes(ctx, x); err != nil {
			return err
		}
	}
	for _, x := range n.Nodes {
		if err := n.startNode(x); err != nil {
			return err
		}
	}
	for _, x := range n.Nodes {
		if err := n.awaitFinal(ctx, x, 1); err != nil {
			return err
		}
	}
	return n.makeDemo(ctx)
}

// startProxy starts the process between the nodes and gives it the routes known so far.
func (n *Network) startProxy(ctx context.Context) error {
	if n.Direct {
		return nil
	}
	_ = os.Remove(n.proxySocket())
	p, err := start(n.Binary, []string{"testnet", "proxy", "--dir", n.Dir}, nil, filepath.Join(n.Dir, "proxy.log"))
	if err != nil {
		return err
	}
	n.Proxy = p
	c := proxy.NewClient(n.proxySocket())
	if err := poll(ctx, func() (bool, error) {
		if !p.Alive() {
			return false, fmt.Errorf("testnet: the proxy ended at once: %s", lastLines(filepath.Join(n.Dir, "proxy.log"), 3))
		}
		return c.Ping(ctx) == nil, nil
	}); err != nil {
		return err
	}
	for _, r := range n.Routes {
		if _, err := c.AddRoute(ctx, r); err != nil {
			return err
		}
	}
	return n.save()
}

// connectRoutes makes the routes between a node and every other node, both ways.
func (n *Network) connectRoutes(ctx context.Context, x *Node) error {
	if n.Direct {
		return nil
	}
	c := proxy.NewClient(n.proxySocket())
	for _, y := range n.Nodes {
		if x == y {
			continue
		}
		for _, r := range []proxy.Route{{From: x.Index, To: y.Index, Target: y.P2P}, {From: y.Index, To: x.Index, Target: x.P2P}} {
			if n.route(r.From, r.To) != "" {
				continue
			}
			made, err := c.AddRoute(ctx, r)
			if err != nil {
				return err
			}
			n.Routes = append(n.Routes, made)
		}
	}
	return n.save()
}

// route is the address at which one node reaches another: the proxy's, or the node's own without a proxy.
func (n *Network) route(from, to int) string {
	if n.Direct {
		return n.Nodes[to].P2P
	}
	for _, r := range n.Routes {
		if r.From == from && r.To == to {
			return r.Listen
		}
	}
	return ""
}

// startNode writes the node's configuration and starts its process.
func (n *Network) startNode(x *Node, env ...string) error {
	if x.Process.Alive() {
		return fmt.Errorf("testnet: node %d runs already as process %d", x.Index, x.Process.PID)
	}
	if err := n.writeConfig(x); err != nil {
		return err
	}
	p, err := start(n.Binary, []string{"run", "--dir", x.Dir}, append(append([]string(nil), n.NodeEnv...), env...), x.LogFile())
	if err != nil {
		return err
	}
	x.Process = p
	return n.save()
}
