package blocksync

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
)

// modelRecoveries go by one recovery, which is its own proof; "bad" is signed by nobody.
type modelRecoveries struct {
	mine []byte
	gate chan struct{} // if it is there, Meet waits for its end

	mu  sync.Mutex
	met [][]byte
}

func (r *modelRecoveries) Shown() [][]byte {
	if r.mine == nil {
		return nil
	}
	return [][]byte{r.mine}
}

func (r *modelRecoveries) Meet(_ transport.PeerID, shown [][]byte) (bool, error) {
	if r.gate != nil {
		<-r.gate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.met = append(r.met, shown...)
	var theirs []byte
	if len(shown) > 0 {
		theirs = shown[0]
	}
	if bytes.Equal(theirs, []byte("bad")) {
		return false, errors.New("not signed")
	}
	return bytes.Equal(theirs, r.mine), nil
}

// Nodes that go by different recoveries show them to each other and part; who shows none goes by none. A forged one is a fault.
func TestPeersOfAnotherRecovery(t *testing.T) {
	chain := newChain(20, chainShape{})
	show := func(recoveries ...string) func(*Handshake) {
		return func(h *Handshake) {
			for _, x := range recoveries {
				h.Recoveries = append(h.Recoveries, []byte(x))
			}
		}
	}
	for _, c := range []struct {
		name   string
		mine   string
		theirs []string
		want   Reason
	}{
		{"the same", "r", []string{"r"}, NoReason},
		{"none on both sides", "", nil, NoReason},
		{"the peer's is newer", "", []string{"r"}, Recovered},
		{"the peer knows none", "r", nil, Recovered},
		{"the peer's is another", "r", []string{"s", "r"}, Recovered},
		{"a forged one", "r", []string{"bad"}, Validation},
	} {
		t.Run(c.name, func(t *testing.T) {
			onMem(t, func(l *lab) {
				known := new(modelRecoveries)
				if c.mine != "" {
					known.mine = []byte(c.mine)
				}
				n := l.node("n", chain, func(_ *Config, d *Deps) { d.Recoveries = known })
				s := l.script("peer", n).at(chain[20], chain[18], 19)
				s.edit = show(c.theirs...)
				s.hello()
				h, err := DecodeHandshake(s.next(0, TypeHandshake))
				require.NoError(t, err)
				require.Equal(t, len(known.Shown()), len(h.Recoveries), "each shows what it has before it goes")
				if c.want != NoReason {
					s.goneWith(c.want)
					known.mu.Lock()
					defer known.mu.Unlock()
					require.Len(t, known.met, len(c.theirs))
					require.Empty(t, n.links)
					banned := n.m.bans.Len() > 0
					require.Equal(t, c.want == Validation, banned, "who goes by another recovery may come again")
					return
				}
				<-n.links
			})
		})
	}
	_, err := DecodeHandshake((&Handshake{Recoveries: make([][]byte, MaxShownRecoveries+1)}).Encode())
	require.ErrorIs(t, err, ErrMessage)
}

// A peer of another recovery that holds another block as final parted by that recovery, not by a fork: this node looks at it, so that
// its operator hears of it. Peers that go by the same one and differ in a final block are a fork.
func TestRecoveryIsMetBeforeAFork(t *testing.T) {
	chain := newChain(20, chainShape{})
	for _, c := range []struct {
		name         string
		mine, theirs string
		want         Reason
		met          int
	}{
		{"a node of before the recovery that is further", "", "r", Recovered, 1},
		{"a peer of before the recovery", "r", "", Recovered, 0},
		{"a fork in one domain", "r", "r", Forked, 1},
		{"a forged one", "", "bad", Validation, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			onMem(t, func(l *lab) {
				known := new(modelRecoveries)
				if c.mine != "" {
					known.mine = []byte(c.mine)
				}
				n := l.node("n", chain, func(_ *Config, d *Deps) { d.Recoveries = known })
				s := l.script("peer", n).at(chain[19], chain[17], 18)
				s.edit = func(h *Handshake) {
					h.LIB.Hash[0]++
					if c.theirs != "" {
						h.Recoveries = [][]byte{[]byte(c.theirs)}
					}
				}
				s.hello()
				s.goneWith(c.want)
				known.mu.Lock()
				defer known.mu.Unlock()
				require.Len(t, known.met, c.met)
				require.Equal(t, c.want != Recovered, n.m.bans.Len() > 0, "who goes by another recovery may come again")
			})
		})
	}
}

// Two nodes that go by different recoveries and dial each other meet again after the longest pause only, and the log of that
// does not grow: it says so once, then rarely, with the number of times.
func TestPeersOfAnotherRecoveryMeetRarely(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		reg := prometheus.NewRegistry()
		a := l.node("a", chain, func(_ *Config, d *Deps) {
			d.Recoveries, d.Log, d.Registry = &modelRecoveries{mine: []byte("r")}, zap.New(core), reg
		})
		b := l.node("b", chain, func(_ *Config, d *Deps) { d.Recoveries = new(modelRecoveries) })
		a.dial(b.host)
		b.dial(a.host)
		met := func() (times float64) {
			families, err := reg.Gather()
			require.NoError(l.t, err)
			for _, f := range families {
				if strings.HasPrefix(f.GetName(), "bornode_blocksync_go_away_") {
					for _, m := range f.GetMetric() {
						times += m.GetCounter().GetValue()
					}
				}
			}
			return times
		}
		l.pass(time.Minute) // the pauses grow
		before, lines := met(), logs.Len()
		require.Positive(t, before)
		require.Positive(t, logs.FilterField(zap.Stringer("reason", Recovered)).Len())
		l.pass(10 * time.Minute)
		require.Greater(t, met(), before, "they try again")
		require.Less(t, met()-before, 2*600/5., "each side dials after 5 s at the soonest")
		require.LessOrEqual(t, logs.Len()-lines, 6, "%v", logs.All()[max(0, logs.Len()-20):])
	})
}

// What a peer of another recovery shows as final is given to the driver before the peer goes: it may prove that the chain which the
// recovery left went on. Handshakes that come while the peer's recoveries are verified change nothing.
func TestCertificateOfAPeerOfAnotherRecovery(t *testing.T) {
	chain := newChain(20, chainShape{})
	onMem(t, func(l *lab) {
		known := &modelRecoveries{mine: []byte("r"), gate: make(chan struct{})}
		n := l.node("n", chain, func(_ *Config, d *Deps) { d.Recoveries = known })
		was := n.Status().LIB.Height
		require.Less(t, was, chain[20].Number())
		s := l.script("peer", n).at(chain[20], chain[18], 19)
		s.edit = func(h *Handshake) { h.FC, h.Recoveries = certOn(block.Precommit, chain[20]), [][]byte{[]byte("s")} }
		s.hello()
		s.hello()
		synctest.Wait()
		close(known.gate)
		s.goneWith(Recovered)
		synctest.Wait()
		require.Greater(t, n.Status().LIB.Height, was)
		require.Empty(t, n.links)
		known.mu.Lock()
		defer known.mu.Unlock()
		require.Len(t, known.met, 1)
	})
}
