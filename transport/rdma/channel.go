package rdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Channel is one end of a pair of connected ring pairs: after Connect a transport.Provider. One goroutine writes,
// another reads; the other methods may be called by anyone at any time.
type Channel struct {
	d     *Device
	peer  transport.PeerID
	epoch uint64 // of this end
	tag   uint64 // in the ids of work requests, so that those of another queue pair are told apart
	qp    fabric.QP
	own   side

	exposed *block // rings and mailbox, which the peer writes
	private *block // mirrors of the peer's rings, sources of small writes

	making sync.Mutex // held while memory is allocated or connected: it is not freed meanwhile
	setup  setup
	flow   flow
	reader reader
	open   atomic.Bool // the set-up is through, frames may come

	readWait  waiter
	writeWait waiter
	todo      atomic.Uint32 // for settle
	work      atomic.Bool   // somebody wants the holder of tx to pump
	roomy     atomic.Bool   // the blocked writer has room

	state  atomic.Uint32
	ctx    context.Context // until the channel ends
	cancel context.CancelFunc
	bye    atomic.Uint32 // number of the request that says BYE; 0: none
	said   chan struct{} // it is done, or never will be
	hushed sync.Once
	gone   chan struct{} // everything is freed
	once   sync.Once
	limits atomic.Pointer[transport.ProviderLimits]
	window windowFiles
	pair   *windowPair // nil where the fabric has no READ

	errMu sync.Mutex
	err   error

	_ [unit]byte
	// tx guards the sending half: flow's writer's account, mirrors, mailboxes, posting.
	tx      sync.Mutex
	closed  bool
	mirror  [rings][]byte
	remote  fabric.Remote
	offset  [rings]uint64 // of the rings in remote
	mailAt  uint64        // of the mailbox in remote
	mailIn  *mailbox      // the peer writes it
	mailOut *mailbox      // the peer's, where it is mapped
	scratch []byte        // sources of mailbox writes, one for each place in the send queue
	wrs     [maxChain]fabric.SendWR
	sent    struct{ posts, requests, frames, mails, roomWaits uint64 }
}

var (
	_ transport.Provider     = (*Channel)(nil)
	_ transport.Counted      = (*Channel)(nil)
	_ transport.WindowReader = (*Channel)(nil)
	_ consumer               = (*Channel)(nil)
	_ wire                   = (*Channel)(nil)
)

var errNotConnected = errors.New("rdma: the channel is not connected")

// States of a channel.
const (
	stateLive   uint32 = iota
	stateBroken        // what has arrived may still be read
	stateDead
)

// Bits of Channel.todo.
const (
	todoWake uint32 = 1 << iota // the reader
	todoPump
)

func newChannel(d *Device, peer transport.PeerID) *Channel {
	c := &Channel{
		d: d, peer: peer, epoch: newEpoch(), tag: uint64(rand.Uint32()>>1) << 32,
		setup: newSetup(),
		said:  make(chan struct{}), gone: make(chan struct{}),
	}
	c.readWait.init(d.cfg.Spin)
	c.writeWait.init(d.cfg.Spin)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Peer is who is at the other end, as told to NewChannel.
func (c *Channel) Peer() transport.PeerID { return c.peer }

// Name implements transport.Provider: "shm", "rdma", "rdma-rxe", "sim".
func (c *Channel) Name() string { return c.d.caps.Provider }

// Limits implements transport.Provider. What it lets lanes 1-3 have under way always fits the peer's ring, so a write
// never waits for them; it is known after Connect.
func (c *Channel) Limits() transport.ProviderLimits {
	if l := c.limits.Load(); l != nil {
		return *l
	}
	return transport.ProviderLimits{SliceBytes: sliceBytes, UnacknowledgedBytes: transport.UnacknowledgedBytes}
}

// Done is closed when the channel has ended, by Close or a failure.
func (c *Channel) Done() <-chan struct{} { return c.ctx.Done() }

// Err tells why the channel has ended; nil before. It wraps ErrBroken, transport.ErrProtocol, ErrDeviceLost or
// transport.ErrClosed.
func (c *Channel) Err() error {
	c.errMu.Lock()
	defer c.errMu.Unlock()
	return c.err
}

// end is the one way a channel ends. It wakes everybody and does not wait.
func (c *Channel) end(err error, state uint32) bool {
	c.errMu.Lock()
	if c.err != nil {
		if state > c.state.Load() {
			c.state.Store(state)
		}
		c.errMu.Unlock()
		return false
	}
	c.err = err
	c.state.Store(state)
	c.cancel()
	c.errMu.Unlock()
	c.readWait.wake()
	c.writeWait.wake()
	return true
}

// fault implements consumer: the queue pair has failed, the peer broke the protocol, or the device is lost.
func (c *Channel) fault(err error) {
	if c.end(err, stateBroken) {
		c.d.note(c, err)
	}
	if !errors.Is(err, transport.ErrClosed) { // else the queue pair still works, and says BYE
		c.hush()
	}
}

// hush ends the wait for the BYE.
func (c *Channel) hush() { c.hushed.Do(func() { close(c.said) }) }

// failed ends the channel after an error of the sending half.
func (c *Channel) failed(err error) {
	if isProtocol(err) {
		c.breach(err)
		return
	}
	c.fault(err)
}

// snap breaks the queue pair and ends the channel.
func (c *Channel) snap(err error) {
	c.tx.Lock()
	if !c.closed && c.qp != nil {
		c.qp.Break()
	}
	c.tx.Unlock()
	c.fault(err)
}

// WriteFrames implements transport.Provider. Control frames and those of lane 0 go first. It returns when the frames
// are in the ring or its mirror: what waits for credits then goes out as soon as they come.
func (c *Channel) WriteFrames(frames []transport.Frame) error {
	if c.d.poller.armed.Load() {
		c.d.poller.poll() // nobody is polling: a look costs nothing that matters, and finds what lost its event
	}
	c.tx.Lock()
	err := c.write(frames)
	c.tx.Unlock()
	if c.work.Load() {
		c.kick()
	}
	if err != nil {
		c.failed(err)
	}
	return err
}

func (c *Channel) write(frames []transport.Frame) error {
	if !c.open.Load() {
		return errNotConnected
	}
	for ring := range rings {
		for i := range frames {
			if ringOf(&frames[i].Header) != ring {
				continue
			}
			if err := c.encode(ring, &frames[i]); err != nil {
				return err
			}
		}
	}
	c.sent.frames += uint64(len(frames))
	err := c.pump()
	if c.flow.mapped {
		c.touch()
	}
	return err
}

// touch brings the next record's cache lines, which the peer has read long ago, back to this processor while nobody
// waits for it.
func (c *Channel) touch() {
	for ring := range rings {
		if o := &c.flow.out[ring]; o.room() > 2*unit {
			clear(c.mirror[ring][o.written&(o.size-1):][:8])
			clear(c.mirror[ring][(o.written+unit)&(o.size-1):][:8])
		}
	}
}

// encode puts a frame into the mirror. It waits for room, without tx.
func (c *Channel) encode(ring ringKind, f *transport.Frame) error {
	if len(f.Payload) > transport.MaxSliceBytes {
		return fmt.Errorf("rdma: frame with %d bytes, at most %d", len(f.Payload), transport.MaxSliceBytes)
	}
	need := recordBytes(len(f.Payload))
	o := &c.flow.out[ring]
	for c.closed || o.room() < need || c.state.Load() != stateLive {
		if err := c.waitRoom(ring, need); err != nil {
			return err
		}
	}
	mem := c.mirror[ring]
	transport.PutHeader(mem[o.written&(o.size-1):], &f.Header)
	put(mem, o.written+transport.HeaderBytes, f.Payload)
	o.written += need
	return nil
}

// waitRoom waits for room in a ring. tx is held, but not while waiting.
func (c *Channel) waitRoom(ring ringKind, need uint64) error {
	if err := c.ended(); err != nil {
		return err
	}
	c.roomy.Store(false)
	c.flow.wanted, c.flow.wantRing = need, ring
	if err := c.pump(); err != nil || c.flow.wanted == 0 {
		return err
	}
	c.sent.roomWaits++
	c.tx.Unlock()
	if c.work.Load() {
		c.kick()
	}
	c.d.poller.await(&c.writeWait, c.writable)
	c.tx.Lock()
	return c.ended()
}

func (c *Channel) writable() bool { return c.roomy.Load() || c.state.Load() != stateLive }

func (c *Channel) ended() error {
	if c.state.Load() == stateLive && !c.closed {
		return nil
	}
	return c.Err()
}

// pump sends what can go. tx is held.
func (c *Channel) pump() error {
	if c.closed {
		return c.Err()
	}
	roomy, err := c.flow.pump(c)
	if roomy {
		c.roomy.Store(true)
	}
	return err
}

// kick pumps, now or by whoever holds tx.
func (c *Channel) kick() (woke bool) {
	c.work.Store(true)
	for c.work.Load() && c.tx.TryLock() {
		c.work.Store(false)
		var err error
		if c.open.Load() && c.state.Load() == stateLive {
			err = c.pump()
		}
		c.tx.Unlock()
		if err != nil {
			c.failed(err)
		}
		if c.roomy.Load() && c.writeWait.wake() {
			woke = true
		}
	}
	return woke
}

// kickBlocked is for the guard.
func (c *Channel) kickBlocked() {
	if c.flow.blocked.Load() {
		c.kick()
	}
}

// post implements wire.
func (c *Channel) post(ops []op) (int, error) {
	wrs, stored := c.wrs[:0], 0
	number := c.flow.posted
	for i := range ops {
		o := &ops[i]
		if o.kind == opMail && c.mailOut != nil {
			c.mailOut.store(&o.mail)
			c.sent.mails++
			stored = 1
			continue
		}
		number++
		wrs = append(wrs, c.request(o, number))
	}
	n, err := c.qp.Post(wrs)
	c.sent.posts++
	c.sent.requests += uint64(n)
	return stored + n, c.postError(err)
}

func (c *Channel) postError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fabric.ErrFull):
		c.d.poller.full.Store(true)
		c.d.poller.watch()
		return nil
	}
	return fmt.Errorf("%w: %s: posting: %w", ErrBroken, c.d.caps.Provider, err)
}

// request makes the work request of an op.
func (c *Channel) request(o *op, number uint32) fabric.SendWR {
	wr := fabric.SendWR{ID: c.tag | uint64(number), Op: fabric.OpWrite, Imm: o.imm, Signaled: o.signal}
	switch {
	case o.kind == opMail:
		at := int(number) % c.d.size.send * unit
		wr.Local = c.scratch[at : at+mailWords*8]
		putWords(wr.Local, &o.mail)
		wr.Remote = c.remote.Addr + c.mailAt
		c.sent.mails++
	case o.from < o.to && !c.flow.mapped:
		size := c.flow.out[o.ring].size
		at, n := o.from&(size-1), o.to-o.from
		wr.Local = c.mirror[o.ring][at : at+n]
		wr.Remote = c.remote.Addr + c.offset[o.ring] + at
	}
	if o.kind == opImm {
		wr.Op = fabric.OpWriteImm
	}
	if len(wr.Local) > 0 {
		wr.Key, wr.RKey = c.private.key(), c.remote.Key
		wr.Inline = len(wr.Local) <= c.d.caps.MaxInline
	}
	return wr
}

// mailbox implements wire.
func (c *Channel) mailbox() words { return c.mailIn.load() }
