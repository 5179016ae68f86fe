package consensus

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/clock"
	"github.com/bornode/bornode/consensus/dpos"
)

// clocks are the own clocks of a lab's machines: how far each is off, and what each node sees of the others' clocks and times.
type clocks struct {
	l      *lab
	off    [8]atomic.Int64
	deaf   [8]atomic.Bool // reads no other clock
	logs   [8]*observer.ObservedLogs
	nodes  [8]atomic.Pointer[Driver]
	told   [8]atomic.Int64 // the time that each tells minus the true one
	tells  [8]atomic.Bool  // told holds a time
	silent atomic.Bool     // none tells a time, as before release 0.4
}

func newClocks(l *lab) *clocks {
	k := &clocks{l: l}
	ctx, cancel := context.WithCancel(context.Background())
	l.ends = append(l.ends, cancel)
	l.wg.Go(func() { k.exchangeTimes(ctx) })
	return k
}

// exchangeTimes has every node tell its time again and again.
func (k *clocks) exchangeTimes(ctx context.Context) {
	for ctx.Err() == nil {
		for i := range k.nodes {
			told := time.Duration(0)
			if d := k.nodes[i].Load(); d != nil && !k.silent.Load() {
				told = d.ToldTime()
			}
			k.told[i].Store(int64(told) - time.Now().UnixNano())
			k.tells[i].Store(told > 0)
		}
		select {
		case <-ctx.Done():
		case <-time.After(slotTime / 5):
		}
	}
}

// reading is what node i tells.
func (k *clocks) reading(i int) clock.Reading {
	r := clock.Reading{Account: k.l.signers[i].Account(), Wall: time.Duration(k.own(i).UnixNano()), At: time.Now()}
	if k.tells[i].Load() {
		r.Told = time.Duration(r.At.UnixNano() + k.told[i].Load())
	}
	return r
}

func (k *clocks) set(off time.Duration, ids ...int) {
	for _, i := range ids {
		k.off[i].Store(int64(off))
	}
}

func (k *clocks) own(id int) time.Time { return time.Now().Add(time.Duration(k.off[id].Load())) }

// start starts a node whose machine has the clock k says.
func (k *clocks) start(m *member) {
	m.start(func(_ *Config, d *Deps) {
		core, logs := observer.New(zap.InfoLevel)
		k.logs[m.id], d.Log = logs, zap.New(core)
		d.Now = func() time.Time { return k.own(m.id) }
		d.Clocks = func() (out []clock.Reading) {
			for i := range k.l.signers {
				if i != m.id && !k.deaf[m.id].Load() && !k.l.isCut(i, m.id) {
					out = append(out, k.reading(i))
				}
			}
			return out
		}
	})
	k.nodes[m.id].Store(m.driver)
}

// kill stops a node, which tells nothing from then on.
func (k *clocks) kill(m *member) {
	k.nodes[m.id].Store(nil)
	k.tells[m.id].Store(false)
	m.kill()
}

// restart has a node down for two slots.
func (k *clocks) restart(m *member) {
	k.kill(m)
	k.l.slots(2)
	k.start(m)
}

func (k *clocks) startAll() {
	for _, m := range k.l.nodes {
		k.start(m)
	}
}

// saw reports whether a node's log has a line.
func (k *clocks) saw(id int, text string) bool {
	return k.logs[id].FilterMessageSnippet(text).Len() > 0
}

// onTime checks every vote and every block from now on: none before max_clock_error before its slot by the true time. It
// returns how many votes were seen.
func (k *clocks) onTime() *atomic.Int64 {
	var seen atomic.Int64
	p := k.l.params
	k.l.setTap(func(v block.Vote) {
		seen.Add(1)
		if early := time.Until(p.SlotStart(v.Target.Slot)); early > p.MaxClockError() {
			k.l.t.Errorf("a vote of slot %d was cast %s before it", v.Target.Slot, early)
		}
	})
	return &seen
}

func (l *lab) lag(id int) uint64 {
	s := l.nodes[id].driver.Status()
	now, _ := l.params.SlotAt(time.Now())
	return now - s.LIB.Slot
}

// A common time source jumps: the clocks of half of the producers are 180 s ahead for 12 s, then of all. Finality goes on once
// the sessions are renewed (a machine image that was resumed looks the same), nothing of a far slot is signed, and the nodes name
// what they see.
func TestJumpOfClocksDoesNotStopFinality(t *testing.T) {
	config := dpos.DefaultConfig(block.Parameters{}, common.Address{})
	renewed := config.ClockBound + config.MaxAhead + 4 // slots: the line of a session, and what finality takes
	inBubble(t, 4, func(l *lab) {
		k := newClocks(l)
		k.startAll()
		l.slots(4)
		k.onTime()
		k.set(180*time.Second, 0, 1)
		for range 6 {
			l.slots(4)
			require.LessOrEqual(t, l.lag(0), renewed)
			require.LessOrEqual(t, l.lag(3), renewed)
		}
		require.True(t, k.saw(0, "this machine's clock is off"))
		require.True(t, k.saw(3, "a producer's clock is off"))
		require.False(t, k.saw(3, "this machine's clock is off"))
		k.set(180*time.Second, 0, 1, 2, 3)
		l.slots(12)
		require.LessOrEqual(t, l.lag(2), renewed, "all clocks jump: the time follows by 1 ms per second")
		require.True(t, k.saw(2, "the network's time is off"))
		k.set(0, 0, 1, 2, 3)
		l.slots(4)
		require.True(t, k.saw(2, "the network's time is right again"))
		require.True(t, k.saw(0, "this machine's clock is right again"))
		require.LessOrEqual(t, l.lag(2), uint64(4))
	})
}

// The clocks of all machines jump and stay so, and every producer is restarted, one after the other: each takes the time of those
// that run, finality goes on and nothing of a far slot is signed.
func TestRestartsWhileClocksAreOff(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			inBubble(t, 4, func(l *lab) {
				k := newClocks(l)
				k.startAll()
				l.slots(12)
				k.onTime()
				k.set(off, 0, 1, 2, 3)
				l.slots(4)
				for i, m := range l.nodes {
					k.restart(m)
					l.slots(24)
					for j := range l.nodes {
						require.LessOrEqual(t, l.lag(j), uint64(4), "node %d after the restart of node %d", j, i)
					}
					require.False(t, m.driver.Status().Silent)
					require.InDelta(t, 0, time.Since(m.driver.NetworkTime()).Seconds(), 0.5)
				}
				require.True(t, k.saw(3, "the network's time is off"))
			})
		})
	}
}

// While one producer of four is down for good the two others are fewer than what nobody can hold back, so a start whose clock differs
// waits four turns for a third, and goes on by the time of the two. One whose clock agrees waits for nobody.
func TestARestartBesideOneThatIsLost(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		k := newClocks(l)
		k.startAll()
		l.slots(12)
		k.onTime()
		k.kill(l.nodes[3])
		l.setCut(3, true)
		k.restart(l.nodes[0])
		l.slots(1)
		require.Equal(t, clock.Set, l.nodes[0].driver.time.readTime().State)
		l.slots(30)
		require.LessOrEqual(t, l.lag(0), uint64(8))
		k.set(time.Hour, 0, 1, 2)
		k.restart(l.nodes[0])
		l.slots(5)
		require.Equal(t, clock.Unset, l.nodes[0].driver.time.readTime().State)
		l.slots(40)
		require.LessOrEqual(t, l.lag(0), uint64(8))
		require.LessOrEqual(t, l.lag(1), uint64(8))
	})
}

// A producer that set its time by jumped clocks, since those around it told no time yet, takes theirs when they do, before it signs
// anything of a far slot.
func TestATimeOfClocksIsSetRight(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			inBubble(t, 4, func(l *lab) {
				k := newClocks(l)
				l.early = true
				k.startAll()
				l.slots(12)
				k.onTime()
				k.set(off, 0, 1, 2, 3)
				k.silent.Store(true)
				l.slots(1)
				k.restart(l.nodes[2])
				l.slots(2)
				require.InDelta(t, off.Seconds(), time.Until(l.nodes[2].driver.NetworkTime()).Seconds(), 1)
				require.Zero(t, l.nodes[2].driver.ToldTime())
				k.silent.Store(false)
				l.slots(1)
				require.InDelta(t, 0, time.Until(l.nodes[2].driver.NetworkTime()).Seconds(), 0.5)
				l.slots(30)
				require.False(t, l.nodes[2].driver.Status().Silent)
				require.NotZero(t, l.nodes[2].driver.ToldTime())
				require.LessOrEqual(t, l.lag(2), uint64(4))
			})
		})
	}
}

// A producer whose clock is 3 s, or half a second, ahead or behind, from its start or later, makes its blocks when the
// others expect them: none is early, all are taken, it votes, and it says that its clock is wrong.
func TestWrongClockOfOneProducerCostsNothing(t *testing.T) {
	for _, off := range []time.Duration{3 * time.Second, 500 * time.Millisecond, -3 * time.Second} {
		t.Run(off.String(), func(t *testing.T) {
			inBubble(t, 4, func(l *lab) {
				k := newClocks(l)
				k.set(off, 1)
				k.startAll()
				l.slots(2)
				k.onTime()
				before := l.sealed(1)
				l.slots(16)
				require.Equal(t, before+4, l.sealed(1))
				require.LessOrEqual(t, l.lag(0), uint64(4))
				for slot, made := range madeBlocks(l.nodes[0]) {
					if l.schedule.Owner(slot, l.params.TurnSlots).Account == l.signers[1].Account() {
						require.True(t, made, "slot %d is no part of the chain", slot)
					}
				}
				require.True(t, k.saw(1, "this machine's clock is off"))
				require.True(t, k.saw(0, "a producer's clock is off"))
				require.False(t, l.nodes[1].driver.Status().Silent)
			})
		})
	}
}

// madeBlocks tells of each slot up to the newest final block whether it has a block.
func madeBlocks(m *member) map[uint64]bool {
	out := make(map[uint64]bool)
	finals := m.chain.finals()
	for s := uint64(4); s < finals[len(finals)-1].Slot(); s++ {
		out[s] = false
	}
	for _, b := range finals {
		out[b.Slot()] = true
	}
	return out
}

// A producer that knows too few clocks casts no vote, says why, and after a wait seals by its own clock; with the clocks
// it votes again.
func TestTooFewClocksCastNoVote(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		k := newClocks(l)
		k.deaf[2].Store(true)
		k.startAll()
		votes, seals := l.signs(2)
		l.slots(6)
		require.Zero(t, votes())
		require.Zero(t, seals())
		s := l.nodes[2].driver.Status()
		require.True(t, s.Silent)
		require.Contains(t, s.Why, "knows the clocks of 1 producers and needs those of 3")
		require.LessOrEqual(t, l.lag(0), uint64(4), "three are a quorum")
		l.slots(18)
		require.Zero(t, votes())
		require.NotZero(t, seals(), "production never waits for ever")
		require.True(t, k.saw(2, "the signer casts no vote"))
		k.deaf[2].Store(false)
		l.slots(8)
		require.NotZero(t, votes())
		require.False(t, l.nodes[2].driver.Status().Silent)
	})
}

// A producer that ran by its own wrong clock while it knew no other follows theirs at once when it does.
func TestTimeAloneIsSetRight(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		k := newClocks(l)
		l.early = true
		k.set(-20*time.Second, 2)
		k.deaf[2].Store(true)
		k.startAll()
		l.slots(40)
		require.InDelta(t, 20, time.Since(l.nodes[2].driver.NetworkTime()).Seconds(), 0.1)
		k.deaf[2].Store(false)
		l.slots(1)
		require.InDelta(t, 0, time.Since(l.nodes[2].driver.NetworkTime()).Seconds(), 0.001)
		require.Equal(t, clock.Set, l.nodes[2].driver.core.time.State)
	})
}

// The clocks of more than half were wrong at the start, so votes of far slots are in the logs. After a restart with right
// clocks the producers seal, cast no vote before those slots come, and say so; then finality goes on by itself.
func TestFarVotesInTheLogsAreWaitedFor(t *testing.T) {
	const far = 20 * time.Second
	inBubble(t, 4, func(l *lab) {
		l.early = true // what is on its way to a node that is started with the right clock
		k := newClocks(l)
		k.set(far, 0, 1, 2, 3)
		k.startAll()
		l.slots(10)
		require.NotZero(t, l.nodes[0].driver.Status().LIB.Height)
		for _, m := range l.nodes {
			k.kill(m)
		}
		k.set(0, 0, 1, 2, 3)
		began := time.Now()
		k.startAll()
		l.slots(14)
		require.False(t, time.Since(began) > far)
		for i, m := range l.nodes {
			s := m.driver.Status()
			require.True(t, s.Silent, "node %d", i)
			require.Contains(t, s.Why, "was signed when clocks were wrong")
			require.True(t, k.saw(i, "was signed when clocks were wrong"))
		}
		l.slots(int((far-time.Since(began))/slotTime) + 24)
		for i, m := range l.nodes {
			require.False(t, m.driver.Status().Silent, "node %d", i)
			require.LessOrEqual(t, l.lag(i), uint64(4))
		}
	})
}

// A block that comes earlier than max_clock_error before its slot is not taken, and one within it is.
func TestEarlyBlocksAreRefused(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.nodes[0].start(nil)
		d := l.nodes[0].driver
		early := l.params.SlotStart(9).Add(-l.params.MaxClockError())
		time.Sleep(time.Until(early) - time.Millisecond)
		owner := l.schedule.Owner(9, l.params.TurnSlots)
		b := assemble(&l.params, l.genesis, 1, 9, owner.Account, &block.Record{}, nil, nil)
		b = sealBy(b, l.signers[l.schedule.Index(owner.Account)])
		require.ErrorIs(t, d.AddBlock(context.Background(), b), ErrFuture)
		time.Sleep(time.Millisecond)
		require.NoError(t, d.AddBlock(context.Background(), b), "the machine is told the time before it judges")
	})
}

// A reading of another clock, and of another's time, counts for a minute.
func TestOldReadingsDoNotCount(t *testing.T) {
	base := time.Now()
	at := func(age, told time.Duration) clock.Reading {
		return clock.Reading{Account: common.Address{byte(age / time.Second)}, Told: told, At: base.Add(time.Hour - age)}
	}
	n := &networkTime{base: base, peers: func() []clock.Reading {
		return []clock.Reading{at(time.Second, 11*time.Hour), at(time.Minute, 0), at(61*time.Second, 11*time.Hour)}
	}}
	offsets, told := n.peerOffsets(time.Hour)
	require.Len(t, offsets, 2)
	require.NotContains(t, offsets, common.Address{61})
	require.Equal(t, map[common.Address]time.Duration{{1}: 10*time.Hour + time.Second}, told)
}

// A certificate proves that max_clock_error before its slot has come, and no more: from then on a quorum votes for a block.
func TestACertificateProvesThatItsSlotIsNear(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(20)
		m := l.nodes[0]
		require.NoError(t, m.driver.do(m.ctx, true, func(c *core) {
			start := c.d.deps.Params.SlotStart(c.machine.Justified().Slot)
			c.followTime()
			require.Equal(t, start.Add(-l.params.MaxClockError()).UnixNano(), int64(c.d.time.certified))
		}))
	})
}

// A machine that stood still for a minute catches up with what others certified meanwhile: by a certificate that a handshake shows,
// or by the range of blocks that holds it.
func TestAMachineThatStoodStillCatchesUp(t *testing.T) {
	const still = time.Minute
	for _, by := range []string{"handshake", "range"} {
		t.Run(by, func(t *testing.T) {
			inBubble(t, 4, func(l *lab) {
				k := newClocks(l)
				l.early = true
				k.startAll()
				l.slots(20)
				m := l.nodes[0]
				n := m.driver.time
				n.mu.Lock()
				n.base = n.base.Add(still) // its monotonic clock stood still
				n.mu.Unlock()
				l.slots(int(still / slotTime))
				require.Greater(t, time.Since(m.driver.NetworkTime()), still/2, "neither clocks nor live blocks move the time at once")
				if by == "handshake" {
					require.ErrorIs(t, m.driver.AddCertificate(l.nodes[1].driver.Status().FC), ErrUnknownParent)
					require.InDelta(t, 0, time.Since(m.driver.NetworkTime()).Seconds(), 2)
				}
				finals := l.nodes[1].chain.finals()
				_, err := m.driver.AddRange(m.ctx, finals[min(int(m.chain.lib()), len(finals)):], Full)
				require.NoError(t, err)
				require.InDelta(t, 0, time.Since(m.driver.NetworkTime()).Seconds(), 4)
				require.LessOrEqual(t, l.lag(0), uint64(8))
			})
		})
	}
}

// The operator's word before the network's time is known is refused: there is no floor yet that it could be kept for.
func TestAcceptBeforeTheFloorIsDrawn(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		k := newClocks(l)
		k.startAll()
		l.slots(12)
		m := l.nodes[0]
		k.kill(m)
		cfg, _ := m.deps()
		require.NoError(t, MarkCopied(cfg.Dir))
		k.deaf[0].Store(true)
		k.start(m)
		l.slots(2)
		_, err := m.driver.AcceptAnswers(m.ctx)
		require.ErrorContains(t, err, "time of the network")
		k.deaf[0].Store(false)
		l.slots(12)
		_, err = m.driver.AcceptAnswers(m.ctx)
		require.NoError(t, err)
		require.True(t, m.driver.Status().Waiting.Rest.Accepted)
	})
}
