package rpc

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// One host, or a few, never take all places, and who has least is served first.
func TestGateKeepsPlaces(t *testing.T) {
	g := newGate(8, 3)
	must := func(host string) { t.Helper(); require.NoError(t, g.enter(bg, host)) }
	full := func(host string) {
		t.Helper()
		ctx, cancel := context.WithCancel(bg)
		cancel()
		require.ErrorIs(t, g.enter(ctx, host), context.Canceled)
	}
	for range 3 {
		must("a")
	}
	full("a")
	must("b") // half of the places are in use: from here on one for each host
	full("b")
	for i := range 4 {
		must(fmt.Sprint("c", i))
	}
	full("d")
	g.leave("c0")
	must("d")
	for _, h := range []string{"a", "a", "a", "b", "c1", "c2", "c3", "d"} {
		g.leave(h)
	}
	require.Zero(t, g.running)
	require.Empty(t, g.hosts)
	require.Empty(t, g.line)
	for range 4 { // no quota, but the other half is kept for others
		must(local)
	}
	full(local)
}

func TestGateOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(4, 2)
		for range 2 {
			require.NoError(t, g.enter(bg, "busy"))
		}
		var order []string
		wait := func(ctx context.Context, name, host string) {
			go func() {
				if g.enter(ctx, host) == nil {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(bg)
		wait(bg, "busy 3", "busy")
		wait(ctx, "busy gives up", "busy")
		wait(bg, "busy 4", "busy")
		wait(bg, "other 1", "other") // a place is kept for it
		wait(bg, "third 1", "third")
		wait(bg, "fourth 1", "fourth") // all are taken
		require.Equal(t, []string{"other 1", "third 1"}, order)
		cancel()
		synctest.Wait()
		g.leave("busy")
		synctest.Wait()
		require.Equal(t, "fourth 1", order[2], "who has none comes first")
		g.leave("other")
		synctest.Wait()
		require.Len(t, order, 3, "half is kept for hosts that have none")
		g.leave("third")
		synctest.Wait()
		require.Len(t, order, 3)
		g.leave("fourth")
		synctest.Wait()
		require.Equal(t, []string{"busy 3"}, order[3:])
		g.leave("busy")
		synctest.Wait()
		require.Equal(t, []string{"busy 3", "busy 4"}, order[3:])
	})
}

// A place that comes at the moment the wait ends is given back.
func TestGateRace(t *testing.T) {
	g := newGate(1, 1)
	done := make(chan struct{})
	const workers, rounds = 8, 200
	for i := range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for k := range rounds {
				ctx, cancel := context.WithTimeout(bg, time.Duration(k%7)*time.Microsecond)
				if g.enter(ctx, fmt.Sprint(i%3)) == nil {
					g.leave(fmt.Sprint(i % 3))
				}
				cancel()
			}
		}()
	}
	for range workers {
		<-done
	}
	require.Zero(t, g.running)
	require.Empty(t, g.hosts)
	require.Empty(t, g.line)
}

func TestBudget(t *testing.T) {
	b := newBudget(100, 40, 10)
	require.True(t, b.take("a", 40))
	require.False(t, b.take("a", 1), "its own share")
	require.True(t, b.take("b", 40))
	require.True(t, b.take("c", 20))
	require.True(t, b.take("d", 10), "a little is always granted")
	require.False(t, b.take("d", 1))
	require.EqualValues(t, 110, b.total())
	b.give("a", 40)
	require.True(t, b.take(local, 30), "no share of its own")
	for h, n := range map[string]int64{"b": 40, "c": 20, "d": 10, local: 30} {
		b.give(h, n)
	}
	require.Zero(t, b.total())
	require.Empty(t, b.hosts)
}

func TestHostOf(t *testing.T) {
	for remote, want := range map[string]string{
		"1.2.3.4:5": "1.2.3.4", "[::ffff:1.2.3.4]:5": "1.2.3.4", "[::1]:5": "::1", "[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::1]:7": "2001:db8:1:2::/64", "[fe80::1%eth0]:7": "fe80::/64", "": "?", "@": "?",
	} {
		require.Equal(t, want, hostOf(remote), remote)
	}
}

// What a request is to go-ethereum's server is what it is here.
func TestWireForms(t *testing.T) {
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}`: `{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}`,
		` {"jsonrpc":"2.0","ID":1,"method":"a"}`:             `{"jsonrpc":"2.0","id":1,"method":"a"}`,
		`{"jsonrpc":"2.0","method":"a"}`:                     "", // a notification
		`{"jsonrpc":"2.0","id":1,"result":5}`:                "", // an answer
		`{"jsonrpc":"1.0","method":"a"}`:                     `{"jsonrpc":"1.0","method":"a"}`,
		`{"jsonrpc":"2.0","id":null,"method":"a"}`:           `{"jsonrpc":"2.0","id":null,"method":"a"}`,
		`{"jsonrpc":"2.0","id":1,"id":{},"method":5}`:        `{"jsonrpc":"2.0","id":{}}`,
		`5`:                                `{}`,
		`null`:                             `{}`,
		`[]`:                               `[]`,
		`[{"jsonrpc":"2.0","method":"a"}]`: "",
		`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":5},{"id":2},{"jsonrpc":"2.0","id":7,"method":"b"}]`: `[{"jsonrpc":"2.0","method":"a"},{"id":2},{"jsonrpc":"2.0","id":7,"method":"b"}]`,
	} {
		msg, wants, err := requestOf([]byte(in))
		require.NoError(t, err, in)
		require.Equal(t, want != "", wants, in)
		if wants {
			require.Equal(t, want, string(msg), in)
		}
	}
	for _, bad := range []string{"", "{", "[", `{"a":}`, "[1,"} {
		_, _, err := requestOf([]byte(bad))
		require.Error(t, err, bad)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":5},null,5]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		msg, wants, err := requestOf(b)
		if err != nil || !wants {
			return
		}
		again, wants, err := requestOf(msg)
		require.NoError(t, err)
		require.True(t, wants)
		require.Equal(t, string(msg), string(again))
	})
}
