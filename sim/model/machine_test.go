package model

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

func account(id int) common.Address { return common.Address{0: 0xaa, 19: byte(id + 1)} }

// world is a tree of the model as headers and certificates of package dpos.
type world struct {
	t        *testing.T
	o        Options
	tree     *tree
	cfg      dpos.Config // of an observer
	root     *dpos.Root
	source   block.Point // what votes rest on when the model says: the root
	old, new block.Schedule
	byz      map[common.Address]bool
	hashes   [maxBlocks + 1]common.Hash
	voted    func(precommit bool, i int) map[common.Address]bool // honest voters in records' certificates
}

// newWorld begins a world; the tree is put in by the caller.
func newWorld(t *testing.T, o Options, bugs dpos.Bugs) *world {
	o = o.filled()
	w := &world{t: t, o: o, byz: make(map[common.Address]bool)}
	w.voted = func(bool, int) map[common.Address]bool { return w.everyone() }
	p := block.Parameters{ChainID: 7, SlotMillis: 500, TurnSlots: 100, EpochBlocks: 1 << 40, MaxReversible: 3600, MinProducers: 1}
	if o.Change != NoChange {
		p.EpochBlocks = 1
	}
	w.cfg = dpos.DefaultConfig(p, common.Address{})
	w.cfg.Bugs = bugs
	w.cfg.Bugs.SkipFirstSync = true // the model has rules 3 to 7; sim has rule 11
	a, b := o.schedules()
	for i := range producers {
		w.old = append(w.old, seat(a[i]))
		w.new = append(w.new, seat(b[i]))
		w.byz[account(a[i])] = i >= producers-o.Byzantine
	}
	for i := range w.hashes {
		w.hashes[i] = common.Hash{0: byte(i)}
	}
	genesis := common.Hash{31: 1}
	w.root, w.source = dpos.GenesisRoot(genesis, w.old), block.Point{Hash: genesis}
	if o.Change == Changing {
		w.change()
	}
	w.hashes[0] = w.root.Point().Hash
	return w
}

func seat(id int) block.Producer {
	p := block.Producer{Account: account(id)}
	p.Key[47] = byte(id + 1)
	return p
}

// change moves the root to where both schedules begin to count: block 1 announces, block 2 proves it final.
func (w *world) change() {
	owner := w.old[producers-1].Account
	one := dpos.Header{Hash: common.Hash{31: 2}, Parent: w.root.Point().Hash, Height: 1, Slot: 301, Producer: owner, Next: w.new}
	two := dpos.Header{Hash: common.Hash{31: 3}, Parent: one.Hash, Height: 2, Slot: 302, Producer: owner}
	all := func(common.Address) bool { return true }
	fc := func(h dpos.Header) *block.Certificate {
		return block.NewCertificate(block.Link{Kind: block.Precommit, Source: h.Point(), Target: h.Point()}, []block.Schedule{w.old}, all)
	}
	two.FC = fc(one)
	m := w.machine(common.Address{}, nil)
	require.NoError(w.t, m.Step(dpos.RangeEvent{Headers: []dpos.Header{one, two}, Certificate: fc(two)}))
	rd, ok := m.Ready()
	require.True(w.t, ok)
	require.Equal(w.t, two.Hash, rd.Final.Point.Hash)
	w.root, w.source = rd.Final.Root, one.Point()
}

// machine starts one that stands far behind all slots.
func (w *world) machine(self common.Address, signed []dpos.SignRecord) *dpos.Machine {
	cfg := w.cfg
	cfg.Self, cfg.Signed = self, signed
	m, err := dpos.New(cfg, w.root)
	require.NoError(w.t, err)
	require.NoError(w.t, m.Step(dpos.Tick{Now: 1000 * cfg.Params.Slot()}))
	return m
}

func (w *world) point(i int) block.Point {
	if i == 0 {
		return w.source
	}
	return block.Point{Slot: 302 + uint64(w.tree.slot(i)), Hash: w.hashes[i]} // of the last seat's turn
}

func (w *world) link(precommit bool, i int) block.Link {
	if precommit {
		return block.Link{Kind: block.Precommit, Source: w.point(i), Target: w.point(i)}
	}
	return block.Link{Kind: block.Prevote, Source: w.point(w.tree.v[i].source), Target: w.point(i)}
}

func (w *world) schedules(i int) (out []block.Schedule) {
	old, new := w.o.counting(w.tree, i)
	if old {
		out = append(out, w.old)
	}
	if new {
		out = append(out, w.new)
	}
	return out
}

// certificate is on a block, by these honest producers and all Byzantine ones.
func (w *world) certificate(precommit bool, i int, honest map[common.Address]bool) *block.Certificate {
	return block.NewCertificate(w.link(precommit, i), w.schedules(i), func(a common.Address) bool { return w.byz[a] || honest[a] })
}

// everyone voted.
func (w *world) everyone() map[common.Address]bool {
	all := make(map[common.Address]bool)
	for _, p := range w.o.honest() {
		all[account(p.id)] = true
	}
	return all
}

func (w *world) header(i int) dpos.Header {
	x := &w.tree.v[i]
	h := dpos.Header{Hash: w.hashes[i], Parent: w.hashes[x.parent], Height: w.root.Height() + uint64(x.height), Slot: w.point(i).Slot, Producer: account(producers - 1)}
	if x.qc != 0 {
		h.QC = w.certificate(false, x.qc, w.voted(false, x.qc))
	}
	if x.fc != 0 {
		h.FC = w.certificate(true, x.fc, w.voted(true, x.fc))
	}
	if w.o.Change != NoChange && (x.own.stage == before || x.own.stage == after) {
		h.Next = w.new
	}
	return h
}

func (w *world) branch(i int) (out []int) {
	for b := 1; b <= w.tree.n; b++ {
		if i != 0 && w.tree.v[i].above&bit(b) != 0 {
			out = append(out, b)
		}
	}
	return out
}

func (w *world) show(m *dpos.Machine, i int) {
	for _, b := range w.branch(i) {
		if err := m.Step(dpos.HeaderEvent{Header: w.header(b)}); err != nil && !errors.Is(err, dpos.ErrBelowLIB) {
			require.ErrorIs(w.t, err, dpos.ErrKnown)
		}
	}
}

// records are a WAL of these votes.
func (w *world) records(votes mask) (out []dpos.SignRecord) {
	n := w.tree.n
	for b := 1; b <= n; b++ {
		if votes&bit(b) != 0 {
			out = append(out, dpos.SignRecord{Kind: dpos.RecordPrevote, Slot: w.point(b).Slot, Link: w.link(false, b)})
		}
		if votes>>n&bit(b) != 0 {
			out = append(out, dpos.SignRecord{Kind: dpos.RecordPrecommit, Slot: w.point(b).Slot, Link: w.link(true, b)})
		}
	}
	return out
}

// vote is the bit of a machine's vote; false if its link is not the model's.
func (w *world) vote(v block.Vote) (int, bool) {
	for b := 1; b <= w.tree.n; b++ {
		for _, precommit := range []bool{false, true} {
			if v.Link == w.link(precommit, b) {
				if precommit {
					return w.tree.n + b - 1, true
				}
				return b - 1, true
			}
		}
	}
	return 0, false
}

// drain takes a machine's duties and gives its votes, and the newest root.
func drain(t *testing.T, m *dpos.Machine, root *dpos.Root) ([]block.Vote, *dpos.Root) {
	var votes []block.Vote
	for range 100 {
		rd, ok := m.Ready()
		if !ok {
			return votes, root
		}
		votes = append(votes, rd.Votes...)
		if rd.Final != nil {
			root = rd.Final.Root
		}
		m.Advance()
	}
	t.Fatal("Ready never ends")
	return nil, nil
}

func changes() []Options {
	return []Options{
		{AllRecords: true}, {AllRecords: true, Change: Announcing}, {AllRecords: true, Change: Changing},
		{AllRecords: true, Change: Announcing, Replaced: 3}, {AllRecords: true, Change: Changing, Replaced: 2},
	}
}

// Every record on every tree, valid or not: the model and Check agree on it, on what it proves, on whose votes count for
// the block, and on how many of them do.
func TestRecordsAndCertificates(t *testing.T) {
	for _, o := range changes() {
		accepted, refused := 0, 0
		for n := 0; n < 4; n++ {
			o.trees(n, func(base *tree) bool {
				for parent := 0; parent <= n; parent++ {
					for qc := 0; qc <= n; qc++ {
						for fc := 0; fc <= n; fc++ {
							if compareRecord(t, o, base.clone(), parent, qc, fc) {
								accepted++
							} else {
								refused++
							}
						}
					}
				}
				return true
			})
		}
		t.Logf("%+v: %d records accepted, %d refused", o, accepted, refused)
		require.Greater(t, accepted, 20)
		require.Greater(t, refused, 20)
	}
}

func compareRecord(t *testing.T, o Options, tr *tree, parent, qc, fc int) bool {
	w := newWorld(t, o, dpos.Bugs{})
	w.tree = tr
	m := w.machine(common.Address{}, nil)
	w.show(m, parent)
	valid := tr.valid(parent, qc, fc)
	tr.put(o.Change, parent, tr.slot(tr.n)+1, qc, fc)
	b := tr.n
	h := w.header(b)
	checks, err := m.Check(h)
	if !valid {
		require.ErrorIs(t, err, dpos.ErrInvalid, "%v", w.o.describe(tr))
		return false
	}
	require.NoError(t, err, "%v", w.o.describe(tr))
	require.Equal(t, account(producers-1), checks.Producer.Account)
	var want []dpos.CertCheck
	if qc != 0 {
		want = append(want, dpos.CertCheck{Certificate: h.QC, Schedules: w.schedules(qc)})
	}
	if fc != 0 {
		want = append(want, dpos.CertCheck{Certificate: h.FC, Schedules: w.schedules(fc)})
	}
	require.Equal(t, want, checks.Certificates)
	require.NoError(t, m.Step(dpos.HeaderEvent{Header: h}))
	source, err := m.Source(h.Hash)
	require.NoError(t, err)
	require.Equal(t, w.point(tr.v[b].source), source)
	counted, err := m.VoteSchedules(h.Hash)
	require.NoError(t, err)
	require.Equal(t, w.schedules(b), counted)
	compareQuorums(w, m, b)
	return true
}

// compareQuorums: every set of honest votes makes a certificate in the model if and only if the machine takes it.
func compareQuorums(w *world, m *dpos.Machine, b int) {
	s := newSearcher(w.o)
	w.tree.relate()
	s.prepare(w.tree)
	for set := range 1 << len(s.parties) {
		var votes [maxHonest]mask
		honest := make(map[common.Address]bool)
		for i, p := range s.parties {
			if set>>i&1 != 0 {
				votes[i] = (bit(b) | bit(b)<<w.tree.n) & s.sits[i]
				honest[account(p.id)] = true
			}
		}
		got := s.certified(&votes)
		for _, precommit := range []bool{false, true} {
			exists := got&bit(b) != 0
			if precommit {
				exists = got>>w.tree.n&bit(b) != 0
			}
			_, err := m.CertificateSchedules(w.certificate(precommit, b, honest))
			if exists {
				require.NoError(w.t, err)
			} else {
				require.ErrorIs(w.t, err, dpos.ErrInvalid)
			}
		}
	}
	require.NoError(w.t, m.Step(dpos.CertificateEvent{Certificate: w.certificate(false, b, w.everyone())}))
	require.NoError(w.t, m.Step(dpos.CertificateEvent{Certificate: w.certificate(true, b, w.everyone())}))
	require.Equal(w.t, w.hashes[b], m.LIB().Hash)
}

// forest lists the trees of 4 blocks that matter.
func forest(o Options) (out []*tree) {
	o.filled().trees(4, func(t *tree) bool {
		if t.matters(o.Change) {
			out = append(out, t.clone())
		}
		return true
	})
	return out
}

// player is an honest producer's machine that lives through crashes.
type player struct {
	m    *dpos.Machine
	root *dpos.Root
}

// drama plays one world: machines start at a random reachable state of the model and are shown what exists in random
// order. It gives the number of votes, and what the model forbids, if anything.
func drama(t *testing.T, o Options, bugs dpos.Bugs, trees []*tree, seed uint64) (cast int, forbidden string) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(t, o, bugs)
	w.tree = trees[rng.IntN(len(trees))]
	for i := 1; i < len(w.hashes); i++ {
		binary.BigEndian.PutUint64(w.hashes[i][:], rng.Uint64())
	}
	s := newSearcher(w.o)
	s.prepare(w.tree)
	n := w.tree.n
	var votes [maxHonest]mask
	w.follow(s, &votes)
	s.wander(&votes, rng)
	players := make([]player, len(s.parties))
	for i, p := range s.parties {
		players[i] = player{w.machine(account(p.id), w.records(votes[i])), w.root}
	}
	for range 60 * len(players) {
		i := rng.IntN(len(players))
		p := &players[i]
		certs := s.certified(&votes)
		w.perform(p, certs, s.parties[i].id, rng)
		var got []block.Vote
		got, p.root = drain(t, p.m, p.root)
		for _, v := range got {
			b, ok := w.vote(v)
			certs := s.certified(&votes)
			can := w.tree.existing(certs&(1<<n-1), certs>>n) | certs<<n&^(1<<n-1)
			if !ok || v.Voter != account(s.parties[i].id) || s.votes[votes[i]]&s.sits[i]&can>>b&1 == 0 {
				return cast, "a vote that the model forbids"
			}
			votes[i] |= 1 << b
			cast++
		}
	}
	certs := s.certified(&votes)
	if b, _ := s.disagree(certs); b != 0 {
		return cast, "two conflicting blocks are final"
	}
	return cast, ""
}

// wander moves to a random reachable state.
func (s *searcher) wander(votes *[maxHonest]mask, rng *rand.Rand) {
	for range rng.IntN(16) {
		var ways [][2]int
		s.next(votes, s.certified(votes), func(i, b int) { ways = append(ways, [2]int{i, b}) })
		if len(ways) > 0 {
			x := ways[rng.IntN(len(ways))]
			votes[x[0]] |= 1 << x[1]
		}
	}
}

// perform shows a machine something, or restarts it.
func (w *world) perform(p *player, certs mask, id int, rng *rand.Rand) {
	n := w.tree.n
	b := 1 + rng.IntN(n)
	exists := w.tree.existing(certs&(1<<n-1), certs>>n)
	var err error
	switch k := rng.IntN(16); {
	case k == 0:
		cfg := w.cfg
		cfg.Self, cfg.Signed = account(id), p.m.Signed()
		p.m, err = dpos.New(cfg, p.root)
		require.NoError(w.t, err)
		err = p.m.Step(dpos.Tick{Now: 2000*cfg.Params.Slot() + time.Duration(rng.IntN(1000))})
	case k < 7 && exists&bit(b) != 0 && p.m.Has(w.hashes[w.tree.v[b].parent]):
		err = p.m.Step(dpos.HeaderEvent{Header: w.header(b)})
	case k < 12:
		err = p.m.Step(dpos.Executed{Hash: w.hashes[b]})
	case p.m.Has(w.hashes[b]) && certs&bit(b) != 0 && k < 15:
		err = p.m.Step(dpos.CertificateEvent{Certificate: w.certificate(false, b, w.voted(false, b))})
	case p.m.Has(w.hashes[b]) && certs>>n&bit(b) != 0:
		err = p.m.Step(dpos.CertificateEvent{Certificate: w.certificate(true, b, w.voted(true, b))})
	}
	if err != nil && !errors.Is(err, dpos.ErrKnown) {
		require.ErrorIs(w.t, err, dpos.ErrBelowLIB)
	}
}

// follow makes the world's certificates hold the votes of a state.
func (w *world) follow(s *searcher, votes *[maxHonest]mask) {
	w.voted = func(precommit bool, i int) map[common.Address]bool {
		if precommit {
			i += w.tree.n
		}
		out := make(map[common.Address]bool)
		for j, p := range s.parties {
			out[account(p.id)] = votes[j]&bit(i) != 0
		}
		return out
	}
}

// From random reachable states of the model on, the machine votes, and never what the model forbids.
func TestMachineStaysInsideTheModel(t *testing.T) {
	rounds := 150
	if long() {
		rounds = 5000
	}
	for _, o := range changes() {
		trees, cast := forest(o), 0
		for seed := range rounds {
			n, bad := drama(t, o, dpos.Bugs{}, trees, uint64(seed))
			require.Empty(t, bad, "%+v seed %d", o, seed)
			cast += n
		}
		t.Logf("%+v: %d trees, %d votes", o, len(trees), cast)
		require.Greater(t, cast, rounds)
	}
}

// The comparison notices a machine without a rule.
func TestMachineWithoutARuleLeavesTheModel(t *testing.T) {
	trees := forest(Options{AllRecords: true})
	for name, bugs := range map[string]dpos.Bugs{
		"slot rule":      {SkipSlotRule: true},
		"link rule":      {SkipLinkRule: true},
		"newest prevote": {SkipNewestPrevote: true},
		"QC":             {PrecommitWithoutQC: true},
	} {
		t.Run(name, func(t *testing.T) {
			seed, bad := 0, ""
			for ; bad == "" && seed < 3000; seed++ {
				_, bad = drama(t, Options{AllRecords: true}, bugs, trees, uint64(seed))
			}
			require.NotEmpty(t, bad)
			t.Logf("seed %d: %s", seed-1, bad)
		})
	}
}
