package nodes

import (
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/vfs/faultfs"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/mem"
)

// world is one run.
type world struct {
	s        *Scenario
	rng      *rand.Rand // of the world's goroutine
	began    time.Time
	genesis  *genesis.Genesis
	nodes    []*node
	accounts []*account
	net      *mem.Network
	check    *checkers
	posts    chan func()
	events   []event // by time
	log      []string

	links struct { // how the nodes reach each other
		sync.Mutex
		off     map[int]bool
		group   map[int]int
		latency time.Duration
	}
}

// event is something that the world's goroutine does at a time of the bubble.
type event struct {
	at  time.Duration
	run func()
}

// source reads random bytes for keys.
type source struct{ *rand.Rand }

func (s source) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.Uint32())
	}
	return len(p), nil
}

var _ io.Reader = source{}

func newWorld(s *Scenario) (*world, error) {
	w := &world{
		s: s, rng: rand.New(rand.NewPCG(s.Seed, 0x40de5)), began: time.Now(), net: mem.NewNetwork(), posts: make(chan func(), queuePosts),
	}
	w.links.off, w.links.group, w.links.latency = make(map[int]bool), make(map[int]int), s.Latency
	random := source{rand.New(rand.NewPCG(s.Seed, 0x6e9))}
	keys := make(map[common.Address]block.BLSKey)
	options := genesis.Options{
		ChainID: 7, GenesisTime: uint64(time.Now().Unix()) + 1, Slot: s.Slot, TurnSlots: s.TurnSlots, EpochBlocks: 8000, //nolint:gosec // a bubble's clock
		Fees: genesis.Fees{Mode: genesis.FeesFixed}, Alloc: make(map[common.Address]*big.Int),
	}
	for i := range s.Producers + s.Observers {
		n := &node{w: w, id: i, name: transport.PeerID(fmt.Sprintf("node%d", i)), medium: &medium{}, clock: &clock{since: w.began}, log: &lineLog{began: w.began}, disk: faultfs.New(), logFrom: w.began}
		w.nodes = append(w.nodes, n)
		w.links.off[i] = true
		if i >= s.Producers {
			continue
		}
		var err error
		if n.signer, err = signer.Generate(random); err != nil {
			return nil, err
		}
		keys[n.signer.Account()] = n.signer.VoteKey()
		proof := n.signer.ProvePossession(options.ChainID)
		options.Producers = append(options.Producers, genesis.Producer{Account: n.signer.Account(), BLSKey: n.signer.VoteKey(), Proof: proof, Stake: new(big.Int).Mul(big.NewInt(1000), big.NewInt(1e18))})
	}
	options.Admin = options.Producers[0].Account
	balances := make(map[common.Address]*big.Int)
	for range accounts {
		var b [32]byte
		_, _ = random.Read(b[:])
		key, err := crypto.ToECDSA(b[:])
		if err != nil {
			return nil, err
		}
		a := &account{address: crypto.PubkeyToAddress(key.PublicKey)}
		rules := types.LatestSignerForChainID(new(big.Int).SetUint64(options.ChainID))
		a.sign = func(tx types.TxData) *types.Transaction { return types.MustSignNewTx(key, rules, tx) }
		w.accounts = append(w.accounts, a)
		balances[a.address] = big.NewInt(1e18)
		options.Alloc[a.address] = big.NewInt(1e18)
	}
	var err error
	if w.genesis, err = genesis.New(options); err != nil {
		return nil, err
	}
	b, err := w.genesis.Block()
	if err != nil {
		return nil, err
	}
	w.check = newCheckers(b, keys, balances)
	return w, nil
}

// note writes a line of the world's own log.
func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%9.3f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// post hands f to the world's goroutine. It may be called with locks held.
func (w *world) post(f func()) {
	select {
	case w.posts <- f:
	default:
		panic("nodes: the world's goroutine does not keep up")
	}
}

// after has the world's goroutine do something later.
func (w *world) after(d time.Duration, run func()) {
	e := event{time.Since(w.began) + d, run}
	i, _ := slices.BinarySearchFunc(w.events, e.at, func(x event, at time.Duration) int {
		if x.at <= at {
			return -1
		}
		return 1
	})
	w.events = slices.Insert(w.events, i, e)
}

// runUntil works off events and posts until a time.
func (w *world) runUntil(end time.Duration) {
	for {
		next := end
		if len(w.events) > 0 && w.events[0].at < end {
			next = w.events[0].at
		}
		wait := time.NewTimer(next - time.Since(w.began))
		select {
		case f := <-w.posts:
			wait.Stop()
			f()
			continue
		case <-wait.C:
		}
		if next == end {
			return
		}
		e := w.events[0]
		w.events = w.events[1:]
		e.run()
	}
}

// link applies how the nodes reach each other now.
func (w *world) link() {
	w.links.Lock()
	defer w.links.Unlock()
	for i, a := range w.nodes {
		for _, b := range w.nodes[i+1:] {
			f := mem.Faults{Latency: w.links.latency}
			if w.links.off[a.id] || w.links.off[b.id] || w.links.group[a.id] != w.links.group[b.id] {
				f.Silent, f.Refuse = true, true
			}
			w.net.SetFaults(a.name, b.name, f)
		}
	}
}

// unplug takes a node off the network at once, with all that is under way. It may be called from any goroutine.
func (w *world) unplug(n *node) {
	w.links.Lock()
	w.links.off[n.id] = true
	w.links.Unlock()
	w.link()
	for _, o := range w.nodes {
		if o != n {
			w.net.Reset(n.name, o.name)
		}
	}
}

// plug puts a node on the network.
func (w *world) plug(n *node) {
	w.links.Lock()
	w.links.off[n.id] = false
	w.links.Unlock()
	w.link()
}

// Report is what a run has shown.
type Report struct {
	Found                       []*Violation
	Final                       uint64 // height
	Lives, Answers, Excused     int
	Votes, Blocks, Transactions int
	Log                         []string   // of the world
	Lines                       [][]string // the newest of each node's log
}

// Run plays a scenario. It must run in a bubble of testing/synctest, since it takes minutes of the clock.
func Run(s *Scenario) (*Report, error) {
	w, err := newWorld(s)
	if err != nil {
		return nil, err
	}
	for _, n := range w.nodes {
		w.plug(n)
		n.start()
	}
	s.plan(w)
	w.runUntil(s.Length - s.Calm)
	w.healAll()
	due := w.check.finalHeight() + finalAfterHeal
	w.runUntil(s.Length)
	w.end(due)
	return w.report(), nil
}

// end judges what can only be judged at the end, and stops all nodes.
func (w *world) end(due uint64) {
	for _, n := range w.nodes {
		switch {
		case n.life == nil || n.life.isOver():
			w.check.report("liveness", "node %d is down at the end; it ended with: %q", n.id, n.ends)
			continue
		case !n.life.hasOpened():
			w.check.report("liveness", "node %d has not opened its parts at the end", n.id)
			continue
		}
		if h := n.life.chain.Final().Number(); h < due {
			w.check.report("liveness", "node %d has made %d blocks final at the end, %d were due: %s", n.id, h, due, n.life.driver.Status().Why)
		}
	}
	for _, n := range w.nodes {
		if n.life != nil {
			n.stop()
		}
	}
	time.Sleep(5 * time.Second) // goroutines of goleveldb outlive Close by a second
	w.check.judgeLinks()
}

// hasOpened reports whether the life's parts are there.
func (l *life) hasOpened() bool {
	select {
	case <-l.opened:
		return l.sync != nil
	default:
		return false
	}
}

func (w *world) report() *Report {
	r := &Report{Log: w.log}
	r.Answers, r.Excused = w.check.judgeAnswers()
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	r.Found, r.Final, r.Blocks, r.Votes = w.check.found, w.check.height, len(w.check.blocks), len(w.check.prevotes)+len(w.check.precommit)
	r.Transactions = len(w.check.ledger.places)
	for _, n := range w.nodes {
		r.Lives += n.born
		r.Lines = append(r.Lines, n.log.tail(linesTold))
	}
	return r
}

// Err is the first violation, nil if there is none.
func (r *Report) Err() error {
	if len(r.Found) == 0 {
		return nil
	}
	errs := make([]error, len(r.Found))
	for i, v := range r.Found {
		errs[i] = v
	}
	return errors.Join(errs...)
}
