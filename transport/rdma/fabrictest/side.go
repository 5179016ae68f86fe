package fabrictest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

const (
	srqDepth  = 256
	cqDepth   = 2048
	sendDepth = 128
	page      = 4096
	// recvBit marks the ids of receive entries: the opcode of a failed completion means nothing.
	recvBit = uint64(1) << 63
)

// side is a device with a completion queue and a shared receive queue, used by one goroutine at a time.
type side struct {
	dev     fabric.Device
	cq      fabric.CQ
	srq     fabric.SRQ
	buffers fabric.Region
	free    []int // receive entries that are not posted
	got     []fabric.Completion
	woken   chan error // of Wait
	timer   *time.Timer
}

// sides opens a pair of devices with their queues. What is made is closed when the test ends, last first.
func sides(t testing.TB, h Harness) (*side, *side) {
	t.Helper()
	a, b := h.NewPair(t)
	t.Cleanup(func() {
		require.NoError(t, a.Close())
		if a != b {
			require.NoError(t, b.Close())
		}
	})
	return newSide(t, a), newSide(t, b)
}

func newSide(t testing.TB, dev fabric.Device) *side {
	t.Helper()
	s, err := openSide(dev)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close()) })
	return s
}

func openSide(dev fabric.Device) (*side, error) {
	s := &side{dev: dev}
	var err error
	if s.cq, err = dev.NewCQ(cqDepth); err != nil {
		return nil, err
	}
	if s.srq, err = dev.NewSRQ(srqDepth); err != nil {
		return nil, err
	}
	if s.buffers, err = dev.NewRegion(srqDepth * fabric.MaxSendBytes); err != nil {
		return nil, err
	}
	for i := range srqDepth {
		s.free = append(s.free, i)
	}
	return s, nil
}

func (s *side) close() error {
	return errors.Join(s.srq.Close(), s.cq.Close(), s.buffers.Close())
}

// fill posts n receive entries.
func (s *side) fill(t testing.TB, n int) {
	t.Helper()
	require.NoError(t, s.post(n))
}

func (s *side) post(n int) error {
	var wrs []fabric.RecvWR
	for _, i := range s.free[:n] {
		wrs = append(wrs, fabric.RecvWR{ID: recvBit | uint64(i), Local: s.buffer(i), Key: s.buffers.LocalKey()})
	}
	s.free = s.free[n:]
	done, err := s.srq.Post(wrs)
	if err == nil && done != n {
		err = fmt.Errorf("the receive queue took %d of %d entries and told no error", done, n)
	}
	return err
}

func (s *side) buffer(i int) []byte {
	return s.buffers.Bytes()[i*fabric.MaxSendBytes : (i+1)*fabric.MaxSendBytes : (i+1)*fabric.MaxSendBytes]
}

// content is what a SEND put into the completion's entry.
func (s *side) content(c fabric.Completion) []byte {
	return s.buffer(int(c.ID &^ recvBit))[:c.Bytes]
}

// done gives the completion's entry back to be posted again.
func (s *side) done(c fabric.Completion) { s.free = append(s.free, int(c.ID&^recvBit)) }

func (s *side) poll() (int, error) {
	var out [32]fabric.Completion
	n, err := s.cq.Poll(out[:])
	s.got = append(s.got, out[:n]...)
	return n, err
}

// discard drops the completions that are there. A device may give the number of a closed queue pair to the next one: what
// a round left behind would be taken for the next round's.
func (s *side) discard(t testing.TB) {
	t.Helper()
	for n := 1; n > 0; {
		var err error
		n, err = s.poll()
		require.NoError(t, err)
	}
	for _, c := range s.got {
		if isRecv(c) {
			s.done(c)
		}
	}
	s.got = s.got[:0]
}

// next waits for the first completion that matches: drain, arm, drain, sleep. Others stay for later.
func (s *side) next(match func(fabric.Completion) bool) (fabric.Completion, error) {
	seen := 0
	for armed := false; ; {
		for ; seen < len(s.got); seen++ {
			if c := s.got[seen]; match(c) {
				s.got = append(s.got[:seen], s.got[seen+1:]...)
				return c, nil
			}
		}
		n, err := s.poll()
		switch {
		case err != nil:
			return fabric.Completion{}, fmt.Errorf("polling: %w", err)
		case n > 0:
		case !armed:
			if err := s.cq.Arm(); err != nil {
				return fabric.Completion{}, fmt.Errorf("arming: %w", err)
			}
			armed = true
		default:
			if err := s.sleep(); err != nil {
				return fabric.Completion{}, err
			}
			armed = false
		}
	}
}

// sleep waits for an event. A Wait that never ends stays behind until the completion queue is closed.
func (s *side) sleep() error {
	if s.woken == nil {
		s.woken, s.timer = make(chan error, 1), time.NewTimer(Patience)
	}
	go func() { s.woken <- s.cq.Wait() }()
	s.timer.Reset(Patience)
	select {
	case err := <-s.woken:
		s.timer.Stop()
		return err
	case <-s.timer.C:
		return errors.New("no completion came")
	}
}

func isRecv(c fabric.Completion) bool { return c.ID&recvBit != 0 }
func isSend(c fabric.Completion) bool { return c.ID&recvBit == 0 }

// received waits for something that arrived.
func (s *side) received(t testing.TB) fabric.Completion {
	t.Helper()
	c, err := s.next(isRecv)
	require.NoError(t, err)
	require.Equal(t, fabric.StatusOK, c.Status, "a receive entry failed: %s", c.Status)
	return c
}

// sent waits for the end of a posted request, good or bad.
func (s *side) sent(t testing.TB) fabric.Completion {
	t.Helper()
	c, err := s.next(isSend)
	require.NoError(t, err)
	return c
}

// sentOK waits for the good end of the request id.
func (s *side) sentOK(t testing.TB, id uint64, op fabric.Opcode) {
	t.Helper()
	c := s.sent(t)
	require.Equal(t, fabric.StatusOK, c.Status, "request %d: %s", c.ID, c.Status)
	require.Equal(t, id, c.ID)
	require.Equal(t, op, c.Op)
}

// event waits for an event of a kind; others pass by.
func (s *side) event(t testing.TB, kind fabric.EventKind) fabric.Event {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for {
		select {
		case e := <-s.dev.Events():
			if e.Kind == kind {
				return e
			}
		case <-timer.C:
			require.FailNow(t, "no event came", "kind %d", kind)
		}
	}
}

// end is one queue pair on a side, with what its peer exposed to it.
type end struct {
	*side
	qp     fabric.QP
	target fabric.Region // exposed to the peer; nil before expose
	local  fabric.Region // what is written, at the same offsets as in the peer's target
	remote fabric.Remote // the peer's target
	mapped []byte        // the peer's target on devices with MapsRemote
	nextID uint64
}

func newEnd(t testing.TB, s *side, cfg fabric.QPConfig) *end {
	t.Helper()
	cfg.CQ, cfg.SRQ = s.cq, s.srq
	if cfg.SendDepth == 0 {
		cfg.SendDepth = sendDepth
	}
	qp, err := s.dev.NewQP(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = qp.Close() }) // a case may have closed it
	return &end{side: s, qp: qp}
}

// connected makes a queue pair on either side and connects them; x leads.
func connected(t testing.TB, a, b *side, cfg fabric.QPConfig) (x, y *end) {
	t.Helper()
	x, y = newEnd(t, a, cfg), newEnd(t, b, cfg)
	require.NoError(t, connect(patient(t), x.qp, y.qp))
	return x, y
}

// connect connects two queue pairs; the first leads.
func connect(ctx context.Context, x, y fabric.QP) error {
	errs := make(chan error, 1)
	infoX, infoY := x.Info(), y.Info()
	go func() { errs <- y.Connect(ctx, infoX, false) }()
	err := x.Connect(ctx, infoY, true)
	return errors.Join(err, <-errs)
}

// expose lets x write (and where the device can, read) size bytes of y's memory.
func expose(t testing.TB, x, y *end, size int) {
	t.Helper()
	var err error
	y.target, err = y.dev.NewRegion(size)
	require.NoError(t, err)
	region := y.target
	t.Cleanup(func() {
		_ = y.qp.Close() // no queue pair may expose the region any more
		require.NoError(t, region.Close())
	})
	access := fabric.RemoteWrite
	if y.dev.Caps().Reads {
		access |= fabric.RemoteRead
	}
	x.remote, err = y.qp.Expose(y.target, 0, size, access)
	require.NoError(t, err)
	require.EqualValues(t, size, x.remote.Len)
	if x.dev.Caps().MapsRemote {
		x.mapped, err = x.qp.Map(patient(t), x.remote)
		require.NoError(t, err)
		require.Len(t, x.mapped, size)
		return
	}
	x.local = newRegion(t, x.side, size)
	t.Cleanup(func() { _ = x.qp.Close() }) // before the local memory goes
}

func newRegion(t testing.TB, s *side, size int) fabric.Region {
	t.Helper()
	r, err := s.dev.NewRegion(size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// write puts data at an offset of the peer's target: on devices with MapsRemote at once, else by the requests it
// returns.
func (e *end) write(offset int, data []byte) []fabric.SendWR {
	if e.mapped != nil {
		copy(e.mapped[offset:], data)
		return nil
	}
	return []fabric.SendWR{e.request(fabric.OpWrite, offset, data)}
}

// publish is the immediate, with the bytes where the device carries them so.
func (e *end) publish(offset int, data []byte, imm uint32) fabric.SendWR {
	if e.mapped != nil {
		copy(e.mapped[offset:], data)
		data = nil
	}
	wr := e.immediate(imm)
	if len(data) > 0 {
		wr = e.request(fabric.OpWriteImm, offset, data)
		wr.Imm = imm
	}
	wr.Signaled = true
	return wr
}

func (e *end) request(op fabric.Opcode, offset int, data []byte) fabric.SendWR {
	e.nextID++
	local := e.local.Bytes()[offset : offset+len(data)]
	copy(local, data)
	return fabric.SendWR{
		ID: e.nextID, Op: op, Local: local, Key: e.local.LocalKey(),
		Remote: e.remote.Addr + uint64(offset), RKey: e.remote.Key,
	}
}

// immediate is a WRITE WITH IMMEDIATE without bytes.
func (e *end) immediate(imm uint32) fabric.SendWR {
	e.nextID++
	return fabric.SendWR{ID: e.nextID, Op: fabric.OpWriteImm, Imm: imm}
}

// must posts requests that have room.
func (e *end) must(t testing.TB, wrs ...fabric.SendWR) {
	t.Helper()
	n, err := e.qp.Post(wrs)
	require.NoError(t, err)
	require.Equal(t, len(wrs), n)
}

// tell sends an immediate and waits until it is done.
func (e *end) tell(t testing.TB, imm uint32) {
	t.Helper()
	wr := e.immediate(imm)
	wr.Signaled = true
	e.must(t, wr)
	e.sentOK(t, wr.ID, fabric.OpWriteImm)
}

// hear waits for an immediate of the peer and posts its entry again.
func (e *end) hear(t testing.TB, imm uint32) {
	t.Helper()
	c := e.received(t)
	require.Equal(t, fabric.OpRecvImm, c.Op)
	require.Equal(t, e.qp.Num(), c.QP)
	require.Equal(t, imm, c.Imm)
	e.done(c)
	e.fill(t, 1)
}

// dead: nothing passes through the queue pair any more. A request is refused, or taken and failed.
func (e *end) dead(t testing.TB) {
	t.Helper()
	wr := e.immediate(0xdead)
	wr.Signaled = true
	n, err := e.qp.Post([]fabric.SendWR{wr})
	if err != nil {
		require.ErrorIs(t, err, fabric.ErrBroken)
		require.Zero(t, n)
		return
	}
	for {
		if c := e.sent(t); c.ID == wr.ID {
			require.NotEqual(t, fabric.StatusOK, c.Status, "a broken queue pair carried a request")
			return
		}
	}
}

// alive: the two ends still talk, both ways.
func alive(t testing.TB, x, y *end) {
	t.Helper()
	x.fill(t, 1)
	y.fill(t, 1)
	x.tell(t, 0x600d0001)
	c := y.received(t)
	require.Equal(t, uint32(0x600d0001), c.Imm)
	require.Equal(t, y.qp.Num(), c.QP)
	y.done(c)
	y.tell(t, 0x600d0002)
	c = x.received(t)
	require.Equal(t, uint32(0x600d0002), c.Imm)
	require.Equal(t, x.qp.Num(), c.QP)
	x.done(c)
}

// pattern fills n bytes that depend on a seed.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}
