package contracts

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

func evidenceHeader(t testing.TB, h *block.SealedHeader) EvidenceHeader {
	return EvidenceHeader{Header: enc(t, h.Header), Record: enc(t, h.Record), Seal: h.Seal[:]}
}

// What the builders make convinces the contract, and what has not the form it wants never gets that far.
func TestEvidenceCalls(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	w.seconds = testGenesis + 400
	by := w.ops[4]

	t.Run("seals", func(t *testing.T) {
		guilty := w.ops[2]
		a, b := header(t, guilty, 41, common.Hash{1}, "a"), header(t, guilty, 41, common.Hash{1}, "b")
		data, err := SealEvidenceCall(evidenceHeader(t, a), evidenceHeader(t, b))
		require.NoError(t, err)
		w.do(by, data)
		info, key, err := DecodeCandidate(w.view(CandidateCall(guilty.account)))
		require.NoError(t, err)
		require.True(t, info.Guilty)
		want := guilty.bls.PublicKey()
		require.Equal(t, want[:], key)
		_, err = SealEvidenceCall(evidenceHeader(t, a), EvidenceHeader{Header: []byte{1}, Record: []byte{1}, Seal: a.Seal[:64]})
		require.ErrorContains(t, err, "block 2 needs its header, its record and a seal of 65 bytes")
	})

	t.Run("prevotes", func(t *testing.T) {
		guilty := w.ops[1]
		key := g1(t, guilty.bls.PublicKey())
		s := point(10, "source")
		a, b := w.vote(guilty, prevote(s, point(20, "a"))), w.vote(guilty, prevote(s, point(20, "b")))
		_, err := PrevotesEvidenceCall(key[:100], a, b)
		require.ErrorContains(t, err, "128 are needed")
		short := b
		short.Signature = b.Signature[:96]
		_, err = PrevotesEvidenceCall(key, a, short)
		require.ErrorContains(t, err, "signature of vote 2 has 96 bytes")
		data, err := PrevotesEvidenceCall(key, a, b)
		require.NoError(t, err)
		w.do(by, data)
		require.True(t, w.candidate(guilty).Guilty)
	})

	t.Run("a long path", func(t *testing.T) {
		guilty := w.ops[3]
		b := header(t, w.ops[0], 10, common.Hash{7}, "b")
		slots := []uint64{9}
		for s := uint64(11); s < 411; s++ {
			slots = append(slots, s)
		}
		var path []EvidenceHeader
		long := w.branch(common.Hash{7}, "long", slots...)
		for _, h := range long {
			path = append(path, evidenceHeader(t, h))
		}
		key := g1(t, guilty.bls.PublicKey())
		pre, vote := w.vote(guilty, precommit(b.Point())), w.vote(guilty, prevote(block.Point{Slot: 1}, long[0].Point()))
		_, err := CrossEvidenceCalls(key, pre, vote, nil)
		require.ErrorContains(t, err, "down past slot 10 are missing")
		calls, err := CrossEvidenceCalls(key, pre, vote, path)
		require.NoError(t, err)
		require.Greater(t, len(calls), 2)
		var most uint64
		for _, data := range calls {
			require.Less(t, len(data), block.MinBlockBytes/2, "the smallest block has room")
			require.False(t, w.candidate(guilty).Guilty)
			w.do(by, data)
			most = max(most, w.gas+params.TxGas+params.TxDataNonZeroGasEIP2028*uint64(len(data)))
		}
		t.Logf("gas of the dearest of %d transactions: %d", len(calls), most)
		require.Less(t, most, uint64(block.MinGasLimit/2))
		require.True(t, w.candidate(guilty).Guilty)
	})
}

// Whoever proves a part of the same path, with a run that serves another vote or none, does not void evidence: not one
// that fits a transaction, and not a longer one.
func TestForeignPathsDoNotVoidEvidence(t *testing.T) {
	slots := []uint64{9}
	for s := uint64(11); s < 211; s++ {
		slots = append(slots, s)
	}
	for _, length := range []int{4, len(slots)} {
		w := newWorld(t, 4, 1, nil)
		w.seconds = testGenesis + 400
		by, guilty := w.ops[4], w.ops[3]
		b := header(t, w.ops[0], 10, common.Hash{7}, "b")
		long := w.branch(common.Hash{7}, "long", slots[:length]...)
		var path []EvidenceHeader
		for _, h := range long {
			path = append(path, evidenceHeader(t, h))
		}
		pre, vote := w.vote(guilty, precommit(b.Point())), w.vote(guilty, prevote(block.Point{Slot: 1}, long[0].Point()))
		calls, err := CrossEvidenceCalls(g1(t, guilty.bls.PublicKey()), pre, vote, path)
		require.NoError(t, err)
		require.Equal(t, length > 4, len(calls) > 1)
		for _, data := range calls[:len(calls)-1] {
			w.do(by, data)
		}
		headers, records := encodings(t, long)
		for _, from := range []int{0, 2} {
			for n := 1; n <= 4-from; n++ {
				w.do(guilty, prods.PackProvePath(headers[from:from+n], records[from:from+n]))
			}
		}
		last := calls[len(calls)-1]
		if len(calls) > 1 {
			w.refused(guilty, last, "lead down from D")
		} else { // what the caller itself proved before is not in the way either
			w.do(by, prods.PackProvePath(headers[:2], records[:2]))
		}
		w.do(by, last)
		require.True(t, w.candidate(guilty).Guilty)
	}
}

func FuzzDecodeCandidate(f *testing.F) {
	w := newWorld(f, 4, 0, nil)
	f.Add(w.view(CandidateCall(w.ops[0].account)))
	f.Add(w.view(CandidateCall(common.Address{1})))
	f.Fuzz(func(t *testing.T, ret []byte) {
		info, key, err := DecodeCandidate(ret)
		if err != nil {
			require.ErrorIs(t, err, ErrReturn)
			return
		}
		require.NotNil(t, info.Votes)
		require.Contains(t, []int{0, 48}, len(key))
	})
}
