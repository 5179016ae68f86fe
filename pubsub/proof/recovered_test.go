package proof

import (
	"context"
	"crypto/ecdsa"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/recovery"
)

// recoveryKey is one of the three of a world that may be recovered.
func recoveryKey(t *testing.T, i int) *ecdsa.PrivateKey {
	var b [32]byte
	binary.BigEndian.PutUint64(b[24:], uint64(100+i))
	k, err := crypto.ToECDSA(b[:])
	require.NoError(t, err)
	return k
}

// newRecoverable is a world whose recovery keys are known.
func newRecoverable(t *testing.T) *world {
	w := newWorld(t)
	for i := range 3 {
		w.trust.RecoveryKeys = append(w.trust.RecoveryKeys, crypto.PubkeyToAddress(recoveryKey(t, i).PublicKey))
	}
	w.trust.RecoveryThreshold = 3
	return w
}

// statement is one that goes on from the head with these producers, signed by as many keys.
func (w *world) statement(signers int, who ...int) *recovery.Signed {
	head := w.headers[w.head()]
	s := recovery.Statement{Genesis: w.trust.Genesis, Number: 1, FirstSlot: head.Slot() + 5, Reason: "a fire", Time: 1,
		Base: recovery.Base{Block: recovery.Block{Height: head.Number(), Slot: head.Slot(), Hash: head.Hash(), StateRoot: common.Hash{1}}}}
	if list := w.trust.Recoveries; len(list) > 0 {
		last := list[len(list)-1]
		s.Number, s.Previous = last.Statement.Number+1, last.Hash()
	}
	for _, p := range seats(who...) {
		d := block.PossessionDigest(w.trust.Params.ChainID, p.Account, p.Key)
		s.Seats = append(s.Seats, recovery.Seat{Account: p.Account, SealKey: p.Account, VoteKey: p.Key, Proof: keys()[p.Account[0]-1].Sign(d[:])})
	}
	return w.signStatement(signers, s, nil)
}

// signStatement signs one with as many keys; tweak may change it before.
func (w *world) signStatement(signers int, s recovery.Statement, tweak func(*recovery.Statement)) *recovery.Signed {
	if tweak != nil {
		tweak(&s)
	}
	out := &recovery.Signed{Statement: s}
	for i := range signers {
		k, hash := recoveryKey(w.t, i), s.Hash()
		raw, err := crypto.Sign(hash[:], k)
		require.NoError(w.t, err)
		require.NoError(w.t, out.AddSignature(recovery.Signature{Signer: crypto.PubkeyToAddress(k.PublicKey), Seal: [65]byte(raw)}))
	}
	return out
}

// recover goes on by a recovery: a new machine, which has applied it, takes the blocks so far.
func (w *world) recover(r *recovery.Signed) {
	w.trust.Recoveries = append(w.trust.Recoveries, r)
	cfg := dpos.DefaultConfig(w.trust.Params, common.Address{})
	for _, r := range w.trust.Recoveries {
		s := &r.Statement
		cfg.Recoveries = append(cfg.Recoveries, dpos.Recovery{Hash: r.Hash(), Base: s.Base.Point(), Height: s.Base.Height, FirstSlot: s.FirstSlot, Schedule: s.Schedule()})
	}
	m, err := dpos.New(cfg, dpos.GenesisRoot(w.trust.Genesis, w.trust.Schedule))
	require.NoError(w.t, err)
	for _, h := range w.headers[1:] {
		require.NoError(w.t, m.Step(dpos.HeaderEvent{Header: dpos.HeaderOf(h)}))
	}
	require.Equal(w.t, r.Statement.Base.Hash, m.LIB().Hash)
	w.machine, w.proved, w.next = m, r.Statement.Base.Height, r.Statement.Schedule()
}

// verifier is the trust of one who has the genesis file alone.
func (w *world) verifier() *Trust {
	t := *w.trust
	t.Recoveries = nil
	return &t
}

// A proof across a recovery, at each height of both domains, from the genesis file alone.
func TestProofsCarryTheirRecovery(t *testing.T) {
	for _, at := range []int{epochBlocks - 1, epochBlocks, 2*epochBlocks + 1} {
		w := newRecoverable(t)
		w.next = seats(2, 4, 5, 6) // a change of schedule may be under way, which the recovery ends
		w.grow(at - 2)
		w.silent = func(uint64) bool { return true }
		w.grow(2)
		r := w.statement(3, 0, 1, 7)
		w.recover(r)
		w.silent = nil
		w.next = seats(0, 1, 7, 5) // a change of schedule in the new domain
		w.grow(5 * epochBlocks)
		f := NewFollower(w.trust)
		for h := uint64(1); h < w.head()-2; h += 3 {
			runs := w.collect(h)
			c, err := follow(w.verifier(), runs)
			require.NoError(t, err, "base %d, block %d", at, h)
			if h > uint64(at) {
				require.Len(t, c.Recoveries(), 1, "base %d, block %d", at, h)
				require.Equal(t, r.Hash(), c.Recoveries()[0].Hash())
				bare := w.verifier()
				bare.NoRecovery = true
				_, err = follow(bare, runs)
				require.ErrorIs(t, err, ErrRecovered)
			}
			followed, err := f.Collect(context.Background(), w, 0, h, w.head())
			require.NoError(t, err)
			_, err = follow(w.verifier(), followed)
			require.NoError(t, err)
		}
		var all []Run
		require.NoError(t, Epochs(context.Background(), w.trust, w, w.head(), func(r Run) error { all = append(all, r); return nil }))
		c, err := follow(w.verifier(), all)
		require.NoError(t, err)
		require.Len(t, c.Recoveries(), 1)
		encoded, err := rlp.EncodeToBytes(all)
		require.NoError(t, err)
		var decoded []Run
		require.NoError(t, rlp.DecodeBytes(encoded, &decoded))
		_, err = follow(w.verifier(), decoded)
		require.NoError(t, err, "recoveries are in the file form")
	}
}

func TestRecoveriesThatProofsRefuse(t *testing.T) {
	w := newRecoverable(t)
	w.grow(6)
	good := w.statement(3, 0, 1, 7)
	other := w.statement(3, 0, 1, 6)
	w.recover(good)
	w.grow(6)
	runs := w.collect(w.head() - 3)
	withRecoveries := func(list ...*recovery.Signed) []Run {
		out := append([]Run(nil), runs...)
		for i := range out {
			if len(out[i].Recoveries) > 0 {
				out[i].Recoveries = list
			}
		}
		return out
	}
	for name, list := range map[string][]*recovery.Signed{
		"missing": {}, "another one": {other}, "too few signatures": {{Statement: good.Statement, Signatures: good.Signatures[:2]}},
		"two of one predecessor": {good, other}, "nil": {nil},
	} {
		_, err := follow(w.verifier(), withRecoveries(list...))
		require.ErrorIs(t, err, ErrFinality, name)
	}
	_, err := follow(w.verifier(), withRecoveries(good, &recovery.Signed{Statement: other.Statement}))
	require.NoError(t, err, "an unsigned other one is nobody's word")
	known := w.verifier()
	known.Recoveries = []*recovery.Signed{other}
	_, err = follow(known, runs)
	require.ErrorIs(t, err, ErrRecovered, "the verifier knows of another one")
	known.Recoveries = []*recovery.Signed{good}
	_, err = follow(known, withRecoveries())
	require.NoError(t, err, "the verifier has the file itself")

	// A statement that does not lead to the block that names it, though it is signed.
	first := w.headers[7]
	for _, tweak := range []func(*recovery.Statement){
		func(s *recovery.Statement) { s.FirstSlot = first.Slot() + 1 }, func(s *recovery.Statement) { s.Base.Hash[0]++ }, func(s *recovery.Statement) { s.Base.Height-- },
		func(s *recovery.Statement) { s.Genesis[0]++ },
		func(s *recovery.Statement) { s.Seats = slices.Clone(s.Seats); s.Seats[1].Proof[5]++ },
	} {
		r := w.signStatement(3, good.Statement, tweak)
		record := *first.Record
		record.Recovery = r.Hash()
		h := &block.SealedHeader{Header: first.Header, Record: &record}
		c := NewChain(w.verifier())
		s := c.state
		require.ErrorIs(t, c.recoveredBy(&s, h, []*recovery.Signed{r}), ErrFinality)
	}
	again := NewChain(w.verifier())
	inForce := again.state
	inForce.domain = good.Hash()
	require.ErrorIs(t, again.recoveredBy(&inForce, first, []*recovery.Signed{good}), ErrFinality, "a recovery is named once")

	// Certificates of the old domain, and of the old schedule, prove nothing behind the base.
	last := runs[len(runs)-1]
	head := last.Headers[len(last.Headers)-1]
	bad := *last.Certificate
	bad.Aggregate = w.signedBy(head, seats(0, 1, 7), 0, 1, 7).Aggregate
	forged := append(append([]Run(nil), runs[:len(runs)-1]...), Run{Headers: last.Headers, Certificate: &bad, Recoveries: last.Recoveries})
	_, err = follow(w.verifier(), forged)
	require.ErrorContains(t, err, "the signatures of its certificate are wrong")
}

// A second recovery from the base of the first, under which no block was made, and a third later.
func TestProofsCarryRecoveriesWithoutBlocks(t *testing.T) {
	w := newRecoverable(t)
	w.grow(6)
	w.recover(w.statement(3, 0, 1, 7))
	w.recover(w.statement(3, 0, 1, 6))
	w.grow(epochBlocks)
	w.recover(w.statement(3, 0, 5, 6))
	w.grow(epochBlocks)
	c, err := follow(w.verifier(), w.collect(w.head()-3))
	require.NoError(t, err)
	require.Len(t, c.Recoveries(), 3)
	for i, r := range c.Recoveries() {
		require.Equal(t, uint64(i+1), r.Statement.Number)
	}
}

// One who trusts a block above recoveries learns of them too, and they are checked like any.
func TestCheckpointAboveARecovery(t *testing.T) {
	w := newRecoverable(t)
	w.grow(6)
	w.recover(w.statement(3, 0, 1, 7))
	w.grow(2)
	w.recover(w.statement(3, 0, 1, 6))
	w.next = seats(0, 1, 6, 5) // elections go on behind the recoveries
	w.grow(7 * epochBlocks)
	w.trust.Checkpoint = &Checkpoint{Height: 5 * epochBlocks, Hash: w.headers[5*epochBlocks].Hash()}
	runs := w.collect(w.head() - 3)
	c, err := follow(w.verifier(), runs)
	require.NoError(t, err)
	require.Len(t, c.Recoveries(), 2)
	all := runs[0].Recoveries
	for name, list := range map[string][]*recovery.Signed{
		"none": nil, "the first alone": all[:1], "the second alone": all[1:],
		"too few signatures": {all[0], {Statement: all[1].Statement, Signatures: all[1].Signatures[:2]}},
		"none signed":        {{Statement: all[0].Statement}, all[1]},
	} {
		runs[0].Recoveries = list
		_, err = follow(w.verifier(), runs)
		require.ErrorIs(t, err, ErrFinality, name)
	}
	runs[0].Recoveries = all
	bare := w.verifier()
	bare.NoRecovery = true
	_, err = follow(bare, runs)
	require.ErrorIs(t, err, ErrRecovered)
}

// A run that hangs on a trusted block alone brings no statement. If one of its headers goes on by a recovery, whoever takes none refuses it.
func TestRunUpToACheckpointAcrossARecovery(t *testing.T) {
	w := newRecoverable(t)
	w.grow(6)
	w.recover(w.statement(3, 0, 1, 7))
	w.grow(6)
	w.trust.Checkpoint = &Checkpoint{Height: 10, Hash: w.headers[10].Hash()}
	for height := uint64(1); height <= 10; height++ {
		runs := w.collect(height)
		_, err := follow(w.verifier(), runs)
		require.NoError(t, err)
		bare := w.verifier()
		bare.NoRecovery = true
		_, err = follow(bare, runs)
		if height <= 7 {
			require.ErrorIs(t, err, ErrRecovered, "block 7 is the first one behind the base")
			require.ErrorIs(t, err, ErrFinality)
		} else {
			require.NoError(t, err, "block %d", height)
		}
	}
}

// The threshold is that of genesis, which may be above the least one.
func TestThresholdOfGenesisCounts(t *testing.T) {
	w := newRecoverable(t)
	w.trust.RecoveryKeys = append(w.trust.RecoveryKeys, crypto.PubkeyToAddress(recoveryKey(t, 3).PublicKey))
	w.trust.RecoveryThreshold = 4
	w.grow(6)
	w.recover(w.statement(4, 0, 1, 7))
	w.grow(6)
	runs := w.collect(w.head() - 3)
	_, err := follow(w.verifier(), runs)
	require.NoError(t, err)
	for i := range runs {
		for j, r := range runs[i].Recoveries {
			runs[i].Recoveries[j] = &recovery.Signed{Statement: r.Statement, Signatures: r.Signatures[:3]}
		}
	}
	_, err = follow(w.verifier(), runs)
	require.ErrorIs(t, err, ErrRecovered)
}
