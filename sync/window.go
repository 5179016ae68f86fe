package blocksync

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bornode/bornode/transport"
	"go.uber.org/zap"
)

// windowJob is one chunk that is read from its peer's window instead of being pushed.
type windowJob struct {
	assignment
	ctx    context.Context
	cancel context.CancelFunc
	ahead  chan struct{} // holds a token for each batch that was read and not taken yet
}

var errWindowStopped = errors.New("no longer wanted")

// request asks a peer for a chunk: it is read from the peer's window where there is one, else pushed by the peer.
func (m *Manager) request(a assignment, now time.Time) {
	p := m.peers[a.peer]
	if p != nil && m.readable(p, now) && m.readWindow(p, a) {
		return
	}
	m.requestPush(p, a, now)
}

func (m *Manager) requestPush(p *peer, a assignment, now time.Time) {
	r := SyncRequest{Start: a.start, End: a.end, ReqIndex: a.req}
	if p == nil || !p.send(transport.LaneConsensus, TypeSyncRequest, r.Encode()) {
		m.sched.Fail(a.peer, a.req, CodeOverloaded, 0, now)
	}
}

// readable reports whether it is worth trying to read the peer's window. Whether the link carries such reads now is
// only known by trying: what carries it may change at any moment.
func (m *Manager) readable(p *peer, now time.Time) bool {
	if !m.cfg.Pull || p.leaving || p.hello == nil || p.hello.Modes&ServePull == 0 {
		return false
	}
	return !now.Before(p.windowAfter) || p.windowNone != "" && p.windowNone != p.link.Provider()
}

// readWindow gives a chunk to the peer's reader; false if it has enough to do.
func (m *Manager) readWindow(p *peer, a assignment) bool {
	if p.windowQueue == nil {
		p.windowQueue = make(chan *windowJob, maxInFlightPerPeer)
		m.wg.Go(func() { m.windowWorker(p, p.windowQueue) })
	}
	j := &windowJob{assignment: a, ahead: make(chan struct{}, windowBatches)}
	j.ctx, j.cancel = context.WithCancel(p.ctx)
	select {
	case p.windowQueue <- j:
		p.windowJobs[a.req] = j
		return true
	default:
		j.cancel()
		return false
	}
}

// windowWorker reads a peer's window, one chunk after another, until the peer is gone.
func (m *Manager) windowWorker(p *peer, queue <-chan *windowJob) {
	r := &windowReader{src: p.link, timeout: m.cfg.RequestTimeout / 2, maxBlock: maxRaw(&m.deps.Params)}
	for {
		select {
		case <-p.ctx.Done():
			return
		case j := <-queue:
			if j.ctx.Err() != nil {
				continue // taken back while it waited
			}
			err := r.read(j.ctx, j.start, j.end, func(blocks []rangeBlock) error { return m.hand(p, j, blocks) })
			settled := make(chan struct{})
			m.post(func() { m.windowEnded(p, j, err, time.Now()); close(settled) })
			if err != nil { // those behind it may be taken back first
				select {
				case <-settled:
				case <-p.ctx.Done():
				}
			}
			j.cancel()
		}
	}
}

// hand gives blocks that were read to the manager's goroutine; it waits while that one has not taken those before, so
// that a chunk whose blocks are larger than expected is cut in time.
func (m *Manager) hand(p *peer, j *windowJob, blocks []rangeBlock) error {
	select {
	case j.ahead <- struct{}{}:
	case <-j.ctx.Done():
		return errWindowStopped
	}
	if !m.post(func() { m.onWindowBlocks(p, j, blocks); <-j.ahead }) {
		return errWindowStopped
	}
	return nil
}

// onWindowBlocks takes blocks that were read; they go the way of blocks that were pushed.
func (m *Manager) onWindowBlocks(p *peer, j *windowJob, blocks []rangeBlock) {
	if p.leaving || p.windowJobs[j.req] != j {
		return
	}
	now := time.Now()
	for _, b := range blocks {
		got := m.take(p, j.req, b, now)
		if got != receiptStale && got != receiptWrong {
			p.counts.pulledBlocks++
			p.counts.pulledBytes += uint64(len(b.raw))
			m.metrics.pulled(len(b.raw))
		}
		if got != receiptTaken { // complete, cut, or not wanted any more
			delete(p.windowJobs, j.req)
			j.cancel()
			m.pump(now)
			return
		}
	}
}

// windowEnded takes the end of a chunk's reading. What is still missing of it is asked for by message, of the same peer
// and under the same request: a window that was pruned, replaced or torn is no crime, and nothing that came is lost.
// Chunks that wait behind it do not try what has just failed.
func (m *Manager) windowEnded(p *peer, j *windowJob, err error, now time.Time) {
	if err == nil {
		p.windowFails = 0
	}
	if p.leaving || p.windowJobs[j.req] != j {
		return
	}
	failed := []*windowJob{j}
	switch {
	case err == nil || errors.Is(err, errWindowEnds):
	case errors.Is(err, transport.ErrNoWindow):
		p.windowAfter, p.windowNone = now.Add(windowRetry), p.link.Provider()
		failed = p.windowInOrder()
	default:
		p.windowAfter, p.windowNone = now.Add(min(maxSourceBackoff, windowRetry<<min(p.windowFails, 10))), ""
		p.windowFails++
		failed = p.windowInOrder()
	}
	for _, f := range failed {
		delete(p.windowJobs, f.req)
		f.cancel()
		if rest, live := m.sched.Rewind(p.id, f.req, now); live {
			m.log.Debug("the rest of a range is asked for by message", zap.String("peer", string(p.id)), zap.Uint64("height", rest.start), zap.Error(err))
			m.metrics.fellBack()
			m.requestPush(p, rest, now)
		}
	}
}

// windowInOrder lists the chunks that are being read or wait for it, in the order in which they were asked for.
func (p *peer) windowInOrder() []*windowJob {
	return slices.SortedFunc(maps.Values(p.windowJobs), func(a, b *windowJob) int { return cmp.Compare(a.req, b.req) })
}
