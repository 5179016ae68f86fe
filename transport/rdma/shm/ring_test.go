//go:build linux

package shm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// forge writes a slot as no honest sender would, at the position after those already there. kind is opcode and flags.
func (t *txRing) forge(kind uint16, bytes uint32) {
	i := t.pos & t.mask
	if bytes != 0 {
		kind |= flagSized << 8
	}
	t.sizes[i].Store(bytes)
	t.slots[i].Store(uint64(kind)<<16 | uint64(t.lap(t.pos)))
	t.pos++
}

func TestForgedCompletions(t *testing.T) {
	b := newEnd(t, openDevice(t, testConfig()), 8, fabric.QPConfig{})
	check := bystander(t, b)
	for name, forge := range map[string]func(r *txRing){
		"kind 0":             func(r *txRing) { r.forge(0, 0) },
		"plain write":        func(r *txRing) { r.forge(uint16(fabric.OpWrite), 0) },
		"kind of a receiver": func(r *txRing) { r.forge(uint16(fabric.OpRecv), 0) },
		"unknown flag":       func(r *txRing) { r.forge(uint16(fabric.OpSend)|0x400, 0) },
		"all flags":          func(r *txRing) { r.forge(uint16(fabric.OpWriteImm)|0xff00, 0) },
		"long send":          func(r *txRing) { r.forge(uint16(fabric.OpSend), fabric.MaxSendBytes+1) },
		"endless send":       func(r *txRing) { r.forge(uint16(fabric.OpSend), math.MaxUint32) },
		"bytes into nothing": func(r *txRing) { r.forge(uint16(fabric.OpWriteImm), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			b.newQP(fabric.QPConfig{})
			a := newEnd(t, openDevice(t, testConfig()), 8, fabric.QPConfig{})
			connect(t, a.qp, b.qp)
			a.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: 1})
			forge(&a.qp.tx)
			a.qp.tx.forge(uint16(fabric.OpWriteImm), 0)
			c := b.await(1)[0]
			require.Equal(t, uint32(1), c.Imm, "what came before counts")
			b.give(int(c.ID), 1)
			left := b.srq.free
			for range 3 {
				n, err := b.cq.Poll(make([]fabric.Completion, 8))
				require.NoError(t, err)
				require.Zero(t, n, "what came after does not")
			}
			requireBroken(t, b.qp, fabric.ErrPeer)
			requireBroken(t, a.qp, fabric.ErrBroken)
			require.Equal(t, left, b.srq.free)
		})
	}
	check()
}

// TestMoreBytesThanExposed: a WRITE WITH IMMEDIATE cannot have written more than there is.
func TestMoreBytesThanExposed(t *testing.T) {
	a, b := pair(t, 8, fabric.QPConfig{})
	expose(t, a, b, 5000)
	a.qp.tx.forge(uint16(fabric.OpWriteImm), 5000)
	require.Equal(t, uint32(5000), b.await(1)[0].Bytes)
	a.qp.tx.forge(uint16(fabric.OpWriteImm), 5001)
	n, err := b.cq.Poll(make([]fabric.Completion, 8))
	require.NoError(t, err)
	require.Zero(t, n)
	requireBroken(t, b.qp, fabric.ErrPeer)
}

// TestRingFilledAtOnce: a peer that ignores credits takes at most the receive entries there are, and one turn is
// bounded.
func TestRingFilledAtOnce(t *testing.T) {
	a, b := pair(t, 200, fabric.QPConfig{})
	for range 3 * minRingDepth { // laps over itself
		a.qp.tx.forge(uint16(fabric.OpWriteImm), 0)
	}
	total := 0
	out := make([]fabric.Completion, 1024)
	for range 10 {
		n, err := b.cq.Poll(out)
		require.NoError(t, err)
		require.LessOrEqual(t, n, takeBurst)
		total += n
	}
	require.LessOrEqual(t, total, 200)
}

// TestLyingReceiver: a position that was never sent breaks the queue pair as soon as it is looked at; one that goes
// back gives no room.
func TestLyingReceiver(t *testing.T) {
	for _, head := range []uint64{1 << 40, math.MaxUint64} {
		a, b := pair(t, 16, fabric.QPConfig{})
		b.qp.rx.head.Store(head)
		broke := false
		for range 2*minRingDepth + 1 {
			if _, err := a.qp.Post([]fabric.SendWR{{Op: fabric.OpWriteImm, Signaled: true}}); err != nil {
				broke = true
				break
			}
			_, err := a.cq.Poll(make([]fabric.Completion, 8))
			require.NoError(t, err)
		}
		require.True(t, broke)
		requireBroken(t, a.qp, fabric.ErrPeer)
	}
	a, b := pair(t, 1000, fabric.QPConfig{SendDepth: 16})
	sent, out := 0, make([]fabric.Completion, 64)
	for {
		b.qp.rx.head.Store(0)
		n, err := a.qp.Post([]fabric.SendWR{{Op: fabric.OpWriteImm, Signaled: true}})
		if err != nil {
			require.ErrorIs(t, err, fabric.ErrFull)
			break
		}
		sent += n
		_, err = a.cq.Poll(out)
		require.NoError(t, err)
	}
	require.Equal(t, minRingDepth, sent)
}

// TestLyingStatusPages: what a peer says of its own queues harms its own queue pair at most.
func TestLyingStatusPages(t *testing.T) {
	a, b := pair(t, 16, fabric.QPConfig{})
	for _, word := range []uint32{scarceEntries + 1, math.MaxUint32, 1 << 31} {
		b.srq.told.Store(word)
		b.cq.armed.Store(word)
		a.post(fabric.SendWR{Op: fabric.OpWriteImm})
	}
	require.Len(t, b.await(3), 3)
	b.srq.told.Store(0)
	_, err := a.qp.Post([]fabric.SendWR{{Op: fabric.OpWriteImm}})
	require.NoError(t, err)
	requireBroken(t, a.qp, fabric.ErrBroken)
	require.Equal(t, fabric.StatusRNR, a.await(1)[0].Status)
}

// TestSharedMemoryCannotBeResized: the peer holds descriptors of everything that is shared, and can neither truncate
// nor grow it; holes that it punches are zeros, not faults; status pages it can only read.
func TestSharedMemoryCannotBeResized(t *testing.T) {
	cfg := testConfig()
	cfg.HugePages = true
	b := newEnd(t, openDevice(t, cfg), 16, fabric.QPConfig{})
	v := newVillain(t, b)
	v.dial(v.ring, v.status)
	require.NoError(t, v.wait())
	m := v.receive()
	require.Len(t, m.files, 2)
	ringFd, statusFd := m.files[0], m.files[1]
	const size = 3 * hugePage
	reg, err := b.dev.NewRegion(size)
	require.NoError(t, err)
	defer reg.Close()
	exposed := make(chan error, 1)
	go func() {
		_, err := b.qp.Expose(reg, 0, size, fabric.RemoteWrite)
		exposed <- err
	}()
	m = v.receive()
	c, err := parseControl(m.data)
	require.NoError(t, err)
	require.NoError(t, v.conn.send(control{kind: msgRegionAck, id: c.id}.append(nil)))
	require.NoError(t, <-exposed)
	regionFd := m.files[0]
	defer closeAll([]int{ringFd, statusFd, regionFd})

	for name, fd := range map[string]int{"ring": ringFd, "status": statusFd, "region": regionFd} {
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(fd, &st))
		for _, size := range []int64{0, 1, st.Size - 4096, st.Size + 1, st.Size + 4096} {
			require.ErrorIs(t, unix.Ftruncate(fd, size), unix.EPERM, "%s to %d", name, size)
		}
		require.ErrorIs(t, unix.Fallocate(fd, 0, 0, st.Size+4096), unix.EPERM, name)
		_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
		require.ErrorIs(t, err, unix.EPERM, name)
	}
	_, err = unix.Pwrite(statusFd, []byte{1}, 0)
	require.ErrorIs(t, err, unix.EPERM)
	_, err = unix.Mmap(statusFd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.ErrorIs(t, err, unix.EPERM)

	bytes := reg.Bytes()
	for i := range bytes {
		bytes[i] = 0xaa
	}
	for _, fd := range []int{ringFd, regionFd} {
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(fd, &st))
		require.NoError(t, unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, st.Size))
	}
	sum := 0
	for i := range bytes {
		sum += int(bytes[i])
		bytes[i] = 1
	}
	require.Zero(t, sum)
	b.post(fabric.SendWR{Op: fabric.OpWriteImm}, fabric.SendWR{Op: fabric.OpSend})
}

func TestRingLapsWrap(t *testing.T) {
	a, b := pair(t, 16, fabric.QPConfig{})
	near := uint64(1)<<(16+a.qp.tx.shift) - 5 // before the lap number goes through zero
	a.qp.tx.pos, a.qp.tx.seen = near, near
	b.cq.mu.Lock()
	b.qp.rx.pos = near
	for i := range b.qp.rx.slots {
		b.qp.rx.slots[i].Store(uint64(b.qp.rx.lap(near - minRingDepth)))
	}
	b.cq.rx[0].follow(&b.qp.rx)
	b.cq.mu.Unlock()
	for i := range uint32(3 * minRingDepth) {
		a.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: i, Signaled: true})
		a.await(1)
		c := b.await(1)[0]
		require.Equal(t, i, c.Imm)
		b.give(int(c.ID), 1)
		n, err := b.cq.Poll(make([]fabric.Completion, 1))
		require.NoError(t, err)
		require.Zero(t, n)
	}
}
