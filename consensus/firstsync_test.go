package consensus

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/bls"
)

// copyNode is a copy of a stopped node's folder: its blocks and its vote log.
func (m *member) copyNode() (restore func()) {
	d := m.chain.disk
	d.mu.Lock()
	kept := disk{blocks: maps.Clone(d.blocks), reversible: slices.Clone(d.reversible), final: slices.Clone(d.final), root: d.root, qc: d.qc, fc: d.fc}
	d.mu.Unlock()
	file := filepath.Join(m.lab.dir, fmt.Sprint(m.id), voteLogName)
	log, err := os.ReadFile(file)
	require.NoError(m.lab.t, err)
	return func() {
		m.chain.disk = &disk{blocks: maps.Clone(kept.blocks), reversible: slices.Clone(kept.reversible), final: slices.Clone(kept.final), root: kept.root, qc: kept.qc, fc: kept.fc}
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
					m.greet()
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

// A vote in the producer's name that it did not sign is its teller's fault and changes nothing; the teller's answer does
// not count. A genuine one that the log lacks silences.
func TestToldVotes(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.nodes[0]
		m.start(nil)
		l.slots(2)
		link := block.Link{Kind: block.Prevote, Source: block.Point{Hash: l.genesis}, Target: block.Point{Slot: 2, Hash: l.genesis}}
		vote := block.Vote{Link: link, Voter: l.signers[0].Account(), Signature: block.BLSSignature{1}}
		answer := func(from int, vs ...block.Vote) error {
			return m.driver.HearProducer(m.ctx, Answer{Producer: l.signers[from].Account(), Votes: vs})
		}
		require.ErrorIs(t, answer(1, vote), ErrInvalid)
		vote.Voter = l.signers[1].Account()
		require.ErrorIs(t, answer(1, vote), ErrInvalid, "another's vote")
		require.ErrorIs(t, answer(1, make([]block.Vote, MaxToldVotes+1)...), ErrInvalid)
		require.Equal(t, 2, m.driver.Status().Waiting.Answers, "none of these counts")
		require.Zero(t, m.driver.Status().Waiting.Floor)
		require.NoError(t, answer(1))
		require.NoError(t, answer(1))
		require.Equal(t, 1, m.driver.Status().Waiting.Answers)
		require.NoError(t, answer(2))
		require.False(t, m.driver.Status().Silent)
		vote.Voter = l.signers[0].Account()
		sig, err := l.signers[0].SignVote(m.driver.verify.domain.VoteDigest(link))
		require.NoError(t, err)
		vote.Signature = sig
		require.NoError(t, answer(3, vote))
		require.True(t, m.driver.Status().Silent)
		require.Contains(t, m.driver.Status().Why, "old copy")
		m.kill()
		m.start(nil)
		require.NotZero(t, m.driver.Status().Waiting.Floor, "it is in the log")
		require.Contains(t, m.driver.core.cast, link)
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

		schedules := []block.Schedule{l.schedule}
		signedBy := func(link block.Link, ids ...int) *block.Certificate {
			digest := m.driver.verify.domain.VoteDigest(link)
			var sigs []*bls.Signature
			voters := make(map[common.Address]bool)
			for _, id := range ids {
				raw, err := l.signers[id].SignVote(digest)
				require.NoError(t, err)
				sig, err := bls.ParseSignature(raw)
				require.NoError(t, err)
				sigs, voters[l.signers[id].Account()] = append(sigs, sig), true
			}
			c := block.NewCertificate(link, schedules, func(a common.Address) bool { return voters[a] })
			sum, err := bls.AggregateParsed(sigs)
			require.NoError(t, err)
			c.Aggregate = sum
			return c
		}
		forged := *fc
		forged.Aggregate[40] ^= 1
		prevotes := fc.Link
		prevotes.Kind = block.Prevote
		for name, c := range map[string]*block.Certificate{
			"forged": &forged, "of two of four": signedBy(fc.Link, 2, 3), "of prevotes": signedBy(prevotes, 0, 2, 3),
		} {
			require.NoError(t, m.driver.HearProducer(m.ctx, Answer{Producer: l.signers[0].Account(), FC: c}))
			require.Zero(t, m.driver.Status().Waiting.Certified, name)
		}
		require.NoError(t, m.driver.HearProducer(m.ctx, Answer{Producer: l.signers[2].Account(), FC: signedBy(fc.Link, 0, 2, 3)}))
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
