package consensus

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/internal/bls"
	"github.com/bornode/bornode/internal/failpoint"
)

func TestFourProducersFinalize(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		events, end := l.nodes[0].driver.SubscribeFinal()
		defer end()
		l.slots(40)
		for _, m := range l.nodes {
			s := m.driver.Status()
			require.GreaterOrEqual(t, s.Head.Height, uint64(36), "a block per slot")
			require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2), "final within three message delays")
			require.Equal(t, s.Head, s.Executed)
			require.Equal(t, s.LIB.Height, m.chain.lib(), "the store is where the machine is")
			require.NotNil(t, s.FC)
			require.Equal(t, s.LIB.Hash, s.FC.Target.Hash)
		}
		var last FinalEvent
		blocks := 0
		for len(events) > 0 {
			last = <-events
			blocks += last.Blocks
		}
		require.Equal(t, l.nodes[0].driver.Status().LIB, last.LIB)
		require.EqualValues(t, last.LIB.Height, blocks)
	})
}

func TestOneSilentProducer(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		for _, m := range l.nodes[:3] {
			m.start(nil)
		}
		l.slots(40)
		for _, m := range l.nodes[:3] {
			s := m.driver.Status()
			require.GreaterOrEqual(t, s.LIB.Height, uint64(22), "three slots of four have a block")
			require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2))
		}
	})
}

func TestRestartFromTheVoteLog(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		for round := range 8 {
			l.slots(5)
			m := l.nodes[round%4]
			m.kill()
			require.NoError(t, m.err)
			if round%2 == 1 {
				l.slots(3)
			}
			m.start(nil)
		}
		l.slots(20)
		for _, m := range l.nodes {
			s := m.driver.Status()
			require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2), "node %d", m.id)
			require.False(t, s.Silent)
		}
	})
}

// All producers stop at once, with blocks on their disks that are not final yet: they go on from there.
func TestAllRestart(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		time.Sleep(time.Second + 7*slotTime + linkDelay*3/2)
		for _, m := range l.nodes {
			m.kill()
		}
		before := l.nodes[0].chain.lib()
		l.slots(3)
		l.start()
		l.slots(30)
		for _, m := range l.nodes {
			require.Greater(t, m.driver.Status().LIB.Height, before+15)
		}
	})
}

// The crash comes at each step between the vote log and the wire; what was signed before is never contradicted (the
// lab watches every seal and vote), and the network goes on.
func TestCrashNeverSignsTwice(t *testing.T) {
	for _, point := range []string{
		"consensus-votelog-before", "consensus-votelog-written", "consensus-votelog-after", "consensus-votes-signed",
		"consensus-votes-sent", "consensus-produce", "consensus-insert-before", "consensus-insert-after",
		"consensus-finalize-before", "consensus-finalize-after",
	} {
		t.Run(point, func(t *testing.T) {
			inBubble(t, 4, func(l *lab) {
				l.start()
				for n := range crashes() {
					disarm := failpoint.Arm(point, 3+5*(n%3), runtime.Goexit) // the rarest is hit once a slot, and 20 slots are waited
					died := -1
					for range 100 {
						time.Sleep(slotTime / 5)
						for _, m := range l.nodes {
							if m.dead() {
								died = m.id
							}
						}
						if died >= 0 {
							break
						}
					}
					disarm()
					require.GreaterOrEqual(t, died, 0, "the fail point was never reached")
					m := l.nodes[died]
					m.kill()
					m.start(nil)
				}
				l.slots(20)
				for _, m := range l.nodes {
					s := m.driver.Status()
					require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2), "node %d", m.id)
				}
			})
		})
	}
}

// crashes is how often each fail point kills a node.
func crashes() int {
	if os.Getenv("BORNODE_LONG") != "" {
		return 12
	}
	return 2
}

// dead reports whether the node ended by itself.
func (m *member) dead() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

// liar signs votes that do not verify.
type liar struct{ *signer.Local }

func (s liar) SignVote(d common.Hash) (block.BLSSignature, error) {
	d[0] ^= 1
	return s.Local.SignVote(d)
}

func TestBadVotesAreFoundAndBlamed(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		for _, m := range l.nodes {
			m.start(func(_ *Config, d *Deps) {
				if m.id == 3 {
					d.Signer = liar{l.signers[3]}
				}
			})
		}
		var last block.Vote
		l.setTap(func(v block.Vote) {
			if v.Voter == l.signers[3].Account() {
				last = v
			}
		})
		l.slots(30)
		l.setTap(nil)
		l.mu.Lock()
		sent := last
		bad := make([][]block.Vote, 3)
		for i := range bad {
			bad[i] = append(bad[i], l.nodes[i].bad...)
		}
		l.mu.Unlock()
		for _, m := range l.nodes[:3] {
			s := m.driver.Status()
			require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2), "the other three are a quorum")
			require.NotEmpty(t, bad[m.id])
			for _, v := range bad[m.id] {
				require.Equal(t, l.signers[3].Account(), v.Voter)
			}
			require.NotEqual(t, dpos.VoteAccepted, verdictOf(t, m.driver, sent), "nor is it passed on")
		}
	})
}

// verdictOf gives one vote to a driver.
func verdictOf(t *testing.T, d *Driver, v block.Vote) dpos.VoteVerdict {
	t.Helper()
	got, err := d.AddVotes([]block.Vote{v})
	require.NoError(t, err)
	require.Len(t, got, 1)
	return got[0]
}

func TestVotesWithoutSignatureAreRefused(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(10)
		m := l.nodes[0]
		lib := m.driver.Status().LIB
		v := block.Vote{Link: block.Link{Kind: block.Prevote, Source: block.Point{Slot: lib.Slot, Hash: lib.Hash}, Target: block.Point{Slot: lib.Slot + 30, Hash: common.Hash{1}}}}
		v.Target.Slot = m.driver.Status().Slot
		for _, who := range l.signers[:2] {
			v.Voter = who.Account()
			require.Equal(t, dpos.VoteMalformed, verdictOf(t, m.driver, v))
		}
		v.Voter, v.Signature = l.signers[0].Account(), block.BLSSignature{1}
		require.Equal(t, dpos.VoteForged, verdictOf(t, m.driver, v), "a forged vote in our own name")
		require.False(t, m.driver.Status().Silent)
		_, err := m.driver.AddVotes(make([]block.Vote, maxVotesPerCall+1))
		require.ErrorIs(t, err, ErrInvalid)
	})
}

// A second copy of a signer that signs elsewhere: the one that sees a genuine vote it never cast falls silent.
func TestOwnVoteThatTheLogLacks(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(10)
		m := l.nodes[0]
		lib := m.driver.Status().LIB
		link := block.Link{Kind: block.Prevote, Source: block.Point{Slot: lib.Slot, Hash: lib.Hash}, Target: block.Point{Slot: m.driver.Status().Slot, Hash: common.Hash{1}}}
		sig, err := l.signers[0].SignVote(m.driver.verify.domain.VoteDigest(link))
		require.NoError(t, err)
		require.Equal(t, dpos.VoteAccepted, verdictOf(t, m.driver, block.Vote{Link: link, Voter: l.signers[0].Account(), Signature: sig}))
		l.slots(1)
		require.True(t, m.driver.Status().Silent)
		l.slots(60)
		require.False(t, m.driver.Status().Silent, "the chain has proved a source from after that")
	})
}

func TestMissingVoteLogSilencesUntilProven(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(10)
		m := l.nodes[2]
		m.kill()
		old := filepath.Join(l.dir, "2")
		restart := func(dir string) {
			m.start(func(c *Config, _ *Deps) { c.Dir, c.NewKey = dir, false })
		}
		restart(old + "-lost")
		require.True(t, m.driver.Status().Silent)
		l.slots(2)
		m.kill() // a second start finds the log that the first made, and must not trust it either
		restart(old + "-lost")
		require.True(t, m.driver.Status().Silent)
		heard := false
		l.setTap(func(v block.Vote) { heard = heard || v.Voter == l.signers[2].Account() })
		l.slots(5)
		l.setTap(nil)
		require.False(t, heard)
		l.setTap(func(v block.Vote) { heard = heard || v.Voter == l.signers[2].Account() })
		l.slots(60)
		l.setTap(nil)
		require.False(t, m.driver.Status().Silent)
		require.True(t, heard)
		m.kill()
		restart(old + "-lost")
		l.slots(15) // beyond the line
		require.False(t, m.driver.Status().Silent, "and from then on the new log will do")
	})
}

func TestDoubleStart(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		cfg, deps := l.nodes[0].deps()
		_, err := Open(cfg, deps)
		require.ErrorIs(t, err, ErrLocked)
		l.nodes[0].kill()
		d, err := Open(cfg, deps)
		require.NoError(t, err)
		require.NoError(t, d.Close())
	})
}

func TestInvalidBlockIsLeft(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.nodes[1].chain.spoil = true
		l.start()
		l.slots(40)
		for _, m := range l.nodes[:1] {
			s := m.driver.Status()
			require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2))
			require.GreaterOrEqual(t, s.LIB.Height, uint64(20))
			for _, b := range m.chain.finals() {
				require.NotEqual(t, invalidRoot, b.Header.Root)
			}
		}
		// The block that failed is not tried again, nor what is built on it.
		bad := firstBad(l.nodes[1])
		require.NotNil(t, bad)
		require.ErrorIs(t, l.nodes[0].driver.AddBlock(context.Background(), bad), ErrKnown)
	})
}

// firstBad is a block of the member that the first node found invalid.
func firstBad(m *member) *block.Block {
	m.chain.mu.Lock()
	defer m.chain.mu.Unlock()
	for h, b := range m.chain.built {
		if m.lab.nodes[0].driver.failed.Contains(h) {
			return b
		}
	}
	return nil
}

func TestHeadersThatAreRefused(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(9)
		for _, m := range l.nodes {
			m.kill()
		}
		m := l.observer()
		m.start(nil)
		from := l.nodes[0].chain
		blocks := append(from.finals(), must(from.Reversible())...)
		tip := blocks[len(blocks)-1]
		for _, b := range blocks[:len(blocks)-1] {
			if err := m.driver.AddBlock(m.ctx, b); err != nil {
				require.ErrorIs(t, err, ErrKnown)
			}
		}
		d := m.driver
		check := func(want error, says string, change func(b *block.Block)) {
			t.Helper()
			h, r := *tip.Header, *tip.Record
			b := &block.Block{SealedHeader: &block.SealedHeader{Header: &h, Record: &r, Seal: tip.Seal}}
			change(b)
			err := d.CheckHeader(b.SealedHeader)
			require.ErrorIs(t, err, want)
			require.ErrorContains(t, err, says)
			if !errors.Is(err, ErrKnown) {
				require.ErrorIs(t, d.AddBlock(m.ctx, b), want)
			}
		}
		by := func(a common.Address) *signer.Local { return l.signers[l.schedule.Index(a)] }
		record := func(b *block.Block, change func(r *block.Record)) {
			change(b.Record)
			x := b.Record.Hash()
			b.Header.Extra = x[:]
			b.Header.Time = l.params.HeaderTime(b.Record.Slot)
		}
		reseal := func(b *block.Block, s *signer.Local) { b.Seal = sealBy(b, s).Seal }

		check(ErrInvalid, "seal", func(b *block.Block) { b.Seal[3] ^= 1 })
		check(ErrInvalid, "seal", func(b *block.Block) { b.Seal = [block.SealLength]byte{} })
		check(ErrInvalid, "sealed by", func(b *block.Block) {
			reseal(b, l.signers[(l.schedule.Index(tip.Header.Coinbase)+1)%4])
		})
		check(ErrInvalid, "belongs to", func(b *block.Block) {
			other := l.signers[(l.schedule.Index(tip.Header.Coinbase)+1)%4]
			b.Header.Coinbase = other.Account()
			reseal(b, other)
		})
		check(ErrFuture, "", func(b *block.Block) {
			record(b, func(r *block.Record) { r.Slot += 8 * l.params.TurnSlots }) // the same producer's, two rounds on
			reseal(b, by(tip.Header.Coinbase))
		})
		check(ErrUnknownParent, "", func(b *block.Block) {
			b.Header.ParentHash = common.Hash{1}
			reseal(b, by(tip.Header.Coinbase))
		})
		check(ErrInvalid, "consensus record", func(b *block.Block) { b.Record.BodyDigest[0] ^= 1 })
		check(ErrInvalid, "extra data", func(b *block.Block) { b.Header.Extra = append(b.Header.Extra, 0) })
		check(ErrInvalid, "time", func(b *block.Block) { b.Header.Time++ })
		check(ErrInvalid, "gas limit", func(b *block.Block) { b.Header.GasLimit = block.MinGasLimit - 1 })
		check(ErrInvalid, "gas limit", func(b *block.Block) { b.Header.GasLimit = block.MaxGasLimit + 1 })
		require.NotNil(t, tip.Record.FC)
		check(ErrInvalid, "aggregate", func(b *block.Block) {
			c := *tip.Record.FC
			c.Aggregate[95] ^= 1
			record(b, func(r *block.Record) { r.FC = &c })
			reseal(b, by(tip.Header.Coinbase))
		})
		bad := *tip
		bad.Transactions, bad.Senders = nil, []common.Address{{1}}
		require.ErrorIs(t, d.AddBlock(m.ctx, &bad), ErrInvalid, "a body that does not fit the digest")

		require.NoError(t, d.CheckHeader(tip.SealedHeader))
		require.NoError(t, d.AddBlock(m.ctx, tip))
		require.ErrorIs(t, d.AddBlock(m.ctx, tip), ErrKnown)
		require.ErrorIs(t, d.CheckHeader(tip.SealedHeader), ErrKnown)
	})
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// A header seen twice costs one seal check, a certificate in two headers one pairing.
func TestSignaturesAreVerifiedOnce(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(9)
		for _, m := range l.nodes {
			m.kill()
		}
		m := l.observer()
		m.start(nil)
		blocks := l.nodes[0].chain.finals()
		certs := make(map[common.Hash]bool)
		for _, b := range blocks {
			for range 3 {
				require.NoError(t, m.driver.CheckHeader(b.SealedHeader))
			}
			require.NoError(t, m.driver.AddBlock(m.ctx, b))
			for _, c := range []*block.Certificate{b.Record.QC, b.Record.FC} {
				if c != nil {
					certs[certificateKey(block.Domain{}, c, nil)] = true
				}
			}
		}
		require.Equal(t, len(blocks), count(m.driver.m.seals))
		require.Equal(t, len(certs), count(m.driver.m.aggregates))
	})
}

func TestObserverFollowsAndSignsNothing(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.observer()
		l.start()
		l.slots(20)
		s := m.driver.Status()
		require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2))
		require.Empty(t, s.OwnVotes)
		require.False(t, s.Silent)
		require.NoFileExists(t, filepath.Join(l.dir, "4", voteLogName))
	})
}

func TestStoppedDriverAnswers(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(9)
		m := l.nodes[0]
		b := l.nodes[1].chain.get(m.driver.Status().Head.Hash)
		m.kill()
		require.ErrorIs(t, m.driver.AddBlock(context.Background(), b), ErrStopped)
		require.ErrorIs(t, m.driver.CheckHeader(b.SealedHeader), ErrStopped)
		require.NotZero(t, m.driver.Status().Head.Height)
		require.Error(t, m.driver.Run(context.Background()))
		require.NoError(t, m.driver.Close())
	})
}

// badPair are votes of two producers on one link whose wrongs cancel each other out: their sum is right, neither is.
func badPair(t *testing.T, d *Driver, a, b *signer.Local, l block.Link) (pair []block.Vote) {
	t.Helper()
	digest := d.verify.domain.VoteDigest(l)
	secret := make([]byte, bls.SecretLength)
	secret[31] = 77
	delta := must(bls.SecretKeyFromBytes(secret))
	order, _ := new(big.Int).SetString("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001", 16)
	minus := must(bls.SecretKeyFromBytes(new(big.Int).Sub(order, big.NewInt(77)).FillBytes(secret)))
	for _, x := range []struct {
		signer *signer.Local
		delta  *bls.SecretKey
	}{{a, delta}, {b, minus}} {
		sig := must(x.signer.SignVote(digest))
		sum := must(bls.Aggregate([][96]byte{sig, x.delta.Sign(digest[:])}))
		pair = append(pair, block.Vote{Link: l, Voter: x.signer.Account(), Signature: sum})
	}
	return pair
}

// AddVotes says of each vote what it is worth; nothing is accepted whose signature was not verified, be it on a known
// block, on an unknown one, or beside another forgery that makes the sum right.
func TestEachVoteIsJudged(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(10)
		m := l.nodes[0]
		s := m.driver.Status()
		unknown := block.Link{Kind: block.Prevote, Source: block.Point{Slot: s.LIB.Slot, Hash: s.LIB.Hash}, Target: block.Point{Slot: s.Slot, Hash: common.Hash{1}}}
		sign := func(by *signer.Local, k block.Link) block.Vote {
			return block.Vote{Link: k, Voter: by.Account(), Signature: must(by.SignVote(m.driver.verify.domain.VoteDigest(k)))}
		}
		far, old := unknown, unknown
		far.Target.Slot += 1000
		old.Target, old.Source.Slot = block.Point{Slot: s.LIB.Slot, Hash: s.LIB.Hash}, 0
		nine, _ := newSigners(9)
		stranger := nine[8]
		good := sign(l.signers[1], unknown)
		forged := good
		forged.Voter = l.signers[2].Account()
		garbage := good
		garbage.Voter, garbage.Signature = l.signers[3].Account(), block.BLSSignature{0x8a, 1, 2, 3}
		votes := []block.Vote{forged, good, sign(stranger, unknown), sign(l.signers[1], far), sign(l.signers[1], old), garbage, good}
		want := []dpos.VoteVerdict{dpos.VoteForged, dpos.VoteAccepted, dpos.VoteStranger, dpos.VoteFuture, dpos.VoteIrrelevant, dpos.VoteForged, dpos.VoteAccepted}
		got, err := m.driver.AddVotes(votes)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, dpos.VoteKnown, verdictOf(t, m.driver, good))

		other := unknown
		other.Target.Hash = common.Hash{2}
		pair := badPair(t, m.driver, l.signers[2], l.signers[3], other)
		got, err = m.driver.AddVotes(pair)
		require.NoError(t, err)
		require.Equal(t, []dpos.VoteVerdict{dpos.VoteForged, dpos.VoteForged}, got, "their sum is right, they are not")

		before := count(m.driver.m.voteChecks)
		got, err = m.driver.AddVotes(append(pair, votes...))
		require.NoError(t, err)
		require.NotContains(t, got, dpos.VoteAccepted)
		require.Equal(t, before, count(m.driver.m.voteChecks), "what was judged once, or cannot count, costs no pairing")
	})
}

// A tally sums votes that were verified as they came: it makes no pairing, and gives the certificate that verifying
// anew gives.
func TestVotesAreVerifiedOnce(t *testing.T) {
	signers, schedule := newSigners(4)
	v := newVerifier(common.Hash{7}, nil, must(newMetrics(nil)))
	k := block.Link{Kind: block.Precommit, Source: block.Point{Slot: 3, Hash: common.Hash{3}}, Target: block.Point{Slot: 3, Hash: common.Hash{3}}}
	var votes []block.Vote
	var checked []*checkedVote
	for i, s := range signers {
		x := block.Vote{Link: k, Voter: s.Account(), Signature: must(s.SignVote(v.domain.VoteDigest(k)))}
		votes = append(votes, x)
		checked = append(checked, v.parseVote(x, schedule[i].Key))
	}
	v.verifyVotes(k, checked)
	require.Equal(t, 1, count(v.m.voteChecks), "one pairing for all that wait together")
	c, bad := v.tally(dpos.Tally{Link: k, Schedules: []block.Schedule{schedule}, Votes: votes})
	require.Empty(t, bad)
	require.Equal(t, 1, count(v.m.voteChecks), "verified before")
	fresh := newVerifier(v.domain.Genesis, nil, must(newMetrics(nil)))
	require.NoError(t, fresh.certificate(c, []block.Schedule{schedule}))

	votes[2].Signature[5]++
	c, bad = fresh.tally(dpos.Tally{Link: k, Schedules: []block.Schedule{schedule}, Votes: votes})
	require.Equal(t, votes[2:3], bad)
	require.NoError(t, v.certificate(c, []block.Schedule{schedule}), "three are a quorum")
	for i := range votes[:2] {
		votes[i].Signature = votes[3].Signature
	}
	c, bad = newVerifier(v.domain.Genesis, nil, must(newMetrics(nil))).tally(dpos.Tally{Link: k, Schedules: []block.Schedule{schedule}, Votes: votes})
	require.Nil(t, c)
	require.Len(t, bad, 3)
}

// A producer whose file holds another vote key than its seat says so, and sends no vote: each would be a forgery for the others. They go
// on, and it seals its blocks.
func TestAnotherKeyThanTheSeatsCastsNoVote(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		others, _ := newSigners(9)
		l.schedule = slices.Clone(l.schedule)
		l.schedule[0].Key = others[8].VoteKey()
		cast, sealed := 0, 0
		l.setTap(func(v block.Vote) {
			if v.Voter == l.signers[0].Account() {
				cast++
			}
		})
		l.start()
		l.slots(60)
		m := l.nodes[0]
		s := m.driver.Status()
		require.True(t, s.Silent)
		require.Equal(t, "key", s.Cause)
		require.Contains(t, s.Why, fmt.Sprintf("%x", l.schedule[0].Key))
		require.False(t, l.nodes[1].driver.Status().Silent)
		require.Zero(t, count(m.driver.m.badVotes), "its own are not held against it")
		m.driver.forks.halted.Store(true)
		l.slots(1)
		require.Equal(t, "fork", m.driver.Status().Cause, "the fork is what counts")
		for _, b := range l.nodes[1].chain.finals() {
			if b.Header.Coinbase == m.driver.self {
				sealed++
			}
		}
		require.NotZero(t, sealed)
		l.setTap(nil)
		require.Zero(t, cast)
	})
}
