package testnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/bornode/bornode/node"
)

// Join is what it took to bring a new node into sync.
type Join struct {
	Node         int     `json:"node"`
	Account      string  `json:"account,omitempty"` // of a producer
	Mode         string  `json:"mode"`
	Provider     string  `json:"provider"`
	Seconds      float64 `json:"seconds"`       // process start to in sync
	FirstBlock   float64 `json:"first_block_s"` // process start to a head above genesis
	Blocks       uint64  `json:"blocks"`
	Bytes        uint64  `json:"bytes"` // received from peers
	JoinerCPU    float64 `json:"joiner_cpu_s"`
	ServersCPU   float64 `json:"servers_cpu_s"` // all other nodes together over the same time, their own work included
	MBPerSecond  float64 `json:"mb_per_s"`
	BlocksPerSec float64 `json:"blocks_per_s"`
}

// AddOptions of a joining node.
type AddOptions struct {
	SyncMode string // full or certified
	Producer bool   // with a producer's keys and role; it is no candidate until it registers
	Register bool   // and registers: stakes the minimum, which a funded account pays, and votes for itself
}

// Add admits a new node, starts it and returns when it is in sync.
func (n *Network) Add(ctx context.Context, o AddOptions) (*Join, error) {
	if o.SyncMode == "" {
		o.SyncMode = "certified"
	}
	if o.SyncMode != "full" && o.SyncMode != "certified" {
		return nil, fmt.Errorf("testnet: sync mode %q; use full or certified", o.SyncMode)
	}
	if o.Register && !o.Producer {
		return nil, errors.New("testnet: only a producer registers; give --producer with --register")
	}
	if _, err := n.checkProgram(); err != nil { // before a member is admitted
		return nil, err
	}
	urls := n.Endpoints()
	if len(urls) == 0 {
		return nil, fmt.Errorf("testnet: no node of %s runs; start one with `bornode testnet restart --dir %s --node 0`", n.Dir, n.Dir)
	}
	role := "observer"
	if o.Producer {
		role = "producer"
	}
	x, err := n.addNode(role, o.SyncMode)
	if err != nil {
		return nil, err
	}
	if err := n.takeRecoveries(x); err != nil {
		return nil, err
	}
	if err := n.admit(ctx, urls[0], x); err != nil {
		return nil, err
	}
	if err := n.connectRoutes(ctx, x); err != nil {
		return nil, err
	}
	before := n.serversCPU(x)
	begun := time.Now()
	if err := n.startNode(x); err != nil {
		return nil, err
	}
	j := &Join{Node: x.Index, Mode: o.SyncMode}
	if o.Producer {
		j.Account = x.Account.Hex()
	}
	s, err := n.await(ctx, x, func(s Status) bool {
		if s.Head > 0 && j.FirstBlock == 0 {
			j.FirstBlock = time.Since(begun).Seconds()
		}
		return s.Synced && s.Final > 0
	})
	if err != nil {
		return nil, err
	}
	j.Seconds = time.Since(begun).Seconds()
	j.Blocks = s.Head
	j.JoinerCPU = x.Process.CPU().Seconds()
	j.ServersCPU = (n.serversCPU(x) - before).Seconds()
	if err := j.traffic(ctx, x); err != nil {
		return nil, err
	}
	j.BlocksPerSec = float64(j.Blocks) / j.Seconds
	j.MBPerSecond = float64(j.Bytes) / 1e6 / j.Seconds
	if !o.Register {
		return j, nil
	}
	c, err := ethclient.DialContext(ctx, urls[0])
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return j, n.register(ctx, c, x)
}

// takeRecoveries gives a new node the recoveries that the node with the most goes by. For an empty folder that is what bornode recover
// apply does; without them the others send the node away.
func (n *Network) takeRecoveries(x *Node) error {
	var most []string
	for _, y := range n.Nodes {
		applied, err := filepath.Glob(filepath.Join(y.Dir, node.RecoveryFolder, "applied-*.json"))
		if err != nil {
			return err
		}
		if y != x && len(applied) > len(most) {
			most = applied
		}
	}
	for _, name := range most {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		to := filepath.Join(x.Dir, node.RecoveryFolder, filepath.Base(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, b, 0o600)); err != nil {
			return fmt.Errorf("testnet: give node %d the recovery that the others go by, %s: %w; or do it with `bornode recover apply %s --dir %s`", x.Index, name, err, name, x.Dir)
		}
	}
	return nil
}

func (n *Network) serversCPU(joiner *Node) time.Duration {
	var sum time.Duration
	for _, y := range n.Nodes {
		if y != joiner {
			sum += y.Process.CPU()
		}
	}
	return sum
}

// traffic fills in bytes and provider from the joiner's own peers.
func (j *Join) traffic(ctx context.Context, x *Node) error {
	c, err := rpc.DialContext(ctx, x.HTTP)
	if err != nil {
		return err
	}
	defer c.Close()
	var peers []struct {
		Provider string            `json:"provider"`
		Counters map[string]uint64 `json:"counters"`
	}
	if err := c.CallContext(ctx, &peers, "bor_peers"); err != nil {
		return err
	}
	for _, p := range peers {
		j.Bytes += p.Counters["bytesReceived"]
		j.Provider = p.Provider
	}
	return nil
}
