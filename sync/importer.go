package blocksync

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"go.uber.org/zap"
)

func wrongHeight(got, want uint64) error {
	return fmt.Errorf("answer brings height %d where %d was to come", got, want)
}

// decodeJob decodes one complete chunk; several run at once.
type decodeJob struct {
	chunk *chunk
	req   uint64
	start uint64
	raws  [][]byte
	peer  transport.PeerID
	limit int
}

func (m *Manager) decodeWorker() {
	for {
		select {
		case <-m.ctx.Done():
			return
		case j := <-m.decodes:
			blocks, height, err := decodeChunk(j)
			m.post(func() { m.onDecoded(j, blocks, height, err) })
		}
	}
}

// decodeChunk decodes consecutive blocks and checks that each is of its height and on top of the one before.
func decodeChunk(j *decodeJob) (blocks []*block.Block, bad uint64, err error) {
	blocks = make([]*block.Block, len(j.raws))
	for i, raw := range j.raws {
		height := j.start + uint64(i) //nolint:gosec // small
		b, err := block.DecodeBlock(raw, 0)
		if err != nil {
			return nil, height, fmt.Errorf("block %d: %w", height, err)
		}
		if j.limit > 0 && len(raw) > j.limit+block.MaxHeaderBytes {
			return nil, height, fmt.Errorf("block %d has %d bytes, the chain allows %d", height, len(raw), j.limit)
		}
		if b.Number() != height {
			return nil, height, wrongHeight(b.Number(), height)
		}
		if i > 0 && b.Parent() != blocks[i-1].Hash() {
			return nil, height, fmt.Errorf("block %d %s is not on top of %s", height, b.Hash(), blocks[i-1].Hash())
		}
		blocks[i] = b
	}
	return blocks, 0, nil
}

func (m *Manager) onDecoded(j *decodeJob, blocks []*block.Block, height uint64, err error) {
	now := time.Now()
	if err != nil {
		live := slices.Contains(m.sched.chunks, j.chunk) && j.chunk.req == j.req && j.chunk.state == chunkComplete
		if p := m.peers[j.peer]; p != nil {
			m.punish(p, Validation, err)
		} else if live {
			m.sched.Discard(j.peer)
		}
		m.log.Warn("range cannot be decoded", zap.String("peer", string(j.peer)), zap.Uint64("height", height), zap.Error(err))
		m.evaluate(now)
		return
	}
	m.sched.Decoded(j.chunk, j.req, blocks)
	m.pump(now)
}

// importJob is one chunk for the importer, or the order to settle the rest.
type importJob struct {
	blocks []*block.Block
	peer   transport.PeerID
	end    uint64
	bytes  int64
	flush  bool // enter the uncertified rest as reversible blocks
	reset  bool // forget the rest
	fc     []*block.Certificate
}

type importResult struct {
	applied   uint64 // height of LIB
	taken     uint64 // up to here the importer has everything: applied, entered, or in its rest
	restBytes int64
	entered   Ref
	bad       transport.PeerID // who delivered the bad block
	badHeight uint64
	why       Reason
	suspects  []transport.PeerID // two parts do not link up and it is not known whose is wrong
	err       error
}

type importItem struct {
	b     *block.Block
	peer  transport.PeerID
	bytes int64
}

// importer feeds ranges to the driver in order. It keeps the blocks that no certificate covers yet and puts them in
// front of the next chunk, so that a chunk shorter than the distance to the next certificate makes progress; beyond
// its bounds they enter as reversible blocks, which needs no memory.
type importer struct {
	m     *Manager
	rest  []importItem
	taken uint64
	next  uint64 // where the driver expects the next range, if not on top of LIB
}

func (m *Manager) importWorker() {
	im := &importer{m: m}
	for {
		select {
		case <-m.ctx.Done():
			return
		case j := <-m.imports:
			r := im.do(m.ctx, j)
			if m.ctx.Err() != nil {
				return
			}
			r.applied, r.taken = m.deps.Driver.Status().LIB.Height, max(im.taken, r.taken)
			for _, it := range im.rest {
				r.restBytes += it.bytes
			}
			m.post(func() { m.onImported(r) })
		}
	}
}

func (im *importer) do(ctx context.Context, j *importJob) importResult {
	if j.reset {
		im.rest, im.taken = nil, 0
		return importResult{}
	}
	items := im.rest
	im.rest = nil
	if n := len(j.blocks); n > 0 {
		per := j.bytes / int64(n)
		for _, b := range j.blocks {
			items = append(items, importItem{b, j.peer, per})
		}
		im.taken = j.end
	}
	lib := im.m.deps.Driver.Status().LIB
	for len(items) > 0 && items[0].b.Number() <= lib.Height {
		items = items[1:]
	}
	if len(items) == 0 {
		return importResult{}
	}
	if r, ok := linked(items, lib); !ok {
		return r
	}
	if j.flush {
		r := im.enter(ctx, items)
		for _, c := range j.fc {
			if err := im.m.deps.Driver.AddCertificate(c); err != nil {
				im.m.log.Debug("peer's certificate is of no use", zap.Error(err))
			}
		}
		return r
	}
	if n := items[0].b.Number(); n > lib.Height+1 && n != im.next {
		return im.enter(ctx, items)
	}
	return im.addRange(ctx, items)
}

// linked checks that the items are one chain and, if they begin there, stand on LIB.
func linked(items []importItem, lib Ref) (importResult, bool) {
	first := items[0]
	if first.b.Number() == lib.Height+1 && first.b.Parent() != lib.Hash {
		return importResult{bad: first.peer, badHeight: first.b.Number(), why: Forked,
			err: fmt.Errorf("block %d %s is not on top of the irreversible block %s", first.b.Number(), first.b.Hash(), lib.Hash)}, false
	}
	for i := 1; i < len(items); i++ {
		a, b := items[i-1], items[i]
		if b.b.Parent() == a.b.Hash() {
			continue
		}
		err := fmt.Errorf("block %d %s is not on top of %s", b.b.Number(), b.b.Hash(), a.b.Hash())
		if a.peer == b.peer {
			return importResult{bad: b.peer, badHeight: first.b.Number(), why: Unlinkable, err: err}, false
		}
		return importResult{suspects: []transport.PeerID{a.peer, b.peer}, badHeight: first.b.Number(), err: err}, false
	}
	return importResult{}, true
}

func (im *importer) addRange(ctx context.Context, items []importItem) importResult {
	blocks := make([]*block.Block, len(items))
	for i := range items {
		blocks[i] = items[i].b
	}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 30*time.Second) {
		res, err := im.m.deps.Driver.AddRange(ctx, blocks, im.m.mode)
		switch im.m.deps.verdict(err) {
		case VerdictOK:
			im.next = res.Next
			return im.keep(ctx, items[len(items)-min(max(res.Rest, 0), len(items)):], res.Applied)
		case VerdictKnown, VerdictIrrelevant:
			return im.keep(ctx, nil, 0)
		case VerdictInvalid, VerdictUnknownParent, VerdictFuture:
			im.m.log.Debug("range was refused, looking for the block at fault", zap.Error(err))
			return im.enterFrom(ctx, items, err)
		}
		// Ours to solve (a full disk, a closed store): hold on to the data and try again.
		im.m.log.Error("blocks cannot be applied for now", zap.Uint64("height", blocks[0].Number()), zap.Error(err))
		if !sleep(ctx, wait) {
			return importResult{}
		}
	}
}

func (im *importer) keep(ctx context.Context, rest []importItem, applied uint64) importResult {
	var bytes int64
	for _, it := range rest {
		bytes += it.bytes
	}
	if bytes > im.m.cfg.RunAheadBytes/4 || uint64(len(rest)) > min(maxRestBlocks, im.m.cfg.RunAheadBlocks/4) {
		return im.enter(ctx, rest)
	}
	im.rest = slices.Clone(rest)
	return importResult{applied: applied}
}

// enter adds blocks one by one as reversible ones.
func (im *importer) enter(ctx context.Context, items []importItem) importResult {
	return im.enterFrom(ctx, items, nil)
}

// enterFrom adds blocks one by one; the first one refused names the peer at fault. cause is why the whole was refused.
func (im *importer) enterFrom(ctx context.Context, items []importItem, cause error) importResult {
	var r importResult
	for i := 0; i < len(items); {
		it := items[i]
		err := im.m.deps.Driver.AddBlock(ctx, it.b)
		switch im.m.deps.verdict(err) {
		case VerdictOK, VerdictKnown, VerdictIrrelevant:
			r.entered = RefOf(it.b.SealedHeader)
			i++
		case VerdictInvalid, VerdictUnknownParent, VerdictFuture:
			im.taken = it.b.Number() - 1
			return importResult{entered: r.entered, bad: it.peer, badHeight: it.b.Number(), why: Validation, err: err, taken: im.taken}
		default:
			im.m.log.Error("block cannot be added for now", zap.Uint64("height", it.b.Number()), zap.Error(err))
			if !sleep(ctx, time.Second) {
				return r
			}
		}
	}
	if cause != nil {
		im.m.log.Warn("range was refused, yet each of its blocks is accepted", zap.Error(cause))
	}
	return r
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
