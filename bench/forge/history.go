package forge

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"math/rand/v2"
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

// Trailing empty blocks let the records inside the history prove its last interesting block final.
const Trailing = 4

// signedAhead is how many blocks' transactions wait for their block.
const signedAhead = 2

// Plan says how large a history is.
type Plan struct {
	Kind    string
	Blocks  int   // so many, and Trailing more
	Bytes   int64 // instead of Blocks: until the encoded blocks take so many bytes
	Txs     int   // per block, each from an account of its own
	Payload int   // bytes of call data
	Members []genesis.Member
	Segment int64 // size of a segment file in bytes; 0: the store's default
}

// PlanOf is the usual shape of a kind: transfers in blocks of 500, payloads of 16 KiB in blocks of 40 (640 KiB).
func PlanOf(kind string) (Plan, error) {
	switch kind {
	case Transfers:
		return Plan{Kind: kind, Txs: 500}, nil
	case Payloads:
		return Plan{Kind: kind, Txs: 40, Payload: 16 << 10}, nil
	case Empty:
		return Plan{Kind: kind}, nil
	}
	return Plan{}, fmt.Errorf("history of %q; there are %s, %s and %s", kind, Transfers, Payloads, Empty)
}

// most is the most blocks that the plan can take.
func (p *Plan) most() int {
	if p.Bytes == 0 {
		return p.Blocks + Trailing
	}
	const smallest = 100 // bytes of a transaction, and of an empty block
	return int(p.Bytes/int64(smallest+p.Txs*(smallest+p.Payload))) + 1 + Trailing
}

// Totals says what a history holds.
type Totals struct {
	Blocks       int   `json:"blocks"`
	Transactions int   `json:"transactions"`
	Bytes        int64 `json:"bytes"` // of the encoded blocks
}

// Make makes a history in a folder and gives each encoded block from height 1 to fn. The chain is open while fn runs
// and closed when Make returns.
func Make(ctx context.Context, dir string, p Plan, fn func(raw []byte) error) (gen *genesis.Genesis, t Totals, err error) {
	keys := make([]*ecdsa.PrivateKey, p.Txs)
	for i := range keys {
		if keys[i], err = crypto.GenerateKey(); err != nil {
			return nil, t, err
		}
	}
	f, err := New(ctx, dir, Options{Accounts: keys, Blocks: p.most(), Members: p.Members, Segment: p.Segment})
	if err != nil {
		return nil, t, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	ctx, stop := context.WithCancel(ctx)
	signed := signAhead(ctx, p, keys)
	defer func() {
		stop()
		for range signed { // until the signer has ended
		}
	}()
	next := func(txs []*types.Transaction) error {
		b, err := f.Next(ctx, txs)
		if err != nil {
			return err
		}
		raw := b.Encode()
		t.Blocks, t.Transactions, t.Bytes = t.Blocks+1, t.Transactions+len(txs), t.Bytes+int64(len(raw))
		return fn(raw)
	}
	for p.Bytes == 0 && t.Blocks < p.Blocks || t.Bytes < p.Bytes {
		txs, ok := <-signed
		if !ok {
			return nil, t, ctx.Err()
		}
		if err := next(txs); err != nil {
			return nil, t, err
		}
	}
	for range Trailing {
		if err := next(nil); err != nil {
			return nil, t, err
		}
	}
	return f.gen, t, nil
}

// signAhead signs the blocks' transactions until ctx ends.
func signAhead(ctx context.Context, p Plan, keys []*ecdsa.PrivateKey) <-chan []*types.Transaction {
	ch := make(chan []*types.Transaction, signedAhead)
	go func() {
		defer close(ch)
		noise := rand.NewChaCha8([32]byte{1})
		for nonce := uint64(0); ; nonce++ {
			txs := signBlock(p, keys, nonce, noise)
			select {
			case ch <- txs:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ch
}

// signBlock makes a block's transactions: one of every account, so that the nonce is the block's index.
func signBlock(p Plan, keys []*ecdsa.PrivateKey, nonce uint64, noise *rand.ChaCha8) []*types.Transaction {
	signer := types.LatestSignerForChainID(big.NewInt(ChainID))
	txs := make([]*types.Transaction, p.Txs)
	data := make([][]byte, p.Txs)
	for i := range data {
		if p.Payload > 0 {
			data[i] = make([]byte, p.Payload)
			_, _ = noise.Read(data[i])
		}
	}
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < p.Txs; i += workers {
				to := common.BigToAddress(big.NewInt(int64(0x2000_0000 + i)))
				txs[i], _ = types.SignNewTx(keys[i], signer, &types.LegacyTx{ // a valid key signs
					Nonce: nonce, GasPrice: new(big.Int), Gas: 21_000 + 40*uint64(p.Payload), To: &to, Value: big.NewInt(1), Data: data[i], //nolint:gosec // not negative
				})
			}
		})
	}
	wg.Wait()
	return txs
}
