package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/filtermaps"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/filters"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/version"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/rpc"
	"github.com/bornode/bornode/testnet/load"
)

// LogsResult is what one program's index of logs costs and how fast it answers.
type LogsResult struct {
	Program  string           `json:"program"` // bornode, or go-ethereum and its version
	Blocks   int              `json:"blocks"`
	Logs     int              `json:"logs"`
	Bytes    float64          `json:"bytes_per_log"`     // of the index on disk
	BuildCPU figures.Spread   `json:"build_cpu_us_log"`  // processor time to build it
	Build    figures.Spread   `json:"build_wall_us_log"` // wall time to build it
	Queries  []LogQueryResult `json:"queries"`
}

// LogQueryResult is a query and the time of its answer.
type LogQueryResult struct {
	Name    string         `json:"name"`
	Matches int            `json:"matches"`
	Millis  figures.Spread `json:"ms"`
}

// queryRepeats is how often each query of a round is answered, by both programs in turn.
const queryRepeats = 9

// logQueryOf is a query over the blocks first..last.
type logQueryOf struct {
	name        string
	criteria    filters.FilterCriteria
	first, last uint64
}

// logAnswerer answers queries over a chain whose logs are indexed.
type logAnswerer func(ctx context.Context, q logQueryOf) ([]*types.Log, error)

// Logs imports a history of token transfers into an empty node and into go-ethereum's chain, builds the index of logs of each, and
// asks both the same queries in turn, whose answers must have the same logs. That is repeated runs times.
func Logs(ctx context.Context, scale float64, runs int, progress func(string)) ([]LogsResult, error) {
	p := forge.Plan{Kind: forge.Tokens, Txs: 20, Accounts: 1000, Blocks: max(int(4150*scale), 16)}
	progress(fmt.Sprintf("making a history of %d blocks with %d transfers of a token each", p.Blocks, p.Txs))
	h, g, err := makeHistories(ctx, p)
	if err != nil {
		return nil, err
	}
	m := &logMeasurement{history: h, geth: g, sides: [2]logSide{
		{program: "bornode"}, {program: fmt.Sprintf("go-ethereum %d.%d.%d", version.Major, version.Minor, version.Patch)},
	}}
	for i := range max(runs, 1) {
		progress(fmt.Sprintf("importing, indexing and asking, round %d", i+1))
		if err := m.measureRound(ctx); err != nil {
			return nil, fmt.Errorf("bench: logs: %w", err)
		}
	}
	return []LogsResult{m.summarize(0), m.summarize(1)}, nil
}

// logSide gathers one program's figures.
type logSide struct {
	program    string
	bytes      int64
	cpu, wall  []float64   // microseconds for each build
	times      [][]float64 // milliseconds, by query
	answer     logAnswerer
	foundByNow []int // matches, by query
}

type logMeasurement struct {
	history *history
	geth    *gethHistory
	sides   [2]logSide
	queries []logQueryOf
	logs    int
}

// measureRound has both chains open at once, so that queries take turns.
func (m *logMeasurement) measureRound(ctx context.Context) error {
	_, err := inFolder(func(ours string) (map[string]int64, error) {
		return inFolder(func(theirs string) (map[string]int64, error) {
			index := filepath.Join(ours, "log_index")
			_, err := importInto(ctx, ours, m.history, consensus.Certified, func(c *chain.Chain) error {
				if err := m.sides[0].timeBuild(func() error { return rpc.BuildLogIndex(ctx, index, c, nil) }); err != nil {
					return err
				}
				search, err := rpc.OpenLogSearch(index, c)
				if err != nil {
					return err
				}
				defer search.Close()
				m.sides[0].answer = func(ctx context.Context, q logQueryOf) ([]*types.Log, error) {
					return search.Logs(ctx, q.criteria, q.first, q.last)
				}
				_, err = importIntoGeth(ctx, theirs, m.geth, func(bc *core.BlockChain, db ethdb.Database) error {
					return m.besideGeth(ctx, bc, db)
				})
				return err
			})
			if err != nil {
				return nil, err
			}
			return nil, m.measureBytes(ctx, ours, theirs)
		})
	})
	return err
}

func (m *logMeasurement) besideGeth(ctx context.Context, bc *core.BlockChain, db ethdb.Database) error {
	var maps *filtermaps.FilterMaps
	err := m.sides[1].timeBuild(func() (err error) {
		maps, err = startFilterMaps(bc, db)
		return err
	})
	if err != nil {
		return err
	}
	defer maps.Stop()
	m.sides[1].answer = func(ctx context.Context, q logQueryOf) ([]*types.Log, error) { return askFilterMaps(ctx, maps, q) }
	if m.queries == nil {
		if err := m.chooseQueries(ctx, uint64(len(m.history.blocks)-forge.Trailing)); err != nil {
			return err
		}
	}
	return m.ask(ctx)
}

func (s *logSide) timeBuild(build func() error) error {
	begun, cpu := time.Now(), load.ProcessorTime()
	if err := build(); err != nil {
		return err
	}
	s.cpu = append(s.cpu, float64((load.ProcessorTime() - cpu).Microseconds()))
	s.wall = append(s.wall, float64(time.Since(begun).Microseconds()))
	return nil
}

// askFilterMaps does what go-ethereum's eth_getLogs does over indexed blocks: possible matches, with the index held to the chain
// before and after, of which those are left that do match.
func askFilterMaps(ctx context.Context, maps *filtermaps.FilterMaps, q logQueryOf) ([]*types.Log, error) {
	backend := maps.NewMatcherBackend()
	defer backend.Close()
	if _, err := backend.SyncLogIndex(ctx); err != nil {
		return nil, err
	}
	possible, err := filtermaps.GetPotentialMatches(ctx, backend, q.first, q.last, q.criteria.Addresses, q.criteria.Topics)
	if err != nil {
		return nil, err
	}
	if _, err := backend.SyncLogIndex(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(possible, func(l *types.Log) bool { return l == nil || !isMatch(l, &q.criteria) }), nil
}

func isMatch(l *types.Log, c *filters.FilterCriteria) bool {
	if len(c.Addresses) > 0 && !slices.Contains(c.Addresses, l.Address) || len(c.Topics) > len(l.Topics) {
		return false
	}
	for i, alternatives := range c.Topics {
		if len(alternatives) > 0 && !slices.Contains(alternatives, l.Topics[i]) {
			return false
		}
	}
	return true
}

// chooseQueries asks for what a transfer in the middle of the chain has in its log, and counts all logs.
func (m *logMeasurement) chooseQueries(ctx context.Context, last uint64) error {
	for from := uint64(1); from <= last; from += 100 { // within the limit of one answer
		logs, err := m.sides[0].answer(ctx, logQueryOf{first: from, last: min(from+99, last)})
		if err != nil {
			return err
		}
		m.logs += len(logs)
	}
	middle, err := m.sides[0].answer(ctx, logQueryOf{first: last / 2, last: last / 2})
	if err != nil {
		return err
	}
	if len(middle) == 0 || len(middle[0].Topics) != 3 {
		return fmt.Errorf("block %d has no log of a transfer", last/2)
	}
	l := middle[0]
	of := func(topics ...[]common.Hash) filters.FilterCriteria {
		return filters.FilterCriteria{Addresses: []common.Address{l.Address}, Topics: topics}
	}
	event, sender, recipient := []common.Hash{l.Topics[0]}, []common.Hash{l.Topics[1]}, []common.Hash{l.Topics[2]}
	m.queries = []logQueryOf{
		{"address, newest 100 blocks", of(), last - min(99, last-1), last},
		{"address, event and sender, all blocks", of(event, sender), 1, last},
		{"recipient alone, all blocks", filters.FilterCriteria{Topics: [][]common.Hash{nil, nil, recipient}}, 1, last},
		{"address, event, sender and recipient, all blocks", of(event, sender, recipient), 1, last},
		{"a topic that no log has, all blocks", of([]common.Hash{{1, 2, 3}}), 1, last},
	}
	for i := range m.sides {
		m.sides[i].times = make([][]float64, len(m.queries))
		m.sides[i].foundByNow = make([]int, len(m.queries))
	}
	return nil
}

func (m *logMeasurement) ask(ctx context.Context) error {
	for i, q := range m.queries {
		for range queryRepeats {
			var found [2][]*types.Log
			for j := range m.sides {
				s := &m.sides[j]
				begun := time.Now()
				logs, err := s.answer(ctx, q)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", q.name, s.program, err)
				}
				s.times[i] = append(s.times[i], float64(time.Since(begun).Microseconds())/1000)
				s.foundByNow[i], found[j] = len(logs), logs
			}
			if !slices.EqualFunc(found[0], found[1], sameLog) {
				return fmt.Errorf("%s: the answers differ, %d and %d logs", q.name, len(found[0]), len(found[1]))
			}
		}
	}
	return nil
}

// sameLog compares logs of chains whose block hashes differ.
func sameLog(a, b *types.Log) bool {
	return a.BlockNumber == b.BlockNumber && a.Index == b.Index && a.Address == b.Address && a.TxHash == b.TxHash && slices.Equal(a.Topics, b.Topics)
}

// measureBytes takes the sizes of both indexes in closed folders.
func (m *logMeasurement) measureBytes(ctx context.Context, ours, theirs string) error {
	var sizes []int64
	for _, name := range []string{"log_index", "log_index.tail"} {
		info, err := os.Stat(filepath.Join(ours, name))
		if err != nil {
			return err
		}
		sizes = append(sizes, info.Size())
	}
	parts := make(map[string]int64)
	err := addKeyValueParts(ctx, filepath.Join(theirs, "chaindata"), parts, map[string]string{"fm-": PartLogs})
	if parts[PartLogs] == 0 && err == nil {
		err = errors.New("go-ethereum's index of logs has no bytes on disk")
	}
	m.sides[0].bytes, m.sides[1].bytes = sizes[0]+sizes[1], parts[PartLogs]
	return err
}

func (m *logMeasurement) summarize(side int) LogsResult {
	s, n := &m.sides[side], float64(m.logs)
	r := LogsResult{Program: s.program, Blocks: len(m.history.blocks) - forge.Trailing, Logs: m.logs, Bytes: float64(s.bytes) / n,
		BuildCPU: figures.Of(s.cpu).Scale(1 / n), Build: figures.Of(s.wall).Scale(1 / n)}
	for i, q := range m.queries {
		r.Queries = append(r.Queries, LogQueryResult{Name: q.name, Matches: s.foundByNow[i], Millis: figures.Of(s.times[i])})
	}
	return r
}
