package proof

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
)

func placeOf(id common.Hash) Place {
	p := Place{Contract: contract}
	p.Counts, p.Root = contracts.OperationsSlots(id)
	return p
}

// stateOf is a state in which the contract keeps these logs, with its tries.
func stateOf(t *testing.T, logs map[common.Hash]LogState) (root common.Hash, accounts, storage *trie.Trie) {
	storage, accounts = trie.NewEmpty(nil), trie.NewEmpty(nil)
	put := func(slot, value common.Hash) {
		b, err := rlp.EncodeToBytes(common.TrimLeftZeroes(value[:]))
		require.NoError(t, err)
		require.NoError(t, storage.Update(crypto.Keccak256(slot[:]), b))
	}
	for i := range 40 {
		put(common.Hash{byte(i)}, common.Hash{1, byte(i)})
	}
	for id, s := range logs {
		at := placeOf(id)
		var counts common.Hash
		binary.BigEndian.PutUint64(counts[24:], s.Count)
		binary.BigEndian.PutUint64(counts[16:], s.Height)
		put(at.Counts, counts)
		put(at.Root, s.Root)
	}
	for i := range 20 {
		a := types.NewEmptyStateAccount()
		a.Balance = uint256.NewInt(uint64(i))
		address := common.Address{byte(i + 1)}
		if i == 0 {
			address, a.Root = contract, storage.Hash()
		}
		b, err := rlp.EncodeToBytes(a)
		require.NoError(t, err)
		require.NoError(t, accounts.Update(crypto.Keccak256(address[:]), b))
	}
	return accounts.Hash(), accounts, storage
}

// audit is a chain with an audit file of the topic at its newest provable block.
func audit(t *testing.T) (*world, *Audit) {
	batches, states := chainOperations()
	w := newWorld(t)
	w.grow(2 * epochBlocks)
	root, accounts, storage := stateOf(t, map[common.Hash]LogState{topic: states[len(states)-1], {9}: {Count: 5, Root: common.Hash{5}, Height: 5}})
	w.root = root
	w.grow(6)
	height, err := Newest(context.Background(), w, w.head())
	require.NoError(t, err)
	require.Equal(t, w.head()-w.lag, height)
	p, err := ProveState(accounts, storage, placeOf(topic))
	require.NoError(t, err)
	return w, &Audit{Genesis: w.trust.Genesis, Runs: w.collect(height), Height: height, Topic: topic, State: *p, Batches: batches}
}

func reread(t *testing.T, a *Audit) *Audit {
	out, err := DecodeAudit(must(a.Encode()))
	require.NoError(t, err)
	return out
}

func TestAuditIsVerifiedOffline(t *testing.T) {
	w, a := audit(t)
	_, states := chainOperations()
	a = reread(t, a)
	v, err := a.Verify(w.trust, placeOf(topic))
	require.NoError(t, err)
	require.Equal(t, states[len(states)-1], v.To)
	require.Len(t, v.Operations, int(v.To.Count))
	require.Equal(t, w.headers[a.Height].Hash(), v.Block)

	part := reread(t, a) // the newest batch alone, then the state alone
	part.From, part.Batches = states[len(states)-2], part.Batches[len(part.Batches)-1:]
	_, err = part.Verify(w.trust, placeOf(topic))
	require.NoError(t, err)
	part.From, part.Batches = v.To, nil
	_, err = part.Verify(w.trust, placeOf(topic))
	require.NoError(t, err)

	none := common.Hash{77} // a topic without operations: absence is proved too
	root, accounts, storage := stateOf(t, map[common.Hash]LogState{topic: v.To})
	p, err := ProveState(accounts, storage, placeOf(none))
	require.NoError(t, err)
	s, err := p.Verify(root, placeOf(none))
	require.NoError(t, err)
	require.Zero(t, s)
	_, err = p.Verify(root, placeOf(topic))
	require.ErrorIs(t, err, ErrProof, "the paths of another topic")
}

func TestTamperedAuditsAreRefused(t *testing.T) {
	w, good := audit(t)
	at := placeOf(topic)
	for name, x := range map[string]struct {
		want   error
		change func(a *Audit)
	}{
		"oldest left out":     {ErrOperation, func(a *Audit) { a.Batches = a.Batches[1:] }},
		"newest left out":     {ErrOperation, func(a *Audit) { a.Batches = a.Batches[:len(a.Batches)-1] }},
		"all left out":        {ErrOperation, func(a *Audit) { a.Batches = nil }},
		"changed":             {ErrOperation, func(a *Audit) { a.Batches[1].Entries[60] ^= 1 }},
		"two for one":         {ErrOperation, func(a *Audit) { a.Batches = append(a.Batches, a.Batches[0]) }},
		"older than they are": {ErrOperation, func(a *Audit) { a.Batches[0].Height-- }},
		"another chain":       {ErrProof, func(a *Audit) { a.Genesis[0] ^= 1 }},
		"an older block":      {ErrProof, func(a *Audit) { a.Height -= 7 }}, // its state is another
		"no headers":          {ErrFinality, func(a *Audit) { a.Runs = nil }},
		"no certificate":      {ErrFinality, func(a *Audit) { a.Runs[len(a.Runs)-1].Certificate = nil }},
		"forged header":       {ErrFinality, func(a *Audit) { r := a.Runs[len(a.Runs)-1]; r.Headers[len(r.Headers)-1].Header.Root[0] ^= 1 }},
		"account cut":         {ErrProof, func(a *Audit) { a.State.Account = a.State.Account[:len(a.State.Account)-1] }},
		"account empty":       {ErrProof, func(a *Audit) { a.State.Account = nil }},
		"count changed":       {ErrProof, func(a *Audit) { n := a.State.Counts[len(a.State.Counts)-1]; n[len(n)-1] ^= 1 }},
		"root of another":     {ErrProof, func(a *Audit) { a.State.Root = a.State.Counts }},
		"too many nodes":      {ErrProof, func(a *Audit) { a.State.Root = make([][]byte, MaxStateNodes+1) }},
	} {
		a := reread(t, good)
		x.change(a)
		if a.Height != good.Height { // the header must be among those shown
			a.Runs = w.collect(a.Height)
		}
		_, err := a.Verify(w.trust, at)
		require.ErrorIs(t, err, x.want, name)
	}
}

func FuzzDecodeAudit(f *testing.F) {
	_, states := chainOperations()
	batches, _ := chainOperations()
	f.Add(must((&Audit{Topic: topic, From: states[0], Batches: batches, State: StateProof{Account: [][]byte{{1}}}}).Encode()))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAudit(b)
		if err != nil {
			require.ErrorIs(t, err, ErrDecode)
			return
		}
		again, err := a.Encode()
		require.NoError(t, err)
		require.Equal(t, b, again)
		_, _ = a.Verify(&Trust{Genesis: a.Genesis}, placeOf(a.Topic))
		_, _ = a.State.Verify(common.Hash{1}, placeOf(a.Topic))
	})
}
