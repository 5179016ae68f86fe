package rpc

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/consensus/misc/eip4844"
	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
)

// tipBlocks is how many full blocks the suggested tip is taken from.
const tipBlocks = 8

// nextBaseFee is the base fee of the block after h.
func (s *service) nextBaseFee(h *types.Header) *big.Int {
	p, err := s.back.Chain.ParamsFor(h, h.Number.Uint64()+1)
	if err != nil { // the state of an old block is gone
		p = s.back.Chain.Params()
	}
	return chain.BaseFee(&p, s.back.Chain.Config(), h)
}

// suggestTip is 0 while blocks have room, since the pool's minimum is 0; else the median of recent full blocks.
func (s *service) suggestTip(h *types.Header) *big.Int {
	var tips []*big.Int
	for i := 0; i < tipBlocks && h != nil && h.Number.Sign() > 0; i++ {
		if h.GasUsed*10 < h.GasLimit*9 {
			if i == 0 {
				return new(big.Int)
			}
			break
		}
		b, err := s.back.Chain.BlockByHash(h.Hash())
		if b == nil || err != nil { // a suggestion does without
			break
		}
		for _, tx := range b.Transactions {
			if tip, err := tx.EffectiveGasTip(h.BaseFee); err == nil {
				tips = append(tips, tip)
			}
		}
		if h, err = s.back.Chain.HeaderByHash(h.ParentHash); err != nil {
			break
		}
	}
	if len(tips) == 0 {
		return new(big.Int)
	}
	slices.SortFunc(tips, (*big.Int).Cmp)
	return tips[len(tips)/2]
}

// feesReady refuses what follows the rules that the newest state holds, while there is none.
func (a *ethAPI) feesReady() error { return a.back.notReady("the fee of the next block") }

func (a *ethAPI) GasPrice() (*hexutil.Big, error) {
	if err := a.feesReady(); err != nil {
		return nil, err
	}
	h := a.back.Chain.CurrentHeader()
	return (*hexutil.Big)(new(big.Int).Add(a.nextBaseFee(h), a.suggestTip(h))), nil
}

func (a *ethAPI) MaxPriorityFeePerGas() (*hexutil.Big, error) {
	if err := a.feesReady(); err != nil {
		return nil, err
	}
	return (*hexutil.Big)(a.suggestTip(a.back.Chain.CurrentHeader())), nil
}

func (a *ethAPI) BaseFee() (*hexutil.Big, error) {
	if err := a.feesReady(); err != nil {
		return nil, err
	}
	return (*hexutil.Big)(a.nextBaseFee(a.back.Chain.CurrentHeader())), nil
}

func (a *ethAPI) BlobBaseFee() *hexutil.Big {
	return (*hexutil.Big)(a.blobFee(a.back.Chain.CurrentHeader()))
}

func (s *service) blobFee(h *types.Header) *big.Int {
	if h.ExcessBlobGas == nil {
		return new(big.Int)
	}
	return eip4844.CalcBlobFee(s.back.Chain.Config(), h)
}

type feeHistoryJSON struct {
	OldestBlock      *hexutil.Big     `json:"oldestBlock"`
	Reward           [][]*hexutil.Big `json:"reward,omitempty"`
	BaseFee          []*hexutil.Big   `json:"baseFeePerGas,omitempty"`
	GasUsedRatio     []float64        `json:"gasUsedRatio"`
	BlobBaseFee      []*hexutil.Big   `json:"baseFeePerBlobGas,omitempty"`
	BlobGasUsedRatio []float64        `json:"blobGasUsedRatio,omitempty"`
}

// FeeHistory is go-ethereum's, with this chain's rule for the next base fee.
func (a *ethAPI) FeeHistory(ctx context.Context, count math.HexOrDecimal64, newest gethrpc.BlockNumber, rewardPercentiles *[]float64) (*feeHistoryJSON, error) {
	var percentiles []float64
	if rewardPercentiles != nil {
		percentiles = *rewardPercentiles
	}
	if len(percentiles) > maxPercentiles {
		return nil, limitExceeded("%d percentiles asked for, %d are allowed", len(percentiles), maxPercentiles)
	}
	for i, p := range percentiles {
		if p < 0 || p > 100 || i > 0 && p < percentiles[i-1] {
			return nil, invalidParams("percentile %g: percentiles rise from 0 to 100", p)
		}
	}
	if err := a.feesReady(); err != nil { // the last of the base fees is the next block's
		return nil, err
	}
	h, err := a.back.headerByNumber(newest)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, invalidParams("block %s is beyond the head", newest)
	}
	last := h.Number.Uint64()
	n := min(uint64(count), maxFeeHistory, last+1)
	out := &feeHistoryJSON{OldestBlock: (*hexutil.Big)(new(big.Int).SetUint64(last + 1 - n)), GasUsedRatio: make([]float64, 0, n)}
	if n == 0 {
		out.OldestBlock = new(hexutil.Big)
		return out, nil
	}
	if len(percentiles) > 0 { // reads whole blocks
		release, err := a.enterCall(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	back := a.during(ctx)
	for number := last + 1 - n; number <= last; number++ {
		if ctx.Err() != nil {
			return nil, limitExceeded("fee history took longer than %s (rpc.call_timeout); ask for fewer blocks", a.cfg.CallTimeout)
		}
		if h, err = back.Chain.HeaderByNumber(number); err != nil {
			return nil, unreadable(fmt.Sprintf("fee history: block %d", number), err)
		}
		if h == nil {
			return nil, &Error{Code: codeServer, Message: "fee history: the chain changed meanwhile; ask again"}
		}
		out.BaseFee = append(out.BaseFee, (*hexutil.Big)(baseFeeOf(h)))
		out.BlobBaseFee = append(out.BlobBaseFee, (*hexutil.Big)(a.blobFee(h)))
		out.GasUsedRatio = append(out.GasUsedRatio, float64(h.GasUsed)/float64(max(h.GasLimit, 1)))
		out.BlobGasUsedRatio = append(out.BlobGasUsedRatio, 0)
		if len(percentiles) > 0 {
			rewards, err := a.rewards(h, percentiles)
			if err != nil {
				return nil, err
			}
			out.Reward = append(out.Reward, rewards)
		}
	}
	out.BaseFee = append(out.BaseFee, (*hexutil.Big)(a.nextBaseFee(h)))
	out.BlobBaseFee = append(out.BlobBaseFee, (*hexutil.Big)(a.blobFee(h)))
	return out, nil
}

func baseFeeOf(h *types.Header) *big.Int {
	if h.BaseFee == nil {
		return new(big.Int)
	}
	return h.BaseFee
}

// rewards are the tips at the given percentiles of the block's gas.
func (s *service) rewards(h *types.Header, percentiles []float64) ([]*hexutil.Big, error) {
	out := make([]*hexutil.Big, len(percentiles))
	for i := range out {
		out[i] = new(hexutil.Big)
	}
	if h.TxHash == types.EmptyTxsHash {
		return out, nil
	}
	b, err := s.back.body(h, h.Hash())
	if err != nil {
		return nil, err
	}
	rs, err := s.receipts(b)
	if err != nil {
		return nil, err
	}
	txs := tipsByGas(b, rs)
	at, sum := 0, txs[0].gas
	for i, p := range percentiles {
		for want := uint64(float64(h.GasUsed) * p / 100); sum < want && at < len(txs)-1; {
			at++
			sum += txs[at].gas
		}
		out[i] = (*hexutil.Big)(txs[at].tip)
	}
	return out, nil
}

type tipAndGas struct {
	tip *big.Int
	gas uint64
}

func tipsByGas(b *block.Block, rs types.Receipts) []tipAndGas {
	txs := make([]tipAndGas, len(b.Transactions))
	for i, tx := range b.Transactions {
		tip, _ := tx.EffectiveGasTip(b.Header.BaseFee) // in a block, so it pays the base fee
		txs[i] = tipAndGas{tip, rs[i].GasUsed}
	}
	slices.SortStableFunc(txs, func(x, y tipAndGas) int { return x.tip.Cmp(y.tip) })
	return txs
}
