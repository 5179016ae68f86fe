package dpos

import (
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// lab is one machine under a microscope: four producers, turns of one slot, the machine is producer 0 unless told.
type lab struct {
	*Machine
	t   *testing.T
	cfg Config
	all Ready // all duties so far, but for Head, Final and Produce: the last
}

func newLab(t *testing.T, change func(*Config)) *lab {
	return labOf(t, GenesisRoot(genesisHash, firstN(4)), change)
}

func labOf(t *testing.T, root *Root, change func(*Config)) *lab {
	cfg := DefaultConfig(testParams(), account(0))
	cfg.Bugs.SkipFirstSync = true          // the tests of rule 11 are in firstsync_test.go
	for _, s := range []uint64{4, 8, 40} { // tests make the machine's own blocks of these slots
		cfg.Signed = append(cfg.Signed, SignRecord{Kind: RecordProduced, Slot: s})
	}
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg, root)
	require.NoError(t, err)
	return &lab{Machine: m, t: t, cfg: cfg}
}

// drain takes all duties and gives those of this call; tallies are left open.
func (l *lab) drain() Ready {
	var sum Ready
	for range 100 {
		rd, ok := l.Ready()
		if !ok {
			for _, s := range []*Ready{&l.all} {
				*s = merged(*s, sum)
			}
			return sum
		}
		sum = merged(sum, rd)
		l.Advance()
	}
	l.t.Fatal("Ready never ends")
	return sum
}

func merged(a, b Ready) Ready {
	a.Records = append(a.Records, b.Records...)
	a.Votes = append(a.Votes, b.Votes...)
	a.Tallies = append(a.Tallies, b.Tallies...)
	a.Dropped = append(a.Dropped, b.Dropped...)
	a.Evidence = append(a.Evidence, b.Evidence...)
	a.Resend = append(a.Resend, b.Resend...)
	if b.Session != 0 {
		a.Session = b.Session
	}
	if b.Produce != nil {
		a.Produce = b.Produce
	}
	if b.Head != (common.Hash{}) {
		a.Head = b.Head
	}
	if b.Final != nil {
		a.Final = b.Final
	}
	return a
}

func (l *lab) step(ev Event) {
	l.t.Helper()
	require.NoError(l.t, l.Step(ev))
}

// slotBegins moves the clock to the start of a slot.
func (l *lab) slotBegins(s uint64) Ready {
	l.step(Tick{time.Duration(s) * l.cfg.Params.Slot()})
	return l.drain()
}

type option func(*Header)

func withQC(c *block.Certificate) option { return func(h *Header) { h.QC = c } }
func withFC(c *block.Certificate) option { return func(h *Header) { h.FC = c } }
func withNext(s block.Schedule) option   { return func(h *Header) { h.Next = s } }
func empty(h *Header)                    { h.Empty = true }
func salt(n byte) option                 { return func(h *Header) { h.Hash[0] = n } }
func by(i int) option                    { return func(h *Header) { h.Producer = account(i) } }

// child makes a header of the slot's owner on a known parent.
func (l *lab) child(parent common.Hash, slot uint64, opts ...option) Header {
	l.t.Helper()
	p, ok := l.Get(parent)
	require.True(l.t, ok)
	s, err := l.ScheduleFor(parent)
	require.NoError(l.t, err)
	return makeHeader(p, s, slot, opts...)
}

func makeHeader(p Header, s block.Schedule, slot uint64, opts ...option) Header {
	h := Header{Parent: p.Hash, Height: p.Height + 1, Slot: slot, Producer: s.Owner(slot, 1).Account}
	for _, o := range opts {
		o(&h)
	}
	x := h.Hash[0]
	h.Hash = hashOf(&h, uint64(x))
	return h
}

// grow enters a child and has it executed; add only enters it.
func (l *lab) grow(parent common.Hash, slot uint64, opts ...option) common.Hash {
	l.t.Helper()
	h := l.add(parent, slot, opts...)
	l.step(Executed{h})
	return h
}

func (l *lab) add(parent common.Hash, slot uint64, opts ...option) common.Hash {
	l.t.Helper()
	h := l.child(parent, slot, opts...)
	l.step(HeaderEvent{h})
	return h.Hash
}

func (l *lab) link(k block.VoteKind, hash common.Hash) block.Link {
	h, ok := l.Get(hash)
	require.True(l.t, ok)
	x := block.Link{Kind: k, Source: h.Point(), Target: h.Point()}
	if k == block.Prevote {
		s, err := l.Source(hash)
		require.NoError(l.t, err)
		x.Source = s
	}
	return x
}

// cert is a certificate on a block, by the last three producers unless told: not by the machine itself.
func (l *lab) cert(k block.VoteKind, hash common.Hash, voters ...int) *block.Certificate {
	l.t.Helper()
	s, err := l.VoteSchedules(hash)
	require.NoError(l.t, err)
	return certFor(l.link(k, hash), s, voters...)
}

func certFor(k block.Link, s []block.Schedule, voters ...int) *block.Certificate {
	if len(voters) == 0 {
		voters = []int{1, 2, 3}
	}
	return block.NewCertificate(k, s, func(a common.Address) bool {
		for _, v := range voters {
			if account(v) == a {
				return true
			}
		}
		return false
	})
}

func (l *lab) qc(hash common.Hash, voters ...int) *block.Certificate {
	return l.cert(block.Prevote, hash, voters...)
}

func (l *lab) fc(hash common.Hash, voters ...int) *block.Certificate {
	return l.cert(block.Precommit, hash, voters...)
}

// votes gives signed votes of producers on a link.
func votesOn(k block.Link, voters ...int) (out []block.Vote) {
	for _, v := range voters {
		out = append(out, signed(block.Vote{Link: k, Voter: account(v)}))
	}
	return out
}

// targets lists the blocks that votes of a kind are on.
func targets(vs []block.Vote, k block.VoteKind) (out []common.Hash) {
	for _, v := range vs {
		if v.Kind == k {
			out = append(out, v.Target.Hash)
		}
	}
	return out
}

func prevotes(rd Ready) []common.Hash   { return targets(rd.Votes, block.Prevote) }
func precommits(rd Ready) []common.Hash { return targets(rd.Votes, block.Precommit) }
