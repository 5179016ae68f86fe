package blocksync

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
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
	raws  []rangeBlock
	peer  transport.PeerID
}

// maxRaw is the largest encoding of a block that the chain allows; 0: any.
func maxRaw(p *block.Parameters) int {
	if p.MaxBlockBytes == 0 {
		return 0
	}
	return int(p.MaxBlockBytes) + block.MaxHeaderBytes //nolint:gosec // bounded by genesis
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
	for i := range j.raws {
		height, told := j.start+uint64(i), j.raws[i].hash //nolint:gosec // small
		b, err := block.DecodeBlock(j.raws[i].raw, 0)
		if err != nil {
			return nil, height, fmt.Errorf("block %d: %w", height, err)
		}
		if b.Number() != height {
			return nil, height, wrongHeight(b.Number(), height)
		}
		if told != (common.Hash{}) && b.Hash() != told {
			return nil, height, fmt.Errorf("block %d is %s, the index it was found in says %s", height, b.Hash(), told)
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
	disputed  []claim // parts do not link up and it is not known whose is wrong: begin anew from LIB
	err       error
}

type importItem struct {
	b     *block.Block
	peer  transport.PeerID
	bytes int64
}

// claim is what a peer's answer says of the irreversible block of a height. It is settled when LIB is there.
type claim struct {
	peer   transport.PeerID
	height uint64
	hash   common.Hash
}

// importer feeds ranges to the driver in order. It keeps the blocks that no certificate covers yet and puts them in
// front of the next chunk, so that a chunk shorter than the distance to the next certificate makes progress; beyond
// its bounds they enter as reversible blocks, which needs no memory. Of these it keeps the last ones, within the same
// bounds: when certificates are back, the range that they cover begins on LIB again.
type importer struct {
	m     *Manager
	tail  []importItem // entered above LIB, right below rest
	rest  []importItem
	taken uint64
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
			for _, it := range slices.Concat(im.tail, im.rest) {
				r.restBytes += it.bytes
			}
			m.post(func() { m.onImported(r) })
		}
	}
}

func (im *importer) do(ctx context.Context, j *importJob) importResult {
	if j.reset {
		im.forget()
		return importResult{}
	}
	known, items := len(im.tail), slices.Concat(im.tail, im.rest)
	im.tail, im.rest = nil, nil
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
		known--
	}
	if len(items) == 0 {
		return importResult{}
	}
	if r, ok := linked(items, lib); !ok {
		if r.why == Forked {
			im.showFork(ctx, items)
		}
		im.forget()
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
	if known > 0 && items[0].b.Number() > lib.Height+1 { // not the whole way down to LIB: of no use to the driver
		im.tail, items = items[:known:known], items[known:]
	}
	if len(items) == 0 {
		return importResult{}
	}
	return im.addRange(ctx, items)
}

// forget drops everything: what comes next begins on LIB.
func (im *importer) forget() { im.tail, im.rest, im.taken = nil, nil, 0 }

// remember keeps the last of the blocks that were taken, as far as LIB is below them.
func (im *importer) remember(taken []importItem) {
	all := slices.Concat(im.tail, taken)
	lib, bytes, n := im.m.deps.Driver.Status().LIB.Height, int64(0), 0
	for ; n < len(all); n++ {
		it := all[len(all)-1-n]
		if bytes += it.bytes; it.b.Number() <= lib || n > 0 && im.beyond(bytes, n+1) {
			break
		}
	}
	im.tail = slices.Clone(all[len(all)-n:])
}

// beyond reports whether so many blocks are more than the importer keeps.
func (im *importer) beyond(bytes int64, blocks int) bool {
	return bytes > im.m.cfg.RunAheadBytes/4 || uint64(blocks) > min(maxRestBlocks, im.m.cfg.RunAheadBlocks/4) //nolint:gosec // a length
}

// showFork gives the driver a range that stands on another block than LIB. It refuses it, and tells whether a certificate
// in it proves that the chain has two final histories.
func (im *importer) showFork(ctx context.Context, items []importItem) {
	blocks := make([]*block.Block, len(items))
	for i := range items {
		blocks[i] = items[i].b
	}
	_, err := im.m.deps.Driver.AddRange(ctx, blocks, im.m.mode)
	im.m.log.Debug("range of another history", zap.Error(err))
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
		return importResult{disputed: dispute(a, b), err: err}, false
	}
	return importResult{}, true
}

// dispute is what two items say of the height below the second, whose parent the first is not.
func dispute(a, b importItem) []claim {
	below := claim{b.peer, b.b.Number() - 1, b.b.Parent()}
	if a.b == nil || a.b.Number() != below.height {
		return []claim{below}
	}
	return []claim{{a.peer, a.b.Number(), a.b.Hash()}, below}
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
			n := len(items) - min(max(res.Rest, 0), len(items))
			im.remember(items[:n])
			return im.keep(ctx, items[n:], res.Applied)
		case VerdictKnown, VerdictIrrelevant:
			return im.keep(ctx, nil, 0)
		case VerdictInvalid, VerdictUnknownParent, VerdictFuture:
			im.m.log.Debug("range was refused, looking for the block at fault", zap.Error(err))
			return im.enterFrom(ctx, items, err)
		}
		if ctx.Err() != nil { // the node ends, perhaps before it has executed its own blocks again
			return importResult{}
		}
		// Ours to solve (a full disk, a closed store): hold on to the data and try again.
		im.m.log.Error("blocks cannot be applied for now", zap.Uint64("height", blocks[0].Number()), zap.Error(err))
		if !pause.For(ctx, wait) {
			return importResult{}
		}
	}
}

func (im *importer) keep(ctx context.Context, rest []importItem, applied uint64) importResult {
	var bytes int64
	for _, it := range rest {
		bytes += it.bytes
	}
	if im.beyond(bytes, len(rest)) {
		return im.enter(ctx, rest)
	}
	im.rest = slices.Clone(rest)
	return importResult{applied: applied}
}

// enter adds blocks one by one as reversible ones.
func (im *importer) enter(ctx context.Context, items []importItem) importResult {
	return im.enterFrom(ctx, items, nil)
}

// enterFrom adds blocks one by one; the first one found invalid names the peer at fault. One whose parent is unknown
// stands on another branch than the blocks below it, which may have come from another peer and be valid as well, and
// one from the future may only show that our clock is slow: whose fault that is, the final blocks will tell. cause is
// why the whole was refused.
func (im *importer) enterFrom(ctx context.Context, items []importItem, cause error) importResult {
	var r importResult
	var below importItem
	if n := len(im.tail); n > 0 {
		below = im.tail[n-1]
	}
	for i := 0; i < len(items); {
		it := items[i]
		err := im.m.deps.Driver.AddBlock(ctx, it.b)
		switch im.m.deps.verdict(err) {
		case VerdictOK, VerdictKnown, VerdictIrrelevant:
			r.entered = RefOf(it.b.SealedHeader)
			below = it
			i++
		case VerdictUnknownParent:
			im.forget()
			return importResult{entered: r.entered, disputed: dispute(below, it), err: err}
		case VerdictFuture:
			im.forget()
			return importResult{entered: r.entered, disputed: []claim{{it.peer, it.b.Number(), it.b.Hash()}}, err: err}
		case VerdictInvalid:
			im.remember(items[:i])
			im.taken = it.b.Number() - 1
			return importResult{entered: r.entered, bad: it.peer, badHeight: it.b.Number(), why: Validation, err: err, taken: im.taken}
		default:
			if ctx.Err() != nil {
				return r
			}
			im.m.log.Error("block cannot be added for now", zap.Uint64("height", it.b.Number()), zap.Error(err))
			if !pause.For(ctx, time.Second) {
				return r
			}
		}
	}
	if cause != nil {
		im.m.log.Warn("range was refused, yet each of its blocks is accepted", zap.Error(cause))
	}
	im.remember(items)
	return r
}
