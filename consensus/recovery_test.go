package consensus

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/vfs"
)

// loseTwo runs four producers, of which two are lost, until the chain is final no more, and gives the recovery from the
// survivors' newest justified block on, under the survivors and two new producers, which it adds. All nodes are stopped.
func (l *lab) loseTwo() dpos.Recovery {
	l.start()
	l.slots(12)
	l.nodes[2].kill()
	l.nodes[3].kill()
	l.slots(10)
	var base *block.Block
	for _, m := range l.nodes[:2] {
		if b := m.chain.get(m.driver.Status().Justified.Hash); base == nil || b.Slot() > base.Slot() {
			base = b
		}
	}
	slot := l.nodes[0].driver.Status().Slot
	l.nodes[0].kill()
	l.nodes[1].kill()
	fresh, seats := newSigners(2)
	l.signers = append(l.signers, fresh...)
	for range fresh {
		l.observer()
	}
	return dpos.Recovery{
		Hash: crypto.Keccak256Hash([]byte("recovery")), Base: base.Point(), Height: base.Number(), FirstSlot: slot + 4,
		Schedule: append(append(block.Schedule{}, l.schedule[:2]...), seats...),
	}
}

// logOf is what the vote log of a stopped node holds.
func (l *lab) logOf(m *member) []dpos.SignRecord {
	cfg, deps := m.deps()
	v, payloads, _, err := openVoteLog(vfs.OS(cfg.Dir, vfs.Private), cfg.Dir, voteLogName, deps.Signer.Account(), l.genesis, lostMarker(), false, zap.NewNop())
	require.NoError(l.t, err)
	require.NoError(l.t, v.close())
	held, err := decodePayloads(payloads)
	require.NoError(l.t, err)
	return held.records
}

// Rule 13 on drivers: survivors and new producers go on from the base; those who come back with their old folders reach nothing,
// and whoever has signed after the recovery never starts without it again.
func TestRecoverTwoOfFour(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		r := l.loseTwo()
		was := l.nodes[0].chain.lib()
		l.recoveries = []dpos.Recovery{r}
		for _, i := range []int{0, 1, 4, 5} {
			l.nodes[i].start(nil)
		}
		l.slots(60)
		for _, i := range []int{0, 1, 4, 5} {
			require.Greater(t, l.nodes[i].chain.lib(), r.Height+10, "node %d", i)
			require.Equal(t, r.Hash, l.nodes[i].driver.Status().Recovery)
			require.Empty(t, l.nodes[i].bad, "no vote was bad")
		}
		first := l.nodes[4].chain.finals()[r.Height]
		require.Equal(t, r.Hash, first.Record.Recovery)
		require.GreaterOrEqual(t, first.Slot(), r.FirstSlot)

		l.recoveries = nil
		for _, i := range []int{2, 3} {
			l.nodes[i].start(nil)
		}
		l.slots(12)
		l.recoveries = []dpos.Recovery{r}
		for _, i := range []int{2, 3} {
			require.LessOrEqual(t, l.nodes[i].chain.lib(), max(was, r.Height))
		}
		require.Empty(t, l.nodes[0].driver.Alarms())

		l.nodes[0].kill()
		at := -1
		for i, x := range l.logOf(l.nodes[0]) {
			if x.Kind == dpos.RecordRecovery && x.Recovery == r.Hash {
				at = i
			}
			if x.Recovery == r.Hash {
				require.GreaterOrEqual(t, at, 0, "record %d of kind %d was written before the recovery", i, x.Kind)
			}
			require.False(t, at >= 0 && x.Recovery != r.Hash, "record %d of kind %d is of an older domain", i, x.Kind)
		}
		require.GreaterOrEqual(t, at, 0)
		cfg, deps := l.nodes[0].deps()
		deps.Recoveries = nil
		_, err := Open(cfg, deps)
		require.ErrorContains(t, err, "apply it again")
		l.nodes[0].start(nil)
		l.slots(30)
		require.Greater(t, l.nodes[0].chain.lib(), l.nodes[0].driver.Status().LIB.Height-2)
		require.False(t, l.nodes[0].driver.Status().Silent)
	})
}

// One who joins from block 0 with the recovery follows over the base by ranges; one without it stops below it and names the recovery.
func TestJoinOverABase(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		r := l.loseTwo()
		l.recoveries = []dpos.Recovery{r}
		for _, i := range []int{0, 1, 4, 5} {
			l.nodes[i].start(nil)
		}
		l.slots(60)
		blocks := l.nodes[0].chain.finals()
		_, fc := l.nodes[0].chain.disk.Certificates()
		for _, mode := range []Mode{Full, Certified} {
			m := l.observer()
			m.start(nil)
			require.ErrorIs(t, m.driver.AddCertificate(fc), ErrUnknownParent)
			_, err := m.driver.AddRange(m.ctx, blocks, mode)
			require.NoError(t, err)
			require.Greater(t, m.chain.lib(), r.Height)
		}
		junk := slices.Clone(blocks)
		bad, err := block.DecodeBlock(junk[3].Encode(), 1<<20)
		require.NoError(t, err)
		bad.Record.Recovery = common.Hash{7}
		junk[3] = bad
		m := l.observer()
		m.start(nil)
		_, err = m.driver.AddRange(m.ctx, junk, Full)
		require.ErrorIs(t, err, ErrInvalid, "a record that its header does not name is its sender's fault")
		require.NotErrorIs(t, err, ErrRecovered)
		m.kill()

		l.recoveries = nil
		m = l.observer()
		m.start(nil)
		_ = m.driver.AddCertificate(fc)
		_, err = m.driver.AddRange(m.ctx, blocks, Full)
		require.NotErrorIs(t, err, ErrInvalid)
		require.ErrorIs(t, err, ErrRecovered)
		m.kill()
		l.recoveries = []dpos.Recovery{r}
		m.start(nil)
		_ = m.driver.AddCertificate(fc)
		_, err = m.driver.AddRange(m.ctx, blocks, Full)
		require.NoError(t, err)
		require.Greater(t, m.chain.lib(), r.Height)
	})
}

// Marks of others belong to one domain: those of an older one are forgotten, at a start and in a rewritten log.
func TestMarksOfAnOlderDomain(t *testing.T) {
	mark := func(slot uint64) []byte {
		return encodeMarkedVote(&block.Vote{Link: block.Link{Kind: block.Prevote, Target: block.Point{Slot: slot}}, Voter: common.Address{1}})
	}
	held, err := decodePayloads([][]byte{mark(5), encodeDomain(common.Hash{9}), mark(7)})
	require.NoError(t, err)
	require.Equal(t, common.Hash{9}, held.domain)
	votes := held.marks.Votes(common.Address{1})
	require.Len(t, votes, 1)
	require.Equal(t, uint64(7), votes[0].Target.Slot)
	_, err = decodePayloads([][]byte{encodeDomain(common.Hash{9})[:20]})
	require.Error(t, err)
}

// Producers that were held lost and were only cut off went on in the old domain: when their certificate is met, it is a fork, and
// the alarm names it. A certificate of too few, or of the new domain, is none.
func TestOldDomainThatWentOnIsAnAlarm(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		r := l.loseTwo()
		l.recoveries = []dpos.Recovery{r}
		for _, i := range []int{0, 1, 4, 5} {
			m := l.nodes[i]
			m.start(func(_ *Config, d *Deps) { d.FinalHeader = m.finalHeader })
		}
		l.slots(40)
		d := l.nodes[4].driver
		old := block.Point{Slot: r.Base.Slot + 3, Hash: common.Hash{9}}
		schedule := l.schedule
		certify := func(domain block.Domain, voters ...int) *block.Certificate {
			return l.certify(domain, schedule, old, voters...)
		}
		_ = d.AddCertificate(certify(labDomain, 2, 3))
		_ = d.AddCertificate(certify(block.Domain{Genesis: l.genesis, Recovery: r.Hash}, 1, 2, 3))
		require.Empty(t, d.Alarms())
		_ = d.AddCertificate(certify(labDomain, 1, 2, 3))
		require.Len(t, d.Alarms(), 1)
		require.Contains(t, d.Alarms()[0].Text, "which the recovery undoes")
		before := d.Status().LIB.Height
		l.slots(20)
		require.False(t, d.Status().Silent, "whoever holds an old certificate does not stop the recovered chain")
		require.Greater(t, d.Status().LIB.Height, before)
		again, err := openForks(&Config{Dir: filepath.Dir(d.Alarms()[0].File)}, zap.NewNop())
		require.NoError(t, err)
		require.False(t, again.halted.Load(), "nor after a restart")
		require.Len(t, again.alarms, 1)

		for i := range byte(2 * maxForkFiles) {
			old.Hash[1] = i + 1
			_ = d.AddCertificate(certify(labDomain, 1, 2, 3))
		}
		require.Len(t, d.Alarms(), 1, "one for all that the recovery undoes")
		old.Hash, schedule = common.Hash{8}, r.Schedule
		old.Slot = d.Status().LIB.Slot - 1
		_ = d.AddCertificate(certify(block.Domain{Genesis: l.genesis, Recovery: r.Hash}, 0, 4, 5))
		require.Len(t, d.Alarms(), 2, "a fork of the new domain is told all the same")
		l.slots(2)
		require.Equal(t, "fork", d.Status().Cause)
		again, err = openForks(&Config{Dir: filepath.Dir(d.Alarms()[0].File)}, zap.NewNop())
		require.NoError(t, err)
		require.True(t, again.halted.Load(), "and after a restart")
	})
}
