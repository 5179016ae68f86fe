package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/filters"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// logQuery is a checked log query. Topics match by position; an empty position matches everything.
type logQuery struct {
	block     *common.Hash
	from, to  *gethrpc.BlockNumber
	addresses []common.Address
	topics    [][]common.Hash
	hashes    []bloomBits // bloom bits of addresses and topics, computed once
	positions [][]bloomBits

	addressSet map[common.Address]struct{} // of many addresses; nil: few
	topicSets  [4]map[common.Hash]struct{} // likewise
}

// bytes is about the memory that the query holds.
func (q *logQuery) bytes() int64 {
	n := len(q.addresses)
	for _, ts := range q.topics {
		n += len(ts)
	}
	return 512 + int64(n)*logValueBytes
}

// setOf is for lists that are too long to go through for each log.
func setOf[V comparable](list []V) map[V]struct{} {
	if len(list) <= shortList {
		return nil
	}
	set := make(map[V]struct{}, len(list))
	for _, v := range list {
		set[v] = struct{}{}
	}
	return set
}

func has[V comparable](set map[V]struct{}, list []V, v V) bool {
	if set == nil {
		return slices.Contains(list, v)
	}
	_, ok := set[v]
	return ok
}

// bloomBits are the three bits that a value sets in a bloom.
type bloomBits [3]uint16

func bitsOf(v []byte) bloomBits {
	var b types.Bloom
	b.Add(v)
	var out bloomBits
	n := 0
	for i, x := range b {
		for bit := 0; x != 0; bit, x = bit+1, x>>1 {
			if x&1 != 0 {
				out[n] = uint16(i*8 + bit) //nolint:gosec // below 2,048
				n++
			}
		}
	}
	for ; n < 3; n++ { // bits may coincide
		out[n] = out[0]
	}
	return out
}

func (b bloomBits) in(bloom *types.Bloom) bool {
	for _, x := range b {
		if bloom[x/8]&(1<<(x%8)) == 0 {
			return false
		}
	}
	return true
}

func newLogQuery(c filters.FilterCriteria) (*logQuery, error) {
	q := &logQuery{block: c.BlockHash, addresses: c.Addresses, topics: c.Topics}
	if len(c.Addresses) > maxFilterAddresses {
		return nil, limitExceeded("%d addresses in one query, %d are allowed", len(c.Addresses), maxFilterAddresses)
	}
	if len(c.Topics) > 4 {
		return nil, invalidParams("%d topic positions, a log has at most 4", len(c.Topics))
	}
	for _, ts := range c.Topics {
		if len(ts) > maxFilterTopics {
			return nil, limitExceeded("%d alternatives for one topic, %d are allowed", len(ts), maxFilterTopics)
		}
	}
	if c.FromBlock != nil {
		n := gethrpc.BlockNumber(c.FromBlock.Int64())
		q.from = &n
	}
	if c.ToBlock != nil {
		n := gethrpc.BlockNumber(c.ToBlock.Int64())
		q.to = &n
	}
	if q.from != nil && *q.from == gethrpc.PendingBlockNumber || q.to != nil && *q.to == gethrpc.PendingBlockNumber {
		return nil, invalidParams("pending logs are not supported: logs exist once their block is executed; use latest")
	}
	if q.from != nil && q.to != nil && *q.from >= 0 && *q.to >= 0 && *q.from > *q.to {
		return nil, invalidRange(uint64(*q.from), uint64(*q.to))
	}
	q.addressSet = setOf(q.addresses)
	for _, a := range q.addresses {
		q.hashes = append(q.hashes, bitsOf(a[:]))
	}
	for i, ts := range q.topics {
		q.topicSets[i] = setOf(ts)
		var p []bloomBits
		for _, t := range ts {
			p = append(p, bitsOf(t[:]))
		}
		q.positions = append(q.positions, p)
	}
	return q, nil
}

// invalidRange and beyondHead begin with go-ethereum's words, which clients look for.
func invalidRange(from, to uint64) *Error {
	return invalidParams("invalid block range params: fromBlock %d lies above toBlock %d", from, to)
}

func beyondHead(to, head uint64) *Error {
	return invalidParams("block range extends beyond current head block: toBlock is %d, the head is %d", to, head)
}

// checkStream refuses ranges that a stream of new logs cannot follow, as go-ethereum does for filters and
// subscriptions: from and to are both numbers, both latest (or left out), or a number and latest. A range may end
// above the head: its logs come with their blocks.
func (q *logQuery) checkStream() error {
	isLatest := func(n *gethrpc.BlockNumber) bool { return n == nil || *n == gethrpc.LatestBlockNumber }
	isNumber := func(n *gethrpc.BlockNumber) bool {
		return n != nil && (*n >= 0 || *n == gethrpc.EarliestBlockNumber)
	}
	switch {
	case q.block != nil: // it matches nothing that is still to come; eth_getFilterLogs answers it
	case isLatest(q.to) && (isLatest(q.from) || isNumber(q.from)):
	case isNumber(q.from) && isNumber(q.to):
	default:
		return invalidParams("invalid block range params: a filter or subscription goes from a number or latest to a number or latest; use eth_getLogs for other tags")
	}
	return nil
}

// covers reports whether a subscriber with this query wants logs of a block of this height.
func (q *logQuery) covers(height uint64) bool {
	return (q.from == nil || *q.from < 0 || height >= uint64(*q.from)) && (q.to == nil || *q.to < 0 || height <= uint64(*q.to))
}

func (q *logQuery) match(l *types.Log) bool {
	if len(q.addresses) > 0 && !has(q.addressSet, q.addresses, l.Address) {
		return false
	}
	if len(q.topics) > len(l.Topics) {
		// A trailing empty position still asks for a topic there, as in every Ethereum client.
		return false
	}
	for i, ts := range q.topics {
		if len(ts) > 0 && !has(q.topicSets[i], ts, l.Topics[i]) {
			return false
		}
	}
	return true
}

// mayMatch is match for a whole block, from its bloom: false is certain.
func (q *logQuery) mayMatch(b *types.Bloom) bool {
	if *b == (types.Bloom{}) {
		return false
	}
	any := func(alternatives []bloomBits) bool {
		return len(alternatives) == 0 || slices.ContainsFunc(alternatives, func(x bloomBits) bool { return x.in(b) })
	}
	if !any(q.hashes) {
		return false
	}
	for _, p := range q.positions {
		if !any(p) {
			return false
		}
	}
	return true
}

// getLogs answers a query within the server's limits.
func (s *service) getLogs(ctx context.Context, q *logQuery) ([]*types.Log, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LogTimeout)
	defer cancel()
	release, err := s.enter(ctx, s.logQueries)
	if err != nil {
		return nil, limitExceeded("the node answers %d log queries of this address already (rpc.log_queries_per_host), or %d of all (rpc.log_queries); try again", s.logQueries.perHost, s.logQueries.places)
	}
	defer release()
	if q.block != nil {
		return s.logsOfBlock(q)
	}
	for {
		from, to, err := s.logRange(q)
		if err != nil {
			return nil, err
		}
		top, err := s.back.Chain.CanonicalHash(to)
		if err != nil {
			return nil, unreadable(fmt.Sprintf("block %d", to), err)
		}
		logs, err := s.index.search(ctx, q, from, to, s.cfg.LogCount, s.cfg.LogWorkers)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, limitExceeded("log query took longer than %s (rpc.log_timeout); ask for fewer blocks", s.cfg.LogTimeout)
		}
		// If the last block is still the same, so are all below it: what was read is of one branch.
		if now, headErr := s.back.Chain.CanonicalHash(to); headErr == nil && now == top || err != nil && headErr != nil {
			return logs, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (s *service) logsOfBlock(q *logQuery) ([]*types.Log, error) {
	h, err := s.back.header(byHash(*q.block))
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, &Error{Code: codeServer, Message: fmt.Sprintf("unknown block: this node has no block %s", q.block)}
	}
	logs, err := s.index.logsIn(h, *q.block, q, []*types.Log{}, &logBudget{most: s.cfg.LogCount})
	if errors.Is(err, errTooManyLogs) {
		return nil, limitExceeded("query returned more than %d results or %d MiB; ask for fewer addresses or topics", s.cfg.LogCount, maxLogBytes>>20)
	}
	return logs, err
}

// logBudget is what one answer may hold; the workers of a query share it.
type logBudget struct {
	most  int // logs
	count atomic.Int64
	bytes atomic.Int64
}

var errTooManyLogs = errors.New("too many logs for one answer")

// take counts a log in.
func (b *logBudget) take(l *types.Log) error {
	if b.count.Add(1) > int64(b.most) || b.bytes.Add(logBytes(l)) > maxLogBytes {
		return errTooManyLogs
	}
	return nil
}

// logRange resolves the tags of a query. A range that ends above the head is an error, never a shorter list: a caller
// that asks for blocks to come would take the answer for complete.
func (s *service) logRange(q *logQuery) (from, to uint64, err error) {
	head := s.back.Chain.CurrentHeader().Number.Uint64()
	resolve := func(n *gethrpc.BlockNumber) (uint64, error) {
		if n == nil {
			return head, nil
		}
		if *n >= 0 {
			return uint64(*n), nil
		}
		h, err := s.back.headerByNumber(*n)
		if err != nil || h == nil {
			return 0, invalidParams("block %s is not known yet", n)
		}
		return h.Number.Uint64(), nil
	}
	if from, err = resolve(q.from); err != nil {
		return 0, 0, err
	}
	if to, err = resolve(q.to); err != nil {
		return 0, 0, err
	}
	first := s.back.Chain.FirstHeight()
	switch {
	case from > to:
		return 0, 0, invalidRange(from, to)
	case from < first:
		return 0, 0, prunedHistory(fmt.Sprintf("the query begins with block %d, this node keeps blocks from %d on", from, first))
	case to > head:
		return 0, 0, beyondHead(to, head)
	case to-from >= s.cfg.LogRange:
		return 0, 0, limitExceeded("query covers %d blocks, %d are allowed; ask for %d to %d first", to-from+1, s.cfg.LogRange, from, from+s.cfg.LogRange-1)
	}
	return from, to, nil
}

// search goes through the range in sections, several at a time, and returns the logs in chain order.
func (x *logIndex) search(ctx context.Context, q *logQuery, from, to uint64, limit, workers int) ([]*types.Log, error) {
	first, last := from/logSection, to/logSection
	found := make([][]*types.Log, last-first+1)
	var (
		next   atomic.Int64
		budget = logBudget{most: limit}
		mu     sync.Mutex
		fail   error
		wg     sync.WaitGroup
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end := func(err error) {
		mu.Lock()
		if fail == nil {
			fail = err
		}
		mu.Unlock()
		cancel()
	}
	work := func() {
		defer wg.Done()
		defer func() {
			if p := recover(); p != nil { // a query must not end the node
				end(&Error{Code: codeServer, Message: fmt.Sprintf("the log query failed: %v", p)})
			}
		}()
		for ctx.Err() == nil {
			i := uint64(next.Add(1) - 1) //nolint:gosec // counts up from 0
			if i >= uint64(len(found)) {
				return
			}
			lo, hi := max(from, (first+i)*logSection), min(to, (first+i+1)*logSection-1)
			logs, err := x.searchSection(ctx, q, lo, hi, &budget)
			if err != nil {
				end(err)
				return
			}
			found[i] = logs
		}
	}
	for n := min(workers, len(found)); n > 0; n-- {
		wg.Add(1)
		go work()
	}
	wg.Wait()
	if fail != nil {
		return nil, fail
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := make([]*types.Log, 0, budget.count.Load())
	for _, logs := range found {
		out = append(out, logs...)
	}
	return out, nil
}

func (x *logIndex) searchSection(ctx context.Context, q *logQuery, lo, hi uint64, budget *logBudget) ([]*types.Log, error) {
	may := x.candidates(q, lo/logSection)
	var logs []*types.Log
	for n := lo; n <= hi; n++ {
		if !may(n) {
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		h, err := x.chain.HeaderByNumber(n)
		if err != nil {
			return nil, unreadable(fmt.Sprintf("block %d", n), err)
		}
		if h == nil {
			return nil, &Error{Code: codeServer, Message: fmt.Sprintf("block %d is not available: the chain changed; ask again", n)}
		}
		if logs, err = x.logsIn(h, h.Hash(), q, logs, budget); errors.Is(err, errTooManyLogs) {
			return nil, limitExceeded("query returned more than %d results or %d MiB, the last in block %d; ask for fewer blocks, addresses or topics", budget.most, maxLogBytes>>20, n)
		} else if err != nil {
			return nil, err
		}
	}
	return logs, nil
}

// logsIn appends the block's logs that match, until the budget is used up.
func (x *logIndex) logsIn(h *types.Header, hash common.Hash, q *logQuery, to []*types.Log, budget *logBudget) ([]*types.Log, error) {
	if !q.mayMatch(&h.Bloom) {
		return to, nil
	}
	rs, err := x.chain.Receipts(hash)
	if err != nil {
		return nil, unreadable(fmt.Sprintf("receipts of block %d", h.Number), err)
	}
	for _, r := range rs {
		for _, l := range r.Logs {
			if !q.match(l) {
				continue
			}
			if err := budget.take(l); err != nil {
				return nil, err
			}
			to = append(to, l)
		}
	}
	return to, nil
}
