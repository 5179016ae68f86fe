package fabrictest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// testSend: a SEND of any allowed size arrives in an entry's buffer, whole and in order, both ways.
func testSend(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{})
	for _, dir := range [][2]*end{{x, y}, {y, x}} {
		from, to := dir[0], dir[1]
		sizes := []int{1, 2, 7, 64, 100, fabric.MaxSendBytes - 1, fabric.MaxSendBytes}
		to.fill(t, len(sizes))
		src := newRegion(t, from.side, len(sizes)*fabric.MaxSendBytes)
		var wrs []fabric.SendWR
		for i, n := range sizes {
			data := src.Bytes()[i*fabric.MaxSendBytes:][:n]
			copy(data, pattern(i, n))
			wrs = append(wrs, fabric.SendWR{ID: uint64(i), Op: fabric.OpSend, Local: data, Key: src.LocalKey(), Signaled: true})
		}
		from.must(t, wrs...)
		for i, n := range sizes {
			c := to.received(t)
			require.Equal(t, fabric.OpRecv, c.Op)
			require.Equal(t, to.qp.Num(), c.QP)
			require.EqualValues(t, n, c.Bytes)
			require.Equal(t, pattern(i, n), to.content(c))
			to.done(c)
			from.sentOK(t, uint64(i), fabric.OpSend)
		}
	}
}

// testImmediate: immediates arrive as they were, in order, with the bytes written, and without bytes.
func testImmediate(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{})
	const size = 4 * page
	expose(t, x, y, size)
	y.fill(t, 64)
	values := []uint32{0, 1, 0x01020304, 0x80000000, 0xffffffff, 0xfffffffe}
	for i, n := range []int{0, 1, 63, page, page + 1, size} {
		wr := x.publish(0, pattern(i, n), values[i])
		wr.ID = 0x7edcba9876543210 - uint64(i)
		x.must(t, wr)
		c := y.received(t)
		require.Equal(t, fabric.OpRecvImm, c.Op)
		require.Equal(t, values[i], c.Imm)
		require.Equal(t, y.qp.Num(), c.QP)
		if x.mapped == nil {
			require.EqualValues(t, n, c.Bytes)
		}
		require.True(t, bytes.Equal(pattern(i, n), y.target.Bytes()[:n]), "the bytes are there with the completion")
		y.done(c)
		x.sentOK(t, wr.ID, fabric.OpWriteImm)
	}
}

// testWriteOrder: at an immediate's completion everything posted before it has landed, and nothing is torn, doubled
// or out of order over many rounds of random writes.
func testWriteOrder(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{})
	const size = 256 << 10
	expose(t, x, y, size)
	y.fill(t, 32)
	want := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for round := range h.count(60, 1000) {
		var wrs []fabric.SendWR
		for i := range 1 + r.IntN(8) {
			n := 1 + r.IntN(64)
			if i == 0 {
				n = 1 + r.IntN(32<<10)
			}
			// Requests of one round do not overlap: the local memory of one must not change before it is done.
			offset := i*(size/8) + r.IntN(size/8-n+1)
			data := pattern(round*8+i, n)
			copy(want[offset:], data)
			wrs = append(wrs, x.write(offset, data)...)
		}
		last := x.immediate(uint32(round))
		last.Signaled = true
		x.must(t, append(wrs, last)...)
		c := y.received(t)
		require.EqualValues(t, round, c.Imm)
		require.True(t, bytes.Equal(want, y.target.Bytes()), "round %d: the memory differs", round)
		y.done(c)
		y.fill(t, 1)
		x.sentOK(t, last.ID, fabric.OpWriteImm)
	}
}

// testInline: inline bytes are taken by Post, from any memory.
func testInline(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{})
	expose(t, x, y, page)
	y.fill(t, 8)
	limit := x.dev.Caps().MaxInline
	for i := range 4 {
		n := min(limit, fabric.MaxSendBytes)
		if n == 0 {
			return // the device has none
		}
		data := pattern(i, n)
		wr := fabric.SendWR{ID: uint64(i), Op: fabric.OpSend, Local: data, Inline: true, Signaled: true}
		if i%2 == 1 && x.mapped == nil {
			wr.Op, wr.Remote, wr.RKey, wr.Imm = fabric.OpWriteImm, x.remote.Addr+8, x.remote.Key, 7
		}
		x.must(t, wr)
		clear(data)
		c := y.received(t)
		require.EqualValues(t, n, c.Bytes)
		if c.Op == fabric.OpRecv {
			require.Equal(t, pattern(i, n), y.content(c))
		} else {
			require.Equal(t, pattern(i, n), y.target.Bytes()[8:8+n])
		}
		y.done(c)
		x.sentOK(t, uint64(i), wr.Op)
	}
}

// testRead: a READ fetches what the peer's memory holds; the peer sees no completion.
func testRead(t *testing.T, h Harness) {
	a, b := sides(t, h)
	if !a.dev.Caps().Reads {
		return
	}
	x, y := connected(t, a, b, fabric.QPConfig{})
	const size = 1 << 20
	expose(t, x, y, size)
	y.fill(t, 1)
	copy(y.target.Bytes(), pattern(3, size))
	want := bytes.Clone(y.target.Bytes())
	depth := a.dev.Caps().MaxReads
	for i, n := range []int{1, 64, page + 1, size / 2, size} {
		var wrs []fabric.SendWR
		for k := range min(depth, 4) { // several under way at once
			part := n / min(depth, 4)
			if part == 0 {
				part = 1
			}
			offset := (k * part) % size
			wr := x.request(fabric.OpRead, offset, make([]byte, part))
			wr.Signaled = true
			wrs = append(wrs, wr)
		}
		x.must(t, wrs...)
		for _, wr := range wrs {
			x.sentOK(t, wr.ID, fabric.OpRead)
			offset := int(wr.Remote - x.remote.Addr)
			require.True(t, bytes.Equal(want[offset:offset+len(wr.Local)], wr.Local), "read %d of %d bytes", i, len(wr.Local))
		}
	}
	x.tell(t, 9)
	c := y.received(t)
	require.Equal(t, uint32(9), c.Imm, "a READ takes no entry and makes no completion at the peer")
	y.done(c)
}

// testMap: exposed memory is mapped as soon as it is exposed, shows what either side writes, and is the whole region.
func testMap(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{})
	if !a.dev.Caps().MapsRemote {
		_, err := x.qp.Map(patient(t), fabric.Remote{Key: 1, Len: page})
		require.ErrorIs(t, err, fabric.ErrUnsupported)
		return
	}
	y.fill(t, 2)
	for i := range fabric.MaxExposed {
		expose(t, x, y, (i+1)*page)
		copy(y.target.Bytes(), pattern(i, 100))
		require.True(t, bytes.Equal(y.target.Bytes(), x.mapped))
		copy(x.mapped[page-50:], pattern(i+100, 100))
		x.tell(t, uint32(i))
		y.hear(t, uint32(i))
		require.True(t, bytes.Equal(y.target.Bytes(), x.mapped))
		again, err := x.qp.Map(patient(t), x.remote)
		if err == nil { // mapping twice may be refused, but never gives other memory
			require.True(t, bytes.Equal(y.target.Bytes(), again))
		}
	}
	x, y = connected(t, a, b, fabric.QPConfig{})
	region := newRegion(t, y.side, 2*page)
	for _, part := range [][2]int{{0, page}, {page, page}, {1, 2*page - 1}} {
		_, err := y.qp.Expose(region, part[0], part[1], fabric.RemoteWrite)
		require.Error(t, err, "part of a region")
	}
	expose(t, x, y, 2*page)
	for _, n := range []uint32{0, page, 2*page - 1, 2*page + 1, 4 * page, 0xffffffff} {
		lie := x.remote
		lie.Len = n
		_, err := x.qp.Map(patient(t), lie)
		require.ErrorIs(t, err, fabric.ErrPeer, "a region of %d bytes told as %d", 2*page, n)
	}
	x.tell(t, 77)
	y.hear(t, 77)
}

// testMapContext: Map of what is never exposed ends with its context, and leaves the queue pair as it was.
func testMapContext(t *testing.T, h Harness) {
	a, b := sides(t, h)
	if !a.dev.Caps().MapsRemote {
		return
	}
	x, y := connected(t, a, b, fabric.QPConfig{})
	other, otherPeer := connected(t, a, b, fabric.QPConfig{})
	expose(t, other, otherPeer, page)
	for i, r := range []fabric.Remote{{Key: 0xfffffff0, Len: page}, other.remote} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := x.qp.Map(ctx, r)
			done <- err
		}()
		if i == 0 {
			cancel()
			require.ErrorIs(t, within(t, done), context.Canceled)
			continue
		}
		// Keys of queue pairs may coincide, but nothing with that key was exposed to this one. The time given is for
		// a backend that gets this wrong.
		timer := time.AfterFunc(10*time.Millisecond, cancel)
		require.Error(t, within(t, done), "memory of another queue pair was mapped")
		timer.Stop()
		cancel()
	}
	expose(t, x, y, page)
	y.fill(t, 1)
	copy(x.mapped, "here")
	x.tell(t, 5)
	y.hear(t, 5)
	require.Equal(t, "here", string(y.target.Bytes()[:4]))
}
