package testnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bornode/bornode/testnet/proxy"
)

// Kill ends a node as a power cut would: SIGKILL.
func (n *Network) Kill(ctx context.Context, i int) error {
	x, err := n.Node(i)
	if err != nil {
		return err
	}
	if !x.Process.Alive() {
		return fmt.Errorf("testnet: node %d is not running", i)
	}
	return x.Process.kill(ctx)
}

// Stop ends a node in order (SIGTERM).
func (n *Network) Stop(ctx context.Context, i int) error {
	x, err := n.Node(i)
	if err != nil {
		return err
	}
	return x.Process.stop(ctx)
}

// Restart stops a node if it runs, starts it and returns when its JSON-RPC answers and it has its newest state. env is added to its environment.
func (n *Network) Restart(ctx context.Context, i int, env ...string) error {
	x, err := n.Node(i)
	if err != nil {
		return err
	}
	if _, err := n.checkProgram(); err != nil { // before the node is stopped
		return err
	}
	if err := x.Process.stop(ctx); err != nil {
		return err
	}
	if !n.Direct && !n.Proxy.Alive() { // after a reboot of the machine, say
		if err := n.startProxy(ctx); err != nil {
			return err
		}
	}
	if err := n.startNode(x, env...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.patience())
	defer cancel()
	_, err = n.await(ctx, x, func(s Status) bool { return s.Sync != "replay" && s.Sync != "healing" })
	return err
}

// Start starts the nodes that do not run, and the proxy between the nodes, and returns when a block is final on every
// node. What runs is left alone.
func (n *Network) Start(ctx context.Context) error {
	if _, err := n.checkProgram(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, n.patience())
	defer cancel()
	if !n.Direct && !n.Proxy.Alive() {
		if err := n.startProxy(ctx); err != nil {
			return err
		}
	}
	for _, x := range n.Nodes {
		if x.Process.Alive() {
			continue
		}
		if err := n.startNode(x); err != nil {
			return err
		}
	}
	for _, x := range n.Nodes {
		if err := n.awaitFinal(ctx, x, 1); err != nil {
			return err
		}
	}
	return nil
}

// ParseGroups reads "0,1/2,3": groups of nodes that go on seeing each other.
func ParseGroups(s string) ([][]int, error) {
	var out [][]int
	for part := range strings.SplitSeq(s, "/") {
		var g []int
		for w := range strings.SplitSeq(part, ",") {
			i, err := strconv.Atoi(strings.TrimSpace(w))
			if err != nil || i < 0 {
				return nil, fmt.Errorf("testnet: groups %q: write them like 0,1/2,3", s)
			}
			g = append(g, i)
		}
		out = append(out, g)
	}
	return out, nil
}

// Partition lets only nodes of one group talk to each other. A node in no group keeps its connections. rule says what
// happens to the rest: black-hole, half-open, reset, or a delay.
func (n *Network) Partition(ctx context.Context, groups [][]int, rule proxy.Rule) error {
	if n.Direct {
		return errors.New("testnet: the network was started with --direct, without the proxy that cuts connections")
	}
	group := make(map[int]int)
	for g, members := range groups {
		for _, i := range members {
			if _, err := n.Node(i); err != nil {
				return err
			}
			if _, twice := group[i]; twice {
				return fmt.Errorf("testnet: node %d stands in two groups", i)
			}
			group[i] = g
		}
	}
	c := proxy.NewClient(n.proxySocket())
	for a := range n.Nodes {
		for b := a + 1; b < len(n.Nodes); b++ {
			ga, oka := group[a]
			gb, okb := group[b]
			r := proxy.Rule{Mode: proxy.Pass}
			if oka && okb && ga != gb {
				r = rule
			}
			if err := c.SetRule(ctx, a, b, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Heal ends all partitions and delays.
func (n *Network) Heal(ctx context.Context) error {
	if n.Direct {
		return nil
	}
	return proxy.NewClient(n.proxySocket()).Heal(ctx)
}

// RunProxy is the process between the nodes: it serves the network's control socket until ctx ends.
func RunProxy(ctx context.Context, dir string) error {
	n, err := Open(dir)
	if err != nil {
		return err
	}
	p := proxy.New()
	defer p.Close()
	return p.ServeControl(ctx, n.proxySocket())
}

// Down stops every process of the network that still runs.
func (n *Network) Down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*stopTimeout)
	defer cancel()
	var errs []error
	for _, x := range n.Nodes { // all at once, then wait for each
		errs = append(errs, x.Process.signal(syscall.SIGTERM))
	}
	for _, x := range n.Nodes {
		errs = append(errs, x.Process.stop(ctx))
	}
	errs = append(errs, n.Proxy.kill(ctx))
	if n.portsLock != nil {
		_ = n.portsLock.Close()
		n.portsLock = nil
	}
	return errors.Join(errs...)
}

// Delete removes the folder of a network that is down.
func (n *Network) Delete() error {
	for _, x := range n.Nodes {
		if x.Process.Alive() {
			return fmt.Errorf("testnet: node %d still runs as process %d", x.Index, x.Process.PID)
		}
	}
	return os.RemoveAll(n.Dir)
}

// Slot is the slot length.
func (n *Network) Slot() time.Duration { return time.Duration(n.SlotMS) * time.Millisecond }
