package fabrictest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// testSignals: only signalled requests complete, in the order of posting.
func testSignals(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{})
	y.fill(t, 200)
	var want []uint64
	var wrs []fabric.SendWR
	for i := range 100 {
		wr := x.immediate(uint32(i))
		if wr.Signaled = i%7 == 3 || i == 99; wr.Signaled {
			want = append(want, wr.ID)
		}
		wrs = append(wrs, wr)
	}
	x.must(t, wrs[:1]...)
	x.must(t, wrs[1:50]...)
	x.must(t, wrs[50:]...)
	for _, id := range want {
		x.sentOK(t, id, fabric.OpWriteImm)
	}
	for i := range 100 {
		c := y.received(t)
		require.EqualValues(t, i, c.Imm)
		y.done(c)
	}
	x.tell(t, 100) // had an unsignalled one completed, its completion would come first
	c := y.received(t)
	require.EqualValues(t, 100, c.Imm)
}

// testSendQueueFull: a post without room is partial and says ErrFull; completions that were polled make room; what
// was taken arrives once and in order. Slots are held until polled: whoever does not poll is stopped before the
// completion queue can overrun.
func testSendQueueFull(t *testing.T, h Harness) {
	const depth, chain = 16, 8 * 16
	for _, every := range []int{1, 8} {
		a, b := sides(t, h)
		x, y := connected(t, a, b, fabric.QPConfig{SendDepth: depth, RNRRetry: true})
		y.fill(t, 200)
		var wrs []fabric.SendWR
		total := h.count(600, 20_000)
		for i := range total {
			wr := x.immediate(uint32(i))
			wr.Signaled = i%every == every-1 || i == total-1
			wrs = append(wrs, wr)
		}
		n, err := x.qp.Post(wrs[:chain])
		require.ErrorIs(t, err, fabric.ErrFull)
		require.GreaterOrEqual(t, n, depth, "the depth that was asked for")
		require.Less(t, n, chain)
		errs := make(chan error, 1)
		go func() { errs <- takeImmediates(y, total) }()
		full := 1
		for last := uint64(0); last != wrs[total-1].ID; {
			if rest := wrs[n:]; len(rest) > 0 {
				more, err := x.qp.Post(rest[:min(chain, len(rest))])
				if n += more; err != nil {
					require.ErrorIs(t, err, fabric.ErrFull)
					full++
				}
				if more > 0 && err == nil {
					continue
				}
			}
			c := x.sent(t)
			require.Equal(t, fabric.StatusOK, c.Status)
			require.Greater(t, c.ID, last, "in order")
			last = c.ID
		}
		require.Equal(t, total, n)
		require.Greater(t, full, 1)
		require.NoError(t, within(t, errs))
	}
}

// takeImmediates receives the immediates 0, 1, 2, ... and posts their entries again.
func takeImmediates(e *end, total int) error {
	for i := range total {
		c, err := e.next(isRecv)
		if err != nil {
			return err
		}
		if c.Status != fabric.StatusOK || c.Op != fabric.OpRecvImm || c.Imm != uint32(i) || c.QP != e.qp.Num() {
			return fmt.Errorf("got %+v, want immediate %d on queue pair %d", c, i, e.qp.Num())
		}
		e.done(c)
		if err := e.post(1); err != nil {
			return err
		}
	}
	return nil
}

// testReceiveQueueFull: the shared receive queue takes what it was made for, and tells when it is full.
func testReceiveQueueFull(t *testing.T, h Harness) {
	a, b := sides(t, h)
	const depth, chain = 16, 8 * 16
	srq, err := b.dev.NewSRQ(depth)
	require.NoError(t, err)
	old := b.srq
	b.srq = srq
	t.Cleanup(func() { require.NoError(t, old.Close()) })
	x, y := connected(t, a, b, fabric.QPConfig{})
	wrs := make([]fabric.RecvWR, chain)
	for i := range wrs {
		wrs[i] = fabric.RecvWR{ID: recvBit | uint64(i)}
	}
	n, err := srq.Post(wrs)
	require.ErrorIs(t, err, fabric.ErrFull)
	require.GreaterOrEqual(t, n, depth)
	require.Less(t, n, chain)
	for i := range n {
		x.tell(t, uint32(i))
	}
	seen := make(map[uint64]bool)
	for i := range n {
		c := y.received(t)
		require.EqualValues(t, i, c.Imm)
		require.False(t, seen[c.ID], "an entry is used once")
		require.Less(t, c.ID&^recvBit, uint64(n))
		seen[c.ID] = true
	}
	again, err := srq.Post(wrs[:depth])
	require.NoError(t, err)
	require.Equal(t, depth, again)
	x.tell(t, 1000)
	require.EqualValues(t, 1000, y.received(t).Imm)
}

// testSharedReceiveQueue: several queue pairs draw from one receive queue into one completion queue; the number of the
// queue pair tells them apart, and each one's order holds.
func testSharedReceiveQueue(t *testing.T, h Harness) {
	a, b := sides(t, h)
	pairs, each := h.count(4, 16), 50
	b.fill(t, srqDepth)
	var from []*end
	of := make(map[uint32]int)
	for i := range pairs {
		x, y := connected(t, a, b, fabric.QPConfig{RNRRetry: true})
		from = append(from, x)
		of[y.qp.Num()] = i
	}
	next := make([]int, pairs)
	for k := 0; k < each; k += 10 {
		for i, x := range from {
			var wrs []fabric.SendWR
			for j := range 10 {
				wr := x.immediate(uint32(i<<16 | k + j))
				wr.Signaled = j == 9
				wrs = append(wrs, wr)
			}
			x.must(t, wrs...)
		}
		for range pairs {
			require.Equal(t, fabric.StatusOK, a.sent(t).Status)
		}
		for range pairs * 10 {
			c := b.received(t)
			i, ok := of[c.QP]
			require.True(t, ok, "no queue pair %d here", c.QP)
			require.EqualValues(t, i<<16|next[i], c.Imm)
			next[i]++
			b.done(c)
			b.fill(t, 1)
		}
	}
}

// testRNR: without RNRRetry a request that finds no entry fails, and takes its queue pair with it; others live on.
func testRNR(t *testing.T, h Harness) {
	a, b := sides(t, h)
	bystander, its := connected(t, a, b, fabric.QPConfig{})
	for _, op := range []fabric.Opcode{fabric.OpWriteImm, fabric.OpSend} {
		x, _ := connected(t, a, b, fabric.QPConfig{})
		src := newRegion(t, a, 64)
		var wrs []fabric.SendWR
		for i := range 3 {
			wr := x.immediate(uint32(i))
			if wr.Op = op; op == fabric.OpSend {
				wr.Local, wr.Key = src.Bytes(), src.LocalKey()
			}
			wrs = append(wrs, wr)
		}
		x.must(t, wrs...)
		first := x.sent(t)
		require.Equal(t, wrs[0].ID, first.ID, "a failure completes without being signalled")
		require.Equal(t, fabric.StatusRNR, first.Status, "got %s", first.Status)
		require.Equal(t, x.qp.Num(), first.QP)
		for _, wr := range wrs[1:] {
			c := x.sent(t)
			require.Equal(t, wr.ID, c.ID)
			require.Equal(t, fabric.StatusFlushed, c.Status, "got %s", c.Status)
		}
		b.fill(t, 1)
		x.dead(t)
		require.NoError(t, x.qp.Close())
		bystander.tell(t, 1) // takes the entry that the dead one did not
		c := its.received(t)
		require.Equal(t, its.qp.Num(), c.QP)
		its.done(c)
	}
}

// testRNRRetry: with RNRRetry a request waits for an entry, and those behind it wait too.
func testRNRRetry(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{RNRRetry: true})
	for round := range h.count(5, 50) {
		for i := range 4 {
			wr := x.immediate(uint32(round*4 + i))
			wr.Signaled = i == 3
			x.must(t, wr)
		}
		for i := range 4 {
			y.fill(t, 1)
			c := y.received(t)
			require.EqualValues(t, round*4+i, c.Imm)
			y.done(c)
		}
		x.sentOK(t, x.nextID, fabric.OpWriteImm)
	}
}

// testLimitEvent: one event for one ArmLimit.
func testLimitEvent(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{})
	use := func(n int) {
		for range n {
			x.tell(t, 1)
			y.done(y.received(t))
		}
	}
	rounds := h.count(3, 30)
	for range rounds {
		y.fill(t, 64)
		require.NoError(t, b.srq.ArmLimit(32))
		use(40)
		b.event(t, fabric.EventSRQLimit)
		use(24) // passes no limit: the event came, and nobody armed again
	}
	for {
		select {
		case e := <-b.dev.Events():
			require.NotEqual(t, fabric.EventSRQLimit, e.Kind, "one event for one ArmLimit")
		default:
			return
		}
	}
}
