package testnet

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
)

// Status of one node; Error says why it did not answer.
type Status struct {
	Index  int         `json:"index"`
	Role   string      `json:"role"`
	PID    int         `json:"pid"`
	Alive  bool        `json:"alive"`
	HTTP   string      `json:"http"`
	Broker string      `json:"broker,omitempty"`
	Head   uint64      `json:"head"`
	Hash   common.Hash `json:"hash"`
	Safe   uint64      `json:"safe"`
	Final  uint64      `json:"final"`
	LIB    common.Hash `json:"final_hash"`
	Peers  int         `json:"peers"`
	Sync   string      `json:"sync"`
	CPU    float64     `json:"cpu_seconds"`
	Error  string      `json:"error,omitempty"`
	Synced bool        `json:"in_sync"`
}

const callTimeout = 5 * time.Second

// Status asks every node.
func (n *Network) Status(ctx context.Context) []Status {
	out := make([]Status, len(n.Nodes))
	done := make(chan struct{})
	for i, x := range n.Nodes {
		go func() {
			out[i] = n.status(ctx, x)
			done <- struct{}{}
		}()
	}
	for range n.Nodes {
		<-done
	}
	return out
}

func (n *Network) status(ctx context.Context, x *Node) Status {
	s := Status{Index: x.Index, Role: x.Role, PID: x.Process.PID, Alive: x.Process.Alive(), HTTP: x.HTTP, Broker: x.Broker, CPU: x.Process.CPU().Seconds()}
	if !s.Alive {
		s.Error = "not running"
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.ask(ctx, x.HTTP); err != nil {
		s.Error = err.Error()
	}
	return s
}

func (s *Status) ask(ctx context.Context, url string) error {
	c, err := rpc.DialContext(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close()
	var fin struct {
		Head, Safe, Final struct {
			Number hexutil.Uint64
			Hash   common.Hash
		}
	}
	if err := c.CallContext(ctx, &fin, "bor_finality"); err != nil {
		return err
	}
	s.Head, s.Hash = uint64(fin.Head.Number), fin.Head.Hash
	s.Safe, s.Final, s.LIB = uint64(fin.Safe.Number), uint64(fin.Final.Number), fin.Final.Hash
	var peers hexutil.Uint
	if err := c.CallContext(ctx, &peers, "net_peerCount"); err != nil {
		return err
	}
	s.Peers = int(peers)
	var sync struct {
		State   string `json:"state"`
		Syncing bool   `json:"syncing"`
	}
	if err := c.CallContext(ctx, &sync, "bor_syncStatus"); err != nil {
		return err
	}
	s.Sync, s.Synced = sync.State, !sync.Syncing
	return nil
}

// await returns the node's first status that satisfies ok. It fails at once when the process is gone, and says what
// was seen last when ctx ends.
func (n *Network) await(ctx context.Context, x *Node, ok func(Status) bool) (Status, error) {
	var s Status
	err := poll(ctx, func() (bool, error) {
		s = n.status(ctx, x)
		if !s.Alive {
			return false, fmt.Errorf("testnet: node %d is not running; its last words:\n%s", x.Index, lastLines(x.LogFile(), 5))
		}
		return s.Error == "" && ok(s), nil
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("testnet: node %d did not get there in time (alive %t, head %d, final %d, %d peers, %s %s); its last words:\n%s: %w",
			x.Index, s.Alive, s.Head, s.Final, s.Peers, s.Sync, s.Error, lastLines(x.LogFile(), 5), err)
	}
	return s, err
}

// awaitFinal returns when the node's LIB has reached a height.
func (n *Network) awaitFinal(ctx context.Context, x *Node, height uint64) error {
	_, err := n.await(ctx, x, func(s Status) bool { return s.Final >= height })
	return err
}

// PrintStatus writes a table.
func PrintStatus(w io.Writer, list []Status) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tROLE\tPID\tHEAD\tFINAL\tLAG\tPEERS\tSYNC\tCPU s\tJSON-RPC\tTOPICS\t")
	topics := func(s Status) string { return cmp.Or(s.Broker, "-") }
	for _, s := range list {
		if s.Error != "" {
			fmt.Fprintf(t, "%d\t%s\t%d\t-\t-\t-\t-\t%s\t%.1f\t%s\t%s\t\n", s.Index, s.Role, s.PID, s.Error, s.CPU, s.HTTP, topics(s))
			continue
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%.1f\t%s\t%s\t\n", s.Index, s.Role, s.PID, s.Head, s.Final, s.Head-min(s.Final, s.Head), s.Peers, s.Sync, s.CPU, s.HTTP, topics(s))
	}
	return t.Flush()
}
