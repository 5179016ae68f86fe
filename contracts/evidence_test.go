package contracts

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/bls"
)

// header makes a real sealed header of the test chain; salt tells twins apart.
func header(t testing.TB, by operator, slot uint64, parent common.Hash, salt string) *block.SealedHeader {
	r := &block.Record{Version: block.RecordVersion, Slot: slot, BodyDigest: crypto.Keccak256Hash([]byte(salt))}
	if slot%2 == 1 { // a record as long as real ones
		r.QC = &block.Certificate{Link: block.Link{Kind: block.Prevote, Target: block.Point{Slot: slot - 1, Hash: parent}}, Bitmaps: [][]byte{{7}}}
	}
	empty := types.EmptyWithdrawalsHash
	h := &types.Header{
		ParentHash: parent, Coinbase: by.account, Root: crypto.Keccak256Hash([]byte("root"), []byte(salt)), Difficulty: new(big.Int),
		Number: new(big.Int).SetUint64(slot), GasLimit: 300_000_000, GasUsed: 21000, Time: testGenesis + slot*500/1000,
		Extra: r.Hash().Bytes(), BaseFee: new(big.Int), WithdrawalsHash: &empty, BlobGasUsed: new(uint64), ExcessBlobGas: new(uint64),
		ParentBeaconRoot: new(common.Hash), RequestsHash: &types.EmptyRequestsHash, UncleHash: types.EmptyUncleHash,
		TxHash: types.EmptyTxsHash, ReceiptHash: types.EmptyReceiptsHash,
	}
	return seal(t, by, &block.SealedHeader{Header: h, Record: r})
}

func seal(t testing.TB, by operator, h *block.SealedHeader) *block.SealedHeader {
	hash := block.Domain{Genesis: testGenesisHash}.SealDigest(h.Header.Hash())
	sig, err := crypto.Sign(hash[:], by.key)
	require.NoError(t, err)
	out := &block.SealedHeader{Header: h.Header, Record: h.Record}
	copy(out.Seal[:], sig)
	return out
}

func enc(t testing.TB, v any) []byte {
	b, err := rlp.EncodeToBytes(v)
	require.NoError(t, err)
	return b
}

func sealEvidence(t testing.TB, a, b *block.SealedHeader) []byte {
	return prods.PackEvidenceSeal(enc(t, a.Header), a.Seal[:], enc(t, b.Header), b.Seal[:], enc(t, a.Record), enc(t, b.Record))
}

func TestEvidenceOfTwoSeals(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	w.seconds = testGenesis + 100
	guilty, other := w.ops[2], w.ops[3]
	parent := common.HexToHash("0xaa")
	a, b := header(t, guilty, 41, parent, "a"), header(t, guilty, 41, parent, "b")

	elsewhere := &block.SealedHeader{Header: b.Header, Record: b.Record}
	digest := block.Domain{Genesis: common.Hash{3}}.SealDigest(b.Header.Hash())
	sig, err := crypto.Sign(digest[:], guilty.key)
	require.NoError(t, err)
	copy(elsewhere.Seal[:], sig)
	w.refused(w.ops[4], sealEvidence(t, a, elsewhere), "two producers") // what was sealed for another chain proves nothing
	late := header(t, guilty, 42, parent, "late")
	w.refused(w.ops[4], sealEvidence(t, a, a), "the two headers are one")
	w.refused(w.ops[4], sealEvidence(t, a, header(t, other, 41, parent, "b")), "two producers")
	w.refused(w.ops[4], sealEvidence(t, a, late), "two slots")
	stranger := newOperator(t, 99)
	w.refused(w.ops[4], sealEvidence(t, header(t, stranger, 41, parent, "a"), header(t, stranger, 41, parent, "b")), "never registered")

	swapped := prods.PackEvidenceSeal(enc(t, a.Header), a.Seal[:], enc(t, b.Header), b.Seal[:], enc(t, b.Record), enc(t, a.Record))
	w.refused(w.ops[4], swapped, "the record is not the header's")
	short := prods.PackEvidenceSeal(enc(t, a.Header), a.Seal[:64], enc(t, b.Header), b.Seal[:], enc(t, a.Record), enc(t, b.Record))
	w.refused(w.ops[4], short, "65 bytes")
	for _, cut := range []int{0, 1, 50, 400} { // broken RLP is refused, whatever breaks
		_, err := w.call(w.ops[4].account, ProducersAddress, nil,
			prods.PackEvidenceSeal(enc(t, a.Header)[:cut], a.Seal[:], enc(t, b.Header), b.Seal[:], enc(t, a.Record), enc(t, b.Record)))
		require.Error(t, err)
	}
	foreign := *b.Header // of a chain with another genesis time
	foreign.Time++
	w.refused(w.ops[4], sealEvidence(t, a, seal(t, guilty, &block.SealedHeader{Header: &foreign, Record: b.Record})), "the header's time")
	require.False(t, w.candidate(guilty).Guilty)

	w.do(w.ops[4], sealEvidence(t, a, b))
	slashed, err := prods.UnpackSlashedEvent(w.logs[len(w.logs)-1])
	require.NoError(t, err)
	require.Equal(t, guilty.account, slashed.Account)
	require.Equal(t, uint64(41), slashed.Slot)
	require.Equal(t, stake(49), slashed.Amount)
	require.True(t, w.candidate(guilty).Guilty)
	require.Equal(t, stake(49), w.account(guilty).Stake, "half of 98")
	require.Equal(t, stake(49), w.account(guilty).Voted, "votes follow the stake")
	require.Equal(t, stake(49), w.candidate(guilty).Votes)
	totals, err := prods.UnpackTotals(w.view(prods.PackTotals()))
	require.NoError(t, err)
	require.Equal(t, stake(49), totals.Slashed)
	w.refused(w.ops[4], sealEvidence(t, a, b), "proven guilty before")
	w.refused(guilty, prods.PackUnjail(), "not in jail")
	w.refused(guilty, registration(t, guilty, newOperator(t, 70).bls), "never produces again")

	// Nobody takes the seat, so it is kept; with a standby the guilty one goes.
	require.Equal(t, []int{0, 1, 2, 3}, w.who(w.endEpoch()))
	w.standFor(w.ops[4], stake(20))
	w.do(w.ops[4], prods.PackReportStandby())
	require.Equal(t, []int{0, 1, 4, 3}, w.who(w.endEpoch()))
}

func TestEvidenceGrowsOld(t *testing.T) {
	w := newWorld(t, 4, 0, nil)
	a, b := header(t, w.ops[1], 40, common.Hash{1}, "a"), header(t, w.ops[1], 40, common.Hash{1}, "b")
	w.seconds = testGenesis + 20 + w.set.EvidenceSeconds + 1
	w.refused(w.ops[0], sealEvidence(t, a, b), "too old")
	w.seconds--
	w.do(w.ops[0], sealEvidence(t, a, b))
}

// vote makes a signed vote in the contract's form.
func (w *world) vote(o operator, l block.Link) VotesVote {
	d := block.Domain{Genesis: w.genesis}.VoteDigest(l)
	return VotesVote{
		Kind: uint8(l.Kind), SourceSlot: l.Source.Slot, SourceHash: l.Source.Hash, TargetSlot: l.Target.Slot, TargetHash: l.Target.Hash,
		Signature: g2(w.t, o.bls.Sign(d[:])),
	}
}

func prevote(source, target block.Point) block.Link {
	return block.Link{Kind: block.Prevote, Source: source, Target: target}
}

func precommit(b block.Point) block.Link {
	return block.Link{Kind: block.Precommit, Source: b, Target: b}
}

func point(slot uint64, name string) block.Point {
	return block.Point{Slot: slot, Hash: crypto.Keccak256Hash([]byte(name))}
}

func TestVoteDigestsAgree(t *testing.T) {
	w := newWorld(t, 4, 0, nil)
	for _, l := range []block.Link{
		prevote(point(1, "s"), point(2, "t")), precommit(point(1<<63, "b")), {Kind: block.Prevote},
	} {
		got, err := prods.UnpackVoteDigest(w.view(prods.PackVoteDigest(w.vote(w.ops[0], l))))
		require.NoError(t, err)
		require.Equal(t, block.Domain{Genesis: w.genesis}.VoteDigest(l), common.Hash(got))
	}
	for _, o := range w.ops {
		k := o.bls.PublicKey()
		got, err := prods.UnpackPossessionDigest(w.view(prods.PackPossessionDigest(o.account, k[:])))
		require.NoError(t, err)
		require.Equal(t, block.PossessionDigest(testChainID, o.account, k), common.Hash(got))
	}
}

func TestEvidenceOfTwoPrevotes(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	w.seconds = testGenesis + 100
	o, by := w.ops[1], w.ops[4]
	key := g1(t, o.bls.PublicKey())
	s := point(10, "source")
	a, b := w.vote(o, prevote(s, point(20, "a"))), w.vote(o, prevote(s, point(20, "b")))
	pack := func(key []byte, a, b VotesVote) []byte { return prods.PackEvidenceVotes(key, a, b, nil, nil) }

	w.refused(by, pack(key, a, a), "two blocks of one slot")
	w.refused(by, pack(key, a, w.vote(o, prevote(s, point(21, "b")))), "two blocks of one slot")
	w.refused(by, pack(key, a, w.vote(w.ops[2], prevote(s, point(20, "b")))), "not signed by this key")
	w.refused(by, pack(g1(t, newOperator(t, 99).bls.PublicKey()), a, b), "nobody registered")
	w.refused(by, pack(key[:127], a, b), "128 bytes")
	w.refused(by, pack(make([]byte, 128), a, b), "infinity")
	forged := b
	forged.TargetHash = common.Hash{9}
	w.refused(by, pack(key, a, forged), "not signed by this key")
	genesis := w.genesis
	w.genesis = common.Hash{3} // votes of another chain with this chain id
	foreign := w.vote(o, prevote(s, point(20, "b")))
	w.genesis = genesis
	w.refused(by, pack(key, a, foreign), "not signed by this key")
	odd := b
	odd.Kind = 3
	w.refused(by, pack(key, odd, a), "unknown kind")
	w.refused(by, pack(key, a, odd), "must be a prevote")

	w.do(by, pack(key, a, b))
	t.Logf("gas of two prevotes: %d", w.gas)
	require.True(t, w.candidate(o).Guilty)
}

// branch makes headers of these slots on a parent; the newest comes first, as evidence wants them.
func (w *world) branch(parent common.Hash, name string, slots ...uint64) []*block.SealedHeader {
	out := make([]*block.SealedHeader, len(slots))
	for i, s := range slots {
		h := header(w.t, w.ops[int(s)%4], s, parent, name)
		out[len(slots)-1-i], parent = h, h.Hash()
	}
	return out
}

func encodings(t testing.TB, hs []*block.SealedHeader) (headers, records [][]byte) {
	for _, h := range hs {
		headers, records = append(headers, enc(t, h.Header)), append(records, enc(t, h.Record))
	}
	return headers, records
}

func TestEvidenceOfPrecommitAndPrevote(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	w.seconds = testGenesis + 100
	o, by := w.ops[1], w.ops[4]
	key := g1(t, o.bls.PublicKey())
	root := header(t, w.ops[0], 5, common.Hash{7}, "root")
	b := header(t, w.ops[0], 10, root.Hash(), "b")
	other := w.branch(root.Hash(), "d", 8, 11, 14) // passes slot 10 without b
	d := other[0]
	onB := w.branch(b.Hash(), "on b", 12, 15)
	sibling := w.branch(root.Hash(), "twin", 10, 16) // a block of b's own slot

	try := func(first, second block.Link, hs []*block.SealedHeader) ([]byte, VotesVote, VotesVote) {
		headers, records := encodings(t, hs)
		x, y := w.vote(o, first), w.vote(o, second)
		return prods.PackEvidenceVotes(key, x, y, headers, records), x, y
	}
	bad := func(first, second block.Link, hs []*block.SealedHeader, words string) {
		t.Helper()
		data, _, _ := try(first, second, hs)
		w.refused(by, data, words)
	}
	link := prevote(root.Point(), d.Point())
	bad(precommit(b.Point()), prevote(b.Point(), d.Point()), other, "does not lie between")
	bad(precommit(b.Point()), prevote(root.Point(), point(10, "d")), other, "does not lie between")
	bad(precommit(d.Point()), prevote(root.Point(), b.Point()), other, "does not lie between")
	bad(precommit(b.Point()), link, nil, "end above")
	bad(precommit(b.Point()), link, other[:2], "end above B's slot")
	bad(precommit(b.Point()), link, other[1:], "lead down from D")
	bad(precommit(b.Point()), prevote(root.Point(), block.Point{Slot: 13, Hash: d.Hash()}), other, "D's slot is another")
	bad(precommit(b.Point()), prevote(root.Point(), onB[0].Point()), append(onB, b), "D descends from B")
	bad(block.Link{Kind: block.Precommit, Source: root.Point(), Target: b.Point()}, link, other, "a precommit's source is its target")
	headers, records := encodings(t, other)
	w.refused(by, prods.PackEvidenceVotes(key, w.vote(o, precommit(b.Point())), w.vote(o, link), headers, records[:2]), "needs its record")
	w.refused(by, prods.PackEvidenceVotes(key, w.vote(w.ops[2], precommit(b.Point())), w.vote(o, link), headers, records), "not signed by this key")
	require.False(t, w.candidate(o).Guilty)

	for name, c := range map[string]struct {
		d  *block.SealedHeader
		hs []*block.SealedHeader
	}{"passed": {d, other}, "twin": {sibling[0], sibling}} {
		before := w.state.Copy()
		data, _, _ := try(precommit(b.Point()), prevote(root.Point(), c.d.Point()), c.hs)
		w.do(by, data)
		require.True(t, w.candidate(o).Guilty, name)
		w.state = before
	}
}

// A long branch is proven piece by piece.
func TestEvidenceOverALongBranch(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	w.seconds = testGenesis + 400
	o, by := w.ops[1], w.ops[4]
	b := header(t, w.ops[0], 10, common.Hash{7}, "b")
	slots := []uint64{9}
	for s := uint64(11); s < 611; s++ {
		slots = append(slots, s)
	}
	long := w.branch(common.Hash{7}, "long", slots...)
	const piece = 200
	i := 0
	for ; i+piece < len(long)-1; i += piece {
		headers, records := encodings(t, long[i:i+piece])
		w.do(by, prods.PackProvePath(headers, records))
	}
	t.Logf("gas of %d headers: %d", piece, w.gas)
	headers, records := encodings(t, long[i:])
	key := g1(t, o.bls.PublicKey())
	votes := [2]VotesVote{w.vote(o, precommit(b.Point())), w.vote(o, prevote(block.Point{Slot: 1}, long[0].Point()))}
	w.refused(by, prods.PackEvidenceVotes(key, votes[0], votes[1], headers[1:], records[1:]), "lead down from D")
	w.do(by, prods.PackEvidenceVotes(key, votes[0], votes[1], headers, records))
	require.True(t, w.candidate(o).Guilty)

	broken, brokenRecords := encodings(t, []*block.SealedHeader{long[5], long[7]})
	w.refused(by, prods.PackProvePath(broken, brokenRecords), "do not lead down")
	w.refused(by, prods.PackProvePath(nil, nil), "missing")
}

// The contract's BLS agrees with the node's on every golden vector of it and on what is no point.
func TestBLSAgrees(t *testing.T) {
	w := newWorld(t, 1, 0, nil)
	verify := func(key, signature []byte, digest common.Hash) (bool, error) {
		ret, err := w.call(common.Address{1}, ProducersAddress, nil, prods.PackVerify(key, digest, signature))
		if err != nil {
			return false, err
		}
		return prods.UnpackVerify(ret)
	}
	for i := range 6 {
		o := newOperator(t, i)
		digest := crypto.Keccak256Hash([]byte(fmt.Sprint("digest ", i)))
		sig := o.bls.Sign(digest[:])
		ok, err := verify(g1(t, o.bls.PublicKey()), g2(t, sig), digest)
		require.NoError(t, err)
		require.True(t, ok)
		require.True(t, bls.Verify(o.bls.PublicKey(), digest[:], sig))
		digest[0] ^= 1
		ok, err = verify(g1(t, o.bls.PublicKey()), g2(t, sig), digest)
		require.NoError(t, err)
		require.False(t, ok)
		broken := g2(t, sig)
		broken[100] ^= 1
		_, err = verify(g1(t, o.bls.PublicKey()), broken, digest)
		require.Error(t, err, "no point")
	}
}
