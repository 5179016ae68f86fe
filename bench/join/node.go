package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/loopback"
	"github.com/bornode/bornode/transport"
)

const (
	startEvery = 10 * time.Millisecond // looks whether a node answers
	syncEvery  = 20 * time.Millisecond // looks whether it is in sync
	moveTime   = 30 * time.Second      // for a link to move to its provider, beyond what is measured
)

// nodeProcess is a running `bornode run`.
type nodeProcess struct {
	*process
	client *rpc.Client
	addr   string // for its peers
}

// writeConfig writes a node's bornode.toml: quiet, reachable over its Unix socket only. It returns its address.
func writeConfig(dir, ipc string, h *forge.Stored, id transport.PeerID, settings []string) (addr string, err error) {
	at, err := loopback.FreeAddr()
	if err != nil {
		return "", err
	}
	c := config.Default()
	c.Genesis = h.Genesis()
	c.Log.Level = "warn"
	c.RPC.HTTPAddr, c.RPC.IPCPath = "", ipc
	listen := fmt.Sprintf("/ip4/%s/tcp/%d", at.Addr(), at.Port())
	c.P2P.TCP.Listen = []string{listen}
	for _, s := range settings {
		if err := config.Set(c, s); err != nil {
			return "", err
		}
	}
	return listen + "/p2p/" + string(id), config.Write(filepath.Join(dir, config.FileName), c, true)
}

// startNode starts a node and returns when it answers.
func (r *runner) startNode(ctx context.Context, name, dir string, id transport.PeerID, settings []string) (n *nodeProcess, err error) {
	ipc := filepath.Join(r.sockets, name)
	addr, err := writeConfig(dir, ipc, r.history, id, settings)
	if err != nil {
		return nil, err
	}
	p, err := start(name, append(r.o.Program[:len(r.o.Program):len(r.o.Program)], "run", "--dir", dir), filepath.Join(r.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	n = &nodeProcess{process: p, addr: addr}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err = p.await(ctx, startEvery, func() (bool, error) {
		if _, err := os.Stat(ipc); err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		var err error
		if n.client, err = rpc.DialIPC(ctx, ipc); err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		var version string
		return true, n.client.CallContext(ctx, &version, "web3_clientVersion")
	})
	if err != nil {
		return nil, errors.Join(err, n.stop())
	}
	return n, nil
}

func (n *nodeProcess) stop() error {
	if n.client != nil {
		n.client.Close()
	}
	return n.process.stop()
}

// join tells the node of a peer and returns when it has the whole history and says that it is in sync.
func (n *nodeProcess) join(ctx context.Context, peer string, h *forge.Stored) error {
	var ok bool
	if err := n.client.CallContext(ctx, &ok, "admin_addPeer", peer); err != nil {
		return err
	}
	return n.await(ctx, syncEvery, func() (bool, error) {
		var s struct {
			Syncing bool   `json:"syncing"`
			Current uint64 `json:"currentBlock"`
		}
		err := n.client.CallContext(ctx, &s, "bor_syncStatus")
		return err == nil && !s.Syncing && s.Current >= h.Height, err
	})
}

// verify checks that the node has the history's blocks and tells how they came. A small history may be there before
// the link has moved to its provider: verify waits for that a while.
func (n *nodeProcess) verify(ctx context.Context, h *forge.Stored, provider string, wait time.Duration) (c carried, err error) {
	var b struct{ Hash common.Hash }
	if err := n.client.CallContext(ctx, &b, "eth_getBlockByNumber", hexutil.Uint64(h.LIB), false); err != nil {
		return c, err
	}
	if b.Hash != h.Hash {
		return c, fmt.Errorf("block %d is %s, the history's is %s", h.LIB, b.Hash, h.Hash)
	}
	ended := until(ctx, wait, syncEvery, func() bool {
		c, err = n.carried(ctx)
		return err != nil || c.Provider == provider
	})
	return c, errors.Join(err, ended)
}

func (n *nodeProcess) carried(ctx context.Context) (c carried, err error) {
	var peers []struct {
		Provider string            `json:"provider"`
		Counters map[string]uint64 `json:"counters"`
		Channel  map[string]uint64 `json:"channel"`
	}
	if err := n.client.CallContext(ctx, &peers, "bor_peers"); err != nil {
		return c, err
	}
	if len(peers) != 1 {
		return c, fmt.Errorf("the joining node has %d peers, expected the server alone", len(peers))
	}
	p := &peers[0]
	return carried{Provider: p.Provider, Ranges: p.Counters["rangeBytes"], Pulled: p.Counters["pulledBytes"], Channel: p.Channel["bytes"]}, nil
}
