package consensus

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/bls"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/recovery"
)

// certify is a certificate of precommits in a domain, signed by the lab's signers of these numbers.
func (l *lab) certify(domain block.Domain, s block.Schedule, target block.Point, voters ...int) *block.Certificate {
	link := block.Link{Kind: block.Precommit, Source: target, Target: target}
	digest := domain.VoteDigest(link)
	var sigs [][96]byte
	var accounts []common.Address
	for _, i := range voters {
		sig, err := l.signers[i].SignVote(digest)
		require.NoError(l.t, err)
		sigs, accounts = append(sigs, sig), append(accounts, l.signers[i].Account())
	}
	c := block.NewCertificate(link, []block.Schedule{s}, func(a common.Address) bool { return slices.Contains(accounts, a) })
	sum, err := bls.Aggregate(sigs)
	require.NoError(l.t, err)
	c.Aggregate = sum
	return c
}

// A survey of a folder that goes by a recovery begins at its base, and counts what was signed since: what was signed in the older
// domain does not bind in this one.
func TestSurveyAfterARecovery(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		r := l.loseTwo()
		m := l.nodes[0]
		cfg, d := m.deps()
		before, err := OpenSurvey(cfg.Dir, l.signers[0].Account(), d)
		require.NoError(t, err)
		require.NotZero(t, before.NewestSlot)
		require.NotZero(t, before.Precommit)

		l.recoveries = []dpos.Recovery{r}
		d.Recoveries = l.recoveries
		s, err := OpenSurvey(cfg.Dir, l.signers[0].Account(), d)
		require.NoError(t, err)
		require.Equal(t, Place{r.Height, r.Base.Slot, r.Base.Hash}, s.LIB)
		require.Equal(t, s.LIB, s.Justified)
		require.Zero(t, s.NewestSlot)
		require.Zero(t, s.Precommit)
		schedules, err := s.Schedules(s.LIB.Hash)
		require.NoError(t, err)
		require.Equal(t, []block.Schedule{l.schedule}, schedules, "votes on the base are of the domain before")
		schedules, err = s.SurvivorSchedules(s.LIB.Hash)
		require.NoError(t, err)
		require.Equal(t, []block.Schedule{r.Schedule}, schedules, "what is final above it is so by the recovery's producers")

		for _, i := range []int{0, 1, 4, 5} {
			l.nodes[i].start(nil)
		}
		l.slots(40)
		l.nodes[0].kill()
		was := l.nodes[0].driver.Status()
		s, err = OpenSurvey(cfg.Dir, l.signers[0].Account(), d)
		require.NoError(t, err)
		require.Equal(t, was.LIB, s.LIB)
		require.Greater(t, s.NewestSlot, r.FirstSlot)
		require.Greater(t, s.Precommit.Slot, r.FirstSlot)
		for _, read := range []func(common.Hash) ([]block.Schedule, error){s.Schedules, s.SurvivorSchedules} {
			schedules, err = read(s.Justified.Hash)
			require.NoError(t, err)
			require.Equal(t, []block.Schedule{r.Schedule}, schedules)
		}
	})
}

// A survey counts a seal like a vote, and does not trust a log with damage inside.
func TestSurveyReadsSealsAndDamage(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(24)
		m := l.nodes[1]
		m.kill()
		cfg, d := m.deps()
		account, path := l.signers[1].Account(), filepath.Join(cfg.Dir, voteLogName)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		s, err := OpenSurvey(cfg.Dir, account, d)
		require.NoError(t, err)
		require.False(t, s.Incomplete)
		for i, kind := range []dpos.RecordKind{dpos.RecordProduced, dpos.RecordPrevote, dpos.RecordPrecommit} {
			slot := s.NewestSlot + uint64(i) + 1
			entry := appendEntry(nil, uint64(len(raw)), encodeRecord(dpos.SignRecord{Kind: kind, Slot: slot}))
			require.NoError(t, os.WriteFile(path, append(slices.Clone(raw), entry...), 0o600))
			x, err := OpenSurvey(cfg.Dir, account, d)
			require.NoError(t, err)
			require.Equal(t, slot, x.NewestSlot, "a record of kind %d", kind)
		}
		raw[voteLogHeaderSize+(len(raw)-voteLogHeaderSize)/2] ^= 1
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		s, err = OpenSurvey(cfg.Dir, account, d)
		require.NoError(t, err)
		require.True(t, s.Incomplete)
	})
}

// What a node holds of others' votes in the domain of a recovery outlives a restart, whether the log was rewritten or not; of what
// it held in the domain before nothing is left.
func TestMarksOfARecoveryAreOnDisk(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		r := l.loseTwo()
		held := func(i int) int {
			cfg, deps := l.nodes[i].deps()
			d, err := Open(cfg, deps)
			require.NoError(t, err)
			n := len(d.core.marks.Votes(l.signers[0].Account()))
			require.NoError(t, d.Close())
			return n
		}
		require.NotZero(t, held(1))
		l.recoveries = []dpos.Recovery{r}
		require.Zero(t, held(1), "marks of the older domain")
		for _, i := range []int{0, 1, 4, 5} {
			l.nodes[i].start(nil)
		}
		m := l.nodes[1]
		require.NoError(t, m.driver.do(m.ctx, true, func(c *core) { c.d.compact = 1 }))
		l.slots(40)
		for _, i := range []int{0, 1, 4, 5} {
			l.nodes[i].kill()
		}
		require.NotZero(t, held(1), "a log that was rewritten again and again")
		require.NotZero(t, held(4), "a log that was only appended to")

		l.recoveries = nil // as if the files of applied recoveries were missing
		for _, i := range []int{1, 4} {
			cfg, deps := l.nodes[i].deps()
			_, err := Open(cfg, deps)
			require.ErrorContains(t, err, "apply it again")
		}
		l.recoveries = []dpos.Recovery{r}
		require.NotZero(t, held(1), "a start that is refused forgets nothing")
		require.NotZero(t, held(4), "a start that is refused forgets nothing")
	})
}

// Sessions and answers are bound to the domain: those of an older one are refused, so who answers has applied the recovery too.
func TestAnswersOfAnOlderDomainAreRefused(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(4)
		asked := l.nodes[0].driver.Status().Session
		answer, err := l.nodes[1].driver.AnswerSession(l.nodes[1].ctx, asked)
		require.NoError(t, err)
		require.NotNil(t, answer)
		require.NoError(t, l.nodes[0].driver.VerifyAnswer(answer))
		for _, m := range l.nodes {
			m.kill()
		}
		r := l.loseTwo()
		l.recoveries = []dpos.Recovery{r}
		for _, i := range []int{0, 1, 4, 5} {
			l.nodes[i].start(nil)
		}
		l.slots(4)
		_, err = l.nodes[1].driver.AnswerSession(l.nodes[1].ctx, asked)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorIs(t, l.nodes[0].driver.VerifyAnswer(answer), ErrInvalid)
		now := l.nodes[0].driver.Status().Session
		answer, err = l.nodes[1].driver.AnswerSession(l.nodes[1].ctx, now)
		require.NoError(t, err)
		require.NotNil(t, answer)
		require.NoError(t, l.nodes[0].driver.VerifyAnswer(answer))
	})
}

// A producer whose folder does not hold the base says that this is what it waits for.
func TestProducerWithoutTheBaseSaysSo(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.recoveries = []dpos.Recovery{l.loseTwo()}
		l.nodes[4].start(nil)
		l.slots(3)
		s := l.nodes[4].driver.Status()
		require.True(t, s.Silent)
		require.Contains(t, s.Why, "which this node fetches first")
	})
}

// A certificate that was found good in one domain is not taken as good in another one, though the same schedule counts.
func TestCertificateIsRememberedByItsDomain(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		r := dpos.Recovery{Hash: common.Hash{5}, Base: block.Point{Slot: 10, Hash: common.Hash{1}}, Height: 5, FirstSlot: 12, Schedule: l.schedule}
		v := newVerifier(l.genesis, []dpos.Recovery{r}, must(newMetrics(nil)))
		c := l.certify(labDomain, l.schedule, block.Point{Slot: 14, Hash: common.Hash{2}}, 0, 1, 2)
		require.NoError(t, v.certificateIn(labDomain, c, []block.Schedule{l.schedule}))
		require.ErrorIs(t, v.certificate(c, []block.Schedule{l.schedule}), ErrInvalid, "behind the base it proves nothing")
		c = l.certify(block.Domain{Genesis: l.genesis, Recovery: r.Hash}, l.schedule, block.Point{Slot: 14, Hash: common.Hash{2}}, 0, 1, 2)
		require.NoError(t, v.certificate(c, []block.Schedule{l.schedule}))
		c = l.certify(labDomain, l.schedule, block.Point{Slot: 10, Hash: common.Hash{1}}, 0, 1, 2)
		require.NoError(t, v.certificate(c, []block.Schedule{l.schedule}), "the base itself is of the domain before")
	})
}

// Behind a second recovery the domain that may have gone on is the first one's, not the chain's own.
func TestDomainOfAnEarlierRecoveryThatWentOn(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		first := l.loseTwo()
		l.recoveries = []dpos.Recovery{first}
		recovered := []int{0, 1, 4, 5}
		for _, i := range recovered {
			l.nodes[i].start(nil)
		}
		l.slots(40)
		for _, i := range recovered {
			l.nodes[i].kill()
		}
		s := l.nodes[0].driver.Status()
		second := dpos.Recovery{
			Hash: crypto.Keccak256Hash([]byte("second")), Base: block.Point{Slot: s.LIB.Slot, Hash: s.LIB.Hash}, Height: s.LIB.Height, FirstSlot: s.Slot + 2,
			Schedule: first.Schedule[:3],
		}
		l.recoveries = []dpos.Recovery{first, second}
		for _, i := range recovered[:3] {
			m := l.nodes[i]
			m.start(func(_ *Config, d *Deps) { d.FinalHeader = m.finalHeader })
		}
		l.slots(30)
		d := l.nodes[0].driver
		require.Greater(t, d.Status().LIB.Height, second.Height)
		old := block.Point{Slot: second.Base.Slot + 2, Hash: common.Hash{9}}
		_ = d.AddCertificate(l.certify(labDomain, first.Schedule, old, recovered...))
		_ = d.AddCertificate(l.certify(block.Domain{Genesis: l.genesis, Recovery: second.Hash}, first.Schedule, old, recovered...))
		require.Empty(t, d.Alarms())
		_ = d.AddCertificate(l.certify(block.Domain{Genesis: l.genesis, Recovery: first.Hash}, first.Schedule, old, recovered...))
		require.Len(t, d.Alarms(), 1)
		require.Contains(t, d.Alarms()[0].Text, "which the recovery undoes")
		found := CheckForkEvidence(filepath.Dir(d.Alarms()[0].File))
		require.Len(t, found, 1)
		require.True(t, found[0].Harmless, "the folder is as sound as before")
		require.Contains(t, found[0].Problem, "which the recovery undoes")
		require.NotContains(t, found[0].Problem+found[0].Remedy, "signs nothing")
	})
}

// Recoveries from one base: the first one came to nothing, whether this node started under it or not. Each domain that they ended may have
// gone on above the base, and is told with the recovery that ended it.
func TestDomainsBeforeTwoRecoveriesFromOneBase(t *testing.T) {
	for _, started := range []bool{false, true} {
		inBubble(t, 4, func(l *lab) {
			first := l.loseTwo()
			head := l.nodes[0].driver.Status().Head
			require.Greater(t, head.Height, l.nodes[0].chain.lib(), "so that a start stores what it settles there")
			first.Base, first.Height = block.Point{Slot: head.Slot, Hash: head.Hash}, head.Height
			second := first
			second.Hash, second.Schedule = crypto.Keccak256Hash([]byte("second")), first.Schedule[:3]
			voters := []int{0, 1, 4}
			if started {
				l.recoveries = []dpos.Recovery{first}
				for _, i := range voters {
					l.nodes[i].start(nil)
				}
				l.slots(2) // the base becomes final, and no slot behind it has come
				for _, i := range voters {
					l.nodes[i].kill()
				}
				root, err := dpos.DecodeRoot(l.nodes[0].chain.disk.Root())
				require.NoError(t, err)
				require.Equal(t, first.Hash, root.Recovery(), "the first one settled the base")
				require.Equal(t, first.Base, root.Point())
			}
			l.recoveries = []dpos.Recovery{first, second}
			for _, i := range voters {
				m := l.nodes[i]
				m.start(func(_ *Config, d *Deps) { d.FinalHeader = m.finalHeader })
			}
			l.slots(30)
			d := l.nodes[0].driver
			require.Greater(t, d.Status().LIB.Height, second.Height)
			old := block.Point{Slot: second.Base.Slot + 2, Hash: common.Hash{9}}
			_ = d.AddCertificate(l.certify(labDomain, first.Schedule, old, 0, 1, 4, 5))
			_ = d.AddCertificate(l.certify(block.Domain{Genesis: l.genesis, Recovery: first.Hash}, l.schedule, old, 1, 2, 3))
			require.Empty(t, d.Alarms(), "the schedules of another domain")
			_ = d.AddCertificate(l.certify(labDomain, l.schedule, old, 1, 2, 3))
			require.Len(t, d.Alarms(), 1)
			require.Contains(t, d.Alarms()[0].Text, "before recovery "+first.Hash.Hex())
			_ = d.AddCertificate(l.certify(block.Domain{Genesis: l.genesis, Recovery: first.Hash}, first.Schedule, old, 0, 1, 4, 5))
			require.Len(t, d.Alarms(), 2)
			require.Contains(t, d.Alarms()[1].Text, "before recovery "+second.Hash.Hex())
			require.False(t, d.Status().Silent)
		})
	}
}

// The evidence of a recovery that was refused holds both sides: the statement, and what proves this node's own final block.
func TestEvidenceOfARefusedRecovery(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(24)
		m := l.nodes[0]
		m.kill()
		own := m.chain.finals()[2].SealedHeader
		_, fc := m.chain.disk.Certificates()
		base := recovery.Block{Height: own.Number(), Slot: own.Slot(), Hash: common.Hash{7}, StateRoot: common.Hash{8}}
		signed := &recovery.Signed{Statement: recovery.Statement{
			Genesis: l.genesis, Number: 1, Base: recovery.Base{Block: base}, FirstSlot: base.Slot + 1, Reason: "a fire", Time: 1,
			Seats: []recovery.Seat{{Account: l.signers[0].Account(), SealKey: l.signers[0].Account(), VoteKey: l.schedule[0].Key}},
		}}
		cfg, _ := m.deps()
		path, err := KeepRefusedRecovery(cfg.Dir, l.genesis, own, fc, signed.Encode())
		require.NoError(t, err)
		e, err := readForkEvidence(vfs.OS(cfg.Dir, vfs.Private), filepath.Base(path))
		require.NoError(t, err)
		require.Equal(t, own.Encode(), e.Own)
		require.Equal(t, fc.Encode(), e.OwnFC)
		require.Equal(t, signed.Encode(), e.Recovery)
		again, err := KeepRefusedRecovery(cfg.Dir, l.genesis, own, fc, signed.Encode())
		require.NoError(t, err)
		require.Empty(t, again, "once")
		found := CheckForkEvidence(cfg.Dir)
		require.Len(t, found, 1)
		require.False(t, found[0].Harmless)
		require.Contains(t, found[0].Problem, "a recovery that the operators signed goes on from block "+base.Hash.Hex())
		require.NotContains(t, found[0].Problem, "a quorum signed")
		require.Contains(t, found[0].Remedy, "signs nothing")
	})
}
