package rpc

import (
	"context"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/filters"
)

// LogSearch answers log queries as eth_getLogs does, from an index file and a chain, without a server. For measuring. Any number of
// goroutines may use it until Close.
type LogSearch struct {
	index *logIndex
	cfg   Config
}

// OpenLogSearch opens the index file that BuildLogIndex or a node left at path, which no node may use meanwhile.
func OpenLogSearch(path string, c Chain) (*LogSearch, error) {
	x := newLogIndex(c)
	if err := x.open(path); err != nil {
		return nil, err
	}
	return &LogSearch{index: x, cfg: DefaultConfig()}, nil
}

// Logs are the logs of the blocks from..to that match the criteria, whose own range is not looked at, within the default limits
// of rpc.log_count and rpc.log_workers. An error is an *Error, or that of the context.
func (s *LogSearch) Logs(ctx context.Context, c filters.FilterCriteria, from, to uint64) ([]*types.Log, error) {
	q, err := newLogQuery(c)
	if err != nil {
		return nil, err
	}
	return s.index.search(ctx, q, from, to, s.cfg.LogCount, s.cfg.LogWorkers)
}

// Close closes the index file.
func (s *LogSearch) Close() { s.index.close() }
