package nodes

import (
	"crypto/ecdsa"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/signer"
)

// court is a set of checkers with one producer whose keys the test has, and a way to make headers.
type court struct {
	*checkers
	t *testing.T
	s *signer.Local
}

func newCourt(t *testing.T) *court {
	t.Helper()
	s, err := signer.Generate(source{rand.New(rand.NewPCG(1, 1))})
	require.NoError(t, err)
	genesis := &block.Block{SealedHeader: &block.SealedHeader{Header: &types.Header{Number: new(big.Int), Difficulty: new(big.Int)}, Record: &block.Record{}}}
	return &court{newCheckers(genesis, map[common.Address]block.BLSKey{s.Account(): s.VoteKey()}, make(map[common.Address]*big.Int)), t, s}
}

// header makes a sealed header on a parent; extra tells versions apart.
func (c *court) header(parent *block.SealedHeader, slot uint64, extra byte) *block.SealedHeader {
	h := &block.SealedHeader{Record: &block.Record{Slot: slot}, Header: &types.Header{
		Number: new(big.Int).Add(parent.Header.Number, common.Big1), ParentHash: parent.Hash(), Difficulty: new(big.Int), Coinbase: c.s.Account(), Extra: []byte{extra},
	}}
	seal, err := c.s.SignSeal(c.domain.SealDigest(h.Hash()))
	require.NoError(c.t, err)
	h.Seal = seal
	return h
}

func (c *court) vote(kind block.VoteKind, source, target *block.SealedHeader) block.Vote {
	v := block.Vote{Voter: c.s.Account(), Link: block.Link{Kind: kind, Source: source.Point(), Target: target.Point()}}
	v.Signature, _ = c.s.SignVote(c.domain.VoteDigest(v.Link))
	return v
}

func (c *court) root() *block.SealedHeader { return c.headers[c.final[0]] }

func TestDoubleSignsAreSeen(t *testing.T) {
	t.Run("two blocks of one slot", func(t *testing.T) {
		c := newCourt(t)
		c.hearHeader(c.header(c.root(), 5, 1))
		require.Empty(t, c.found)
		c.hearHeader(c.header(c.root(), 5, 2))
		require.Len(t, c.found, 1)
	})
	t.Run("a seal that is not its coinbase's", func(t *testing.T) {
		c := newCourt(t)
		h := c.header(c.root(), 5, 1)
		other, err := ecdsa.GenerateKey(crypto.S256(), source{rand.New(rand.NewPCG(2, 2))})
		require.NoError(t, err)
		d := c.domain.SealDigest(h.Hash())
		b, err := crypto.Sign(d[:], other)
		require.NoError(t, err)
		h.Seal = [block.SealLength]byte(b)
		c.hearHeader(h)
		require.Len(t, c.found, 1)
	})
	t.Run("two prevotes of one slot", func(t *testing.T) {
		c := newCourt(t)
		x, y := c.header(c.root(), 5, 1), c.header(c.root(), 5, 2)
		c.hearVotes([]block.Vote{c.vote(block.Prevote, c.root(), x), c.vote(block.Prevote, c.root(), x)})
		require.Empty(t, c.found)
		forged := c.vote(block.Prevote, c.root(), y)
		forged.Signature = block.BLSSignature{}
		c.hearVotes([]block.Vote{forged})
		require.Empty(t, c.found, "a forged vote accuses nobody")
		c.hearVotes([]block.Vote{c.vote(block.Prevote, c.root(), y)})
		require.Len(t, c.found, 1)
	})
	t.Run("a prevote across a precommit", func(t *testing.T) {
		c := newCourt(t)
		b := c.header(c.root(), 3, 1)
		above, beside := c.header(b, 5, 1), c.header(c.root(), 5, 2)
		for _, h := range []*block.SealedHeader{b, above} {
			c.hearHeader(h)
		}
		c.headers[beside.Hash()] = beside
		c.hearVotes([]block.Vote{c.vote(block.Precommit, b, b), c.vote(block.Prevote, c.root(), above)})
		c.judgeLinks()
		require.Empty(t, c.found, "on one branch neither bars the other")
		delete(c.prevotes, signedSlot{c.s.Account(), 5})
		c.hearVotes([]block.Vote{c.vote(block.Prevote, c.root(), beside)})
		c.judgeLinks()
		require.Len(t, c.found, 1)
	})
}

func TestDisagreementIsSeen(t *testing.T) {
	c := newCourt(t)
	x, y := c.header(c.root(), 3, 1), c.header(c.root(), 4, 2)
	c.tellFinal("node 0", 1, x.Hash())
	c.tellFinal("node 1", 1, x.Hash())
	require.Empty(t, c.found)
	c.tellFinal("node 2", 1, y.Hash())
	require.Len(t, c.found, 1)
}
