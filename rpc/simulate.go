package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// simulateOptions is the first parameter of eth_simulateV1.
type simulateOptions struct {
	BlockStateCalls        []simulateBlock `json:"blockStateCalls"`
	TraceTransfers         bool            `json:"traceTransfers"`         // transfers of ether show as logs too
	Validation             bool            `json:"validation"`             // nonces, fees and funds count as in a block
	ReturnFullTransactions bool            `json:"returnFullTransactions"` // instead of their hashes

	blocks int // in the request
}

// UnmarshalJSON counts the blocks before it makes any; check refuses too many.
func (o *simulateOptions) UnmarshalJSON(raw []byte) error {
	type plain simulateOptions
	parts := struct {
		BlockStateCalls json.RawMessage `json:"blockStateCalls"`
		*plain
	}{plain: (*plain)(o)}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	return decodeSome(parts.BlockStateCalls, maxSimulateBlocks, &o.blocks, &o.BlockStateCalls)
}

// decodeSome sets count to the length of a list and decodes it if it has at most so many items.
func decodeSome[T any](raw json.RawMessage, most int, count *int, list *[]T) error {
	if *count = shapeOf(raw).items; *count > most || len(raw) == 0 {
		return nil
	}
	err := json.Unmarshal(raw, list)
	*count = len(*list)
	return err
}

// simulateBlock is one block to simulate.
type simulateBlock struct {
	BlockOverrides *blockOverride
	StateOverrides *stateOverride
	Calls          []callArgs

	calls int // in the request
}

// UnmarshalJSON refuses overrides that it does not know: a misspelt one would change the answer without a word.
func (b *simulateBlock) UnmarshalJSON(raw []byte) error {
	var parts struct {
		BlockOverrides json.RawMessage `json:"blockOverrides"`
		StateOverrides json.RawMessage `json:"stateOverrides"`
		Calls          json.RawMessage `json:"calls"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	if err := decodeSome(parts.Calls, maxSimulateCalls, &b.calls, &b.Calls); err != nil {
		return err
	}
	if err := decodeStrict(parts.BlockOverrides, &b.BlockOverrides); err != nil {
		return err
	}
	return decodeStrict(parts.StateOverrides, &b.StateOverrides)
}

func decodeStrict(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// SimulateV1 executes calls in a series of blocks on top of a block, and throws all of it away.
func (a *ethAPI) SimulateV1(ctx context.Context, opts simulateOptions, ref *gethrpc.BlockNumberOrHash) ([]*simulatedJSON, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	release, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	db, base, err := a.back.state(ref)
	if err != nil {
		return nil, err
	}
	if _, err := db.Database().OpenTrie(base.Root); err != nil {
		return nil, &Error{Code: codeServer, Message: "eth_simulateV1 needs a state root, which only the newest blocks have; use eth_call with overrides for older ones: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	sim := &simulation{
		service: a.service, opts: &opts, db: db, base: base, gas: a.cfg.GasCap, room: maxSimulateBytes,
		known: map[common.Hash]*types.Header{base.Hash(): base},
	}
	return sim.run(ctx)
}

func (o *simulateOptions) check() error {
	if o.blocks == 0 {
		return invalidParams("blockStateCalls is empty; name at least one block")
	}
	if n := o.blocks; n > maxSimulateBlocks {
		return simulateLimit("too many blocks: %d, %d are allowed", n, maxSimulateBlocks)
	}
	calls := 0
	for i := range o.BlockStateCalls {
		calls += o.BlockStateCalls[i].calls
	}
	if calls > maxSimulateCalls {
		return simulateLimit("too many calls: %d, %d are allowed", calls, maxSimulateCalls)
	}
	return nil
}

// simulation is one eth_simulateV1. It belongs to its request's goroutine.
type simulation struct {
	*service
	opts  *simulateOptions
	db    *state.StateDB
	base  *types.Header
	gas   uint64 // left for all calls together
	room  int    // bytes left for what calls return and log
	known map[common.Hash]*types.Header
}

// plannedBlock is a block before its execution: the header's fields that do not depend on it.
type plannedBlock struct {
	header *types.Header
	simulateBlock
}

func (sim *simulation) run(ctx context.Context) ([]*simulatedJSON, error) {
	plan, err := sim.plan()
	if err != nil {
		return nil, err
	}
	out, parent := make([]*simulatedJSON, len(plan)), sim.base
	for i := range plan {
		if out[i], err = sim.block(ctx, &plan[i], parent); err != nil {
			return nil, err
		}
		parent = plan[i].header
		sim.known[parent.Hash()] = parent
	}
	return out, nil
}

// plan gives every block its number and time, which rise, and fills gaps between numbers with empty blocks.
func (sim *simulation) plan() ([]plannedBlock, error) {
	var out []plannedBlock
	prev, step := sim.base, sim.blockSeconds()
	for i := range sim.opts.BlockStateCalls {
		b := sim.opts.BlockStateCalls[i]
		o := b.BlockOverrides
		if o == nil {
			o = new(blockOverride)
		}
		if err := o.checkSimulated(); err != nil {
			return nil, err
		}
		number := new(big.Int).Add(prev.Number, common.Big1)
		if o.Number != nil {
			number = o.Number.ToInt()
		}
		if number.Cmp(prev.Number) <= 0 {
			return nil, &Error{Code: codeBlockNumber, Message: fmt.Sprintf("block numbers must be in order: %s <= %s", number, prev.Number)}
		}
		if new(big.Int).Sub(number, sim.base.Number).Cmp(big.NewInt(maxSimulateBlocks)) > 0 {
			return nil, simulateLimit("too many blocks: block %s lies more than %d above the base %s", number, maxSimulateBlocks, sim.base.Number)
		}
		for n := new(big.Int).Add(prev.Number, common.Big1); n.Cmp(number) < 0; n = new(big.Int).Add(n, common.Big1) {
			var err error
			if prev, err = sim.next(prev, n, prev.Time+step); err != nil {
				return nil, err
			}
			out = append(out, plannedBlock{header: prev})
		}
		time := prev.Time + step
		if o.Time != nil {
			time = uint64(*o.Time)
		}
		if time <= prev.Time {
			return nil, &Error{Code: codeBlockTime, Message: fmt.Sprintf("block timestamps must be in order: %d <= %d", time, prev.Time)}
		}
		h, err := sim.next(prev, number, time)
		if err != nil {
			return nil, err
		}
		h = o.header(h)
		out, prev = append(out, plannedBlock{h, b}), h
	}
	return out, nil
}

// blockSeconds is the time between simulated blocks: a slot's, in whole seconds, so that times rise.
func (sim *simulation) blockSeconds() uint64 {
	p := sim.back.Chain.Params()
	return max(1, (p.SlotMillis+999)/1000)
}

// next is the header after prev. Its gas limit is that of prev, unless the producers voted for another one from this
// block on.
func (sim *simulation) next(prev *types.Header, number *big.Int, time uint64) (*types.Header, error) {
	h, n := nextSimulated(prev, number, time), number.Uint64()
	before, err := sim.back.Chain.ParamsFor(sim.base, n-1)
	if err != nil {
		return nil, err
	}
	p, err := sim.back.Chain.ParamsFor(sim.base, n)
	if p.GasLimit != before.GasLimit {
		h.GasLimit = p.GasLimit
	}
	return h, err
}

func nextSimulated(prev *types.Header, number *big.Int, time uint64) *types.Header {
	used, excess, root, withdrawals := uint64(0), uint64(0), common.Hash{}, types.EmptyWithdrawalsHash
	return &types.Header{
		UncleHash: types.EmptyUncleHash, TxHash: types.EmptyTxsHash, ReceiptHash: types.EmptyReceiptsHash, Coinbase: prev.Coinbase,
		Difficulty: new(big.Int), Number: number, GasLimit: prev.GasLimit, Time: time, Extra: []byte{},
		WithdrawalsHash: &withdrawals, BlobGasUsed: &used, ExcessBlobGas: &excess, ParentBeaconRoot: &root,
	}
}
