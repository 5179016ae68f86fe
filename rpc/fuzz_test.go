package rpc

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/chain"
)

// lonely is a chain of one block; what the fuzz targets need of it.
type lonely struct {
	Chain
	config *params.ChainConfig
	head   *types.Header
}

func (c lonely) Config() *params.ChainConfig                     { return c.config }
func (c lonely) Context() chain.EVMChain                         { return lonelyContext{config: c.config} }
func (c lonely) HeaderByHash(common.Hash) (*types.Header, error) { return c.head, nil }

type lonelyContext struct {
	core.ChainContext
	config *params.ChainConfig
}

func (c lonelyContext) Err() error { return nil }

func (c lonelyContext) Config() *params.ChainConfig { return c.config }

// Whatever a client sends as a simulation is refused, or makes messages, transactions and contexts without a panic.
func FuzzSimulation(f *testing.F) {
	f.Add([]byte(`{"blockStateCalls":[{"blockOverrides":{"number":"0x2","time":"0x9","baseFeePerGas":"0x1","blobBaseFee":"0x1","prevRandao":"0x0000000000000000000000000000000000000000000000000000000000000001"},` +
		`"stateOverrides":{"0x0000000000000000000000000000000000000004":{"movePrecompileToAddress":"0x0000000000000000000000000000000000000099","balance":"0x5"}},` +
		`"calls":[{"from":"0x0000000000000000000000000000000000000001","to":null,"gasPrice":"0x1","value":"0x1","input":"0x00"},{"maxFeePerGas":"0x1","maxPriorityFeePerGas":"0x2","gas":"0x1","nonce":"0xffffffffffffffff"},` +
		`{"to":"0x0000000000000000000000000000000000000001","authorizationList":[{"chainId":"0x1","address":"0x0000000000000000000000000000000000000002","nonce":"0x0","yParity":"0x0","r":"0x1","s":"0x1"}]}]}],"validation":true}`))
	f.Add([]byte(`{"blockStateCalls":[{"calls":[{"gasPrice":"0x1","accessList":[]}]}]}`))
	g := newGenesis(f, 100)
	s := &service{cfg: DefaultConfig(), back: Backend{Chain: lonely{config: g.config, head: g.block.Header}}}
	db, err := state.New(types.EmptyRootHash, state.NewDatabase(triedb.NewDatabase(rawdb.NewMemoryDatabase(), nil), nil))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var o simulateOptions
		if json.Unmarshal(raw, &o) != nil || o.check() != nil {
			return
		}
		for i := range o.BlockStateCalls {
			b := &o.BlockStateCalls[i]
			if b.BlockOverrides.checkSimulated() != nil {
				continue
			}
			bc := s.blockContext(g.block.Header, b.BlockOverrides)
			require.NotNil(t, bc.BaseFee)
			precompiles := vm.ActivePrecompiledContracts(g.config.Rules(new(big.Int), true, 0))
			if b.StateOverrides != nil {
				_ = b.StateOverrides.apply(db.Copy(), precompiles)
			}
			for j := range b.Calls {
				c := &b.Calls[j]
				if c.check(g.config.ChainID) != nil {
					continue
				}
				if c.Nonce == nil {
					c.Nonce = new(hexutil.Uint64)
				}
				if c.Gas == nil {
					c.Gas = new(hexutil.Uint64)
				}
				require.Equal(t, c.input(), c.message(bc.BaseFee, 5).Data)
				_, err := c.transaction(g.config.ChainID).MarshalBinary()
				require.NoError(t, err)
			}
		}
	})
}

// Whatever a client sends as a block to trace is refused, or can be given to the EVM.
func FuzzTracedBlock(f *testing.F) {
	g := newGenesis(f, 100)
	h := types.CopyHeader(g.block.Header)
	h.Number = big.NewInt(1)
	raw, err := rlp.EncodeToBytes(types.NewBlockWithHeader(h).WithBody(types.Body{Withdrawals: types.Withdrawals{}}))
	require.NoError(f, err)
	f.Add(raw)
	s := &service{cfg: DefaultConfig(), signer: types.LatestSigner(g.config), back: Backend{Chain: lonely{config: g.config, head: g.block.Header}}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := (&debugAPI{s}).decodeBlock(raw)
		if err != nil {
			return
		}
		bc := s.blockContext(b.Header(), nil)
		require.Equal(t, 0, bc.BaseFee.Cmp(b.BaseFee()))
		for _, tx := range b.Transactions() {
			_, _ = core.TransactionToMessage(tx, s.signer, b.BaseFee())
		}
	})
}
