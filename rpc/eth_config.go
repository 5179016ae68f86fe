package rpc

import (
	"maps"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/forkid"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// configJSON is the answer of eth_config (EIP-7910). The time and the blob schedule are numbers there, not hex.
type configJSON struct {
	Current *forkJSON `json:"current"`
	Next    *forkJSON `json:"next"`
	Last    *forkJSON `json:"last"`
}

type forkJSON struct {
	ActivationTime  uint64                    `json:"activationTime"`
	BlobSchedule    *params.BlobConfig        `json:"blobSchedule"`
	ChainID         *hexutil.Big              `json:"chainId"`
	ForkID          hexutil.Bytes             `json:"forkId"`
	Precompiles     map[string]common.Address `json:"precompiles"`
	SystemContracts map[string]common.Address `json:"systemContracts"`
}

// Config shows the rules that hold now, those of the next fork that has a time, and those of the last one.
func (a *ethAPI) Config() (*configJSON, error) {
	cfg := a.back.Chain.Config()
	genesis, err := a.back.headerByNumber(gethrpc.EarliestBlockNumber)
	if err != nil {
		return nil, err
	}
	last := cfg.LatestFork(^uint64(0))
	now := cfg.LatestFork(a.back.Chain.CurrentHeader().Time)
	out := &configJSON{Current: forkAt(cfg, genesis, cfg.Timestamp(now))}
	for f := now + 1; f <= last && out.Next == nil; f++ {
		out.Next = forkAt(cfg, genesis, cfg.Timestamp(f))
	}
	if out.Next != nil {
		out.Last = forkAt(cfg, genesis, cfg.Timestamp(last))
	}
	return out, nil
}

func forkAt(cfg *params.ChainConfig, genesis *types.Header, at *uint64) *forkJSON {
	if at == nil {
		return nil
	}
	id := forkid.NewID(cfg, types.NewBlockWithHeader(genesis), ^uint64(0), *at).Hash
	f := &forkJSON{
		ActivationTime: *at, BlobSchedule: cfg.BlobConfig(cfg.LatestFork(*at)), ChainID: (*hexutil.Big)(cfg.ChainID),
		ForkID: id[:], Precompiles: make(map[string]common.Address), SystemContracts: cfg.ActiveSystemContracts(*at),
	}
	if *at <= genesis.Time {
		f.ActivationTime = 0
	}
	for addr, p := range vm.ActivePrecompiledContracts(cfg.Rules(cfg.LondonBlock, true, *at)) {
		f.Precompiles[p.Name()] = addr
	}
	maps.DeleteFunc(f.SystemContracts, func(_ string, addr common.Address) bool { return addr == common.Address{} }) // no deposits here
	return f
}

// capabilitiesJSON is the answer of eth_capabilities: how far back the node answers.
type capabilitiesJSON struct {
	Head        capableHeadJSON `json:"head"`
	State       capableJSON     `json:"state"`
	Tx          capableJSON     `json:"tx"`
	Logs        capableJSON     `json:"logs"`
	Receipts    capableJSON     `json:"receipts"`
	Blocks      capableJSON     `json:"blocks"`
	StateProofs capableJSON     `json:"stateproofs"`
}

type capableHeadJSON struct {
	Number hexutil.Uint64 `json:"number"`
	Hash   common.Hash    `json:"hash"`
}

type capableJSON struct {
	Disabled bool                `json:"disabled"`
	Oldest   hexutil.Uint64      `json:"oldestBlock"`
	Delete   *deleteStrategyJSON `json:"deleteStrategy,omitempty"`
}

type deleteStrategyJSON struct {
	Type   string         `json:"type"` // window
	Blocks hexutil.Uint64 `json:"retentionBlocks"`
}

// Capabilities tells how far back blocks, with their receipts and logs, states and proofs reach.
func (a *ethAPI) Capabilities() *capabilitiesJSON {
	head := a.back.Chain.CurrentHeader()
	kept := capableJSON{Oldest: hexutil.Uint64(a.back.Chain.FirstHeight())}
	newest := func(n uint64) capableJSON {
		if n == 0 {
			return kept
		}
		c := capableJSON{Oldest: kept.Oldest, Delete: &deleteStrategyJSON{"window", hexutil.Uint64(n)}}
		if h := head.Number.Uint64(); h >= n {
			c.Oldest = max(c.Oldest, hexutil.Uint64(h+1-n))
		}
		return c
	}
	states, tries := a.back.Chain.Kept()
	return &capabilitiesJSON{
		Head: capableHeadJSON{hexutil.Uint64(head.Number.Uint64()), head.Hash()}, State: newest(states), StateProofs: newest(tries),
		Tx: kept, Logs: kept, Receipts: kept, Blocks: kept,
	}
}
