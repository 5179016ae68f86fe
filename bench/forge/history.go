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
	Tokens    = "erc20"
)

// Trailing empty blocks let the records inside the history prove its last interesting block final.
const Trailing = 4

// signedAhead is how many blocks' transactions wait for their block.
const signedAhead = 2

// Plan says how large a history is.
type Plan struct {
	Kind     string
	Blocks   int   // so many, and Trailing more; of tokens also those that deploy the contract
	Bytes    int64 // instead of Blocks: until the encoded blocks take so many bytes
	Txs      int   // per block, each from an account of its own
	Accounts int   // that take turns to send, and receive; 0: as many as a block has transactions, and as many others receive
	Payload  int   // bytes of call data
	Members  []genesis.Member
	Segment  int64 // size of a segment file in bytes; 0: the store's default
}

// senders is how many accounts send.
func (p *Plan) senders() int { return max(p.Accounts, p.Txs) }

// PlanOf is the usual shape of a kind: transfers in blocks of 500, payloads of 16 KiB in blocks of 40 (640 KiB), transfers
// of an ERC-20 token among 1,000 accounts in blocks of 500.
func PlanOf(kind string) (Plan, error) {
	switch kind {
	case Transfers:
		return Plan{Kind: kind, Txs: 500}, nil
	case Payloads:
		return Plan{Kind: kind, Txs: 40, Payload: 16 << 10}, nil
	case Empty:
		return Plan{Kind: kind}, nil
	case Tokens:
		return Plan{Kind: kind, Txs: 500, Accounts: 1000}, nil
	}
	return Plan{}, fmt.Errorf("history of %q; there are %s, %s, %s and %s", kind, Transfers, Payloads, Empty, Tokens)
}

// most is the most blocks that the plan can take.
func (p *Plan) most() int {
	if p.Bytes == 0 {
		return p.Blocks + p.senders() + Trailing // of a history of tokens at most so many deploy the contract
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
	keys := make([]*ecdsa.PrivateKey, p.senders()+1) // the last one deploys contracts
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
	if p.Kind == Tokens {
		for _, txs := range deployToken(p, keys[p.senders()], addressesOf(keys[:p.senders()])) {
			if err := next(txs); err != nil {
				return nil, t, err
			}
		}
	}
	for first := t.Blocks; p.Bytes == 0 && t.Blocks-first < p.Blocks || t.Bytes < p.Bytes; {
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
		for index := uint64(0); ; index++ {
			txs := signBlock(p, keys, index, noise)
			select {
			case ch <- txs:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ch
}

func addressesOf(keys []*ecdsa.PrivateKey) []common.Address {
	out := make([]common.Address, len(keys))
	for i, k := range keys {
		out[i] = crypto.PubkeyToAddress(k.PublicKey)
	}
	return out
}

// signBlock makes the transactions of the block with this index. Accounts take turns, none is twice in a block.
func signBlock(p Plan, keys []*ecdsa.PrivateKey, index uint64, noise *rand.ChaCha8) []*types.Transaction {
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
				turn := index*uint64(p.Txs) + uint64(i)                                                                                                       //nolint:gosec // not negative
				from, nonce := turn%uint64(p.senders()), turn/uint64(p.senders())                                                                             //nolint:gosec // not negative
				to := p.recipientOf(keys, from, nonce, i)                                                                                                     // another account than the sender
				tx := &types.LegacyTx{Nonce: nonce, GasPrice: new(big.Int), Gas: 21_000 + 40*uint64(p.Payload), To: &to, Value: big.NewInt(1), Data: data[i]} //nolint:gosec // not negative
				if p.Kind == Tokens {
					token := tokenOf(keys[p.senders()])
					tx.To, tx.Gas, tx.Value, tx.Data = &token, tokenGas, new(big.Int), transferCall(to, 1)
				}
				txs[i], _ = types.SignNewTx(keys[from], signer, tx) // a valid key signs
			}
		})
	}
	wg.Wait()
	return txs
}

// recipientOf is who gets what an account sends: among Accounts another one with every transaction.
func (p *Plan) recipientOf(keys []*ecdsa.PrivateKey, from, nonce uint64, place int) common.Address {
	if p.Accounts == 0 {
		return common.BigToAddress(big.NewInt(int64(0x2000_0000 + place)))
	}
	others := uint64(p.senders()) - 1                                 //nolint:gosec // not negative
	to := (from + 1 + (7*from+13*nonce)%others) % uint64(p.senders()) //nolint:gosec // not negative
	return crypto.PubkeyToAddress(keys[to].PublicKey)
}
