package chain

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/stretchr/testify/require"
)

// benchChain is a chain made once per benchmark, as encoded blocks.
type benchChain struct {
	gen    *testGenesis
	blocks [][]byte
	txs    int
	bytes  int
}

func makeBenchChain(b *testing.B, blocks, perBlock, accounts, payload int) *benchChain {
	b.Helper()
	gen := newTestGenesis(b, func(g *testGenesis) {
		g.params.MaxBlockBytes = 16 << 20
		for i := range accounts {
			g.alloc[testAccount(i)] = types.Account{Balance: big.NewInt(params.Ether)}
		}
	})
	n := newTestNode(b, gen)
	signer := types.LatestSigner(gen.config)
	out := &benchChain{gen: gen}
	data := make([]byte, payload)
	_, _ = rand.Read(data)
	gas := uint64(21_000 + 40*payload)
	keys := make([]any, accounts)
	nonces := make([]uint64, accounts)
	next := 0
	for range blocks {
		txs := make(types.Transactions, perBlock)
		for i := range txs {
			a := next % max(accounts, 1)
			if keys[a] == nil {
				keys[a] = testKey(a)
			}
			to := common.BytesToAddress(crypto.Keccak256(fmt.Appendf(nil, "to %d", next%20_000)))
			if payload > 0 {
				data[next%payload]++
			}
			txs[i] = types.MustSignNewTx(testKey(a), signer, &types.DynamicFeeTx{
				ChainID: gen.config.ChainID, Nonce: nonces[a], To: &to, Value: big.NewInt(1), Gas: gas, Data: append([]byte(nil), data...),
				GasFeeCap: big.NewInt(1), GasTipCap: new(big.Int),
			})
			nonces[a]++
			next++
		}
		x := n.build(0, txs...)
		enc := x.Encode()
		out.blocks, out.txs, out.bytes = append(out.blocks, enc), out.txs+len(txs), out.bytes+len(enc)
	}
	return out
}

// importAll decodes and checks ahead of execution, as a driver does, and imports in runs.
func (x *benchChain) importAll(b *testing.B, trust bool, run int) (cpu time.Duration) {
	b.StopTimer()
	n := newTestNode(b, x.gen)
	runtime.GC()
	b.StartTimer()
	cpu = -cpuTime(b)
	runs := make(chan []*block.Block, 4)
	go func() {
		defer close(runs)
		var r []*block.Block
		for i, enc := range x.blocks {
			y, err := block.DecodeBlock(enc, 0)
			if err == nil {
				err = n.CheckBody(y, trust)
			}
			if err != nil {
				b.Error(err)
				return
			}
			if r = append(r, y); len(r) == run || i == len(x.blocks)-1 {
				runs <- r
				r = nil
			}
		}
	}()
	for r := range runs {
		require.NoError(b, n.ImportFinal(context.Background(), r, finalOf(r)))
	}
	n.receipts.drain()
	b.StopTimer()
	cpu += cpuTime(b)
	require.NoError(b, n.Close())
	b.StartTimer()
	return cpu
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchImport(b *testing.B, blocks, perBlock, accounts, payload, run int) {
	x := makeBenchChain(b, blocks, perBlock, accounts, payload)
	for _, mode := range []string{"full", "certified"} {
		b.Run(mode, func(b *testing.B) {
			var cpu time.Duration
			for b.Loop() {
				cpu += x.importAll(b, mode == "certified", run)
			}
			if x.txs > 0 {
				b.ReportMetric(float64(cpu.Microseconds())/float64(b.N*x.txs), "cpu-us/tx")
			}
			s := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(len(x.blocks))/s, "blocks/s")
			b.ReportMetric(float64(x.txs)/s, "tx/s")
			b.ReportMetric(float64(x.bytes)/s/1e6, "MB/s")
		})
	}
}

func BenchmarkImportTransfers(b *testing.B)  { benchImport(b, 40, 1000, 2000, 0, 10) }
func BenchmarkImportPayload16K(b *testing.B) { benchImport(b, 60, 64, 64, 16<<10, 10) }
func BenchmarkImportEmpty(b *testing.B)      { benchImport(b, 2000, 0, 0, 0, 100) }
