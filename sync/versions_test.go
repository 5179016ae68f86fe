package blocksync

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// A producer that seals block after block for one slot costs its peers three of them; then it is sent away, and who only passed
// them on is not.
func TestVersionsOfASlotAreBounded(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		key := signerKey(t)
		by := func(h *types.Header) { h.Coinbase = crypto.PubkeyToAddress(key.PublicKey) }
		var xs []*block.Block
		for i := range maxVersions + 2 {
			xs = append(xs, makeBlock(chain[10], 11, 50, nil, nil, nil, byte(i), by))
		}
		a, b := l.node("a", chain), l.node("b", chain)
		b.dial(a.host)
		l.eventually(func() bool { return a.m.Status().Peers == 1 && b.m.Status().Peers == 1 }, "linked")
		held := func(n *node) (count int) {
			n.do(func() {
				for _, x := range xs {
					if n.blocks[x.Hash()] != nil {
						count++
					}
				}
			})
			return count
		}
		other := l.script("other", a).at(chain[10], chain[8], 9).hello()
		other.next(0, TypeNotice)
		for _, x := range xs {
			other.push(x)
		}
		l.eventually(func() bool { return held(a) == maxVersions && held(b) == maxVersions }, "some are passed on")
		l.eventually(func() bool { return peerOf(a, "other").BlocksIn == uint64(len(xs)) }, "all came")
		require.Equal(l.t, maxVersions, held(a))
		require.Len(l.t, a.m.Peers(), 2, "who passes them on is not to blame")

		s := l.script("producer", a).at(chain[10], chain[8], 9)
		s.edit = signAs(key)
		s.hello()
		l.eventually(func() bool { return peerOf(a, "producer").Handshaken }, "it is known")
		s.push(xs[maxVersions])
		s.goneWith(Flood)
		require.Equal(l.t, maxVersions, held(a))
	})
}

// A version beyond the bound that another block rests on is asked for, and comes in.
func TestAVersionThatIsNeededComesIn(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		a := l.node("a", chain)
		s := l.script("other", a).at(chain[10], chain[8], 9).hello()
		s.next(0, TypeNotice)
		by := func(h *types.Header) { h.Coinbase = common.Address{7} }
		for i := range maxVersions {
			s.push(makeBlock(chain[10], 11, 0, nil, nil, nil, byte(i), by))
		}
		needed := makeBlock(chain[10], 11, 0, nil, nil, nil, 99, by)
		child := makeBlock(needed, 12, 0, nil, nil, nil, 0)
		l.eventually(func() bool { return peerOf(a, "other").BlocksIn == maxVersions }, "they came")
		s.push(needed)
		s.push(child)
		r := s.request()
		require.Equal(l.t, ModeCatchUp, r.Blocks.Mode)
		s.answer(r.ReqIndex, []*block.Block{needed})
		l.eventually(func() (there bool) {
			a.do(func() { there = a.blocks[needed.Hash()] != nil && a.blocks[child.Hash()] != nil })
			return there
		}, "both are here")
	})
}
