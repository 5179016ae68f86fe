package rdma

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

func simPool(t testing.TB, limit int64) (*pool, *atomic.Int64) {
	n := sim.NewNetwork(1, sim.Faults{})
	fd := n.NewDevice("pool")
	var registered atomic.Int64
	p := newPool(fd, limit, func() { registered.Add(1) })
	t.Cleanup(func() {
		require.NoError(t, p.close())
		require.NoError(t, fd.Close(), "regions are left")
		require.Zero(t, n.Counters().Misuses)
	})
	return p, &registered
}

// fill marks the ends of every page of a block.
func fill(b *block, x byte) {
	for i := 0; i < b.n; i += pageBytes {
		b.bytes()[i], b.bytes()[i+pageBytes-1] = x, x
	}
}

func filled(b *block, x byte) bool {
	for i := 0; i < b.n; i += pageBytes {
		if b.bytes()[i] != x || b.bytes()[i+pageBytes-1] != x {
			return false
		}
	}
	return true
}

func TestPoolReuses(t *testing.T) {
	p, registered := simPool(t, 64<<20)
	ctx := context.Background()
	var blocks []*block
	for range 6 {
		b, err := p.get(ctx, 1<<20+1, false)
		require.NoError(t, err)
		require.Len(t, b.bytes(), 1<<20+pageBytes, "whole pages")
		blocks = append(blocks, b)
	}
	require.EqualValues(t, 1, registered.Load(), "one slab")
	for i, b := range blocks {
		fill(b, byte(i))
	}
	for i, b := range blocks {
		require.True(t, filled(b, byte(i)), "blocks overlap")
	}
	for _, i := range []int{1, 3, 2, 0, 5, 4} {
		blocks[i].close()
	}
	require.Equal(t, []extent{{0, slabBytes}}, p.slabs[0].free, "what is given back grows together")
	b, err := p.get(ctx, slabBytes, false)
	require.NoError(t, err)
	require.EqualValues(t, 1, registered.Load())
	b.close()
	total, used, _ := p.usage()
	require.EqualValues(t, slabBytes, total)
	require.Zero(t, used)
}

// TestPoolOwn: memory that a peer maps is a region of its own, and gone with its block.
func TestPoolOwn(t *testing.T) {
	p, registered := simPool(t, 64<<20)
	a, err := p.get(context.Background(), 5000, true)
	require.NoError(t, err)
	b, err := p.get(context.Background(), 5000, true)
	require.NoError(t, err)
	require.NotEqual(t, a.region, b.region)
	require.Len(t, a.region.Bytes(), 2*pageBytes)
	a.close()
	c, err := p.get(context.Background(), 5000, true)
	require.NoError(t, err)
	require.NotEqual(t, a.key(), c.key())
	require.EqualValues(t, 3, registered.Load())
	b.close()
	c.close()
	total, used, _ := p.usage()
	require.Zero(t, total)
	require.Zero(t, used)
}

// TestPoolExhausted: who finds no memory waits in line, and nobody is passed over; a cancelled one leaves the line.
func TestPoolExhausted(t *testing.T) {
	p, _ := simPool(t, slabBytes)
	ctx := context.Background()
	_, err := p.get(ctx, slabBytes+1, false)
	require.Error(t, err, "more than there will ever be")
	most, err := p.get(ctx, 6<<20, false) // 2 MiB are left
	require.NoError(t, err)

	type result struct {
		who int
		b   *block
		err error
	}
	got := make(chan result, 3)
	queue := func(ctx context.Context, who, n int) {
		_, _, before := p.usage()
		go func() {
			b, err := p.get(ctx, n, false)
			got <- result{who, b, err}
		}()
		waitFor(t, func() bool { _, _, waits := p.usage(); return waits == before+1 })
	}
	gone, cancel := context.WithCancel(ctx)
	queue(gone, 0, 4<<20)
	queue(ctx, 1, 7<<20)
	queue(ctx, 2, 1<<20) // there is room for it, but others came before
	cancel()
	r := <-got
	require.ErrorIs(t, r.err, context.Canceled)
	require.Equal(t, 0, r.who)
	require.Empty(t, got)
	most.close()
	first, second := <-got, <-got
	if first.who == 2 {
		first, second = second, first
	}
	require.NoError(t, errors.Join(first.err, second.err))
	require.Equal(t, []int{1, 2}, []int{first.who, second.who})
	first.b.close()
	second.b.close()
}

func TestPoolCloseWakes(t *testing.T) {
	p, _ := simPool(t, slabBytes)
	all, err := p.get(context.Background(), slabBytes, false)
	require.NoError(t, err)
	errs := make(chan error, 1)
	go func() {
		_, err := p.get(context.Background(), pageBytes, false)
		errs <- err
	}()
	waitFor(t, func() bool { _, _, waits := p.usage(); return waits == 1 })
	p.refuse()
	require.ErrorIs(t, <-errs, transport.ErrClosed)
	all.close()
}

// TestPoolRandom: any order of taking and giving back by several goroutines, with registrations that fail.
func TestPoolRandom(t *testing.T) {
	n := sim.NewNetwork(3, sim.Faults{ControlErrors: 0.1})
	fd := n.NewDevice("pool")
	p := newPool(fd, 2*slabBytes, func() {}) // enough for all that is held at once
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 5))
			var held []*block
			for range pick(300, 3000) {
				if len(held) > 0 && (len(held) > 3 || r.IntN(2) == 0) {
					i := r.IntN(len(held))
					if !filled(held[i], byte(g+1)) {
						t.Errorf("memory of somebody else")
						return
					}
					held[i].close()
					held[i] = held[len(held)-1]
					held = held[:len(held)-1]
					continue
				}
				b, err := p.get(patient(t), 1+r.IntN(slabBytes/20), r.IntN(4) == 0)
				if errors.Is(err, fabric.ErrUnavailable) {
					continue // planted
				}
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				fill(b, byte(g+1))
				held = append(held, b)
			}
			for _, b := range held {
				b.close()
			}
		})
	}
	wg.Wait()
	_, used, _ := p.usage()
	require.Zero(t, used)
	for _, s := range p.slabs {
		require.True(t, s.empty(), "%+v", s.free)
	}
	require.NoError(t, p.close())
	require.NoError(t, fd.Close())
	require.Zero(t, n.Counters().Misuses)
}

func TestLoadedRing(t *testing.T) {
	const most = 1 << 20
	require.Equal(t, most, loadedRing(most, 0, 100, 0, 100))
	require.Equal(t, most, loadedRing(most, 10, 100, 10, 100), "to the nearest power of two")
	require.Equal(t, most/2, loadedRing(most, 50, 100, 0, 100))
	require.Equal(t, most/4, loadedRing(most, 50, 100, 50, 100))
	require.Equal(t, MinRingBytes, loadedRing(most, 0, 100, 99, 100))
	require.Equal(t, MinRingBytes, loadedRing(most, 200, 100, 0, 100), "more than the link carries")
	require.Equal(t, MinRingBytes, loadedRing(most, 0, 100, 300, 100))
	require.Equal(t, MinRingBytes, loadedRing(MinRingBytes, 0, 100, 0, 100))
}

func TestChooseSizes(t *testing.T) {
	cfg := DefaultConfig()
	rxe := fabric.Caps{MaxSend: 1 << 14, MaxRecv: 1 << 15, MaxCQ: 1<<15 - 1, Reads: true}
	nic := fabric.Caps{MaxSend: 1 << 15, MaxRecv: 1 << 15, MaxCQ: 1 << 22, Reads: true, MaxReads: 16}
	tiny := fabric.Caps{MaxSend: 128, MaxRecv: 128, MaxCQ: 1000}
	for name, caps := range map[string]fabric.Caps{"rxe": rxe, "nic": nic, "tiny": tiny} {
		s, err := chooseSizes(&cfg, &caps)
		require.NoError(t, err, name)
		t.Logf("%s: %+v", name, s)
		require.LessOrEqual(t, s.receive, caps.MaxRecv)
		require.LessOrEqual(t, s.cq, caps.MaxCQ)
		require.LessOrEqual(t, s.send, caps.MaxSend)
		require.GreaterOrEqual(t, s.send, minSendDepth)
		require.GreaterOrEqual(t, s.entries, MinEntries)
		// The two promises: no missing receive entry, no overrun.
		require.GreaterOrEqual(t, s.receive, s.channels*(s.entries+s.reserved)+repostBatch)
		require.GreaterOrEqual(t, s.cq, s.receive+s.channels*(s.send+s.reads))
	}
	s, err := chooseSizes(&cfg, &nic)
	require.NoError(t, err)
	require.Equal(t, sizes{channels: 256, entries: 64, send: 256, reads: 16, batch: 12, reserved: 5, receive: 256*69 + 64, cq: 2*(256*69+64) + 256*(256+16)}, s)
	s, err = chooseSizes(&cfg, &rxe)
	require.NoError(t, err)
	require.Less(t, s.channels, 256)
	for _, caps := range []fabric.Caps{{}, {MaxSend: 1 << 14, MaxRecv: 70, MaxCQ: 1 << 14}, {MaxSend: minSendDepth - 1, MaxRecv: 1 << 14, MaxCQ: 1 << 14}} {
		_, err := chooseSizes(&cfg, &caps)
		require.ErrorIs(t, err, fabric.ErrUnavailable)
	}
}

func TestConfigValidate(t *testing.T) {
	c := DefaultConfig()
	require.NoError(t, c.Validate())
	for name, change := range map[string]func(*Config){
		"control_ring_bytes": func(c *Config) { c.ControlRingBytes = MinRingBytes / 2 },
		"bulk_ring_bytes":    func(c *Config) { c.BulkRingBytes = 3 << 18 },
		"entries":            func(c *Config) { c.Entries = MaxEntries + 1 },
		"max_channels":       func(c *Config) { c.MaxChannels = 0 },
		"send_depth":         func(c *Config) { c.SendDepth = minSendDepth - 1 },
		"pool_bytes":         func(c *Config) { c.PoolBytes = 1 << 20 },
		"link_bytes_per_sec": func(c *Config) { c.LinkBytesPerSec = 0 },
		"spin":               func(c *Config) { c.Spin = -1 },
		"first position":     func(c *Config) { c.FirstPosition = 7 },
	} {
		c := DefaultConfig()
		change(&c)
		require.ErrorContains(t, c.Validate(), name)
	}
}
