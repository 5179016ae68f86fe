package fabrictest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// testPingPong: two sides that sleep whenever they have nothing lose no wake-up.
func testPingPong(t *testing.T, h Harness) {
	a, b := sides(t, h)
	x, y := connected(t, a, b, fabric.QPConfig{SendDepth: 64})
	x.fill(t, 4)
	y.fill(t, 4)
	rounds := h.count(10_000, 50_000)
	errs := make(chan error, 1)
	go func() { errs <- y.echo(rounds) }()
	for i := range rounds {
		require.NoError(t, x.ping(i))
		c, err := x.hearOne()
		require.NoError(t, err)
		require.EqualValues(t, i, c.Imm)
	}
	require.NoError(t, within(t, errs))
}

// echo answers every immediate with the same.
func (e *end) echo(rounds int) error {
	for i := range rounds {
		c, err := e.hearOne()
		if err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if err := e.ping(int(c.Imm)); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

// ping sends an immediate; one in 16 is signalled.
func (e *end) ping(i int) error {
	wr := e.immediate(uint32(i))
	wr.Signaled = i%16 == 15
	for {
		n, err := e.qp.Post([]fabric.SendWR{wr})
		if n == 1 {
			return nil
		}
		if errors.Is(err, fabric.ErrFull) {
			_, err = e.next(isSend)
		}
		if err != nil {
			return err
		}
	}
}

// hearOne receives an immediate and posts its entry again. Ends of requests on the way are checked and forgotten.
func (e *end) hearOne() (fabric.Completion, error) {
	for {
		c, err := e.next(func(fabric.Completion) bool { return true })
		if err != nil {
			return c, err
		}
		if c.Status != fabric.StatusOK {
			return c, fmt.Errorf("%s", c.Status)
		}
		if isRecv(c) {
			e.done(c)
			return c, e.post(1)
		}
	}
}

// testManySenders: a sleeping receiver that drains, arms and drains again before it sleeps finds everything that
// several senders on several queue pairs send at their own pace.
func testManySenders(t *testing.T, h Harness) {
	a, b := sides(t, h)
	senders, each := h.count(4, 8), h.count(500, 5000)
	b.fill(t, srqDepth)
	errs := make(chan error, senders)
	of := make(map[uint32]int)
	var ends []*end
	for i := range senders {
		s := a
		if i > 0 {
			s = newSide(t, a.dev)
		}
		x, y := connected(t, s, b, fabric.QPConfig{SendDepth: 16, RNRRetry: true})
		of[y.qp.Num()] = i
		ends = append(ends, x)
	}
	for _, x := range ends {
		go func() { errs <- x.stream(each) }()
	}
	next := make([]int, senders)
	for range senders * each {
		c := b.received(t)
		i, ok := of[c.QP]
		require.True(t, ok)
		require.EqualValues(t, next[i], c.Imm)
		next[i]++
		b.done(c)
		b.fill(t, 1)
	}
	for range senders {
		require.NoError(t, within(t, errs))
	}
}

// stream sends the immediates 0 to n-1, one in four signalled, and waits for the last to be done.
func (e *end) stream(n int) error {
	for i := 0; i < n; {
		wr := e.immediate(uint32(i))
		wr.Signaled = i%4 == 3 || i == n-1
		posted, err := e.qp.Post([]fabric.SendWR{wr})
		i += posted
		if errors.Is(err, fabric.ErrFull) {
			_, err = e.finish()
		}
		if err != nil {
			return err
		}
	}
	for {
		if id, err := e.finish(); err != nil || id == e.nextID {
			return err
		}
	}
}

// finish waits for a good end of a request.
func (e *end) finish() (uint64, error) {
	c, err := e.next(isSend)
	if err == nil && c.Status != fabric.StatusOK {
		err = fmt.Errorf("request %d: %s", c.ID, c.Status)
	}
	return c.ID, err
}
