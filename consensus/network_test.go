package consensus

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/consensus/signer"
)

const (
	slotTime  = 500 * time.Millisecond
	linkDelay = 20 * time.Millisecond
)

// lab is a network of drivers in memory, in one bubble of virtual time.
type lab struct {
	t        *testing.T
	dir      string
	params   block.Parameters
	genesis  common.Hash
	signers  []*signer.Local
	schedule block.Schedule
	nodes    []*member
	wg       sync.WaitGroup
	ends     []func() // of what runs beside the nodes

	recoveries []dpos.Recovery // that nodes have applied which start from now on

	mu           sync.Mutex
	cut          map[int]bool
	mute         bool                   // votes are lost
	noPrecommits bool                   // precommits are
	early        bool                   // a node's time may be behind, and blocks are refused as early
	slot         map[common.Hash]uint64 // of every block built
	seals        map[string]common.Hash // producer and slot -> block
	votes        map[string]block.Link  // voter, kind, target slot -> link
	tap          func(v block.Vote)     // sees every vote sent
}

// member is one node of a lab.
type member struct {
	lab    *lab
	id     int
	chain  *fakeChain
	driver *Driver
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{} // closed when Run has ended, even if its goroutine was killed
	err    error
	bad    []block.Vote
	lie    func(*block.SessionAnswer) // changes what the node answers to others
	mute   bool                       // answers nothing
	as     int                        // signs as the producer of this number, counted from 1; 0: as that of its id
	heard  []error                    // what came of its answers
}

func inBubble(t *testing.T, producers int, fn func(l *lab)) {
	dir := t.TempDir()
	signers, schedule := newSigners(producers)
	synctest.Test(t, func(t *testing.T) {
		l := &lab{
			t: t, dir: dir, signers: signers, schedule: schedule, genesis: labDomain.Genesis,
			cut: make(map[int]bool), slot: make(map[common.Hash]uint64), seals: make(map[string]common.Hash), votes: make(map[string]block.Link),
			params: block.Parameters{
				ChainID: 7, GenesisTime: uint64(time.Now().Unix()) + 1, SlotMillis: uint64(slotTime.Milliseconds()), TurnSlots: 2,
				EpochBlocks: 1 << 30, MaxReversible: 3600, MinProducers: 1, MaxBlockBytes: 4 << 20, GasLimit: block.MinGasLimit,
			},
		}
		for i := range producers {
			l.nodes = append(l.nodes, &member{lab: l, id: i, chain: newFakeChain(l.params, l.genesis, l.schedule, newDisk())})
		}
		defer l.stop()
		fn(l)
	})
}

// observer adds a node without a signer and without blocks.
func (l *lab) observer() *member {
	m := &member{lab: l, id: len(l.nodes), chain: newFakeChain(l.params, l.genesis, l.schedule, newDisk())}
	l.join(m)
	return m
}

// signer is whose keys the node has; below 0: it has none.
func (m *member) signer() int {
	switch {
	case m.as > 0:
		return m.as - 1
	case m.id < len(m.lab.signers):
		return m.id
	}
	return -1
}

func (m *member) deps() (Config, Deps) {
	cfg := DefaultConfig()
	cfg.Dir, cfg.NewKey = filepath.Join(m.lab.dir, fmt.Sprint(m.id)), true
	d := Deps{
		Params: m.lab.params, Genesis: m.lab.genesis, Schedule: m.lab.schedule, Chain: m.chain, Store: m.chain.disk,
		Network: m, Recoveries: m.lab.recoveries, Log: zaptest.NewLogger(m.lab.t, zaptest.Level(zap.FatalLevel)),
		OnBadVotes: func(v []block.Vote) {
			m.lab.mu.Lock()
			defer m.lab.mu.Unlock()
			m.bad = append(m.bad, v...)
		},
	}
	if as := m.signer(); as >= 0 {
		d.Signer = watched{m.lab.signers[as], m.lab}
	}
	return cfg, d
}

// start opens and runs a node on what its disk holds; tweak may change its settings.
func (m *member) start(tweak func(*Config, *Deps)) {
	l := m.lab
	fresh := newFakeChain(l.params, l.genesis, l.schedule, m.chain.disk) // what was executed is in memory only
	fresh.spoil, fresh.txs, fresh.upgrade, fresh.damaged = m.chain.spoil, m.chain.txs, m.chain.upgrade, m.chain.damaged
	fresh.onBuild = func(b *block.Block) {
		l.mu.Lock()
		defer l.mu.Unlock()
		d := block.Domain{Genesis: l.genesis, Recovery: dpos.DomainAt(l.recoveries, b.Slot())}
		l.slot[d.SealDigest(b.Hash())] = b.Slot()
	}
	for _, b := range fresh.finals() {
		fresh.executed[b.Hash()] = true
	}
	l.mu.Lock()
	m.chain = fresh
	l.mu.Unlock()
	cfg, deps := m.deps()
	if tweak != nil {
		tweak(&cfg, &deps)
	}
	d, err := Open(cfg, deps)
	require.NoError(l.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	l.mu.Lock()
	m.driver, m.ctx, m.cancel, m.ended = d, ctx, cancel, make(chan struct{})
	l.mu.Unlock()
	l.wg.Go(func() {
		defer close(m.ended)
		m.err = d.Run(ctx)
	})
	l.wg.Go(func() { m.ask(ctx, d) })
}

// ask asks the other nodes what they hold of this one's signatures, while that is of use.
func (m *member) ask(ctx context.Context, d *Driver) {
	for {
		if s := d.Status(); s.Asks {
			for _, o := range m.lab.nodes {
				m.askNode(ctx, d, o, s.Session)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-d.done:
			return
		case <-time.After(slotTime / 4):
		}
	}
}

// askNode asks one node, over the link's delay.
func (m *member) askNode(ctx context.Context, d *Driver, o *member, s *block.SignedSession) {
	l := m.lab
	if o == m || l.isCut(m.id, o.id) {
		return
	}
	l.wg.Go(func() {
		time.Sleep(linkDelay)
		l.mu.Lock()
		from, fromCtx, mute := o.driver, o.ctx, o.mute
		l.mu.Unlock()
		if from == nil || fromCtx.Err() != nil || mute {
			return
		}
		a, err := from.AnswerSession(fromCtx, s)
		if err != nil || a == nil {
			return // it has stopped
		}
		time.Sleep(linkDelay)
		if o.lie != nil {
			o.lie(a)
		}
		err = d.HearAnswer(ctx, a)
		l.mu.Lock()
		defer l.mu.Unlock()
		o.heard = append(o.heard, err)
	})
}

// kill stops a node and waits for its end.
func (m *member) kill() {
	if m.cancel != nil {
		m.cancel()
		<-m.ended
	}
}

func (l *lab) start() {
	for _, m := range l.nodes {
		m.start(nil)
	}
}

func (l *lab) stop() {
	for _, end := range l.ends {
		end()
	}
	for _, m := range l.nodes {
		m.kill()
	}
	l.wg.Wait()
	for _, m := range l.nodes {
		require.NoError(l.t, m.err, "node %d", m.id)
	}
	l.agree()
}

// agree checks that no two nodes hold different final blocks.
func (l *lab) agree() {
	var longest []*block.Block
	for _, m := range l.nodes {
		if f := m.chain.finals(); len(f) > len(longest) {
			longest = f
		}
	}
	for _, m := range l.nodes {
		for i, b := range m.chain.finals() {
			require.Equal(l.t, longest[i].Hash(), b.Hash(), "node %d, height %d", m.id, i+1)
		}
	}
}

// slots lets n slots go by and the last one's first work end: slots begin at the instants at which this wakes.
func (l *lab) slots(n int) {
	time.Sleep(time.Duration(n) * slotTime)
	synctest.Wait()
}

func (l *lab) isCut(a, b int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut[a] || l.cut[b]
}

func (l *lab) setCut(id int, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[id] = cut
}

func (l *lab) setTap(tap func(v block.Vote)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tap = tap
}

func (l *lab) setMute(mute bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = mute
}

// join adds a node to a network that may run.
func (l *lab) join(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = append(l.nodes, m)
}

// deliver runs fn for every other node after the link's delay.
func (m *member) deliver(fn func(ctx context.Context, d *Driver)) {
	m.lab.mu.Lock()
	nodes := slices.Clone(m.lab.nodes)
	m.lab.mu.Unlock()
	for _, to := range nodes {
		if to == m || m.lab.isCut(m.id, to.id) {
			continue
		}
		m.lab.wg.Go(func() {
			time.Sleep(linkDelay)
			m.lab.mu.Lock()
			ctx, d := to.ctx, to.driver
			m.lab.mu.Unlock()
			if ctx != nil && ctx.Err() == nil {
				fn(ctx, d)
			}
		})
	}
}

// watched is a signer whose seals the lab sees, also those that never leave.
type watched struct {
	*signer.Local
	lab *lab
}

// labDomain is what votes and seals of a lab are bound to.
var labDomain = block.Domain{Genesis: common.HexToHash("0x9e")}

func (s watched) SignSeal(h common.Hash) ([block.SealLength]byte, error) {
	l := s.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	slot, isBlock := l.slot[h]
	if !isBlock { // a session, or an answer
		return s.Local.SignSeal(h)
	}
	key := fmt.Sprintf("%s %d", s.Account(), slot)
	if old, ok := l.seals[key]; ok && old != h {
		l.t.Errorf("producer %s sealed two blocks of slot %d", s.Account(), slot)
	}
	l.seals[key] = h
	return s.Local.SignSeal(h)
}

func (m *member) BroadcastBlock(b *block.Block, _ string) {
	m.deliver(func(ctx context.Context, d *Driver) { m.push(ctx, d, b) })
}

// push adds a block to another node's driver, and the ancestors that it lacks.
func (m *member) push(ctx context.Context, d *Driver, b *block.Block) {
	m.lab.mu.Lock()
	from := m.chain
	m.lab.mu.Unlock()
	branch := []*block.Block{b}
	for len(branch) > 0 {
		err := d.AddBlock(ctx, branch[len(branch)-1])
		switch {
		case errors.Is(err, ErrUnknownParent):
			p := from.get(branch[len(branch)-1].Parent())
			if p == nil {
				return
			}
			branch = append(branch, p)
		case err == nil, errors.Is(err, ErrKnown):
			branch = branch[:len(branch)-1]
		default:
			if errors.Is(err, ErrFuture) && m.lab.early {
				return
			}
			if !errors.Is(err, ErrBelowLIB) && !errors.Is(err, ErrRecovered) && !errors.Is(err, ErrStopped) && !errors.Is(err, context.Canceled) {
				m.lab.t.Errorf("block %d of node %d was refused: %v", b.Number(), m.id, err)
			}
			return
		}
	}
}

func (m *member) BroadcastVotes(vs []block.Vote) {
	l := m.lab
	l.mu.Lock()
	for _, v := range vs {
		key := fmt.Sprintf("%s %d %d", v.Voter, v.Kind, v.Target.Slot)
		if old, ok := l.votes[key]; ok && old != v.Link {
			l.t.Errorf("%s signed two %ss of slot %d", v.Voter, v.Kind, v.Target.Slot)
		}
		l.votes[key] = v.Link
		if l.tap != nil {
			l.tap(v)
		}
	}
	mute := l.mute
	if l.noPrecommits {
		vs = slices.DeleteFunc(slices.Clone(vs), func(v block.Vote) bool { return v.Kind == block.Precommit })
	}
	l.mu.Unlock()
	if mute || len(vs) == 0 {
		return
	}
	m.deliver(func(_ context.Context, d *Driver) { _, _ = d.AddVotes(vs) })
}

var (
	_ Network = (*member)(nil)
	_ Chain   = (*fakeChain)(nil)
	_ Store   = (*disk)(nil)
	_ Signer  = (*signer.Local)(nil)
	_ Chain   = (*chain.Chain)(nil)
)
