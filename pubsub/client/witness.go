package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/proof"
)

// witnesses asks all nodes that the client knows what they say of the checkpoints that one of them showed: a broker that
// keeps the topic compares each with its own log. One that somebody disputes does not count, nor, where Config.Witnesses
// asks for more than one, what too few have compared. Nodes that had not compared it when it was taken are asked again.
// A client that knows one node alone has nobody else to ask.
type witnesses struct {
	chain  common.Hash
	nodes  []string
	needed int
	ask    func(ctx context.Context, node string, topic common.Hash) (*statement, error)
	now    func() time.Time

	mu     sync.Mutex
	said   map[common.Hash]map[string]heard // by topic and node
	silent map[string]time.Time             // until when a node is not asked
	relied map[common.Hash][]relied         // on which somebody's word is still to come
}

// statement is what a node says of a topic's checkpoints.
type statement struct {
	replica  bool   // it keeps the topic, and so compares
	seq      uint64 // the newest that agrees with its log
	root     proof.Hash
	pending  []uint64 // not compared yet
	disputes []*proof.Dispute
}

type heard struct {
	at time.Time
	*statement
}

// relied is a checkpoint that was taken.
type relied struct {
	t         gate.Topic
	partition int32
	c         proof.Checkpointed
	since     time.Time
}

func newWitnesses(chain common.Hash, nodes []string, needed int, ask func(context.Context, string, common.Hash) (*statement, error)) *witnesses {
	return &witnesses{chain: chain, nodes: nodes, needed: needed, ask: ask, now: time.Now,
		said: map[common.Hash]map[string]heard{}, silent: map[string]time.Time{}, relied: map[common.Hash][]relied{}}
}

// against is what the node says against a checkpoint; nil: nothing.
func (s *statement) against(c *proof.Checkpointed, partition int32) *proof.Dispute {
	for _, d := range s.disputes {
		if d.Against(c, partition) {
			return d
		}
	}
	return nil
}

// agrees tells whether the node found the checkpoint to be what its own log gives.
func (s *statement) agrees(c *proof.Checkpointed) bool {
	return s.replica && (s.seq > c.Seq || s.seq == c.Seq && s.root == c.Root) && !slices.Contains(s.pending, c.Seq) &&
		!slices.ContainsFunc(s.disputes, func(d *proof.Dispute) bool { return d.Seq == c.Seq })
}

// settled tells whether nothing more is to be learned from the node about a checkpoint.
func (s *statement) settled(c *proof.Checkpointed, partition int32) bool {
	return !s.replica || s.agrees(c) || s.against(c, partition) != nil
}

// vouch tells whether a checkpoint may be relied on: nil, a *gate.DisputedError, or that too few have compared it yet.
func (w *witnesses) vouch(ctx context.Context, t gate.Topic, partition int32, c *proof.Checkpointed) error {
	if len(w.nodes) < 2 {
		return nil
	}
	said, all := w.hear(ctx, t.ID, partition, c)
	agreed := 0
	for _, node := range w.nodes {
		s, ok := said[node]
		if !ok {
			continue
		}
		if d := s.against(c, partition); d != nil {
			return w.disputed(t.Name, node, partition, d)
		}
		if s.agrees(c) {
			agreed++
		}
	}
	if agreed < w.needed && w.needed > 1 {
		return fmt.Errorf("%d of %d nodes found checkpoint %d to be what their logs give, %d are needed", agreed, len(w.nodes), c.Seq, w.needed)
	}
	if !all {
		w.rely(relied{t, partition, *c, w.now()})
	}
	return nil
}

// rely keeps a checkpoint to ask about again. The newest of a partition stands for those before: who disputes one of them
// disputes it too.
func (w *witnesses) rely(r relied) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.DeleteFunc(w.relied[r.t.ID], func(x relied) bool { return x.partition == r.partition })
	if len(list) == 0 && len(w.relied) >= KnownTopics {
		return
	}
	if len(list) >= ReliedOn {
		list = list[1:]
	}
	w.relied[r.t.ID] = append(list, r)
}

// hear asks the nodes that have not settled a checkpoint, all at once and each not too often, and gives what all said last.
// all: nothing more is to come.
func (w *witnesses) hear(ctx context.Context, topic common.Hash, partition int32, c *proof.Checkpointed) (said map[string]heard, all bool) {
	ctx, cancel := context.WithTimeout(ctx, WitnessTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, node := range w.due(topic, partition, c) {
		wg.Go(func() {
			s, err := w.ask(ctx, node, topic)
			w.mu.Lock()
			defer w.mu.Unlock()
			switch {
			case err == nil:
				if w.said[topic] == nil {
					w.said[topic] = map[string]heard{}
				}
				w.said[topic][node] = heard{w.now(), s}
			case ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded):
				w.silent[node] = w.now().Add(WitnessSilence)
			}
		})
	}
	wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	said, all = map[string]heard{}, true
	for _, node := range w.nodes {
		s, ok := w.said[topic][node]
		if ok {
			said[node] = s
		}
		all = all && ok && s.settled(c, partition)
	}
	return said, all
}

// due are the nodes to ask now.
func (w *witnesses) due(topic common.Hash, partition int32, c *proof.Checkpointed) (nodes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said[topic] == nil {
		if len(w.said) >= KnownTopics {
			clear(w.said)
		}
		w.said[topic] = map[string]heard{}
	}
	for _, node := range w.nodes {
		s, ok := w.said[topic][node]
		if w.now().Before(w.silent[node]) {
			continue
		}
		if pause := WitnessPause; ok {
			if !s.replica { // it may become one
				pause = WitnessSilence
			}
			if w.now().Sub(s.at) < pause || s.replica && s.settled(c, partition) {
				continue
			}
		}
		nodes = append(nodes, node)
	}
	return nodes
}

func (w *witnesses) disputed(topic, node string, partition int32, d *proof.Dispute) error {
	who, err := d.Signer(w.chain)
	if err != nil { // looked at when it came
		return err
	}
	return &gate.DisputedError{Topic: topic, Partition: partition, Offset: d.Offset, Checkpoint: d.Seq, By: who, Node: hostOf(node), Withheld: d.Partition < 0}
}

// doubts asks again about what was relied on, and gives what is disputed now.
func (w *witnesses) doubts(ctx context.Context) (out []gate.Doubt) {
	w.mu.Lock()
	var list []relied
	for _, l := range w.relied {
		list = append(list, l...)
	}
	w.mu.Unlock()
	for i := range list {
		if ctx.Err() != nil {
			break
		}
		r := &list[i]
		said, all := w.hear(ctx, r.t.ID, r.partition, &r.c)
		for node, s := range said {
			if d := s.against(&r.c, r.partition); d != nil {
				out = append(out, gate.Doubt{Topic: r.t, Partition: r.partition, Err: w.disputed(r.t.Name, node, r.partition, d)})
			}
		}
		if all || w.now().Sub(r.since) > WitnessTime {
			w.settle(r)
		}
	}
	return out
}

// settle forgets a checkpoint about which nothing more is to come.
func (w *witnesses) settle(r *relied) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.DeleteFunc(w.relied[r.t.ID], func(x relied) bool { return x.partition == r.partition && x.c.Seq == r.c.Seq })
	if len(list) == 0 {
		delete(w.relied, r.t.ID)
	} else {
		w.relied[r.t.ID] = list
	}
}

// Doubts is gate.Proofs.
func (p *proofs) Doubts(ctx context.Context) []gate.Doubt { return p.witnesses.doubts(ctx) }

// askWitness asks a node what it says of a topic's checkpoints. Statements that nobody signed are left out.
func (c *Client) askWitness(ctx context.Context, node string, topic common.Hash) (*statement, error) {
	rpc, err := c.prover(ctx, node)
	if err != nil {
		return nil, err
	}
	var out struct {
		Replica  bool             `json:"replica"`
		Seq      hexutil.Uint64   `json:"seq"`
		Root     common.Hash      `json:"root"`
		Pending  []hexutil.Uint64 `json:"pending"`
		Disputes []hexutil.Bytes  `json:"disputes"`
	}
	if err := rpc.CallContext(ctx, &out, "bps_witness", topic); err != nil {
		return nil, err
	}
	s := &statement{replica: out.Replica, seq: uint64(out.Seq), root: proof.Hash(out.Root)}
	for _, n := range out.Pending[:min(len(out.Pending), WitnessStatements)] {
		s.pending = append(s.pending, uint64(n))
	}
	for _, b := range out.Disputes[:min(len(out.Disputes), WitnessStatements)] {
		d, err := proof.DecodeDispute(b)
		if err != nil {
			continue
		}
		if _, err := d.Signer(c.chain.genesis); err == nil {
			s.disputes = append(s.disputes, d)
		}
	}
	return s, nil
}

// hostOf names a node in errors without what may be secret of its address.
func hostOf(node string) string {
	if u, err := url.Parse(node); err == nil && u.Host != "" {
		return u.Host
	}
	return node
}
