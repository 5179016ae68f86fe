package txpool

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"
)

// benchPool is a pool of n executable transactions of so many accounts; the senders cost nothing to recover.
func benchPool(b *testing.B, n, accounts int, slots uint64) (*Pool, *modelChain, []common.Address) {
	state, addrs := make(map[common.Address]accountState), make([]common.Address, accounts)
	for i := range addrs {
		binary.BigEndian.PutUint64(addrs[i][:], uint64(i)*0x9e3779b97f4a7c15)
		state[addrs[i]] = accountState{balance: *uint256.NewInt(1 << 60)}
	}
	c := newModelChain(state)
	cfg := DefaultConfig()
	cfg.GlobalSlots, cfg.AccountSlots = slots, min(1024, slots)
	p, err := New(cfg, c, Deps{Senders: modelSenders{}})
	require.NoError(b, err)
	b.Cleanup(func() { p.Close() })
	for at := 0; at < n; at += maxBatch {
		for _, err := range p.Add(benchTransactions(at, min(at+maxBatch, n), addrs), false) {
			require.NoError(b, err)
		}
	}
	return p, c, addrs
}

func benchTransactions(from, to int, addrs []common.Address) []*types.Transaction {
	var txs []*types.Transaction
	for i := from; i < to; i++ {
		txs = append(txs, modelOffer{from: addrs[i%len(addrs)], nonce: uint64(i / len(addrs)), gas: 21_000, seen: time.Unix(0, int64(i))}.transaction()) //nolint:gosec // small
	}
	return txs
}

// BenchmarkEmptyHead100k is a head without transactions while 100,000 are executable.
func BenchmarkEmptyHead100k(b *testing.B) {
	p, c, _ := benchPool(b, 100_000, 1000, 1<<17)
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		c.put(c.child(c.current(), rng))
		benchSync(p)
	}
}

// BenchmarkHead5000 is a head with 5,000 transactions of the pool, of 1,000 accounts, while 100,000 are executable.
func BenchmarkHead5000(b *testing.B) {
	p, c, addrs := benchPool(b, 100_000, 1000, 1<<17)
	rng := rand.New(rand.NewPCG(1, 1))
	at, end := 0, 100_000
	for b.Loop() {
		b.StopTimer()
		x := c.child(c.current(), rng)
		for range 5 {
			for _, a := range addrs {
				s := x.state[a]
				s.nonce++
				x.set(a, s)
			}
		}
		c.put(x)
		at += 5000
		b.StartTimer()
		benchSync(p)
		b.StopTimer()
		p.Add(benchTransactions(end, end+5000, addrs), false)
		end += 5000
		b.StartTimer()
	}
}

func benchSync(p *Pool) {
	p.HeadChanged()
	for len(p.moved) > 0 {
		benchAsk(p)
	}
	benchAsk(p)
}

func benchAsk(p *Pool) {
	r := &request{done: make(chan struct{})}
	p.requests <- r
	<-r.done
}

// BenchmarkAdmit is one transaction in a batch of 100, without signature and decoding.
func BenchmarkAdmit(b *testing.B) {
	p, _, addrs := benchPool(b, 0, 1000, 1<<24)
	next := 0
	for b.Loop() {
		b.StopTimer()
		txs := benchTransactions(next, next+100, addrs)
		next += 100
		b.StartTimer()
		p.Add(txs, false)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(next), "ns/tx")
}

// BenchmarkSource is the first 5,000 transactions of a block out of 100,000.
func BenchmarkSource(b *testing.B) {
	for name, accounts := range map[string]int{"1k-accounts": 1000, "100k-accounts": 100_000} {
		b.Run(name, func(b *testing.B) {
			p, _, _ := benchPool(b, 100_000, accounts, 1<<17)
			for b.Loop() {
				src := p.Source(nil)
				for range 5000 {
					src.Next()
					src.Shift()
				}
			}
		})
	}
}

// BenchmarkRefusalWhenFull is one transaction that finds no room.
func BenchmarkRefusalWhenFull(b *testing.B) {
	p, _, addrs := benchPool(b, 1000, 1, 1000)
	tx := modelOffer{from: addrs[0], nonce: 5000, gas: 21_000}.transaction()
	raw, err := tx.MarshalBinary()
	require.NoError(b, err)
	for b.Loop() {
		tx := new(types.Transaction)
		_ = tx.UnmarshalBinary(raw)
		require.Error(b, p.Add([]*types.Transaction{tx}, true)[0])
	}
}
