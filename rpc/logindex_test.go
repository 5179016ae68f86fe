package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// longChain is a chain of many final blocks; only what a log query reads.
type longChain struct {
	Chain
	headers []*types.Header
	logs    map[common.Hash]types.Receipts
	reads   atomic.Int64 // headers asked for
}

func (c *longChain) CurrentHeader() *types.Header { return c.headers[len(c.headers)-1] }
func (c *longChain) FinalHeader() *types.Header   { return c.CurrentHeader() }
func (c *longChain) FirstHeight() uint64          { return 0 }
func (c *longChain) HeaderByNumber(n uint64) (*types.Header, error) {
	c.reads.Add(1)
	if n >= uint64(len(c.headers)) {
		return nil, nil
	}
	return c.headers[n], nil
}
func (c *longChain) CanonicalHash(n uint64) (common.Hash, error) {
	if n >= uint64(len(c.headers)) {
		return common.Hash{}, nil
	}
	return c.headers[n].Hash(), nil
}
func (c *longChain) Receipts(h common.Hash) (types.Receipts, error) { return c.logs[h], nil }

// grow adds a block with these logs.
func (c *longChain) grow(logs ...*types.Log) {
	h := &types.Header{Number: big.NewInt(int64(len(c.headers))), Difficulty: new(big.Int)}
	for _, l := range logs {
		l.BlockNumber = uint64(len(c.headers))
		h.Bloom.Add(l.Address[:])
		for _, t := range l.Topics {
			h.Bloom.Add(t[:])
		}
	}
	if len(logs) > 0 {
		c.logs[h.Hash()] = types.Receipts{{Logs: logs}}
	}
	c.headers = append(c.headers, h)
}

// sparseChain has one log in 1,000 blocks.
func sparseChain(blocks int) *longChain {
	c := &longChain{logs: map[common.Hash]types.Receipts{}}
	for i := range blocks {
		if i%1000 == 7 {
			c.grow(&types.Log{Address: common.Address{byte(i / 1000 % 2)}})
		} else {
			c.grow()
		}
	}
	return c
}

// busyChain has logs in every block; the value of rare is in one of 5,000.
func busyChain(blocks, perBlock int, rare common.Hash) *longChain {
	r := rand.New(rand.NewPCG(1, 2))
	c := &longChain{logs: map[common.Hash]types.Receipts{}}
	for i := range blocks {
		logs := make([]*types.Log, perBlock)
		for k := range logs {
			logs[k] = &types.Log{Address: common.Address{byte(k % 16)}, Topics: []common.Hash{{1}, randomHash(r), randomHash(r)}}
		}
		if i%5000 == 77 {
			logs[0].Topics[1] = rare
		}
		c.grow(logs...)
	}
	return c
}

func randomHash(r *rand.Rand) (h common.Hash) {
	binary.LittleEndian.PutUint64(h[8:], r.Uint64())
	return h
}

func queryService(c Chain) *service {
	s := &service{cfg: DefaultConfig(), back: Backend{Chain: c}, index: newLogIndex(c), ctx: context.Background()}
	s.cfg.LogTimeout = waitTime
	s.bound()
	return s
}

func rangeQuery(from, to int64, addresses []common.Address, topics ...[]common.Hash) *logQuery {
	f, l := gethrpc.BlockNumber(from), gethrpc.BlockNumber(to)
	q := &logQuery{from: &f, to: &l, addresses: addresses, topics: topics}
	for _, a := range addresses {
		q.hashes = append(q.hashes, bitsOf(a[:]))
	}
	for _, ts := range topics {
		var p []bloomBits
		for _, x := range ts {
			p = append(p, bitsOf(x[:]))
		}
		q.positions = append(q.positions, p)
	}
	return q
}

func extendAll(t testing.TB, x *logIndex) {
	for more := true; more; {
		var err error
		more, err = x.extend()
		require.NoError(t, err)
	}
}

func TestLogsOver100kBlocks(t *testing.T) {
	c := sparseChain(100_100)
	s := queryService(c)
	q := rangeQuery(50, 100_049, []common.Address{{1}})
	var want []*types.Log
	for _, h := range c.headers[50:100_050] {
		for _, r := range c.logs[h.Hash()] {
			if l := r.Logs[0]; l.Address == (common.Address{1}) {
				want = append(want, l)
			}
		}
	}
	require.NotEmpty(t, want)
	check := func() {
		logs, err := s.getLogs(bg, q)
		require.NoError(t, err)
		require.Equal(t, want, logs)
	}
	check() // from headers
	check() // from the cache of blooms
	path := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, s.index.open(path))
	extendAll(t, s.index)
	s.index.close()
	s.index = newLogIndex(c)
	require.NoError(t, s.index.open(path))
	defer s.index.close()
	require.EqualValues(t, len(c.headers), s.index.file.height(), "the index is there after a restart")
	before := c.reads.Load()
	check()
	require.Less(t, c.reads.Load()-before, int64(len(want))+10, "the index leaves only headers of blocks with matches to be read")

	_, err := s.getLogs(bg, rangeQuery(50, 100_050, nil))
	requireCode(t, err, codeLimit, "query covers 100001 blocks")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.getLogs(ended, q)
	require.Error(t, err)
}

// The index and the blocks themselves give the same answers, whatever the query; also while it is behind, after it lost
// its end, and after damage.
func TestLogIndexAgainstBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c := &longChain{logs: map[common.Hash]types.Receipts{}}
	value := func() common.Hash { return common.Hash{byte(r.IntN(40)) + 1} }
	grow := func(n int) {
		for range n {
			var logs []*types.Log
			for range max(0, r.IntN(9)-5) {
				l := &types.Log{Address: common.Address{byte(r.IntN(20))}}
				for range r.IntN(4) {
					l.Topics = append(l.Topics, value())
				}
				logs = append(logs, l)
			}
			if r.IntN(2000) == 0 { // too many values to index
				for i := range maxLogPrints/4 + 100 {
					l := &types.Log{Address: common.Address{19: 1}}
					for k := range 4 {
						l.Topics = append(l.Topics, common.Hash{9, byte(k), byte(i), byte(i >> 8)})
					}
					logs = append(logs, l)
				}
			}
			c.grow(logs...)
		}
	}
	grow(3*logSection + 700)
	s := queryService(c)
	s.cfg.LogCount = 1 << 30
	path := filepath.Join(t.TempDir(), "logs")
	check := func(what string) {
		for range 6 {
			from := r.IntN(len(c.headers))
			to := from + r.IntN(len(c.headers)-from)
			var addresses []common.Address
			for range r.IntN(3) {
				addresses = append(addresses, common.Address{byte(r.IntN(20))})
			}
			var topics [][]common.Hash
			for range r.IntN(3) {
				var alternatives []common.Hash
				for range r.IntN(3) {
					alternatives = append(alternatives, value())
				}
				topics = append(topics, alternatives)
			}
			if addresses == nil && len(topics) == 0 {
				continue // all logs are more than one answer holds
			}
			q := rangeQuery(int64(from), int64(to), addresses, topics...)
			want := []*types.Log{}
			for _, h := range c.headers[from : to+1] {
				for _, rs := range c.logs[h.Hash()] {
					for _, l := range rs.Logs {
						if q.match(l) {
							want = append(want, l)
						}
					}
				}
			}
			got, err := s.getLogs(bg, q)
			require.NoError(t, err, what)
			require.True(t, slices.Equal(want, got), "%s: %d to %d, %v %v: %d logs, want %d", what, from, to, addresses, topics, len(got), len(want))
		}
	}
	open := func() {
		s.index.close()
		s.index = newLogIndex(c)
		require.NoError(t, s.index.open(path))
	}
	open()
	defer func() { s.index.close() }()
	check("nothing indexed")
	_, err := s.index.extend()
	require.NoError(t, err)
	check("partly indexed")
	extendAll(t, s.index)
	check("indexed")
	open()
	require.EqualValues(t, len(c.headers), s.index.file.height())
	check("opened again")
	grow(logSection)
	check("behind")
	extendAll(t, s.index)
	check("caught up")

	tail, err := os.ReadFile(path + ".tail")
	require.NoError(t, err)
	for _, cut := range []int{1, len(tail) / 2, len(tail) - 1, 0} { // torn ends
		require.NoError(t, os.WriteFile(path+".tail", tail[:len(tail)-cut], 0o600))
		open()
		require.LessOrEqual(t, s.index.file.height(), uint64(len(c.headers)))
		check("torn tail")
		extendAll(t, s.index)
		require.EqualValues(t, len(c.headers), s.index.file.height())
		check("mended tail")
	}
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-100], 0o600))
	open()
	check("torn section")
	extendAll(t, s.index)
	check("mended section")
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, slices.Equal(whole, again))

	for range 4 { // a byte anywhere
		bad := slices.Clone(whole)
		bad[r.IntN(len(bad))] ^= byte(1 + r.IntN(255))
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		open()
		check("damaged")
		extendAll(t, s.index)
		check("repaired")
	}
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	other := &longChain{logs: map[common.Hash]types.Receipts{}}
	for range logSection {
		other.grow(&types.Log{})
	}
	c = other
	s.back.Chain = c
	open()
	require.Zero(t, s.index.file.height(), "the index of another chain is made anew")
}

// damagedTop is a chain whose blocks from a height on cannot be read.
type damagedTop struct {
	Chain
	from uint64
}

func (c damagedTop) CanonicalHash(n uint64) (common.Hash, error) {
	if n >= c.from {
		return common.Hash{}, block.ErrCorrupt{Height: n, Cause: errors.New("test")}
	}
	return c.Chain.CanonicalHash(n)
}

// noRepairs is an owner of repairs before the node runs: it repairs nothing, and whoever waits for it waits for ever.
type noRepairs struct{ t *testing.T }

func (r noRepairs) ReadRepaired(_ context.Context, read func() error) error {
	if err := read(); err != nil {
		r.t.Errorf("waits for a repair that nobody makes: %v", err)
		return err
	}
	return nil
}

// An index that opens reads from the newest block down to one that it knows. It does not wait for damaged ones: they are repaired
// only when the node runs, which waits for its index to open.
func TestLogIndexOpensWithoutWaitingForRepairs(t *testing.T) {
	c := sparseChain(100)
	s := queryService(c)
	path := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, s.index.open(path))
	extendAll(t, s.index)
	require.EqualValues(t, len(c.headers), s.index.file.height())
	s.index.close()

	s.index = newLogIndex(repairedChain{damagedTop{c, 40}, noRepairs{t}, bg})
	require.NoError(t, s.index.open(path))
	require.EqualValues(t, 40, s.index.file.height(), "what is damaged is indexed again later")
	s.index.close()
}

// Blocks that are no longer kept are left out, and the index goes on above them.
func TestLogIndexOfPrunedChain(t *testing.T) {
	c := sparseChain(2*logSection + 50)
	pruned := &prunedChain{c}
	s := queryService(pruned)
	path := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, s.index.open(path))
	extendAll(t, s.index)
	require.EqualValues(t, len(c.headers), s.index.file.height())
	logs, err := s.getLogs(bg, rangeQuery(logSection, int64(len(c.headers)-1), nil))
	require.NoError(t, err)
	require.Len(t, logs, 2)
	_, err = s.getLogs(bg, rangeQuery(0, 10, nil))
	requireCode(t, err, codePruned, "this node keeps blocks from 300 on")
	s.index.close()
	s.index = newLogIndex(pruned)
	require.NoError(t, s.index.open(path))
	require.EqualValues(t, len(c.headers), s.index.file.height())
	s.index.close()
}

type prunedChain struct{ *longChain }

func (c prunedChain) FirstHeight() uint64 { return 300 }

func (c prunedChain) HeaderByNumber(n uint64) (*types.Header, error) {
	if n > 0 && n < 300 {
		return nil, block.ErrPruned
	}
	return c.longChain.HeaderByNumber(n)
}

func (c prunedChain) CanonicalHash(n uint64) (common.Hash, error) {
	if n > 0 && n < 300 {
		return common.Hash{}, block.ErrPruned
	}
	return c.longChain.CanonicalHash(n)
}

func FuzzLogBucket(f *testing.F) {
	f.Add(appendBucket(nil, []uint64{0, 3, 1 << 16, 5<<16 | 1, 5<<16 | 2047, (1<<22 - 1) << 16}))
	f.Add([]byte{1, 0, 0, 0, 2, 0, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeBucket(7, b, func(p uint32, _ *blockSet) { require.EqualValues(t, 7, p%logBuckets) })
	})
}

// Queries over 100,000 blocks whose every block has logs.
func BenchmarkLogQuery(b *testing.B) {
	rare := common.Hash{0xaa}
	c := busyChain(100_000, 10, rare)
	s := queryService(c)
	path := filepath.Join(b.TempDir(), "logs")
	require.NoError(b, s.index.open(path))
	extendAll(b, s.index)
	fi, err := os.Stat(path)
	require.NoError(b, err)
	ask := func(b *testing.B, topic common.Hash, want int) {
		logs, err := s.getLogs(bg, rangeQuery(0, 99_999, nil, nil, []common.Hash{topic}))
		require.NoError(b, err)
		require.Len(b, logs, want)
	}
	b.Run("rare, opened anew", func(b *testing.B) {
		for b.Loop() {
			s.index.close()
			s.index = newLogIndex(c)
			require.NoError(b, s.index.open(path))
			ask(b, rare, 20)
		}
		b.ReportMetric(float64(fi.Size())/100_000, "index-B/block")
	})
	b.Run("rare", func(b *testing.B) {
		for b.Loop() {
			ask(b, rare, 20)
		}
	})
	b.Run("none", func(b *testing.B) {
		for b.Loop() {
			ask(b, common.Hash{0xbb}, 0)
		}
	})
	b.Run("too many", func(b *testing.B) {
		for b.Loop() {
			_, err := s.getLogs(bg, rangeQuery(0, 99_999, []common.Address{{1}}))
			requireCode(b, err, codeLimit, "more than 10000 results")
		}
	})
	b.Run("rare, blooms of headers", func(b *testing.B) {
		s.index.close()
		for b.Loop() {
			s.index = newLogIndex(c)
			ask(b, rare, 20)
		}
	})
}
