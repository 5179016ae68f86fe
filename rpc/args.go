package rpc

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"

	"github.com/bornode/bornode/chain"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"
)

// callArgs is the transaction object of eth_call and its relatives.
type callArgs struct {
	From              *common.Address              `json:"from"`
	To                *common.Address              `json:"to"`
	Gas               *hexutil.Uint64              `json:"gas"`
	GasPrice          *hexutil.Big                 `json:"gasPrice"`
	MaxFeePerGas      *hexutil.Big                 `json:"maxFeePerGas"`
	MaxPriorityFee    *hexutil.Big                 `json:"maxPriorityFeePerGas"`
	Value             *hexutil.Big                 `json:"value"`
	Nonce             *hexutil.Uint64              `json:"nonce"`
	Data              *hexutil.Bytes               `json:"data"`
	Input             *hexutil.Bytes               `json:"input"`
	AccessList        *types.AccessList            `json:"accessList"`
	ChainID           *hexutil.Big                 `json:"chainId"`
	AuthorizationList []types.SetCodeAuthorization `json:"authorizationList"`
	BlobHashes        []common.Hash                `json:"blobVersionedHashes"`
	BlobFeeCap        *hexutil.Big                 `json:"maxFeePerBlobGas"`
	Blobs             []hexutil.Bytes              `json:"blobs"`
}

func (a *callArgs) from() common.Address {
	if a.From == nil {
		return common.Address{}
	}
	return *a.From
}

// input is the call data; input is the name of the specification, data the older one.
func (a *callArgs) input() []byte {
	if a.Input != nil {
		return *a.Input
	}
	if a.Data != nil {
		return *a.Data
	}
	return nil
}

func (a *callArgs) check(chainID *big.Int) error {
	switch {
	case a.Data != nil && a.Input != nil && !bytes.Equal(*a.Data, *a.Input):
		return invalidParams(`both "data" and "input" are set and differ; set "input" alone`)
	case a.GasPrice != nil && (a.MaxFeePerGas != nil || a.MaxPriorityFee != nil):
		return invalidParams("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified")
	case a.ChainID != nil && a.ChainID.ToInt().Cmp(chainID) != 0:
		return invalidParams("chainId is %s, this chain's is %s", a.ChainID.ToInt(), chainID)
	case a.BlobHashes != nil || a.BlobFeeCap != nil || a.Blobs != nil:
		return invalidParams("blob transactions are not accepted on this chain")
	case a.To == nil && a.AuthorizationList != nil:
		return invalidParams("authorizationList needs a \"to\": a set-code transaction cannot create a contract")
	case len(a.input()) > maxCallDataBytes:
		return limitExceeded("input of %d bytes, %d are allowed", len(a.input()), maxCallDataBytes)
	}
	for name, v := range map[string]*hexutil.Big{"gasPrice": a.GasPrice, "maxFeePerGas": a.MaxFeePerGas, "maxPriorityFeePerGas": a.MaxPriorityFee, "value": a.Value} {
		if v != nil && (v.ToInt().Sign() < 0 || v.ToInt().BitLen() > 256) {
			return invalidParams("%s does not fit 256 bits", name)
		}
	}
	return nil
}

// message is the call as the EVM takes it, with the checks of a transaction left out that do not matter to a call.
// Fees may stay 0: then the sender needs no funds for gas.
func (a *callArgs) message(baseFee *big.Int, gas uint64) *core.Message {
	return a.bareMessage(baseFee, gas).SkipNonceCheck().SkipEOACheck().SkipGasLimitCapCheck()
}

func (a *callArgs) bareMessage(baseFee *big.Int, gas uint64) *core.Message {
	m := &core.Message{
		From: a.from(), To: a.To, Value: word(a.Value), GasLimit: gas, Data: a.input(), SetCodeAuthorizations: a.AuthorizationList,
	}
	if a.Nonce != nil {
		m.Nonce = uint64(*a.Nonce)
	}
	if a.AccessList != nil {
		m.AccessList = *a.AccessList
	}
	if a.GasPrice != nil {
		p := word(a.GasPrice)
		m.GasPrice, m.GasFeeCap, m.GasTipCap = p, p, p
	} else {
		m.GasFeeCap, m.GasTipCap, m.GasPrice = word(a.MaxFeePerGas), word(a.MaxPriorityFee), new(uint256.Int)
		if !m.GasFeeCap.IsZero() || !m.GasTipCap.IsZero() {
			base, _ := uint256.FromBig(baseFee)
			if _, over := m.GasPrice.AddOverflow(m.GasTipCap, base); over || m.GasPrice.Gt(m.GasFeeCap) {
				m.GasPrice = m.GasFeeCap
			}
		}
	}
	return m
}

// transaction is the unsigned transaction of a call, of the type that its fields ask for. Nonce and gas must be set.
func (a *callArgs) transaction(chainID *big.Int) *types.Transaction {
	var list types.AccessList
	if a.AccessList != nil {
		list = *a.AccessList
	}
	nonce, gas, value := uint64(*a.Nonce), uint64(*a.Gas), word(a.Value)
	cap, tip := word(a.MaxFeePerGas), word(a.MaxPriorityFee)
	switch {
	case a.AuthorizationList != nil:
		if a.GasPrice != nil {
			cap, tip = word(a.GasPrice), word(a.GasPrice)
		}
		return types.NewTx(&types.SetCodeTx{
			ChainID: uint256.MustFromBig(chainID), Nonce: nonce, GasTipCap: tip, GasFeeCap: cap, Gas: gas, To: *a.To, Value: value,
			Data: a.input(), AccessList: list, AuthList: a.AuthorizationList,
		})
	case a.GasPrice != nil && a.AccessList != nil:
		return types.NewTx(&types.AccessListTx{
			ChainID: chainID, Nonce: nonce, GasPrice: a.GasPrice.ToInt(), Gas: gas, To: a.To, Value: value.ToBig(), Data: a.input(), AccessList: list,
		})
	case a.GasPrice != nil:
		return types.NewTx(&types.LegacyTx{Nonce: nonce, GasPrice: a.GasPrice.ToInt(), Gas: gas, To: a.To, Value: value.ToBig(), Data: a.input()})
	}
	return types.NewTx(&types.DynamicFeeTx{
		ChainID: chainID, Nonce: nonce, GasTipCap: tip.ToBig(), GasFeeCap: cap.ToBig(), Gas: gas, To: a.To, Value: value.ToBig(),
		Data: a.input(), AccessList: list,
	})
}

func word(v *hexutil.Big) *uint256.Int {
	if v == nil {
		return new(uint256.Int)
	}
	return uint256.MustFromBig(v.ToInt()) // bounded by check
}

// accountOverride replaces parts of one account for one call.
type accountOverride struct {
	Nonce            *hexutil.Uint64             `json:"nonce"`
	Code             *hexutil.Bytes              `json:"code"`
	Balance          *hexutil.Big                `json:"balance"`
	State            map[common.Hash]common.Hash `json:"state"`
	StateDiff        map[common.Hash]common.Hash `json:"stateDiff"`
	MovePrecompileTo *common.Address             `json:"movePrecompileToAddress"`
}

type stateOverride map[common.Address]accountOverride

// apply changes the state of one call; accounts in the order of their addresses so that errors repeat.
func (o stateOverride) apply(s *state.StateDB, precompiles vm.PrecompiledContracts) error {
	if len(o) == 0 {
		return nil
	}
	addrs := make([]common.Address, 0, len(o))
	for a := range o {
		addrs = append(addrs, a)
	}
	slices.SortFunc(addrs, common.Address.Cmp)
	moved := make(map[common.Address]bool)
	for _, addr := range addrs {
		acc := o[addr]
		if acc.State != nil && acc.StateDiff != nil {
			return invalidParams("override of %s has both state and stateDiff", addr)
		}
		if to := acc.MovePrecompileTo; to != nil {
			p, ok := precompiles[addr]
			if !ok {
				return invalidParams("override moves %s, which is no precompile", addr)
			}
			_, taken := o[*to]
			switch {
			case *to == addr:
				return &Error{Code: codeMovedOntoItself, Message: fmt.Sprintf("override moves precompile %s onto itself", addr)}
			case taken || moved[*to]:
				return &Error{Code: codeMovedTwice, Message: fmt.Sprintf("override moves a precompile to %s, which is overridden too", to)}
			}
			moved[*to] = true
			precompiles[*to] = p
		}
		delete(precompiles, addr)
		if err := acc.apply(addr, s); err != nil {
			return err
		}
	}
	s.Finalise(params.Rules{})
	return nil
}

func (acc *accountOverride) apply(addr common.Address, s *state.StateDB) error {
	if acc.Nonce != nil {
		s.SetNonce(addr, uint64(*acc.Nonce), tracing.NonceChangeUnspecified)
	}
	if acc.Code != nil {
		s.SetCode(addr, *acc.Code, tracing.CodeChangeUnspecified)
	}
	if acc.Balance != nil {
		v, over := uint256.FromBig(acc.Balance.ToInt())
		if over || acc.Balance.ToInt().Sign() < 0 {
			return invalidParams("balance override of %s does not fit 256 bits", addr)
		}
		s.SetBalance(addr, v, tracing.BalanceChangeUnspecified)
	}
	if acc.State != nil {
		s.SetStorage(addr, acc.State)
	}
	for k, v := range acc.StateDiff {
		s.SetState(addr, k, v)
	}
	return nil
}

// blockOverride replaces parts of the block context for one call.
type blockOverride struct {
	Number        *hexutil.Big    `json:"number"`
	Time          *hexutil.Uint64 `json:"time"`
	GasLimit      *hexutil.Uint64 `json:"gasLimit"`
	FeeRecipient  *common.Address `json:"feeRecipient"`
	PrevRandao    *common.Hash    `json:"prevRandao"`
	BaseFeePerGas *hexutil.Big    `json:"baseFeePerGas"`
	BlobBaseFee   *hexutil.Big    `json:"blobBaseFee"`

	BeaconRoot  *common.Hash       `json:"beaconRoot"`
	Withdrawals *types.Withdrawals `json:"withdrawals"`
}

// checkSimulated refuses what a block of this chain cannot have.
func (o *blockOverride) checkSimulated() error {
	switch {
	case o == nil:
		return nil
	case o.Withdrawals != nil && len(*o.Withdrawals) > 0:
		return invalidParams("block override withdrawals: this chain has none")
	}
	return o.fits()
}

// check refuses what makes no sense for a single call.
func (o *blockOverride) check() error {
	switch {
	case o == nil:
		return nil
	case o.BeaconRoot != nil:
		return invalidParams(`block override "beaconRoot" is not supported for this RPC method`)
	case o.Withdrawals != nil:
		return invalidParams(`block override "withdrawals" is not supported for this RPC method`)
	}
	return o.fits()
}

// fits refuses numbers that no header holds.
func (o *blockOverride) fits() error {
	if o.Number != nil && !o.Number.ToInt().IsUint64() {
		return invalidParams("block override number %s does not fit 64 bits", o.Number.ToInt())
	}
	for name, v := range map[string]*hexutil.Big{"baseFeePerGas": o.BaseFeePerGas, "blobBaseFee": o.BlobBaseFee} {
		if v != nil && (v.ToInt().Sign() < 0 || v.ToInt().BitLen() > 256) {
			return invalidParams("block override %s does not fit 256 bits", name)
		}
	}
	return nil
}

// header is a block's header with the overrides.
func (o *blockOverride) header(h *types.Header) *types.Header {
	if o == nil {
		return h
	}
	c := types.CopyHeader(h)
	if o.Number != nil {
		c.Number = o.Number.ToInt()
	}
	if o.Time != nil {
		c.Time = uint64(*o.Time)
	}
	if o.GasLimit != nil {
		c.GasLimit = uint64(*o.GasLimit)
	}
	if o.FeeRecipient != nil {
		c.Coinbase = *o.FeeRecipient
	}
	if o.PrevRandao != nil {
		c.MixDigest = *o.PrevRandao
	}
	if o.BaseFeePerGas != nil {
		c.BaseFee = o.BaseFeePerGas.ToInt()
	}
	if o.BeaconRoot != nil {
		c.ParentBeaconRoot = o.BeaconRoot
	}
	return c
}

// blockContext is what a call sees of the block it runs in: a block of the chain with the overrides. Hashes of older
// blocks stay those of the chain, whatever number the call is told; a call in the block after h sees h's hash.
func (s *service) blockContext(h *types.Header, o *blockOverride) callBlock {
	ref := h
	if o != nil && o.Number != nil && o.Number.ToInt().Uint64() == h.Number.Uint64()+1 {
		ref = types.CopyHeader(h)
		ref.Number, ref.ParentHash = o.Number.ToInt(), h.Hash()
	}
	seen := s.back.Chain.Context()
	headers := evmContext{seen}
	hashes := core.NewEVMBlockContext(ref, headers, &h.Coinbase).GetHash
	with := o.header(h)
	bc := core.NewEVMBlockContext(with, headers, &with.Coinbase)
	bc.GetHash = hashes
	if o != nil && o.BlobBaseFee != nil {
		bc.BlobBaseFee = o.BlobBaseFee.ToInt()
	}
	return callBlock{bc, seen}
}

// callBlock is what an execution sees of its block. Once it has run, readError tells whether what it saw was all there.
type callBlock struct {
	vm.BlockContext
	seen chain.EVMChain
}

// readError is why state or headers could not be read for an execution; its result is then worth nothing.
func (b *callBlock) readError(db *state.StateDB) error {
	if err := db.Error(); err != nil {
		return unreadable("the state that the call reads", err)
	}
	if err := b.seen.Err(); err != nil {
		return unreadable("a header that the call asks for", err)
	}
	return nil
}
