package proof

import (
	"crypto/ecdsa"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

func signerOf(t *testing.T) (func(common.Hash) ([]byte, error), common.Address) {
	var key *ecdsa.PrivateKey
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	return func(d common.Hash) ([]byte, error) { return crypto.Sign(d[:], key) }, crypto.PubkeyToAddress(key.PublicKey)
}

func signedHead(t *testing.T, chain common.Hash, h Head, sign func(common.Hash) ([]byte, error)) *SignedHead {
	list, err := NewHeads([]Head{{Topic: topic}, h, {Topic: topic, Partition: 9}})
	require.NoError(t, err)
	sig, err := sign(list.Digest(chain))
	require.NoError(t, err)
	s, err := list.Signed(1, sig)
	require.NoError(t, err)
	s, err = DecodeSignedHead(s.Encode())
	require.NoError(t, err)
	return s
}

func given(t *testing.T, chain common.Hash, p Placed, sign func(common.Hash) ([]byte, error)) *GivenReceipt {
	r, err := SignReceipts(chain, 1, []Placed{{Topic: topic, Leaf: Leaf{Count: 1}}, p}, sign)
	require.NoError(t, err)
	g, err := DecodeGivenReceipt((&GivenReceipt{p, r[1]}).Encode())
	require.NoError(t, err)
	return g
}

func judge(t *testing.T, w *world, r *Report) (*Guilt, error) {
	r, err := DecodeReport(must(r.Encode()))
	require.NoError(t, err)
	return r.Judge(w.trust, contract)
}

func TestReportsNameTheBroker(t *testing.T) {
	w, b := proved(t)
	chain := w.trust.Genesis
	sign, who := signerOf(t)
	other, _ := signerOf(t)

	head := b.Head
	fork := head
	fork.Root[0] ^= 1
	heads := func(x, y *SignedHead) *Report { return &Report{chain, TwoHeads, x.Encode(), y.Encode()} }
	g, err := judge(t, w, heads(signedHead(t, chain, head, sign), signedHead(t, chain, fork, sign)))
	require.NoError(t, err)
	require.Equal(t, who, g.Broker)
	require.Equal(t, head.Partition, g.What.Partition)
	longer := fork
	longer.Leaves++
	longer.Next++
	for name, y := range map[string]*SignedHead{"the same": signedHead(t, chain, head, sign), "another's": signedHead(t, chain, fork, other),
		"longer": signedHead(t, chain, longer, sign), "of another chain": signedHead(t, common.Hash{1}, fork, sign)} {
		_, err := judge(t, w, heads(signedHead(t, chain, head, sign), y))
		require.Error(t, err, name)
	}

	true1 := Placed{topic, b.Head.Partition, b.Leaves[1]}
	lie := true1
	lie.Leaf.Digest[0] ^= 1
	moved := lie // overlaps, from another offset
	moved.Leaf.Base--
	later := lie
	later.Leaf.Epoch++
	elsewhere := lie
	elsewhere.Partition++
	receipts := func(x, y *GivenReceipt) *Report { return &Report{chain, TwoReceipts, x.Encode(), y.Encode()} }
	good := given(t, chain, true1, sign)
	for _, p := range []Placed{lie, moved} {
		g, err = judge(t, w, receipts(good, given(t, chain, p, sign)))
		require.NoError(t, err)
		require.Equal(t, who, g.Broker)
	}
	enc := must(b.Encode())
	g, err = judge(t, w, &Report{chain, BrokenReceipt, given(t, chain, lie, sign).Encode(), enc})
	require.NoError(t, err)
	require.Equal(t, who, g.Broker)
	require.Equal(t, true1.Leaf.Base, g.What.Offset)
	for name, p := range map[string]Placed{"kept": true1, "another epoch": later, "another partition": elsewhere} {
		_, err := judge(t, w, &Report{chain, BrokenReceipt, given(t, chain, p, sign).Encode(), enc})
		require.ErrorIs(t, err, ErrProof, name)
		_, err = judge(t, w, receipts(good, given(t, chain, p, sign)))
		require.ErrorIs(t, err, ErrProof, name)
	}
	_, err = judge(t, w, receipts(good, given(t, chain, lie, other)))
	require.ErrorIs(t, err, ErrProof, "two brokers")
	_, err = judge(t, w, &Report{common.Hash{1}, TwoReceipts, good.Encode(), good.Encode()})
	require.ErrorContains(t, err, "of the chain with block 0")
	bad := must(b.Encode())
	bad[len(bad)-1] ^= 1 // a proof that is none accuses nobody
	_, err = judge(t, w, &Report{chain, BrokenReceipt, given(t, chain, lie, sign).Encode(), bad})
	require.Error(t, err)

	r, err := Accuse(chain, []*GivenReceipt{good, given(t, chain, later, sign)}, [][]byte{enc})
	require.NoError(t, err)
	require.Nil(t, r)
	r, err = Accuse(chain, []*GivenReceipt{good, given(t, chain, lie, sign)}, nil)
	require.NoError(t, err)
	require.Equal(t, TwoReceipts, r.Kind)
	r, err = Accuse(chain, []*GivenReceipt{given(t, chain, lie, sign)}, [][]byte{enc})
	require.NoError(t, err)
	require.Equal(t, BrokenReceipt, r.Kind)
	_, err = judge(t, w, r)
	require.NoError(t, err)
}

func FuzzDecodeReport(f *testing.F) {
	head := SignedHead{Head: Head{Topic: topic, Leaves: 3, Next: 9}, Size: 2, Path: make([]Hash, 1)}
	receipt := GivenReceipt{Placed{topic, 1, Leaf{Count: 1}}, Receipt{Size: 1}}
	f.Add(must((&Report{Kind: TwoHeads, First: head.Encode(), Second: head.Encode()}).Encode()))
	f.Add(must((&Report{Kind: TwoReceipts, First: receipt.Encode(), Second: receipt.Encode()}).Encode()))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeReport(b)
		if err != nil {
			require.ErrorIs(t, err, ErrDecode)
			return
		}
		require.Equal(t, b, must(r.Encode()))
		if s, err := DecodeSignedHead(r.First); err == nil {
			require.Equal(t, r.First, s.Encode())
		}
		if g, err := DecodeGivenReceipt(r.First); err == nil {
			require.Equal(t, r.First, g.Encode())
		}
		_, err = r.Judge(&Trust{Genesis: r.Genesis}, contract)
		_ = err
	})
}
