package fabrictest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// reach is a request for memory that was not exposed so.
type reach struct {
	name   string
	access fabric.Access
	op     fabric.Opcode
	bytes  int
	change func(wr *fabric.SendWR, mine, other fabric.Remote)
}

func reaches(reads bool) []reach {
	rw := fabric.RemoteWrite
	if reads {
		rw |= fabric.RemoteRead
	}
	list := []reach{
		{"wrong key", rw, fabric.OpWrite, 8, func(wr *fabric.SendWR, _, _ fabric.Remote) { wr.RKey ^= 0x55 }},
		{"wrong key with immediate", rw, fabric.OpWriteImm, 8, func(wr *fabric.SendWR, _, _ fabric.Remote) { wr.RKey ^= 0x55 }},
		{"no key", rw, fabric.OpWrite, 8, func(wr *fabric.SendWR, _, _ fabric.Remote) { wr.RKey = 0 }},
		{"another queue pair's key", rw, fabric.OpWrite, 8, func(wr *fabric.SendWR, _, other fabric.Remote) { wr.Remote, wr.RKey = other.Addr, other.Key }},
		{"before the start", rw, fabric.OpWrite, 8, func(wr *fabric.SendWR, mine, _ fabric.Remote) { wr.Remote = mine.Addr - 1 }},
		{"past the end", rw, fabric.OpWrite, 1, func(wr *fabric.SendWR, mine, _ fabric.Remote) { wr.Remote = mine.Addr + uint64(mine.Len) }},
		{"over the end", rw, fabric.OpWrite, 9, func(wr *fabric.SendWR, mine, _ fabric.Remote) { wr.Remote = mine.Addr + uint64(mine.Len) - 8 }},
		{"longer than all", rw, fabric.OpWriteImm, 2049, func(*fabric.SendWR, fabric.Remote, fabric.Remote) {}},
		{"around the end of addresses", rw, fabric.OpWrite, 8, func(wr *fabric.SendWR, _, _ fabric.Remote) { wr.Remote = ^uint64(0) - 3 }},
	}
	if !reads {
		return list
	}
	return append(list, []reach{
		{"write of what may be read", fabric.RemoteRead, fabric.OpWrite, 8, func(*fabric.SendWR, fabric.Remote, fabric.Remote) {}},
		{"read of what may be written", fabric.RemoteWrite, fabric.OpRead, 8, func(*fabric.SendWR, fabric.Remote, fabric.Remote) {}},
		{"read over the end", rw, fabric.OpRead, 9, func(wr *fabric.SendWR, mine, _ fabric.Remote) { wr.Remote = mine.Addr + uint64(mine.Len) - 8 }},
		{"read with another queue pair's key", rw, fabric.OpRead, 8, func(wr *fabric.SendWR, _, other fabric.Remote) { wr.Remote, wr.RKey = other.Addr, other.Key }},
	}...)
}

// testAccess: a request for what the peer did not expose to this queue pair in this way fails, changes no memory
// around or in it, and takes its queue pair with it. Others live on. Devices with MapsRemote have no such requests.
func testAccess(t *testing.T, h Harness) {
	a, b := sides(t, h)
	if a.dev.Caps().MapsRemote {
		return
	}
	const size, offset, exposed = 2 * page, page / 2, 2048
	bystander, its := connected(t, a, b, fabric.QPConfig{})
	expose(t, bystander, its, size)
	for _, c := range reaches(a.dev.Caps().Reads) {
		x, y := connected(t, a, b, fabric.QPConfig{})
		region, local := newRegion(t, b, size), newRegion(t, a, size)
		copy(region.Bytes(), pattern(1, size))
		copy(local.Bytes(), pattern(2, size))
		copy(its.target.Bytes(), pattern(3, size))
		mine, err := y.qp.Expose(region, offset, exposed, c.access)
		require.NoError(t, err)
		wr := fabric.SendWR{
			ID: 1, Op: c.op, Local: local.Bytes()[:c.bytes], Key: local.LocalKey(), Remote: mine.Addr, RKey: mine.Key, Imm: 5, Signaled: true,
		}
		c.change(&wr, mine, bystander.remote)
		y.fill(t, 2)
		x.must(t, wr)
		got := x.sent(t)
		require.Equal(t, fabric.StatusRemoteAccess, got.Status, "%s: %s", c.name, got.Status)
		require.EqualValues(t, 1, got.ID)
		require.True(t, bytes.Equal(pattern(1, size), region.Bytes()), "%s: memory changed", c.name)
		require.True(t, bytes.Equal(pattern(3, size), its.target.Bytes()), "%s: another's memory changed", c.name)
		require.True(t, bytes.Equal(pattern(2, size), local.Bytes()), "%s: local memory changed", c.name)
		x.dead(t)
		bystander.tell(t, 42)
		for took := (fabric.Completion{}); took.QP != its.qp.Num(); {
			took, err = b.next(isRecv)
			require.NoError(t, err)
			b.done(took)
			if took.QP == y.qp.Num() { // the entry may come back failed
				require.NotEqual(t, fabric.StatusOK, took.Status, "%s: the failed request made a completion", c.name)
			}
		}
		require.NoError(t, x.qp.Close())
		require.NoError(t, y.qp.Close())
	}
	bystander.must(t, bystander.write(8, []byte("still"))...)
	b.fill(t, 1)
	bystander.tell(t, 43)
	b.done(b.received(t))
	require.Equal(t, "still", string(its.target.Bytes()[8:13]))
}

// testStaleKey: a key ends with its queue pair, though the memory is exposed again to the next one.
func testStaleKey(t *testing.T, h Harness) {
	a, b := sides(t, h)
	if a.dev.Caps().MapsRemote {
		return
	}
	region, local := newRegion(t, b, page), newRegion(t, a, page)
	copy(local.Bytes(), pattern(2, page))
	old, oldPeer := connected(t, a, b, fabric.QPConfig{})
	stale, err := oldPeer.qp.Expose(region, 0, page, fabric.RemoteWrite)
	require.NoError(t, err)
	require.NoError(t, old.qp.Close())
	require.NoError(t, oldPeer.qp.Close())
	for try := 0; ; try++ {
		require.Less(t, try, 20, "keys are used again and again")
		x, y := connected(t, a, b, fabric.QPConfig{})
		fresh, err := y.qp.Expose(region, 0, page, fabric.RemoteWrite)
		require.NoError(t, err)
		if fresh.Key == stale.Key { // a backend may draw the same number again
			continue
		}
		x.must(t, fabric.SendWR{ID: 1, Op: fabric.OpWrite, Local: local.Bytes(), Key: local.LocalKey(), Remote: stale.Addr, RKey: stale.Key, Signaled: true})
		got := x.sent(t)
		require.Equal(t, fabric.StatusRemoteAccess, got.Status, "got %s", got.Status)
		require.True(t, bytes.Equal(make([]byte, page), region.Bytes()))
		require.NoError(t, x.qp.Close())
		require.NoError(t, y.qp.Close())
		return
	}
}

// testExpose: what cannot be exposed is an error, and the number of exposures is bounded.
func testExpose(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{})
	region := newRegion(t, b, page)
	for _, part := range [][2]int{{0, 0}, {0, page + 1}, {page, 1}, {-1, 8}, {0, -1}, {1, int(^uint(0) >> 1)}} {
		_, err := y.qp.Expose(region, part[0], part[1], fabric.RemoteWrite)
		require.Error(t, err, "offset %d, %d bytes of %d", part[0], part[1], page)
	}
	_, err := y.qp.Expose(region, 0, page, 0)
	require.Error(t, err, "no access at all")
	for range fabric.MaxExposed {
		_, err := y.qp.Expose(newRegion(t, b, page), 0, page, fabric.RemoteWrite)
		require.NoError(t, err)
	}
	_, err = y.qp.Expose(region, 0, page, fabric.RemoteWrite)
	require.Error(t, err, "more than MaxExposed")
	alive(t, x, y)
	y.qp.Break()
	_, err = y.qp.Expose(region, 0, page, fabric.RemoteWrite)
	require.Error(t, err, "a broken queue pair exposes nothing")
	require.NoError(t, y.qp.Close())
	_, err = y.qp.Expose(region, 0, page, fabric.RemoteWrite)
	require.Error(t, err)
}

// testLocalKey: local memory has to be what its key names; otherwise Post refuses or the request fails, and the peer
// sees nothing of it.
func testLocalKey(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{})
	y.fill(t, 1)
	src := newRegion(t, a, page)
	wr := fabric.SendWR{ID: 1, Op: fabric.OpSend, Local: src.Bytes()[:64], Key: src.LocalKey() ^ 0x7f, Signaled: true}
	if n, err := x.qp.Post([]fabric.SendWR{wr}); err != nil {
		require.Zero(t, n)
	} else {
		c := x.sent(t)
		require.Contains(t, []fabric.Status{fabric.StatusLocal, fabric.StatusFlushed}, c.Status, "got %s", c.Status) // newer kernels' software RoCE flushes
		x.dead(t)
	}
	require.NoError(t, x.qp.Close())
	untouched(t, a, b, y)
}

// untouched: y's side got nothing so far, and works.
func untouched(t testing.TB, a, b *side, y *end) {
	t.Helper()
	fresh, its := connected(t, a, b, fabric.QPConfig{})
	fresh.tell(t, 99)
	c := its.received(t)
	require.Equal(t, its.qp.Num(), c.QP, "queue pair %d is not %d", c.QP, y.qp.Num())
	require.EqualValues(t, 99, c.Imm)
	its.done(c)
}

// testOversizedSend: a SEND that is longer than a receive entry is refused or fails, and never spills.
func testOversizedSend(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{})
	y.fill(t, 2)
	src := newRegion(t, a, page)
	copy(src.Bytes(), bytes.Repeat([]byte{0xee}, page))
	wr := fabric.SendWR{ID: 1, Op: fabric.OpSend, Local: src.Bytes()[:fabric.MaxSendBytes+1], Key: src.LocalKey(), Signaled: true}
	if n, err := x.qp.Post([]fabric.SendWR{wr}); err != nil {
		require.Zero(t, n)
	} else {
		c := x.sent(t)
		require.NotEqual(t, fabric.StatusOK, c.Status)
		x.dead(t)
	}
	spilled := y.buffers.Bytes()[2*fabric.MaxSendBytes:]
	require.Equal(t, len(spilled), bytes.Count(spilled, []byte{0}))
	require.NoError(t, x.qp.Close())
	require.NoError(t, y.qp.Close())
	fresh, its := connected(t, a, b, fabric.QPConfig{})
	its.fill(t, 2)
	fresh.tell(t, 99)
	for { // entries of the failed SEND may come back failed
		c, err := b.next(isRecv)
		require.NoError(t, err)
		if c.QP == its.qp.Num() {
			require.EqualValues(t, 99, c.Imm)
			return
		}
		require.NotEqual(t, fabric.StatusOK, c.Status)
	}
}

// testBreak: breaking flushes what was posted, in order and whether signalled or not, and refuses what comes later.
func testBreak(t *testing.T, h Harness) {
	a, b := sides(t, h)
	bystander, its := connected(t, a, b, fabric.QPConfig{})
	for range h.count(3, 30) {
		x, _ := connected(t, a, b, fabric.QPConfig{RNRRetry: true})
		var wrs []fabric.SendWR
		for i := range 6 { // they wait for entries that never come
			wr := x.immediate(uint32(i))
			wr.Signaled = i%2 == 0
			wrs = append(wrs, wr)
		}
		x.must(t, wrs...)
		x.qp.Break()
		n, err := x.qp.Post([]fabric.SendWR{x.immediate(9)})
		require.ErrorIs(t, err, fabric.ErrBroken)
		require.Zero(t, n)
		for _, wr := range wrs {
			c := x.sent(t)
			require.Equal(t, wr.ID, c.ID)
			require.NotEqual(t, fabric.StatusOK, c.Status)
			require.Equal(t, x.qp.Num(), c.QP)
		}
		x.qp.Break()
		_, err = x.qp.Map(patient(t), fabric.Remote{Key: 1, Len: page})
		require.Error(t, err)
		require.NoError(t, x.qp.Close())
	}
	alive(t, bystander, its)
}

// testBreakIsSeen: whoever sends to a queue pair that broke or was closed gets an error in the end.
func testBreakIsSeen(t *testing.T, h Harness) {
	a, b := sides(t, h)
	a.fill(t, srqDepth)
	for i, end := range []func(e *end){func(e *end) { e.qp.Break() }, func(e *end) { _ = e.qp.Close() }} {
		x, y := connected(t, a, b, fabric.QPConfig{})
		b.fill(t, 1)
		x.tell(t, uint32(i))
		b.done(b.received(t))
		end(x)
		for {
			wr := y.immediate(1)
			wr.Signaled = true
			n, err := y.qp.Post([]fabric.SendWR{wr})
			if err != nil {
				require.ErrorIs(t, err, fabric.ErrBroken)
				require.Zero(t, n)
				break
			}
			if y.sent(t).Status != fabric.StatusOK {
				y.dead(t)
				break
			}
		}
	}
}
