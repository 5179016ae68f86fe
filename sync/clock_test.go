package blocksync

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

// What a peer tells as the time stands for the instant of its clock's sample, however far it is from that clock; a value that no
// sum bears is none, and one that tells none any more is forgotten at once.
func TestToldFilter(t *testing.T) {
	zero := time.Now()
	at := func(ns int) time.Time { return zero.Add(time.Duration(ns)) }
	var f toldFilter
	hear := func(began int, told uint64) (clockSample, bool) {
		s, ok := sampleClock(at(began), at(began+300), 5600, 5700)
		require.True(t, ok)
		f.addTold(s, 5700, told)
		return f.Best()
	}
	best, ok := hear(1000, 9000)
	require.True(t, ok)
	require.Equal(t, clockSample{wall: 8950, at: at(1150), rtt: 200}, best)
	best, ok = hear(2000, 400_000)
	require.True(t, ok)
	require.EqualValues(t, 399_950, best.wall, "a time that was set is seen at once")
	best, ok = hear(3000, 1)
	require.True(t, ok)
	require.Negative(t, best.wall)
	for _, none := range []uint64{0, maxUnixNanos, math.MaxInt64, math.MaxUint64} {
		hear(4000, 9000)
		_, ok = hear(4500, none)
		require.False(t, ok, none)
	}
}

// producerNode is a node that acts for an account, with what it tells of its clock and of the network's time.
func (l *lab) producerNode(name string, clock func() time.Time, told func() time.Duration) (*node, common.Address) {
	key, err := crypto.GenerateKey()
	require.NoError(l.t, err)
	account := crypto.PubkeyToAddress(key.PublicKey)
	return l.node(name, nil, func(_ *Config, d *Deps) {
		d.Now, d.ToldTime = clock, told
		d.Identity = Identity{Account: account, Sign: func(h common.Hash) ([]byte, error) { return crypto.Sign(h[:], key) }}
	}), account
}

// Producers tell the time that they go by, which is no clock's, and nothing while they go by none.
func TestNetworkTimesAreTold(t *testing.T) {
	onMem(t, func(l *lab) {
		l.mem.SetFaults("a", "b", memFaults(30*time.Millisecond))
		var off atomic.Int64 // of b's time; 0: it tells none
		a, _ := l.producerNode("a", nil, nil)
		b, account := l.producerNode("b", func() time.Time { return time.Now().Add(time.Hour) }, func() time.Duration {
			if off.Load() == 0 {
				return 0
			}
			return time.Duration(time.Now().UnixNano() + off.Load())
		})
		a.dial(b.host)
		l.eventually(func() bool { return len(a.m.Clocks()) == 1 }, "read")
		for _, x := range []time.Duration{0, -3 * time.Second, 180 * time.Second, 0, time.Second} {
			off.Store(int64(x))
			l.pass(3 * time.Second) // a heartbeat
			r := a.m.Clocks()[0]
			require.Equal(l.t, account, r.Account)
			require.InDelta(l.t, time.Hour, r.Wall-time.Duration(r.At.UnixNano()), float64(time.Millisecond))
			if x == 0 {
				require.Zero(l.t, r.Told)
				continue
			}
			require.InDelta(l.t, x, r.Told-time.Duration(r.At.UnixNano()), float64(time.Millisecond))
		}
		require.Len(l.t, b.m.Clocks(), 1)
		require.Zero(l.t, b.m.Clocks()[0].Told, "a tells none")
	})
}

// A peer of release 0.3, which refuses a longer time message, is told no time, and what it does not tell is none.
func TestNoTimeIsToldToAPeerOfRelease03(t *testing.T) {
	onMem(t, func(l *lab) {
		n, _ := l.producerNode("n", nil, func() time.Duration { return 77 })
		answer := func(s *script) *Time {
			s.send(0, TypeTime, (&Time{Xmt: 5, Head: s.position().Head, LIB: s.position().LIB}).Encode())
			a, err := DecodeTime(s.next(0, TypeTime))
			require.NoError(l.t, err)
			require.EqualValues(l.t, 5, a.Org)
			return a
		}
		p := newModelSigner(5, 0)
		old := l.script("old", n).produces(p).hello()
		require.Zero(l.t, answer(old).Told)
		l.eventually(func() bool { return len(n.m.Clocks()) == 1 }, "its clock is read")
		require.Zero(l.t, n.m.Clocks()[0].Told)

		mine := l.script("new", n).produces(newModelSigner(6, 0))
		sign := mine.edit
		mine.edit = func(h *Handshake) {
			sign(h)
			h.Modes |= TakesTime
		}
		require.Zero(l.t, answer(mine).Told, "before its handshake nothing is known of it")
		mine.tells(99)
		require.EqualValues(l.t, 77, answer(mine.hello()).Told)
		l.eventually(func() bool {
			for _, r := range n.m.Clocks() {
				if r.Told > 0 {
					return true
				}
			}
			return false
		}, "its time is read")
	})
}
