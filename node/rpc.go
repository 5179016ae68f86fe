package node

import (
	"context"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/rpc"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/transport"
)

// The parts of a node as JSON-RPC shows them.
type (
	rpcConsensus struct{ n *Node }
	rpcSync      struct{ n *Node }
	rpcNetwork   struct{ n *Node }
	rpcAdmin     struct{ n *Node }
)

func (c rpcConsensus) Schedule() (block.Schedule, error) { return c.n.driver.Schedule() }
func (c rpcConsensus) Stalled() bool                     { return c.n.driver.Status().Stalled }

func (c rpcConsensus) Silence() string { return c.n.driver.Status().Why }

func (c rpcConsensus) Alarms() []rpc.Alarm {
	out := []rpc.Alarm{}
	for _, a := range append(c.n.driver.Alarms(), c.n.book.Alarms()...) {
		out = append(out, rpc.Alarm{Kind: a.Kind, Since: uint64(max(0, a.Since.Unix())), Text: a.Text, File: a.File}) //nolint:gosec // not negative
	}
	return out
}

func (c rpcConsensus) Signer() *rpc.SignerStatus {
	if c.n.account == nil {
		return nil
	}
	s := c.n.driver.Status()
	return signerStatus(c.n.account.self, &s)
}

func signerStatus(self common.Address, s *consensus.Status) *rpc.SignerStatus {
	w := &s.Waiting
	out := &rpc.SignerStatus{
		Account: self, Votes: !s.Silent, Cause: s.Cause, Why: s.Why, Since: s.Since.Unix(),
		MissingAnswers: hexutil.Uint64(max(0, w.Answers)), Unheard: w.Unheard, Line: hexutil.Uint64(w.Line), Floor: hexutil.Uint64(w.Floor), //nolint:gosec // not negative
	}
	if s.Session != nil {
		out.Session = hexutil.Uint64(s.Session.Number)
	}
	if w.Floor > 0 {
		out.RestMissing, out.Accepted = hexutil.Uint64(max(0, w.Rest.Missing)), w.Rest.Accepted //nolint:gosec // not negative
	}
	if w.Floor > 1 {
		out.RestFrom = hexutil.Uint64(w.Rest.From)
	}
	return out
}

func (s rpcSync) SyncStatus() rpc.SyncStatus {
	if at, replaying := s.n.replayStatus(); replaying {
		state := "replay"
		if s.n.healing.Load() {
			state = "healing"
		}
		return rpc.SyncStatus{Syncing: true, Mode: s.n.sync.Status().Mode.String(), State: state, Start: at.From, Current: at.At, Target: at.To}
	}
	x := s.n.sync.Status()
	return rpc.SyncStatus{Syncing: x.State != blocksync.InSync, Mode: x.Mode.String(), State: x.State.String(), Start: x.Start, Current: x.Current, Target: x.Target}
}

func (w rpcNetwork) ID() string      { return string(w.n.host.ID()) }
func (w rpcNetwork) Listening() bool { return len(w.n.host.Addrs()) > 0 }

func (w rpcNetwork) Peers() []rpc.PeerInfo {
	peers := w.n.sync.Peers()
	out := make([]rpc.PeerInfo, len(peers))
	for i, p := range peers {
		out[i] = rpc.PeerInfo{
			ID: string(p.ID), Address: p.Address, Provider: p.Path.Provider, Reason: p.Path.Reason, Incoming: p.Incoming, Height: p.Head.Height, LIB: p.LIB.Height,
			RTTMicros:         uint64(p.RTT.Microseconds()), //nolint:gosec // a round trip is not negative
			ClockOffsetMicros: p.ClockOffset.Microseconds(),
			Since:             uint64(max(0, p.Path.Since.Unix())), //nolint:gosec // not negative
			Counters:          counters(p), Channel: p.Path.Counters,
		}
	}
	return out
}

// counters are what moved over a link since it came up.
func counters(p blocksync.PeerInfo) map[string]uint64 {
	c := map[string]uint64{
		"blocksReceived": p.BlocksIn, "blocksSent": p.BlocksOut, "votesReceived": p.VotesIn, "votesSent": p.VotesOut,
		"transactionsReceived": p.TransactionsIn, "transactionsSent": p.TransactionsOut,
		"rangeBlocks": p.RangeBlocks, "rangeBytes": p.RangeBytes, "pulledBlocks": p.PulledBlocks, "pulledBytes": p.PulledBytes,
		"servedBlocks": p.Served, "servedBytes": p.ServedBytes,
		"duplicates": p.Duplicates, "dropped": p.Dropped,
		"framesSent": p.Transport.FramesSent, "framesReceived": p.Transport.FramesReceived, "framesResent": p.Transport.FramesResent,
		"reconnects": p.Transport.Reconnects,
	}
	for _, l := range p.Transport.Lanes {
		c["bytesReceived"] += l.BytesReceived
		c["bytesSent"] += l.BytesSent
	}
	return c
}

func (a rpcAdmin) AddPeer(ctx context.Context, addr string) error { return a.n.host.Dial(ctx, addr) }

func (a rpcAdmin) AcceptAnswers(ctx context.Context) (*rpc.SignerStatus, error) {
	if _, err := a.n.driver.AcceptAnswers(ctx); err != nil {
		return nil, err
	}
	return rpcConsensus(a).Signer(), nil
}

func (a rpcAdmin) BackupCut() (any, error) { return a.n.store.Cut() }

func (a rpcAdmin) RemovePeer(_ context.Context, id string) error {
	a.n.host.Forget(transport.PeerID(id))
	a.n.host.Disconnect(transport.PeerID(id), "removed by the operator")
	return nil
}
