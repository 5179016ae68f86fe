package client

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/proof"
)

// rewritten has the next checkpoint bind another history from the first batch on.
func (l *ledger) rewritten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaves, l.hashes = nil, nil
	l.forge = func(x *proof.Leaf) {
		if x.Base == 0 {
			x.Digest[0] ^= 1
		}
	}
}

// anew has the client look for checkpoints at once.
func (c *Client) anew() {
	c.chain.mu.Lock()
	defer c.chain.mu.Unlock()
	clear(c.chain.marks)
}

// A notary that alone gives the proofs takes back what it bound before: its two checkpoints convict it.
func TestACheckpointMayNotTakeBackWhatOneBound(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
	w.send(c, "acme.orders", "1", "2", "3")
	l.checkpoint("acme.orders")
	x := w.consumer(c, "acme.orders")
	w.receive(x, 3)
	proved := func() int64 {
		at, err := x.Proved(w.ctx, "acme.orders", 0)
		require.NoError(t, err)
		return at
	}
	require.Eventually(t, func() bool { return proved() == 3 }, patience, 10*time.Millisecond)
	l.rewritten()
	w.send(c, "acme.orders", "4")
	l.checkpoint("acme.orders")
	err := w.deceived(x, 1)
	var lie *TamperError
	require.ErrorAs(t, err, &lie)
	require.Equal(t, gate.Rewritten, lie.What)
	require.ErrorIs(t, err, proof.ErrForked)
	require.EqualValues(t, 3, lie.Offset)
	require.EqualValues(t, 3, proved())
}

// Who reads elsewhere than where the older tree ended has the link between the two shown besides, once for each checkpoint.
func TestTheLinkBetweenCheckpointsIsAskedFor(t *testing.T) {
	for _, honest := range []bool{true, false} {
		w := newWorld(t)
		c := w.client(w.owner)
		l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
		top, err := c.chain.Topic(w.ctx, "acme.orders")
		require.NoError(t, err)
		w.send(c, "acme.orders", "1", "2", "3", "4", "5", "6")
		l.checkpoint("acme.orders")
		p := newProofs(c)
		run := runOf(w, p, top.ID)
		to, err := p.Check(w.ctx, top, 0, run[:1])
		require.NoError(t, err)
		require.EqualValues(t, 1, to)
		if !honest {
			l.rewritten()
		}
		w.send(c, "acme.orders", "7", "8")
		l.checkpoint("acme.orders")
		c.anew()

		l.refuse = func(offset int64) bool { return offset == 6 }
		_, err = p.Check(w.ctx, top, 0, run[1:2])
		require.ErrorContains(t, err, "does not show that checkpoint 2 continues", "a node that hides the link proves nothing")
		var lie *TamperError
		require.NotErrorAs(t, err, &lie)
		l.refuse = nil
		before := l.proofs
		to, err = p.Check(w.ctx, top, 0, run[1:2])
		if !honest {
			require.ErrorAs(t, err, &lie)
			require.Equal(t, gate.Rewritten, lie.What)
			require.EqualValues(t, 1, to)
			continue
		}
		require.NoError(t, err)
		require.EqualValues(t, 2, to)
		require.Equal(t, 2, l.proofs-before)
		_, err = p.Check(w.ctx, top, 0, run[2:3])
		require.NoError(t, err)
		require.Equal(t, 3, l.proofs-before, "the link is known")
	}
}

// An older checkpoint than one that was relied on proves nothing: it may be one that was never compared with it.
func TestNoWayBackToAnOlderCheckpoint(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
	top, err := c.chain.Topic(w.ctx, "acme.orders")
	require.NoError(t, err)
	w.send(c, "acme.orders", "1", "2")
	l.checkpoint("acme.orders")
	p := newProofs(c)
	run := runOf(w, p, top.ID)
	p.trees[proofPlace{top.ID, 0}] = shownTree{seq: 2, head: l.head}
	_, err = p.Check(w.ctx, top, 0, run)
	require.ErrorContains(t, err, "shows checkpoint 1, after 2 was shown")
	other := l.head
	other.Root[0] ^= 1
	p.trees[proofPlace{top.ID, 0}] = shownTree{seq: 1, head: other}
	_, err = p.Check(w.ctx, top, 0, run)
	require.ErrorIs(t, err, proof.ErrForked, "one checkpoint with two trees")
}

func TestABadNodeDoesNotHideTheGoodOnes(t *testing.T) {
	w := newWorld(t)
	good := w.prover(1)
	c := w.client(w.owner, func(c *Config) { c.Provers = []string{good} })
	l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
	top, err := c.chain.Topic(w.ctx, "acme.orders")
	require.NoError(t, err)
	w.send(c, "acme.orders", "1")
	l.checkpoint("acme.orders")
	p := newProofs(c)
	ask := p.fetch
	p.fetch = func(ctx context.Context, node string, q proofQuestion) ([]byte, error) {
		b, err := ask(ctx, node, q)
		if node == w.url {
			b[len(b)/2] ^= 1
		}
		return b, err
	}
	to, err := p.Check(w.ctx, top, 0, runOf(w, p, top.ID))
	require.NoError(t, err)
	require.EqualValues(t, 1, to)
}

// dispute is a broker's of the newest checkpoint.
func (l *ledger) dispute(key *ecdsa.PrivateKey, partition int32) hexutil.Bytes {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := &proof.Dispute{Topic: l.topic, Seq: l.seq, Root: l.root, Partition: partition, Offset: 1, Own: proof.Head{Topic: l.topic, Partition: partition, Leaves: 2, Next: 2}}
	if partition < 0 {
		d.Own, d.Offset = proof.Head{}, -1
	}
	digest := d.Digest(l.trust.Genesis)
	sig, err := crypto.Sign(digest[:], key)
	require.NoError(l.w.t, err)
	copy(d.Signature[:], sig)
	return d.Encode()
}

func (l *ledger) agreed() witnessAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return witnessAnswer{Replica: true, Seq: hexutil.Uint64(l.seq), Root: common.Hash(l.root)}
}

// The only node that proves is the liar's; an honest one disputes what it shows.
func TestADisputedCheckpointProvesNothing(t *testing.T) {
	for name, x := range map[string]struct {
		mode      Mode
		partition int32
	}{"followed": {Follow, 0}, "proved": {Proved, 0}, "withheld": {Proved, -1}} {
		w := newWorld(t)
		honest, key := w.prover(1), newKey(t)
		w.without[1] = true
		c := w.client(w.owner, func(c *Config) { c.Provers, c.Mode = []string{honest}, x.mode })
		l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
		w.send(c, "acme.orders", "1", "2")
		l.checkpoint("acme.orders")
		w.says(0, l.agreed())
		w.says(1, witnessAnswer{Replica: true, Disputes: []hexutil.Bytes{{1}, l.dispute(key, x.partition)}})
		r := w.consumer(c, "acme.orders")
		var err error
		if x.mode == Follow {
			err = w.deceived(r, 2)
		} else {
			var records []*Record
			records, err = r.Records(w.ctx)
			require.Empty(t, records, name)
		}
		var d *DisputedError
		require.ErrorAs(t, err, &d, name)
		require.Equal(t, crypto.PubkeyToAddress(key.PublicKey), d.By, name)
		require.EqualValues(t, 1, d.Checkpoint, name)
		require.Equal(t, x.partition < 0, d.Withheld, name)
		at, err := r.Proved(w.ctx, "acme.orders", 0)
		require.NoError(t, err)
		require.Zero(t, at, name)
	}
}

// A dispute that comes after the checkpoint was relied on is told too.
func TestALateDisputeIsTold(t *testing.T) {
	w := newWorld(t)
	honest := w.prover(1)
	c := w.client(w.owner, func(c *Config) { c.Provers = []string{honest} })
	l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
	w.send(c, "acme.orders", "1", "2")
	l.checkpoint("acme.orders")
	w.says(0, l.agreed())
	w.says(1, witnessAnswer{Replica: true, Pending: []hexutil.Uint64{1}})
	r := w.consumer(c, "acme.orders")
	w.receive(r, 2)
	require.Eventually(t, func() bool {
		at, err := r.Proved(w.ctx, "acme.orders", 0)
		return err == nil && at == 2
	}, patience, 10*time.Millisecond)
	w.says(1, witnessAnswer{Replica: true, Disputes: []hexutil.Bytes{l.dispute(newKey(t), 0)}})
	_, err := r.Records(w.ctx)
	var d *DisputedError
	require.ErrorAs(t, err, &d)
	require.EqualValues(t, 1, d.Offset)
}

// With as many witnesses as there may be liars, and one more, a forged checkpoint proves nothing even before it is disputed.
func TestWitnessesAreWaitedFor(t *testing.T) {
	w := newWorld(t)
	honest := w.prover(1)
	c := w.client(w.owner, func(c *Config) { c.Provers, c.Witnesses = []string{honest}, 2 })
	l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
	top, err := c.chain.Topic(w.ctx, "acme.orders")
	require.NoError(t, err)
	w.send(c, "acme.orders", "1", "2")
	l.checkpoint("acme.orders")
	p := newProofs(c)
	now := time.Now()
	p.witnesses.now = func() time.Time { now = now.Add(WitnessSilence); return now }
	run := runOf(w, p, top.ID)
	for name, x := range map[string]witnessAnswer{
		"no replica":     {Seq: 1, Root: common.Hash(l.root)},
		"behind":         {Replica: true},
		"not compared":   {Replica: true, Seq: 2, Pending: []hexutil.Uint64{1}},
		"another root":   {Replica: true, Seq: 1, Root: common.Hash{1}},
		"other disputes": {Replica: true, Seq: 2, Disputes: []hexutil.Bytes{l.dispute(newKey(t), 3)}},
	} {
		w.says(0, l.agreed())
		w.says(1, x)
		clear(p.held)
		clear(p.witnesses.said)
		to, err := p.Check(w.ctx, top, 0, run)
		require.ErrorContains(t, err, "2 are needed", name)
		require.Zero(t, to, name)
	}
	w.says(1, l.agreed())
	clear(p.held)
	clear(p.witnesses.said)
	to, err := p.Check(w.ctx, top, 0, run)
	require.NoError(t, err)
	require.EqualValues(t, 2, to)
	require.Empty(t, p.Doubts(w.ctx), "all have said what there is to say")
	require.Empty(t, p.witnesses.relied)

	_, err = Open(w.ctx, Config{Node: w.url, Genesis: w.genesis, Witnesses: 2})
	require.ErrorContains(t, err, "2 witnesses are asked for, and 1 nodes are named")
}

// Nodes are asked about a checkpoint until they have compared it, those that do not answer seldom, and one alone never.
func TestWitnessesAreAskedSparingly(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	asked := map[string]int{}
	s := &statement{replica: true, pending: []uint64{4}}
	x := newWitnesses(common.Hash{9}, []string{"a", "b"}, 1, func(_ context.Context, node string, _ common.Hash) (*statement, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[node]++
		if node == "b" {
			return nil, errors.New("down")
		}
		return s, nil
	})
	now := time.Now()
	x.now = func() time.Time { return now }
	top := gate.Topic{Name: "acme.t", ID: common.Hash{1}}
	cp := &proof.Checkpointed{Topic: top.ID, Seq: 4}
	for range 3 {
		require.NoError(t, x.vouch(w.ctx, top, 0, cp))
	}
	require.Equal(t, map[string]int{"a": 1, "b": 1}, asked)
	now = now.Add(WitnessPause)
	require.Empty(t, x.doubts(w.ctx))
	require.Equal(t, map[string]int{"a": 2, "b": 1}, asked)
	s = &statement{replica: true, seq: 4}
	now = now.Add(WitnessPause)
	require.Empty(t, x.doubts(w.ctx))
	now = now.Add(WitnessPause)
	require.Empty(t, x.doubts(w.ctx))
	require.Equal(t, map[string]int{"a": 3, "b": 1}, asked)
	now = now.Add(WitnessTime)
	require.Empty(t, x.doubts(w.ctx))
	require.Equal(t, map[string]int{"a": 3, "b": 2}, asked)
	require.Empty(t, x.relied, "nobody is asked for ever")
}
