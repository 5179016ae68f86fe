package bench

import (
	"context"
	"crypto/ecdsa"
	"math/big"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/genesis"
)

// History kinds.
const (
	Transfers = "transfers"
	Payloads  = "payloads-16KiB"
	Empty     = "empty"
)

// trailing empty blocks let the records inside the history prove its last interesting block final.
const trailing = 4

// history is a chain to import: its genesis and its encoded blocks from height 1.
type history struct {
	kind         string
	gen          *genesis.Genesis
	blocks       [][]byte
	transactions int
	bytes        int
}

// plan says how large a history is.
type plan struct {
	kind     string
	blocks   int
	txs      int // per block
	payload  int // bytes of call data
	accounts int
}

func plans(scale float64) []plan {
	n := func(x int) int { return max(int(float64(x)*scale), 4) }
	return []plan{
		{Transfers, n(400), 500, 0, 500},
		{Payloads, n(200), 40, 16 << 10, 40},
		{Empty, n(5000), 0, 0, 1},
	}
}

func makeHistory(ctx context.Context, p plan) (*history, error) {
	dir, err := os.MkdirTemp("", "bornode-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	keys := make([]*ecdsa.PrivateKey, p.accounts)
	for i := range keys {
		if keys[i], err = crypto.GenerateKey(); err != nil {
			return nil, err
		}
	}
	f, err := newForge(ctx, dir, keys, p.blocks)
	if err != nil {
		return nil, err
	}
	defer f.close()
	h := &history{kind: p.kind, gen: f.gen}
	noise := rand.NewChaCha8([32]byte{1})
	for i := range p.blocks + trailing {
		var txs []*types.Transaction
		if i < p.blocks {
			txs = signBlock(p, keys, uint64(i), noise) //nolint:gosec // not negative
		}
		b, err := f.next(ctx, txs)
		if err != nil {
			return nil, err
		}
		raw := b.Encode()
		h.blocks = append(h.blocks, raw)
		h.transactions += len(txs)
		h.bytes += len(raw)
	}
	return h, nil
}

// signBlock makes a block's transactions: one of every account, so that the nonce is the block's index.
func signBlock(p plan, keys []*ecdsa.PrivateKey, nonce uint64, noise *rand.ChaCha8) []*types.Transaction {
	signer := types.LatestSignerForChainID(big.NewInt(forgeChainID))
	txs := make([]*types.Transaction, p.txs)
	data := make([][]byte, p.txs)
	for i := range data {
		if p.payload > 0 {
			data[i] = make([]byte, p.payload)
			_, _ = noise.Read(data[i])
		}
	}
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < p.txs; i += workers {
				to := common.BigToAddress(big.NewInt(int64(0x2000_0000 + i)))
				txs[i], _ = types.SignNewTx(keys[i], signer, &types.LegacyTx{ // a valid key signs
					Nonce: nonce, GasPrice: new(big.Int), Gas: 21_000 + 40*uint64(p.payload), To: &to, Value: big.NewInt(1), Data: data[i], //nolint:gosec // not negative
				})
			}
		})
	}
	wg.Wait()
	return txs
}
