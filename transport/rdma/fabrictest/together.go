package fabrictest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// testBothWays: both sides send as much as they can at the same time; nothing is lost, and they do not lock each other
// up though both receive queues run empty and both send queues run full.
func testBothWays(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{SendDepth: 32, RNRRetry: true})
	n := h.count(2000, 50_000)
	errs := make(chan error, 2)
	for _, e := range []*end{x, y} {
		require.NoError(t, e.post(8)) // fewer than the peer can send
		go func() { errs <- e.exchange(n) }()
	}
	for range 2 {
		require.NoError(t, within(t, errs))
	}
}

// exchange sends the immediates 0 to n-1 and receives as many, each as soon as it can.
func (e *end) exchange(n int) error {
	sent, got := 0, 0
	for last := e.nextID + 1; got < n || sent < n || last != e.nextID; {
		if sent < n {
			wr := e.immediate(uint32(sent))
			wr.Signaled = sent%8 == 7 || sent == n-1
			posted, err := e.qp.Post([]fabric.SendWR{wr})
			if sent += posted; err == nil {
				continue
			}
			if !errors.Is(err, fabric.ErrFull) {
				return err
			}
			e.nextID--
		}
		c, err := e.next(func(fabric.Completion) bool { return true })
		switch {
		case err != nil:
			return err
		case c.Status != fabric.StatusOK:
			return fmt.Errorf("%s after %d sent and %d received", c.Status, sent, got)
		case isSend(c):
			last = c.ID
			continue
		case c.Imm != uint32(got):
			return fmt.Errorf("got immediate %d, want %d", c.Imm, got)
		}
		got++
		e.done(c)
		if err := e.post(1); err != nil {
			return err
		}
	}
	return nil
}

// testConcurrentEntries: several goroutines post entries to one receive queue while it is used, and each entry comes
// back as often as it was posted.
func testConcurrentEntries(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{RNRRetry: true})
	const posters = 4
	each := h.count(250, 5000)
	errs := make(chan error, posters+1)
	room := make(chan struct{}, srqDepth)
	for p := range posters {
		go func() {
			for range each {
				room <- struct{}{}
				n, err := b.srq.Post([]fabric.RecvWR{{ID: recvBit | uint64(p)}})
				if err == nil && n != 1 {
					err = fmt.Errorf("took %d entries", n)
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	go func() { errs <- x.stream(posters * each) }()
	used := make(map[uint64]int)
	for i := range posters * each {
		c := y.received(t)
		require.EqualValues(t, i, c.Imm)
		used[c.ID&^recvBit]++
		<-room
	}
	for range posters + 1 {
		require.NoError(t, within(t, errs))
	}
	for p := range posters {
		require.Equal(t, each, used[uint64(p)], "entries of poster %d", p)
	}
}

// testPollWhileWaiting: one goroutine arms and sleeps, another polls after every arming and waking; that finds all.
func testPollWhileWaiting(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{RNRRetry: true})
	total := h.count(2000, 20_000)
	b.fill(t, 200)
	errs, armed, ended := make(chan error, 1), make(chan struct{}, 1), make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for {
			err := b.cq.Arm()
			select {
			case armed <- struct{}{}: // there is one already: it will be taken after this arming
			default:
			}
			select {
			case <-stop: // looked at between arming and sleeping: what comes after it wakes
				ended <- err
				return
			default:
			}
			if err == nil {
				err = b.cq.Wait()
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	go func() { errs <- x.stream(total) }()
	for got := 0; got < total; {
		within(t, armed)
		for n := -1; n != 0; {
			var err error
			b.got = b.got[:0]
			n, err = b.poll()
			require.NoError(t, err)
			for _, c := range b.got {
				require.EqualValues(t, got, c.Imm)
				got++
				b.done(c)
				b.fill(t, 1)
			}
		}
	}
	require.NoError(t, within(t, errs))
	b.got = b.got[:0]
	close(stop)
	x.must(t, x.immediate(1)) // wakes the sleeper
	require.NoError(t, within(t, ended))
	require.Equal(t, uint32(1), y.received(t).Imm)
}
