package txpool

import (
	"crypto/ecdsa"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/holiman/uint256"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	senderscache "github.com/bornode/bornode/internal/senders"
)

// modelChain is a chain of which everything is in maps: no signature, no trie. Its blocks are made by a trial.
type modelChain struct {
	config *params.ChainConfig
	fees   atomic.Pointer[block.Parameters]

	mu      sync.Mutex
	head    *modelBlock
	blocks  map[common.Hash]*modelBlock
	forgets bool        // ChangedAccounts knows nothing
	broken  atomic.Bool // no account can be read
}

type modelBlock struct {
	header  *types.Header
	parent  *modelBlock
	txs     types.Transactions
	state   map[common.Address]accountState
	noSend  map[common.Address]bool
	noMake  map[common.Address]bool
	listed  uint64 // version of the lists
	changed []common.Address
}

var modelConfig = params.MergedTestChainConfig

func newModelChain(state map[common.Address]accountState) *modelChain {
	h := &types.Header{Number: new(big.Int), Difficulty: new(big.Int), GasLimit: 1_000_000, BaseFee: new(big.Int), Time: 1}
	c := &modelChain{config: modelConfig, blocks: make(map[common.Hash]*modelBlock)}
	c.fees.Store(&block.Parameters{BaseFeeFixed: true})
	c.head = &modelBlock{header: h, state: state}
	c.blocks[h.Hash()] = c.head
	return c
}

// child begins a block on another; put ends it.
func (c *modelChain) child(parent *modelBlock, rng *rand.Rand) *modelBlock {
	h := types.CopyHeader(parent.header)
	h.ParentHash, h.Number = parent.header.Hash(), new(big.Int).Add(parent.header.Number, common.Big1)
	binary.BigEndian.PutUint64(h.Root[:], rng.Uint64())
	return &modelBlock{header: h, parent: parent, state: maps.Clone(parent.state), noSend: parent.noSend, noMake: parent.noMake, listed: parent.listed}
}

func (b *modelBlock) set(a common.Address, s accountState) {
	b.state[a], b.changed = s, append(b.changed, a)
}

func (c *modelChain) put(b *modelBlock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks[b.header.Hash()], c.head = b, b
}

func (c *modelChain) current() *modelBlock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head
}

func (c *modelChain) Config() *params.ChainConfig  { return c.config }
func (c *modelChain) Params() block.Parameters     { return *c.fees.Load() }
func (c *modelChain) CurrentHeader() *types.Header { return c.current().header }

func (c *modelChain) StateAt(h *types.Header) (*state.StateDB, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return state.NewWithReader(h.Root, modelDatabase(), modelReader{c: c, b: c.blocks[h.Hash()]})
}

func (c *modelChain) ChangedAccounts(from, to *types.Header) (changed []common.Address, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgets {
		return nil, false
	}
	a, b := c.blocks[from.Hash()], c.blocks[to.Hash()]
	for a != b {
		higher := &b
		if a.header.Number.Cmp(b.header.Number) > 0 {
			higher = &a
		}
		changed, *higher = append(changed, (*higher).changed...), (*higher).parent
	}
	return changed, true
}

// allowed judges by the lists of the chain's head.
func (c *modelChain) allowed(from common.Address, create bool) error {
	b := c.current()
	if b.noSend[from] || create && b.noMake[from] {
		return fmt.Errorf("%s is not in the list", from)
	}
	return nil
}

// modelDatabase is asked for nothing: a state wants to have one.
var modelDatabase = sync.OnceValue(func() state.Database {
	return state.NewDatabase(triedb.NewDatabase(rawdb.NewMemoryDatabase(), nil), nil)
})

type modelReader struct {
	state.ContractCodeReader
	c *modelChain
	b *modelBlock
}

func (r modelReader) Account(a common.Address) (*types.StateAccount, error) {
	if a == contracts.MembersAddress {
		x := types.NewEmptyStateAccount()
		x.Nonce = 1
		binary.BigEndian.PutUint64(x.Root[:], r.b.listed)
		return x, nil
	}
	if r.c.broken.Load() {
		return nil, errors.New("the disk is broken")
	}
	s, ok := r.b.state[a]
	if !ok {
		return nil, nil
	}
	x := types.NewEmptyStateAccount()
	x.Nonce, x.Balance = s.nonce, new(uint256.Int).Set(&s.balance)
	if s.delegated {
		x.CodeHash = []byte("the hash of a delegation, abcdef")
	}
	return x, nil
}

func (modelReader) Storage(common.Address, common.Hash) (common.Hash, error) {
	return common.Hash{}, nil
}

// modelSenders finds the sender in the transaction's data: signatures would take all the time of a trial.
type modelSenders struct{}

var modelSigner = types.LatestSigner(modelConfig)

func (modelSenders) Sender(tx *types.Transaction) (common.Address, bool, error) {
	from := common.BytesToAddress(tx.Data()[:common.AddressLength])
	senderscache.Attach(modelSigner, tx, from)
	return from, false, nil
}

// modelAccounts have keys, which only authorisations need; the authorisations are signed once.
var modelAccounts = sync.OnceValue(func() (out []modelAccount) {
	for i := range 6 {
		key, err := crypto.ToECDSA(crypto.Keccak256([]byte{byte(i), 99}))
		if err != nil {
			panic(err)
		}
		auth, err := types.SignSetCode(key, types.SetCodeAuthorization{ChainID: *uint256.MustFromBig(modelConfig.ChainID), Address: common.Address{5}})
		if err != nil {
			panic(err)
		}
		out = append(out, modelAccount{key, crypto.PubkeyToAddress(key.PublicKey), auth})
	}
	return out
})

type modelAccount struct {
	key  *ecdsa.PrivateKey
	addr common.Address
	auth types.SetCodeAuthorization
}

// modelOffer is what a trial varies of a transaction.
type modelOffer struct {
	from      common.Address
	nonce     uint64
	fee, tip  uint64
	gas       uint64
	value     uint64
	salt      uint64
	size      int
	create    bool
	authority *modelAccount
	seen      time.Time
}

func (o modelOffer) transaction() *types.Transaction {
	data := make([]byte, common.AddressLength+8+o.size)
	copy(data, o.from[:])
	binary.BigEndian.PutUint64(data[common.AddressLength:], o.salt)
	gas := o.gas + 40*uint64(len(data))
	to := &common.Address{1}
	var tx *types.Transaction
	if o.authority != nil {
		tx = types.NewTx(&types.SetCodeTx{ChainID: uint256.MustFromBig(modelConfig.ChainID), Nonce: o.nonce, GasTipCap: uint256.NewInt(o.tip), GasFeeCap: uint256.NewInt(o.fee),
			Gas: gas + 50_000, To: *to, Value: uint256.NewInt(o.value), Data: data, AuthList: []types.SetCodeAuthorization{o.authority.auth}})
	} else {
		if o.create {
			to, gas = nil, gas+200_000
		}
		tx = types.NewTx(&types.DynamicFeeTx{ChainID: modelConfig.ChainID, Nonce: o.nonce, GasTipCap: new(big.Int).SetUint64(o.tip), GasFeeCap: new(big.Int).SetUint64(o.fee),
			Gas: gas, To: to, Value: new(big.Int).SetUint64(o.value), Data: data})
	}
	tx.SetTime(o.seen)
	return tx
}

// modelClock is the pool's time.
type modelClock struct{ at atomic.Int64 }

func (c *modelClock) now() time.Time { return time.Unix(0, c.at.Load()) }

func (c *modelClock) advance(d time.Duration) { c.at.Add(int64(d)) }
