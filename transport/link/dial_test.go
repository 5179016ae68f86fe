package link

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

// elapse lets the test's clock pass.
func elapse(d time.Duration) { <-time.After(d) }

// A peer that ends each link at once is dialled after ever longer pauses, whatever it ends first: a link whose connection broke
// is continued soon, but that shortens no pause between links.
func TestEndedLinksAreDialledRarely(t *testing.T) {
	for name, end := range map[string]func(l *Link, pipe transport.Provider){
		"the link first": func(l *Link, _ transport.Provider) { l.end(transport.ErrClosed) },
		"the connection first": func(l *Link, pipe transport.Provider) {
			_ = pipe.Close()
			l.end(transport.ErrClosed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dialled atomic.Int64
				far := newTestPeers(t, DefaultConfig(), "far")
				var near *Peers
				near, err := NewPeers(DefaultConfig(), "near", func(ctx context.Context, _ string) error {
					dialled.Add(1)
					pn, pf := testPipes("test")
					go func() {
						if far.Attach(context.Background(), "near", true, pf) == nil {
							end((<-far.Links()).(*Link), pf)
						}
					}()
					return near.Attach(ctx, "far", false, pn)
				}, nil, nil)
				require.NoError(t, err)
				defer func() { require.NoError(t, near.Close()) }()
				go func() {
					for l := range near.Links() {
						go func() { <-l.Done(); _ = l.Close("it ended") }()
					}
				}()
				require.NoError(t, near.Dial("far", "there"))
				elapse(time.Minute)
				before := dialled.Load()
				require.Greater(t, before, int64(4))
				elapse(10 * time.Minute)
				require.Greater(t, dialled.Load(), before)
				require.LessOrEqual(t, dialled.Load()-before, int64(10*60/5), "a pause is 5 to 10 s long")
			})
		})
	}
}

// A gate that is asked again shortens the pause of those that it refused alone.
func TestRecheckOfTheGateHurriesTheRefusedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialled := map[string]*atomic.Int64{"member": new(atomic.Int64), "stranger": new(atomic.Int64)}
		p, err := NewPeers(DefaultConfig(), "near", func(_ context.Context, addr string) error {
			dialled[addr].Add(1)
			return errors.New("unreachable")
		}, nil, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		require.NoError(t, p.Dial("member", "member"))
		require.NoError(t, p.Dial("stranger", "stranger"))
		var open atomic.Bool
		p.SetGate(func(id transport.PeerID) error {
			if id == "stranger" && !open.Load() {
				return errors.New("not on the list")
			}
			return nil
		})
		elapse(time.Minute)
		for range 60 {
			p.RecheckGate()
			elapse(time.Second)
		}
		require.Less(t, dialled["member"].Load(), int64(40), "each check of the gate dials it again")
		before := dialled["stranger"].Load()
		open.Store(true)
		p.RecheckGate()
		synctest.Wait()
		require.Equal(t, before+1, dialled["stranger"].Load(), "it is dialled at once")
	})
}
