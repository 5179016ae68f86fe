package rpc

import (
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/vfs"
)

// bloomChunk holds the blooms of logChunkBlocks consecutive final blocks.
type bloomChunk [logChunkBlocks]types.Bloom

// logIndex finds the blocks that may hold what a query asks for: in the index file, which has the final blocks; where
// that lacks them, in the blooms of headers, of which those of final blocks stay in memory, bounded.
type logIndex struct {
	log   *zap.Logger // set before open
	chain Chain
	// waits reports that receipts which are not stored cannot be made again yet: a block without them would be taken for one
	// that may match anything. Set before open.
	waits  func() bool
	blooms *lru.Cache[uint64, *bloomChunk]

	mu   sync.RWMutex // readers of file; Close waits for them
	file *logFile     // nil: none

	// Of the goroutine that extends the file.
	tries   int    // how often the next block could not be read
	missing uint64 // below this height blocks are not tried more than once
}

func newLogIndex(c Chain) *logIndex {
	return &logIndex{chain: c, waits: func() bool { return false }, log: zap.NewNop(), blooms: lru.NewCache[uint64, *bloomChunk](logCacheChunks)}
}

func (x *logIndex) open(path string) (err error) {
	stored := x.chain
	if c, ok := stored.(repairedChain); ok {
		stored = c.Chain // nobody repairs before the node runs: each damaged block would be waited for in vain
	}
	canonical := func(n uint64) common.Hash { // of a damaged block zero: what ends with it is indexed again
		h, err := stored.CanonicalHash(n)
		if err != nil {
			return common.Hash{}
		}
		return h
	}
	x.file, err = openLogFile(vfs.OS(filepath.Dir(path), vfs.Private), path, canonical, x.log)
	return err
}

func (x *logIndex) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file != nil {
		x.file.close()
		x.file = nil
	}
}

// candidates tells for the blocks of a section whether they may match; false is certain.
func (x *logIndex) candidates(q *logQuery, section uint64) func(n uint64) bool {
	set, covered := x.indexed(q, section)
	return func(n uint64) bool {
		if i := int(n % logSection); i < covered { //nolint:gosec // below logSection
			return set.has(i)
		}
		chunk := x.chunk(n / logChunkBlocks)
		return chunk == nil || q.mayMatch(&chunk[n%logChunkBlocks])
	}
}

// indexed is the blocks of a section that may match by the index, which has the first covered blocks of it.
func (x *logIndex) indexed(q *logQuery, section uint64) (set *blockSet, covered int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.file == nil {
		return nil, 0
	}
	groups := [][]uint32{{printAny}} // of each group one must be in the block
	wanted := []uint32{printWild, printAny}
	group := func(n int, value func(int) []byte) {
		if n == 0 {
			return
		}
		ps := make([]uint32, n)
		for i := range ps {
			ps[i] = x.file.print(value(i))
		}
		groups, wanted = append(groups, ps), append(wanted, ps...)
	}
	group(len(q.addresses), func(i int) []byte { return q.addresses[i][:] })
	for _, ts := range q.topics {
		group(len(ts), func(i int) []byte { return ts[i][:] })
	}
	found, covered, err := x.file.lookup(section, wanted)
	if err != nil || covered == 0 {
		return nil, 0 // read the headers; the index is mended by its own goroutine
	}
	set = new(blockSet)
	set.or(found[printAny])
	for _, ps := range groups {
		var any blockSet
		for _, p := range ps {
			any.or(found[p])
		}
		set.and(&any)
	}
	set.or(found[printWild])
	return set, covered
}

// chunk is the blooms of a chunk of final blocks, nil if not all of it is final or kept.
func (x *logIndex) chunk(i uint64) *bloomChunk {
	if c, ok := x.blooms.Get(i); ok {
		return c
	}
	if final := x.chain.FinalHeader(); final == nil || final.Number.Uint64() < (i+1)*logChunkBlocks-1 {
		return nil
	}
	c := new(bloomChunk)
	for n := range c {
		h, err := x.chain.HeaderByNumber(i*logChunkBlocks + uint64(n)) //nolint:gosec // an index
		if h == nil || err != nil {                                    // who looks at the block itself says why
			return nil
		}
		c[n] = h.Bloom
	}
	x.blooms.Add(i, c)
	return c
}

// extend adds final blocks to the index for about logIndexStep; true if there are more.
func (x *logIndex) extend() (more bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			more, err = false, fmt.Errorf("the log index failed: %v", p)
		}
	}()
	if err := x.file.repair(); err != nil {
		return false, fmt.Errorf("mend the log index: %w", err)
	}
	final := x.chain.FinalHeader()
	if final == nil || x.waits() {
		return false, nil
	}
	for until := time.Now().Add(logIndexStep); time.Now().Before(until); {
		if x.file.full() {
			if err := x.file.seal(); err != nil {
				return false, fmt.Errorf("write the log index: %w", err)
			}
		}
		n := x.file.height()
		if n > final.Number.Uint64() {
			return false, nil
		}
		if done, err := x.addBlock(n, final.Number.Uint64()); err != nil {
			return false, fmt.Errorf("write the log index: %w", err)
		} else if !done {
			return false, nil
		}
	}
	return true, nil
}

// addBlock adds block n; false: try again later. A block that cannot be read may match anything; of one whose header
// is missing, which is so for pruned ones, the index leaves out the section.
func (x *logIndex) addBlock(n, final uint64) (bool, error) {
	h, err := x.chain.HeaderByNumber(n)
	if first := x.chain.FirstHeight(); errors.Is(err, block.ErrPruned) && first > n {
		return true, x.file.skip(first)
	}
	if h == nil || err != nil {
		if !x.giveUp(n) {
			return false, nil
		}
		missing := sort.Search(int(final-n), func(i int) bool { //nolint:gosec // heights
			h, err := x.chain.HeaderByNumber(n + uint64(i)) //nolint:gosec // likewise
			return h != nil || err != nil                   // a damaged block says nothing about those after it
		})
		return true, x.file.skip(n + max(1, uint64(missing))) //nolint:gosec // likewise
	}
	ps := []uint32(nil)
	if h.Bloom != (types.Bloom{}) {
		rs, err := x.chain.Receipts(h.Hash())
		if err != nil && !x.giveUp(n) {
			return false, nil
		}
		if ps = wildPrints; err == nil {
			ps = x.file.printsOf(rs)
		}
	}
	x.tries = 0
	return true, x.file.add(n, h.Hash(), ps)
}

// giveUp reports that block n was tried often enough. Where one is missing others are too: the next ones after it are
// not waited for.
func (x *logIndex) giveUp(n uint64) bool {
	if x.tries++; x.tries < logIndexTries && n >= x.missing {
		return false
	}
	x.tries, x.missing = 0, n+logSection
	return true
}

// indexLoop keeps the index up with the final blocks. While it cannot be written, queries read headers instead.
func (s *service) indexLoop() {
	defer s.wg.Done()
	t := time.NewTimer(0)
	defer t.Stop()
	failed := false
	for {
		select {
		case <-t.C:
		case <-s.ctx.Done():
			return
		}
		more, err := s.index.extend()
		switch {
		case err != nil:
			if !failed {
				s.log.Error("the log index stands still; log queries read headers until it goes on. Make room on its disk; it is tried again every minute", zap.String("file", s.cfg.LogIndex), zap.Error(err))
			}
			t.Reset(logIndexRetry)
		case more:
			t.Reset(logIndexStep)
		default:
			t.Reset(time.Second)
		}
		if failed && err == nil {
			s.log.Info("the log index goes on", zap.String("file", s.cfg.LogIndex))
		}
		failed = err != nil
	}
}
