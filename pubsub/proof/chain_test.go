package proof

import (
	"context"
	"encoding/binary"
	"math/big"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/bls"
)

var keys = sync.OnceValue(func() (out []*bls.SecretKey) {
	for i := range 8 {
		var b [32]byte
		binary.BigEndian.PutUint64(b[24:], uint64(i+1))
		k, err := bls.SecretKeyFromBytes(b[:])
		if err != nil {
			panic(err)
		}
		out = append(out, k)
	}
	return out
})

func seats(who ...int) (s block.Schedule) {
	for _, i := range who {
		s = append(s, block.Producer{Account: common.Address{byte(i + 1)}, Key: keys()[i].PublicKey()})
	}
	return s
}

// world is a chain whose rules are those of consensus/dpos itself: the machine says who produces, who votes and when a
// schedule is due, and refuses what is wrong.
type world struct {
	t        *testing.T
	trust    *Trust
	machine  *dpos.Machine
	headers  []*block.SealedHeader
	voters   map[common.Hash][]block.Schedule
	receipts map[uint64]types.Receipts
	next     block.Schedule
	lag      uint64 // block n carries the certificate of block n-lag
	silent   func(height uint64) bool
	proved   uint64
	root     common.Hash // of the state of the blocks to come
}

const epochBlocks = 8

func newWorld(t *testing.T) *world {
	p := block.Parameters{ChainID: 7, GenesisTime: 1000, SlotMillis: 1000, TurnSlots: 1, EpochBlocks: epochBlocks, MaxReversible: 1000}
	g := &block.SealedHeader{Header: emptyHeader(0), Record: &block.Record{Version: block.RecordVersion}}
	g.Header.Extra = g.Record.Hash().Bytes()
	w := &world{t: t, trust: &Trust{Params: p, Genesis: g.Hash(), Schedule: seats(0, 1, 2, 3)}, next: seats(0, 1, 2, 3), lag: 2,
		headers: []*block.SealedHeader{g}, voters: map[common.Hash][]block.Schedule{}, receipts: map[uint64]types.Receipts{}}
	m, err := dpos.New(dpos.DefaultConfig(p, common.Address{}), dpos.GenesisRoot(g.Hash(), w.trust.Schedule))
	require.NoError(t, err)
	w.machine = m
	return w
}

func emptyHeader(n uint64) *types.Header {
	return &types.Header{Number: new(big.Int).SetUint64(n), Difficulty: new(big.Int), BaseFee: new(big.Int), Time: 1000 + n,
		UncleHash: types.EmptyUncleHash, TxHash: types.EmptyTxsHash, ReceiptHash: types.EmptyReceiptsHash}
}

func (w *world) SealedAt(h uint64) *block.SealedHeader {
	if h >= uint64(len(w.headers)) {
		return nil
	}
	return w.headers[h]
}

func (w *world) head() uint64 { return uint64(len(w.headers)) - 1 }

func (w *world) certificate(h *block.SealedHeader, schedules []block.Schedule) *block.Certificate {
	l := block.Link{Kind: block.Precommit, Source: h.Point(), Target: h.Point()}
	c := block.NewCertificate(l, schedules, func(common.Address) bool { return true })
	d := block.Domain{Genesis: w.trust.Genesis, Recovery: w.domainAt(h.Slot())}.VoteDigest(l)
	voters, err := c.Voters(schedules)
	require.NoError(w.t, err)
	var sigs [][96]byte
	for _, v := range voters {
		sigs = append(sigs, keys()[v.Account[0]-1].Sign(d[:]))
	}
	c.Aggregate, err = bls.Aggregate(sigs)
	require.NoError(w.t, err)
	return c
}

// domainAt is the recovery that a block of this slot is bound to.
func (w *world) domainAt(slot uint64) (d common.Hash) {
	for _, r := range w.trust.Recoveries {
		if r.Statement.Base.Slot < slot {
			d = r.Hash()
		}
	}
	return d
}

// grow adds blocks; the first holds these receipts.
func (w *world) grow(n int, receipts ...*types.Receipt) {
	for range n {
		parent := w.headers[w.head()]
		num := parent.Number() + 1
		h := &block.SealedHeader{Header: emptyHeader(num), Record: &block.Record{Version: block.RecordVersion, Slot: parent.Slot() + 1}}
		if list := w.trust.Recoveries; len(list) > 0 && list[len(list)-1].Statement.Base.Hash == parent.Hash() {
			h.Record.Recovery, h.Record.Slot = list[len(list)-1].Hash(), list[len(list)-1].Statement.FirstSlot
		}
		s, err := w.machine.ScheduleFor(parent.Hash())
		require.NoError(w.t, err)
		h.Header.ParentHash, h.Header.Coinbase, h.Header.Root = parent.Hash(), s.Owner(h.Record.Slot, 1).Account, w.root
		if must, err := w.machine.Announces(parent.Hash()); err == nil && must {
			h.Record.Next = w.next
		}
		if num > w.lag && (w.silent == nil || !w.silent(num)) && num-w.lag > w.proved {
			w.proved = num - w.lag
			x := w.headers[w.proved]
			h.Record.FC = w.certificate(x, w.voters[x.Hash()])
		}
		if len(receipts) > 0 {
			w.receipts[num] = receipts
			h.Header.ReceiptHash = types.DeriveSha(types.Receipts(receipts), trie.NewStackTrie(nil))
			receipts = nil
		}
		h.Header.Extra = h.Record.Hash().Bytes()
		_, err = w.machine.Check(dpos.HeaderOf(h))
		require.NoError(w.t, err)
		require.NoError(w.t, w.machine.Step(dpos.HeaderEvent{Header: dpos.HeaderOf(h)}))
		w.voters[h.Hash()], err = w.machine.VoteSchedules(h.Hash())
		require.NoError(w.t, err)
		w.headers = append(w.headers, h)
	}
}

func (w *world) collect(height uint64) []Run {
	w.t.Helper()
	runs, err := Collect(context.Background(), w.trust, w, height, w.head())
	require.NoError(w.t, err)
	return runs
}

func follow(t *Trust, runs []Run) (*Chain, error) {
	c := NewChain(t)
	for i := range runs {
		if err := c.Extend(&runs[i]); err != nil {
			return c, err
		}
	}
	return c, nil
}

func TestChainFollowsChangesOfSchedule(t *testing.T) {
	w := newWorld(t)
	w.grow(2 * epochBlocks)
	w.next = seats(2, 4, 5, 6, 7)
	w.grow(5 * epochBlocks)
	w.next = seats(0, 1, 2)
	w.grow(5 * epochBlocks)
	joint := 0
	for _, v := range w.voters {
		if len(v) == 2 {
			joint++
		}
	}
	require.Equal(t, 2*epochBlocks, joint, "the chain must have gone through two epochs under both schedules")
	for h := uint64(1); h < w.head()-2; h++ {
		runs := w.collect(h)
		_, err := follow(w.trust, runs)
		require.NoError(t, err, "block %d", h)
		n := 0
		for i := range runs {
			n += len(runs[i].Headers)
		}
		require.LessOrEqual(t, n, 2*int(h)/epochBlocks+6, "block %d: headers that nobody needs", h)
	}
}

func TestChainFollowsAChangeThatWaits(t *testing.T) {
	w := newWorld(t)
	w.next = seats(4, 5, 6, 7)
	w.silent = func(h uint64) bool { return h >= epochBlocks && h <= 2*epochBlocks+1 } // nothing proves block 8 final by block 16
	w.grow(6 * epochBlocks)
	require.Len(t, w.voters[w.headers[2*epochBlocks+1].Hash()], 1, "the change must wait for an epoch")
	require.Len(t, w.voters[w.headers[3*epochBlocks+1].Hash()], 2)
	runs := w.collect(w.head() - 3)
	_, err := follow(w.trust, runs)
	require.NoError(t, err)

	// Without the headers that show the wait, the proof claims the change too early or cannot tell.
	for i := range runs {
		if len(runs[i].Headers) >= epochBlocks {
			cut := append([]Run(nil), runs...)
			cut[i] = Run{Headers: runs[i].Headers[len(runs[i].Headers)-2:], Certificate: runs[i].Certificate}
			_, err = follow(w.trust, cut)
			require.ErrorIs(t, err, ErrFinality)
			return
		}
	}
	t.Fatal("no run shows the wait")
}

func TestChainRefuses(t *testing.T) {
	w := newWorld(t)
	w.next = seats(4, 5, 6, 7)
	w.grow(6 * epochBlocks)
	height := w.head() - 4
	manipulations := map[string]func([]Run) []Run{
		"epoch left out":    func(r []Run) []Run { return append(r[:1:1], r[2:]...) },
		"runs exchanged":    func(r []Run) []Run { r[0], r[1] = r[1], r[0]; return r },
		"no certificate":    func(r []Run) []Run { r[1].Certificate = nil; return r },
		"other certificate": func(r []Run) []Run { r[1].Certificate = r[0].Certificate; return r },
		"no runs' headers":  func(r []Run) []Run { r[1].Headers = nil; return r },
		"forged header":     func(r []Run) []Run { last(r, 0).Header.Time++; return r },
		"forged record":     func(r []Run) []Run { last(r, 0).Record.Next = seats(0, 1); return r },
		"prevotes":          func(r []Run) []Run { c := *r[0].Certificate; c.Kind = block.Prevote; r[0].Certificate = &c; return r },
		"a vote too many": func(r []Run) []Run {
			c := *r[0].Certificate
			c.Bitmaps = [][]byte{{0x1f}}
			r[0].Certificate = &c
			return r
		},
		"two votes of four": func(r []Run) []Run { r[0].Certificate = w.signed(last(r, 0), seats(0, 1, 2, 3), 0, 1); return r },
		"old schedule alone": func(r []Run) []Run {
			n := len(r) - 1
			r[n].Certificate = w.signed(last(r, n), seats(0, 1, 2, 3), 0, 1, 2, 3)
			return r
		},
		"signature of others": func(r []Run) []Run {
			r[0].Certificate = w.signedBy(last(r, 0), seats(0, 1, 2, 3), 4, 5, 6, 7)
			return r
		},
	}
	for name, f := range manipulations {
		runs := w.collect(height)
		for i := range runs {
			runs[i].Headers = clone(t, runs[i].Headers)
		}
		_, err := follow(w.trust, f(runs))
		require.ErrorIs(t, err, ErrFinality, name)
	}
}

func TestChainRefusesHalfAJointQuorum(t *testing.T) {
	w := newWorld(t)
	w.next = seats(4, 5, 6, 7)
	w.grow(3*epochBlocks - 2)
	for x := uint64(2*epochBlocks + 1); x < w.head()-2; x++ {
		require.Len(t, w.voters[w.headers[x].Hash()], 2)
		for _, only := range [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}} {
			runs := w.collect(x)
			n := len(runs) - 1
			runs[n].Certificate = w.signed(last(runs, n), w.voters[last(runs, n).Hash()][0], only...)
			runs[n].Certificate.Bitmaps = append(runs[n].Certificate.Bitmaps, []byte{0})
			_, err := follow(w.trust, runs)
			require.ErrorIs(t, err, ErrFinality)
		}
	}
}

func last(r []Run, i int) *block.SealedHeader { return r[i].Headers[len(r[i].Headers)-1] }

func clone(t *testing.T, hs []*block.SealedHeader) (out []*block.SealedHeader) {
	for _, h := range hs {
		x, err := block.DecodeSealedHeader(h.Encode())
		require.NoError(t, err)
		out = append(out, x)
	}
	return out
}

// signed is a certificate of some seats only.
func (w *world) signed(h *block.SealedHeader, s block.Schedule, who ...int) *block.Certificate {
	in := seats(who...)
	c := block.NewCertificate(block.Link{Kind: block.Precommit, Source: h.Point(), Target: h.Point()}, []block.Schedule{s},
		func(a common.Address) bool { return in.Index(a) >= 0 })
	return w.sign(c, who...)
}

// signedBy claims that all of s signed, where others did.
func (w *world) signedBy(h *block.SealedHeader, s block.Schedule, who ...int) *block.Certificate {
	c := block.NewCertificate(block.Link{Kind: block.Precommit, Source: h.Point(), Target: h.Point()}, []block.Schedule{s},
		func(common.Address) bool { return true })
	return w.sign(c, who...)
}

func (w *world) sign(c *block.Certificate, who ...int) *block.Certificate {
	d := block.Domain{Genesis: w.trust.Genesis}.VoteDigest(c.Link)
	var sigs [][96]byte
	for _, i := range who {
		sigs = append(sigs, keys()[i].Sign(d[:]))
	}
	var err error
	c.Aggregate, err = bls.Aggregate(sigs)
	require.NoError(w.t, err)
	return c
}

func TestCheckpointCutsTheChain(t *testing.T) {
	w := newWorld(t)
	w.grow(epochBlocks)
	w.next = seats(4, 5, 6, 7)
	w.grow(9 * epochBlocks)
	from := *w.trust
	from.Checkpoint = &Checkpoint{5 * epochBlocks, w.headers[5*epochBlocks].Hash()}
	for _, h := range []uint64{5*epochBlocks - 3, 5 * epochBlocks, 5*epochBlocks + 2, 8*epochBlocks + 1} {
		runs, err := Collect(context.Background(), &from, w, h, w.head())
		require.NoError(t, err, "block %d", h)
		require.GreaterOrEqual(t, runs[0].Headers[0].Number(), min(h, 5*epochBlocks))
		c, err := follow(&from, runs)
		require.NoError(t, err)
		require.True(t, c.Confirmed(), "block %d", h)
		if h > 5*epochBlocks {
			_, err = follow(w.trust, runs)
			require.ErrorIs(t, err, ErrFinality, "without the checkpoint the runs prove nothing")
		}
	}
	from.Checkpoint.Hash[0]++
	_, err := follow(&from, w.collect(8*epochBlocks))
	require.ErrorIs(t, err, ErrForked, "a chain that misses the checkpoint")

	// A schedule that is only announced must not count: the trusted block names one, the chain goes on under the old.
	from.Checkpoint = &Checkpoint{2 * epochBlocks, w.headers[2*epochBlocks].Hash()}
	require.True(t, w.headers[2*epochBlocks].Record.Next.Equal(seats(4, 5, 6, 7)))
	x := w.headers[2*epochBlocks+1]
	c := NewChain(&from)
	require.NoError(t, c.Extend(&Run{Headers: w.headers[2*epochBlocks : 2*epochBlocks+2], Certificate: w.signed(x, seats(4, 5, 6, 7), 4, 5, 6, 7)}))
	require.False(t, c.Confirmed())
}

func TestSignerRefusesHighS(t *testing.T) {
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	d := crypto.Keccak256Hash([]byte("x"))
	sig, err := crypto.Sign(d[:], key)
	require.NoError(t, err)
	who, err := Signer(d, sig)
	require.NoError(t, err)
	require.Equal(t, crypto.PubkeyToAddress(key.PublicKey), who)
	s := new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(sig[32:64]))
	s.FillBytes(sig[32:64])
	sig[64] ^= 1
	_, err = Signer(d, sig)
	require.ErrorIs(t, err, ErrDecode)
}

func TestNoEpochIsLeftOut(t *testing.T) {
	w := newWorld(t)
	w.grow(5 * epochBlocks)
	runs := w.collect(4*epochBlocks + 2)
	for i := range len(runs) - 1 {
		_, err := follow(w.trust, append(append([]Run(nil), runs[:i]...), runs[i+1:]...))
		require.ErrorIs(t, err, ErrFinality, "the schedule might have changed in epoch %d", i)
	}
}

// Who hides that a change of schedule went on would need only the old schedule's votes.
func TestAHiddenCertificateDoesNotKeepTheOldSchedule(t *testing.T) {
	w := newWorld(t)
	w.next = seats(4, 5, 6, 7)
	w.silent = func(h uint64) bool { return h == 2*epochBlocks }
	w.grow(4 * epochBlocks)
	require.Len(t, w.voters[w.headers[2*epochBlocks+1].Hash()], 2)
	c, err := follow(w.trust, w.collect(epochBlocks))
	require.NoError(t, err)
	end := w.headers[2*epochBlocks : 2*epochBlocks+2]
	require.ErrorIs(t, c.Extend(&Run{Headers: end, Certificate: w.signed(end[1], seats(0, 1, 2, 3), 0, 1, 2, 3)}), ErrFinality)
	require.ErrorContains(t, c.Extend(&Run{Headers: end, Certificate: w.certificate(end[1], w.voters[end[1].Hash()])}), "is not shown")
	_, err = follow(w.trust, w.collect(2*epochBlocks+1))
	require.NoError(t, err)
}
