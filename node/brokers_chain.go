package node

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/contracts"
)

// topicsSource is the chain as the mirror of the contract Topics reads it. Its reads wait for damaged blocks.
type topicsSource struct {
	c       *chain.Chain
	repairs repairs
	calls   prometheus.Counter // nil: not counted
}

// ledgerCalls counts what the mirror asks of the contract.
func ledgerCalls(reg prometheus.Registerer) prometheus.Counter {
	return promauto.With(reg).NewCounter(prometheus.CounterOpts{Name: "bornode_topics_ledger_calls_total",
		Help: "Calls of the contract Topics for what clients may do: few, since requests are judged from memory."})
}

// Final is the last irreversible header.
func (s topicsSource) Final() *types.Header { return s.c.FinalHeader() }

// Call reads the contract on the state after a block.
func (s topicsSource) Call(ctx context.Context, h *types.Header, to common.Address, data []byte) ([]byte, error) {
	if s.calls != nil {
		s.calls.Inc()
	}
	var out []byte
	err := s.repairs.ReadRepaired(ctx, func() (err error) { out, err = s.c.Call(ctx, h, to, data); return err })
	return out, err
}

// Logs are the events of the contract in the irreversible blocks from..to, in order.
func (s topicsSource) Logs(ctx context.Context, from, to uint64) ([]*types.Log, error) {
	var out []*types.Log
	for n := from; n <= to; n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var logs []*types.Log
		err := s.repairs.ReadRepaired(ctx, func() (err error) { logs, err = s.logsOf(n); return err })
		if err != nil {
			return nil, err
		}
		for _, l := range logs {
			if l.Address == contracts.TopicsAddress {
				out = append(out, l)
			}
		}
	}
	return out, nil
}

// logsOf are all events of one block.
func (s topicsSource) logsOf(height uint64) ([]*types.Log, error) {
	h, err := s.c.HeaderByNumber(height)
	if err != nil {
		return nil, fmt.Errorf("events of block %d: %w", height, err)
	}
	if h == nil {
		return nil, fmt.Errorf("block %d is not stored", height)
	}
	if !types.BloomLookup(h.Bloom, contracts.TopicsAddress) {
		return nil, nil
	}
	logs, err := s.c.Logs(h.Hash())
	if err != nil {
		return nil, fmt.Errorf("events of block %d: %w", height, err)
	}
	return logs, nil
}
