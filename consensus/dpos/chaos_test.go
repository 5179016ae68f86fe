package dpos

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"os"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// chaos is an adversary at work: it owns one of four producers, all clocks and the whole network. It seals blocks
// wherever it likes, votes for everything, shows and withholds what it likes, and crashes the others.
type chaos struct {
	t      *testing.T
	rnd    *rand.Rand
	nodes  []*chaosNode
	slot   uint64
	shown  []Event // all headers and votes there are
	blocks []Header
	source map[common.Hash]block.Point
	regime map[common.Hash][]block.Schedule
	certs  []*block.Certificate
	final  map[uint64]common.Hash
	next   block.Schedule
	split  bool // two final blocks of one height
	depth  uint64
	heard  func(Ready)
}

type chaosNode struct {
	*Machine
	cfg  Config
	wal  []SignRecord
	root *Root
	seen []Header
}

const evil = 3

func newChaos(t *testing.T, seed int64, epoch uint64, schedule, next block.Schedule, honest int, bugs Bugs) *chaos {
	c := &chaos{t: t, rnd: rand.New(rand.NewSource(seed)), final: map[uint64]common.Hash{}, source: map[common.Hash]block.Point{}, regime: map[common.Hash][]block.Schedule{}, next: next}
	p := testParams()
	p.EpochBlocks = epoch
	p.Patience = seed%3 == 0
	root := GenesisRoot(genesisHash, schedule)
	c.blocks = []Header{root.header}
	for i := range honest {
		if i >= evil {
			i++
		}
		n := &chaosNode{cfg: DefaultConfig(p, account(i)), root: root}
		n.cfg.Bugs = bugs
		n.cfg.Bugs.SkipFirstSync = true // the tests of rule 11 are in firstsync_test.go
		n.start(t)
		c.nodes = append(c.nodes, n)
	}
	return c
}

func (n *chaosNode) start(t *testing.T) {
	n.cfg.Signed = n.wal
	m, err := New(n.cfg, n.root)
	require.NoError(t, err)
	n.Machine = m
	for _, h := range n.seen {
		_ = m.Step(HeaderEvent{h})
	}
}

func (c *chaos) run(steps int) {
	for i := 0; i < steps && !c.split; i++ {
		n := c.nodes[c.rnd.Intn(len(c.nodes))]
		switch x := c.rnd.Intn(100); {
		case x < 8:
			c.slot++
			for _, n := range c.nodes {
				_ = n.Step(Tick{time.Duration(c.slot) * n.cfg.Params.Slot()})
				c.work(n)
			}
			c.seal()
		case x < 10 && len(c.blocks) > 1:
			c.seal()
		case x < 16 && len(c.certs) > 0:
			_ = n.Step(CertificateEvent{c.certs[len(c.certs)-1-c.rnd.Intn(min(len(c.certs), 6))]})
		case x < 17:
			n.start(c.t)
			_ = n.Step(Tick{time.Duration(c.slot) * n.cfg.Params.Slot()})
		case len(c.shown) > 0:
			ev := c.shown[len(c.shown)-1-c.rnd.Intn(min(len(c.shown), 24))]
			if n.Step(ev) == nil {
				if h, ok := ev.(HeaderEvent); ok {
					n.seen = append(n.seen, h.Header)
				}
			}
		}
		c.work(n)
	}
}

// seal makes a block of the adversary's newest slot on some block.
func (c *chaos) seal() {
	p := c.blocks[len(c.blocks)-1-c.rnd.Intn(min(len(c.blocks), 5))]
	for _, n := range c.nodes {
		s, err := n.ScheduleFor(p.Hash)
		if err != nil {
			continue
		}
		slot := c.slot
		for slot > p.Slot && s.Owner(slot, 1).Account != account(evil) {
			slot--
		}
		if slot <= p.Slot {
			return
		}
		h := Header{Parent: p.Hash, Height: p.Height + 1, Slot: slot, Producer: account(evil)}
		if must, _ := n.Announces(p.Hash); must {
			h.Next = c.next
		}
		if len(c.certs) > 0 && c.rnd.Intn(2) == 0 {
			k := c.certs[len(c.certs)-1-c.rnd.Intn(min(len(c.certs), 4))]
			x := h
			if k.Kind == block.Prevote {
				x.QC = k
			} else {
				x.FC = k
			}
			x.Hash = hashOf(&x, 0)
			if _, err := n.Check(x); err == nil {
				h = x
			}
		}
		h.Hash = hashOf(&h, uint64(c.rnd.Intn(3)))
		c.tell(n, h)
		return
	}
}

// tell puts a block, and the adversary's votes on it, where they can be shown.
func (c *chaos) tell(n *chaosNode, h Header) {
	if _, ok := c.source[h.Hash]; ok {
		return
	}
	x, err := n.extend(n.tree.nodes[h.Parent], &h)
	if err != nil {
		return
	}
	c.source[h.Hash], c.regime[h.Hash] = x.source, n.counting(x.own)
	c.blocks = append(c.blocks, h)
	c.shown = append(c.shown, HeaderEvent{h})
	c.shown = append(c.shown, VotesEvent{append(
		votesOn(block.Link{Kind: block.Prevote, Source: x.source, Target: h.Point()}, evil),
		votesOn(block.Link{Kind: block.Precommit, Source: h.Point(), Target: h.Point()}, evil)...)})
}

func (c *chaos) work(n *chaosNode) {
	for {
		rd, ok := n.Ready()
		if !ok {
			return
		}
		if c.heard != nil {
			c.heard(rd)
		}
		n.wal = append(n.wal, rd.Records...)
		n.Advance()
		for i := range rd.Votes {
			c.shown = append(c.shown, VotesEvent{[]block.Vote{signed(rd.Votes[i])}})
		}
		for _, t := range rd.Tallies {
			a := answer(t, n.cfg.Self)
			if a.Certificate == nil && n.cfg.Bugs.QuorumMinusOne {
				a.Certificate = block.NewCertificate(t.Link, t.Schedules, func(x common.Address) bool {
					for _, v := range t.Votes {
						if v.Voter == x {
							return true
						}
					}
					return false
				})
			}
			if a.Certificate != nil {
				c.certs = append(c.certs, a.Certificate)
			}
			_ = n.Step(a)
		}
		if p := rd.Produce; p != nil {
			h := Header{Parent: p.Parent, Height: p.Height, Slot: p.Slot, Producer: n.cfg.Self, QC: p.QC, FC: p.FC, Empty: p.EmptyOnly}
			if p.Next {
				h.Next = c.next
			}
			h.Hash = hashOf(&h, 0)
			c.tell(n, h)
			if n.Step(HeaderEvent{h}) == nil {
				n.seen = append(n.seen, h)
			}
		}
		if rd.Head != (common.Hash{}) && c.rnd.Intn(4) > 0 {
			branch, _ := n.Branch(rd.Head)
			for _, h := range branch {
				_ = n.Step(Executed{h})
			}
		}
		if f := rd.Final; f != nil {
			n.root = f.Root
			c.depth = max(c.depth, f.Height)
			for i, hash := range f.Hashes {
				h := f.Height - uint64(len(f.Hashes)-1-i)
				if was, ok := c.final[h]; ok && was != hash {
					c.split = true
				}
				c.final[h] = hash
			}
		}
	}
}

// chaosSeeds are a third of the storms' in the long form.
func chaosSeeds(short, storm int) int {
	switch {
	case os.Getenv("BORNODE_STORMS") != "":
		return storm
	case os.Getenv("BORNODE_LONG") != "":
		return storm / 3
	}
	return short
}

// Whatever one of four does with its key and the network, no two final blocks conflict; and of its seeds many finalise.
func TestAgreementUnderChaos(t *testing.T) {
	deep := 0
	for seed := range int64(chaosSeeds(400, 20000)) {
		c := newChaos(t, seed, 1<<40, firstN(4), nil, 3, Bugs{})
		c.run(600)
		require.False(t, c.split, "seed %d", seed)
		if c.depth > 0 {
			deep++
		}
		for _, n := range c.nodes {
			checkSigned(t, n.wal)
		}
	}
	require.Positive(t, deep)
	t.Logf("%d seeds finalised blocks", deep)
}

// While the schedule changes, too.
func TestAgreementUnderChaosWithEpochs(t *testing.T) {
	for seed := range int64(chaosSeeds(200, 8000)) {
		c := newChaos(t, seed, 2, firstN(4), scheduleOf(evil, 4, 5, 2), 5, Bugs{})
		c.run(900)
		require.False(t, c.split, "seed %d", seed)
	}
}

// Dropped rules show: the same adversary splits the final chain, at one of these seeds. The scripts in plays_test.go
// show the others, which are rarer.
func TestChaosFindsPlantedBugs(t *testing.T) {
	for _, tc := range []struct {
		name string
		bugs Bugs
		from int64
	}{
		{"quorum minus one", Bugs{QuorumMinusOne: true}, 0},
		{"link rule", Bugs{SkipLinkRule: true}, 700},
	} {
		found := false
		for seed := tc.from; seed < tc.from+300 && !found; seed++ {
			c := newChaos(t, seed, 1<<40, firstN(4), nil, 3, tc.bugs)
			c.run(900)
			found = c.split
		}
		require.True(t, found, tc.name)
	}
}

// The same events give the same duties, byte for byte.
func TestDeterminism(t *testing.T) {
	transcript := func() []byte {
		var out []byte
		c := newChaos(t, 7, 2, firstN(4), scheduleOf(evil, 4, 5, 2), 5, Bugs{})
		c.heard = func(rd Ready) {
			b, err := json.Marshal(rd)
			require.NoError(t, err)
			out = append(append(out, b...), '\n')
		}
		c.run(3000)
		return out
	}
	first := transcript()
	require.Greater(t, bytes.Count(first, []byte("\n")), 500)
	for range 3 {
		require.True(t, bytes.Equal(first, transcript()))
	}
}

// Long sequences of random events, as the fuzz target takes them.
func TestRandomEvents(t *testing.T) {
	for seed := range int64(chaosSeeds(60, 3000)) {
		b := make([]byte, 6000)
		_, _ = rand.New(rand.NewSource(seed)).Read(b)
		z := newFuzz(t, &dice{b})
		for range 600 {
			z.event()
		}
		z.finish()
	}
}
