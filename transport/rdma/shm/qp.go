//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// States of a queue pair.
const (
	stateIdle int32 = iota
	stateConnecting
	stateReady
	stateBroken
)

// QP is a queue pair.
type QP struct {
	dev    *Device
	cq     *CQ
	srq    *SRQ
	num    uint32
	info   info
	offers chan offer    // the peer's dial, once its token was found good
	done   chan struct{} // closed when broken
	turn   chan struct{} // held by an OpenArea until the peer answered it

	workers sync.WaitGroup

	// The send half, guarded by send. What the peer shares is mapped by Connect and unmapped by Close.
	_         [cacheLine]byte
	send      sync.Mutex
	state     atomic.Int32
	depth     int
	room      uint64 // slots in flight up to which a completion need not wait for the receiver
	posted    uint64
	freedSeen uint64
	tx        txRing
	peerArmed *atomic.Uint32
	peerFree  *atomic.Uint32
	signalled atomic.Uint32 // the peer's armed epoch that we answered last
	rnrRetry  bool
	flushed   bool
	deferred  atomic.Bool // pending is not empty and waits for the receiver
	pending   sendQueue
	status    *mapping // of the peer

	// The receiving half, guarded by the mutex of cq.
	_       [cacheLine]byte
	rx      rxRing
	exposed atomic.Uint32 // bytes of the largest region the peer may write
	freed   atomic.Uint64 // requests before this one have left the send queue: their completion was polled

	_      [cacheLine]byte
	theirs [fabric.MaxExposed]atomic.Pointer[peerRegion]
	arms   uint32 // the queue's epoch at the last wake-up; of the reading goroutine, as wakes
	wakes  uint64 // the peer may still send

	mu      sync.Mutex // guards the rest
	conn    *socket
	cancel  context.CancelFunc       // of Connect
	changed chan struct{}            // closed and replaced when theirs grew
	ours    int                      // regions exposed
	acks    map[uint32]chan struct{} // Expose waits, by key
	asked   uint32                   // number of the last OpenArea
	asking  bool                     // it is under way: the peer has not answered
	answer  chan areaAnswer          // who waits for the answer; nil: gave up
	serving bool                     // the peer's OpenArea is being answered
	handing bool                     // the answer is on its way
	ask     *control                 // the next one; nil: none
	err     error
	closed  bool
}

type peerRegion struct {
	key uint32
	mem *mapping
}

var (
	_ fabric.QP         = (*QP)(nil)
	_ fabric.FileSharer = (*QP)(nil)
)

func newQP(d *Device, num uint32, cfg fabric.QPConfig, cq *CQ, srq *SRQ) *QP {
	q := &QP{
		dev: d, cq: cq, srq: srq, num: num, depth: cfg.SendDepth, rnrRetry: cfg.RNRRetry,
		info:    info{rendezvous: d.place, qp: num, token: newToken()},
		offers:  make(chan offer, 1),
		pending: sendQueue{ring: make([]pendingSend, cfg.SendDepth)},
		acks:    make(map[uint32]chan struct{}),
		changed: make(chan struct{}),
		done:    make(chan struct{}),
		turn:    make(chan struct{}, 1),
	}
	q.rx.end = math.MaxUint64
	return q
}

// Num implements fabric.QP.
func (q *QP) Num() uint32 { return q.num }

// Info implements fabric.QP.
func (q *QP) Info() []byte { return q.info.append(nil) }

// Connect implements fabric.QP. It fails within the configured timeout, or ctx's if that is shorter. A queue pair
// whose Connect failed is broken.
func (q *QP) Connect(ctx context.Context, remote []byte, lead bool) error {
	peer, err := parseInfo(remote)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, q.dev.cfg.Timeout)
	defer cancel()
	if err := q.begin(cancel); err != nil {
		return err
	}
	defer q.workers.Done()
	if lead {
		q.dev.forgetToken(q.info.token) // nobody is to dial us
		err = q.dial(ctx, peer)
	} else {
		err = q.accept(ctx, peer)
	}
	if err == nil {
		err = q.start()
	}
	if err != nil {
		if cause := ctx.Err(); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		q.breakOnce(err) // if it was broken before, err is but what follows from that
		q.cq.seal(q)
		return fmt.Errorf("connect: %w", q.notReady())
	}
	q.dev.log.Debug("shared memory connected", zap.Uint32("qp", q.num), zap.Uint32("peer_qp", peer.qp),
		zap.Int32("pid", q.conn.cred.Pid), zap.Uint32("uid", q.conn.cred.Uid), zap.Bool("lead", lead))
	return nil
}

// begin enters Connect, which Close waits for and ends by cancel.
func (q *QP) begin(cancel context.CancelFunc) error {
	q.mu.Lock()
	ok := !q.closed && q.state.CompareAndSwap(stateIdle, stateConnecting)
	if ok {
		q.cancel = cancel
		q.workers.Add(1)
	}
	q.mu.Unlock()
	if !ok {
		return fmt.Errorf("connect: %w", q.notReady())
	}
	return nil
}

// start lets requests and completions through.
func (q *QP) start() error {
	q.arms, q.wakes = q.cq.epoch.Load(), wakeSlack
	if err := q.cq.add(q); err != nil {
		return err
	}
	if !q.state.CompareAndSwap(stateConnecting, stateReady) {
		return q.notReady()
	}
	q.workers.Go(q.read)
	q.cq.kick() // what the peer published before add has woken nobody
	return nil
}

// dial is Connect of the leading side.
func (q *QP) dial(ctx context.Context, peer info) error {
	conn, err := q.dev.dial(ctx, peer.rendezvous)
	if err != nil {
		return err
	}
	if err := q.own(conn); err != nil {
		return err
	}
	stop := conn.endWith(ctx)
	defer stop()
	if err := q.greet(conn, peer); err != nil {
		return err
	}
	msg, err := conn.receive()
	if err != nil {
		return fmt.Errorf("the peer refused: %w", err)
	}
	h, err := parseHello(msg.data)
	if err != nil {
		closeAll(msg.files)
		return err
	}
	if err := q.attach(offer{conn, h, msg.files}, peer); err != nil {
		return err
	}
	return stop()
}

// accept is Connect of the other side.
func (q *QP) accept(ctx context.Context, peer info) error {
	var o offer
	select {
	case o = <-q.offers:
	case <-ctx.Done():
		return fmt.Errorf("the peer did not dial: %w", ctx.Err())
	case <-q.done:
		return q.notReady()
	}
	if err := q.own(o.conn); err != nil {
		o.close()
		return err
	}
	stop := o.conn.endWith(ctx)
	defer stop()
	if o.hello.qp != peer.qp {
		o.close()
		return fmt.Errorf("%w: queue pair %d dialled instead of %d", fabric.ErrPeer, o.hello.qp, peer.qp)
	}
	if err := q.greet(o.conn, peer); err != nil {
		o.close()
		return err
	}
	if err := q.attach(o, peer); err != nil {
		return err
	}
	return stop()
}

// own makes conn the queue pair's socket, which ends with it.
func (q *QP) own(conn *socket) error {
	q.mu.Lock()
	ok := q.state.Load() == stateConnecting
	if ok {
		q.conn = conn
	}
	q.mu.Unlock()
	if !ok {
		conn.Close()
		return q.notReady()
	}
	return nil
}

// greet makes the ring of what this side will send and tells the peer of it.
func (q *QP) greet(conn *socket, peer info) error {
	depth := minRingDepth
	for depth < 2*q.depth {
		depth *= 2
	}
	tx, file, err := newTxRing(depth)
	if err != nil {
		return err
	}
	defer file.Close()
	q.send.Lock()
	q.tx = tx
	q.room = uint64(depth - q.depth)
	q.send.Unlock()
	h := hello{
		token: peer.token, qp: q.num, peer: peer.qp, depth: uint32(depth), start: q.first(),
		cqLine: uint32(q.cq.line), srqLine: uint32(q.srq.line), rnrRetry: q.rnrRetry,
	}
	return conn.send(h.append(nil), file, q.dev.status.file)
}

// first is the position that the ring towards this queue pair begins at: a cache set of its own for each of a device's
// rings, which all begin on a page.
func (q *QP) first() uint32 { return q.num * 8 % minRingDepth }

// attach maps what the peer told of. It takes over the descriptors of o.
func (q *QP) attach(o offer, peer info) error {
	h := o.hello
	if h.token != q.info.token || h.qp != peer.qp || h.peer != q.num || len(o.files) != 2 {
		closeAll(o.files)
		return fmt.Errorf("%w: answer is not for this queue pair", fabric.ErrPeer)
	}
	ringMem, err := mapPeer(o.files[0], ringBytes(int(h.depth)), true, false)
	if err != nil {
		closeAll(o.files[1:])
		return fmt.Errorf("completion ring: %w", err)
	}
	status, err := mapPeer(o.files[1], pageRound(statusBytes), false, false)
	if err != nil {
		ringMem.close()
		return fmt.Errorf("status pages: %w", err)
	}
	q.send.Lock()
	q.status = status
	q.peerArmed, q.peerFree = statusWord(status, int(h.cqLine)), statusWord(status, int(h.srqLine))
	q.tx.begin(h.start)
	q.send.Unlock()
	q.rx.ring, q.rx.retry = viewRing(ringMem, int(h.depth)), h.rnrRetry
	q.rx.pos = uint64(q.first())
	return nil
}

// notReady says why nothing can be posted.
func (q *QP) notReady() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return errClosed
	case q.err != nil:
		return q.err
	}
	return fmt.Errorf("%w: not connected", fabric.ErrBroken)
}

// errClosed is what a closed queue pair answers: it is broken, too.
var errClosed = fmt.Errorf("%w: %w", fabric.ErrBroken, fabric.ErrClosed)

// fail breaks the queue pair, once. st is the status of the first request that is not known to be done. The peer
// learns of it by the end of the socket.
func (q *QP) fail(cause error, st fabric.Status) {
	if !q.breakOnce(cause) {
		return
	}
	q.send.Lock()
	q.flush(st)
	q.send.Unlock()
	q.cq.seal(q)
	q.dev.events.put(fabric.Event{Kind: fabric.EventQPFatal, QP: q.num, Text: cause.Error()})
	q.dev.log.Debug("shared memory queue pair broke", zap.Uint32("qp", q.num), zap.Error(cause))
}

// breakOnce sets the state and ends the socket. It reports whether this call did.
func (q *QP) breakOnce(cause error) bool {
	if q.state.Swap(stateBroken) == stateBroken {
		return false
	}
	q.dev.forgetToken(q.info.token)
	q.mu.Lock()
	if q.err = cause; !errors.Is(cause, fabric.ErrBroken) {
		q.err = fmt.Errorf("%w: %w", fabric.ErrBroken, cause)
	}
	conn, cancel := q.conn, q.cancel
	q.mu.Unlock()
	close(q.done)
	if cancel != nil {
		cancel()
	}
	if conn != nil {
		conn.Close()
	}
	return true
}

// Break implements fabric.QP.
func (q *QP) Break() {
	q.fail(fmt.Errorf("%w: broken on request", fabric.ErrBroken), fabric.StatusFlushed)
}

// Close implements fabric.QP. Memory that Map gave must not be touched any more.
func (q *QP) Close() error {
	q.breakOnce(errClosed)
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		q.workers.Wait()
		return nil
	}
	q.closed = true
	q.mu.Unlock()
	q.workers.Wait()
	select {
	case o := <-q.offers:
		o.close()
		o.conn.Close()
	default:
	}
	q.send.Lock()
	q.flush(fabric.StatusFlushed)
	q.send.Unlock()
	q.cq.remove(q)
	q.unmap()
	q.dev.forget(q)
	return nil
}

// unmap frees what was shared. Nothing reads or writes it any more: Poll has forgotten the ring, and Post sees a
// broken queue pair.
func (q *QP) unmap() {
	q.tx.mem.close()
	q.status.close()
	q.rx.mem.close()
	for i := range q.theirs {
		if r := q.theirs[i].Load(); r != nil {
			r.mem.close()
		}
	}
}

// offer is the peer's half of a handshake: its socket, hello, and descriptors.
type offer struct {
	conn  *socket
	hello hello
	files []int
}

func (o *offer) close() { closeAll(o.files) }
