package consensus

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// clone is a copy of a disk.
func (d *disk) clone() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &disk{blocks: maps.Clone(d.blocks), reversible: slices.Clone(d.reversible), final: slices.Clone(d.final), root: d.root, qc: d.qc, fc: d.fc}
}

// copyNode is a copy of a stopped node's folder: its blocks and its vote log.
func (m *member) copyNode() (restore func()) {
	kept := m.chain.disk.clone()
	file := filepath.Join(m.lab.dir, fmt.Sprint(m.id), voteLogName)
	log, err := os.ReadFile(file)
	require.NoError(m.lab.t, err)
	return func() {
		m.chain.disk = kept.clone()
		require.NoError(m.lab.t, os.WriteFile(file, log, 0o600))
	}
}

// signs counts what a producer signs from now on; votes that it or others remember are sent again, and do not count.
func (l *lab) signs(id int) (votes, seals func() int) {
	n, before, now := 0, l.sealed(id), l.nodes[id].driver.slotNow()
	l.setTap(func(v block.Vote) {
		if v.Voter == l.signers[id].Account() && v.Target.Slot >= now {
			n++
		}
	})
	return func() int { l.mu.Lock(); defer l.mu.Unlock(); return n }, func() int { return l.sealed(id) - before }
}

func (l *lab) sealed(id int) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	who := l.signers[id].Account().String()
	for key := range l.seals {
		if len(key) > len(who) && key[:len(who)] == who {
			n++
		}
	}
	return n
}

// A producer whose folder was replaced by an old copy signs nothing that conflicts with what it signed and forgot, in
// several rounds: alone it signs nothing, then it takes the others' final blocks first, and their word on its votes.
func TestRestoredProducer(t *testing.T) {
	for _, age := range []int{1, 6, 30} { // slots that the copy is older than the stop
		t.Run(fmt.Sprint(age), func(t *testing.T) {
			inBubble(t, 4, func(l *lab) {
				l.start()
				l.slots(20)
				for round := range 3 {
					m := l.nodes[round%4]
					m.kill()
					restore := m.copyNode()
					m.start(nil)
					l.slots(13 + age) // beyond the line
					m.kill()
					l.slots(1)
					restore()

					l.setCut(m.id, true)
					votes, seals := l.signs(m.id)
					m.start(nil)
					l.slots(7)
					require.Zero(t, votes(), "it has heard nobody")
					require.Zero(t, seals(), "nor is an orphan made on the old head")
					l.setCut(m.id, false)

					finals := l.nodes[(m.id+1)%4].chain.finals()
					l.slots(1)
					require.Zero(t, votes(), "the newest certified LIB is not held yet")
					_, err := m.driver.AddRange(m.ctx, finals[m.chain.lib():], Full)
					require.NoError(t, err)
					require.Empty(t, m.lies())
					l.slots(80)
					s := m.driver.Status()
					require.False(t, s.Silent, s.Why)
					require.NotZero(t, votes())
					require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2))
				}
			})
		})
	}
}

// lies are the errors that a node's answers met.
func (m *member) lies() (out []error) {
	m.lab.mu.Lock()
	defer m.lab.mu.Unlock()
	for _, err := range m.heard {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// A plain restart within the own slot makes no orphan on the old head.
func TestRestartWithinOwnSlotMakesNoOrphan(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(17)
		m := l.nodes[0]
		for m.driver.Status().Slot%8 != 0 { // the first slot of its turn begins
			l.slots(1)
		}
		m.kill()
		_, seals := l.signs(m.id)
		m.start(nil)
		l.slots(2)
		require.Zero(t, seals())
		require.Equal(t, "line", m.driver.core.silent)
		l.slots(20)
		require.NotZero(t, seals())
		require.False(t, m.driver.Status().Silent)
	})
}

// answer is a producer's answer to a session of another one, as a test wants it.
func (l *lab) answer(from, to int, s block.Session, change func(*block.SessionAnswer)) *block.SessionAnswer {
	a := &block.SessionAnswer{Asker: l.signers[to].Account(), Session: s, From: l.signers[from].Account()}
	if change != nil {
		change(a)
	}
	sig, err := l.signers[from].SignSeal(labDomain.AnswerDigest(a))
	require.NoError(l.t, err)
	a.Sig = sig[:]
	return a
}

// What is told in the producer's name and is not its own is its teller's fault and changes nothing; the teller's answer
// does not count, nor does one to another session. A genuine vote that the log lacks silences.
func TestToldVotes(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.nodes[0]
		m.start(nil)
		l.slots(2)
		link := block.Link{Kind: block.Prevote, Source: block.Point{Hash: l.genesis}, Target: block.Point{Slot: 2, Hash: l.genesis}}
		vote := block.Vote{Link: link, Voter: l.signers[0].Account(), Signature: block.BLSSignature{1}}
		session := m.driver.Status().Session.Session
		hear := func(from int, change func(*block.SessionAnswer)) error {
			return m.driver.HearAnswer(m.ctx, l.answer(from, 0, session, change))
		}
		tell := func(vs ...block.Vote) func(*block.SessionAnswer) {
			return func(a *block.SessionAnswer) {
				for _, v := range vs {
					a.Votes = append(a.Votes, block.ToldVote{Vote: v})
				}
			}
		}
		require.ErrorIs(t, hear(1, tell(vote)), ErrInvalid)
		foreign := vote
		foreign.Voter = l.signers[1].Account()
		require.ErrorIs(t, hear(1, tell(foreign)), ErrInvalid, "another's vote")
		require.ErrorIs(t, hear(1, func(a *block.SessionAnswer) {
			a.Sessions = []block.SignedSession{{Producer: a.Asker, Session: block.Session{Number: 9}}}
		}), ErrInvalid, "a session that nobody signed")
		require.ErrorIs(t, hear(1, func(a *block.SessionAnswer) { a.Header = []byte{1} }), ErrInvalid)
		require.ErrorIs(t, hear(1, func(a *block.SessionAnswer) { a.Sessions = []block.SignedSession{*l.askedBy(2, 9)} }), ErrInvalid, "a session of another producer")
		forged := l.answer(1, 0, session, nil)
		forged.LIBHeight++
		require.ErrorIs(t, m.driver.HearAnswer(m.ctx, forged), ErrInvalid, "its signature is of something else")
		other := session
		other.Nonce[0]++
		require.NoError(t, m.driver.HearAnswer(m.ctx, l.answer(1, 0, other, nil)))
		require.Equal(t, 2, m.driver.Status().Waiting.Answers, "none of these counts")
		require.Zero(t, m.driver.Status().Waiting.Floor)
		require.NoError(t, hear(1, nil))
		require.NoError(t, hear(1, nil))
		require.Equal(t, 1, m.driver.Status().Waiting.Answers)
		require.NoError(t, hear(2, nil))
		require.True(t, m.driver.Status().Silent, "the third may answer")
		l.slots(4)
		require.False(t, m.driver.Status().Silent, "two turns")
		sig, err := l.signers[0].SignVote(labDomain.VoteDigest(link))
		require.NoError(t, err)
		vote.Signature = sig
		require.NoError(t, hear(3, tell(vote)))
		require.True(t, m.driver.Status().Silent)
		require.Contains(t, m.driver.Status().Why, "old copy")
		m.kill()
		m.start(nil)
		synctest.Wait() // the core, read from outside, does nothing meanwhile
		require.NotZero(t, m.driver.Status().Waiting.Floor, "it is in the log")
		require.Contains(t, m.driver.core.cast, link)
	})
}

// A seal or a session of its own that a producer does not know silences it as a vote does.
func TestToldSealsAndSessions(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(30)
		m := l.nodes[0]
		var own *block.Block
		var foreign [2]*block.Block // one of another producer, and one whose seal is forged
		for _, b := range m.chain.finals() {
			if b.Header.Coinbase == m.driver.self {
				own = b
			} else {
				foreign[0] = b
			}
		}
		require.NotNil(t, own)
		require.NotNil(t, foreign[0])
		forged, err := block.DecodeSealedHeader(own.SealedHeader.Encode())
		require.NoError(t, err)
		forged.Seal[3]++
		foreign[1] = &block.Block{SealedHeader: forged}
		for name, change := range map[string]func(*block.SessionAnswer){
			"seal": func(a *block.SessionAnswer) { a.Header = own.SealedHeader.Encode() },
			"session": func(a *block.SessionAnswer) {
				s := block.Session{Number: 99}
				seal, err := l.signers[0].SignSeal(labDomain.SessionDigest(a.Asker, s))
				require.NoError(t, err)
				a.Sessions = []block.SignedSession{{Producer: a.Asker, Session: s, Seal: seal}}
			},
		} {
			d := l.fresh(0, name)
			require.NoError(t, d.HearAnswer(m.ctx, l.answer(1, 0, d.Status().Session.Session, nil)))
			require.Zero(t, d.Status().Waiting.Floor, name)
			for _, not := range foreign {
				require.ErrorIs(t, d.HearAnswer(m.ctx, l.answer(2, 0, d.Status().Session.Session, func(a *block.SessionAnswer) { a.Header = not.SealedHeader.Encode() })), ErrInvalid)
			}
			require.Zero(t, d.Status().Waiting.Floor, "a seal that is not its own")
			require.NoError(t, d.HearAnswer(m.ctx, l.answer(2, 0, d.Status().Session.Session, change)))
			require.NotZero(t, d.Status().Waiting.Floor, name)
			if name == "session" {
				require.Equal(t, uint64(100), d.Status().Session.Number, "a higher one is begun")
			}
		}
	})
}

// fresh runs a driver of a signer on an empty folder, apart from the network. It ends with the test.
func (l *lab) fresh(id int, name string) *Driver {
	cfg, deps := l.nodes[id].deps()
	cfg.Dir = filepath.Join(l.dir, "fresh-"+name)
	c := newFakeChain(l.params, l.genesis, l.schedule, newDisk())
	deps.Chain, deps.Store, deps.Network = c, c.disk, nil
	d, err := Open(cfg, deps)
	require.NoError(l.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	l.wg.Go(func() { _ = d.Run(ctx) })
	l.ends = append(l.ends, cancel)
	l.slots(1)
	return d
}

// A second instance on a copy of a running producer's folder ends before it signs; the first one stays.
func TestSecondInstanceEnds(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(20)
		m := l.nodes[0]
		twin := &member{lab: l, id: 4, as: 1, chain: newFakeChain(l.params, l.genesis, l.schedule, m.chain.disk.clone())}
		l.join(twin)
		require.NoError(t, os.CopyFS(filepath.Join(l.dir, "4"), os.DirFS(filepath.Join(l.dir, "0"))))
		l.slots(2)
		twin.start(nil)
		l.slots(2)
		require.True(t, twin.dead())
		require.ErrorIs(t, twin.err, ErrSecondCopy)
		twin.err = nil
		require.False(t, m.dead())
		l.slots(80)
		s := m.driver.Status()
		require.False(t, s.Silent, s.Why)
		require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2))
	})
}

// Of two instances that start on copies of one stopped folder just one stays.
func TestOneOfTwoInstancesOfAStoppedFolderStays(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(20)
		m := l.nodes[0]
		m.kill()
		twin := &member{lab: l, id: 4, as: 1, chain: newFakeChain(l.params, l.genesis, l.schedule, m.chain.disk.clone())}
		l.join(twin)
		require.NoError(t, os.CopyFS(filepath.Join(l.dir, "4"), os.DirFS(filepath.Join(l.dir, "0"))))
		m.start(nil)
		twin.start(nil)
		l.slots(4)
		require.NotEqual(t, m.dead(), twin.dead())
		for _, o := range []*member{m, twin} {
			if o.dead() {
				require.ErrorIs(t, o.err, ErrSecondCopy)
				o.err = nil
			}
		}
	})
}

// A node whose clock jumped, or that had no link for long, asks again before it signs.
func TestSessionIsRenewed(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		var ahead atomic.Int64
		m := l.nodes[0]
		m.start(func(_ *Config, d *Deps) {
			d.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		for _, o := range l.nodes[1:] {
			o.start(nil)
		}
		l.slots(20)
		require.False(t, m.driver.Status().Silent)
		was := m.driver.Status().Session.Number
		m.driver.LinksReturned(maxAlone - 1)
		l.slots(1)
		require.Equal(t, was, m.driver.Status().Session.Number)
		m.driver.LinksReturned(maxAlone)
		l.slots(1)
		require.Equal(t, was+1, m.driver.Status().Session.Number)
		require.True(t, m.driver.Status().Silent)
		l.slots(20)
		require.False(t, m.driver.Status().Silent, m.driver.Status().Why)
		newest := l.newestVote(0)
		ahead.Store(int64(maxTurnGap + slotTime))
		l.slots(2)
		require.Equal(t, was+2, m.driver.Status().Session.Number)
		require.Equal(t, newest, l.newestVote(0), "nothing new was signed")
	})
}

// newestVote is the highest slot that a producer voted for.
func (l *lab) newestVote(id int) uint64 {
	return max(l.newestOfKind(id, block.Prevote), l.newestOfKind(id, block.Precommit))
}

// newestOfKind is the slot of the newest vote of a kind that a node has sent.
func (l *lab) newestOfKind(id int, kind block.VoteKind) (slot uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, v := range l.votes {
		if v.Kind == kind && strings.HasPrefix(key, l.signers[id].Account().String()) {
			slot = max(slot, v.Target.Slot)
		}
	}
	return slot
}

// The certificate that a precommit rests on outlives the restart of all who know it.
func TestQCOfAPrecommitIsOnDisk(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.mu.Lock()
		l.noPrecommits = true
		l.mu.Unlock()
		l.start()
		l.slots(12)
		for _, m := range l.nodes {
			m.kill()
		}
		for _, m := range l.nodes {
			cfg, deps := m.deps()
			d, err := Open(cfg, deps)
			require.NoError(t, err)
			require.Zero(t, d.Status().LIB.Height)
			require.NotNil(t, d.Status().QC, "node %d", m.id)
			require.Greater(t, d.Status().Justified.Slot, uint64(5))
			require.NoError(t, d.Close())
		}
	})
}

// What a producer holds of others' votes outlives the restart of all.
func TestMarksAreOnDisk(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.observer().start(nil)
		for _, m := range l.nodes { // the logs are written anew again and again
			require.NoError(t, m.driver.do(m.ctx, true, func(c *core) { c.d.compact = 1 }))
		}
		l.slots(20)
		l.nodes[0].kill()
		l.nodes[0].start(nil)
		l.slots(20)
		for _, m := range l.nodes {
			m.kill()
		}
		for _, id := range []int{1, 4} {
			m := l.nodes[id]
			cfg, deps := m.deps()
			d, err := Open(cfg, deps)
			require.NoError(t, err)
			require.NotEmpty(t, d.core.marks.Votes(l.signers[0].Account()), "node %d", id)
			require.NotEmpty(t, d.core.marks.Sessions(l.signers[0].Account(), block.Session{}), "node %d", id)
			require.NoError(t, d.Close())
		}
	})
}

// A certificate that came with an answer holds the signer up only if a quorum signed it: one that is forged, or that too few
// signed, names a final block that may not exist, and the signer would wait for it for ever.
func TestCertificateInAnAnswer(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(20)
		m := l.nodes[1]
		m.kill()
		l.setCut(m.id, true)
		l.slots(10)
		fc := l.nodes[0].driver.Status().FC
		m.start(nil)
		l.slots(1)
		require.Less(t, m.driver.Status().LIB.Slot, fc.Target.Slot)

		hear := func(from int, c *block.Certificate) error {
			return m.driver.HearAnswer(m.ctx, l.answer(from, 1, m.driver.Status().Session.Session, func(a *block.SessionAnswer) { a.FC = c }))
		}
		forged := *fc
		forged.Aggregate[40] ^= 1
		prevotes := fc.Link
		prevotes.Kind = block.Prevote
		for name, c := range map[string]*block.Certificate{
			"forged": &forged, "of two of four": l.certified(fc.Link, 2, 3), "of prevotes": l.certified(prevotes, 0, 2, 3),
		} {
			require.NoError(t, hear(0, c))
			require.Zero(t, m.driver.Status().Waiting.Certified, name)
		}
		require.NoError(t, hear(2, l.certified(fc.Link, 0, 2, 3)))
		require.Equal(t, fc.Target.Slot, m.driver.Status().Waiting.Certified)
	})
}

// With most producers gone a producer that starts seals blocks after four turns, and votes wait on.
func TestProductionNeverWaitsForEver(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(10)
		for _, m := range l.nodes {
			m.kill()
		}
		m := l.nodes[1]
		votes, seals := l.signs(m.id)
		m.start(nil)
		began := m.driver.Status().Head.Height
		l.slots(40)
		require.Greater(t, m.driver.Status().Head.Height, began+5, "two slots of eight")
		require.NotZero(t, seals())
		require.Zero(t, votes())
		s := m.driver.Status()
		require.True(t, s.Silent)
		require.True(t, s.Waiting.Overdue)
		require.Contains(t, s.Why, l.signers[0].Account().String())
		for _, o := range l.nodes {
			if o != m {
				o.start(nil)
			}
		}
		l.slots(40)
		s = m.driver.Status()
		require.False(t, s.Silent, s.Why)
		require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2))
	})
}

// While the floor is not chosen no slot is told that follows from it, nor the operator's word, which is refused until then.
func TestSilenceBeforeTheFloorIsChosen(t *testing.T) {
	told := func(w dpos.Waiting) string {
		_, text := new(Driver).silence(&w)
		return text
	}
	due := told(dpos.Waiting{Floor: 1, Rest: dpos.Rest{Missing: 1, From: 64}})
	require.Contains(t, due, "or when 1 more producers have told")
	require.NotContains(t, due, "accept")
	due = told(dpos.Waiting{Floor: 1, Rest: dpos.Rest{From: 64, Held: true}})
	require.Contains(t, due, "a slot that is chosen once the time of the network is known")
	require.NotContains(t, due, "64")
	require.Contains(t, told(dpos.Waiting{Floor: 40, Rest: dpos.Rest{Missing: 1, From: 104}}), "borcli producer accept")
	require.Contains(t, told(dpos.Waiting{Floor: 40, Rest: dpos.Rest{From: 104, Held: true}}), "or from slot 104 on")
}
