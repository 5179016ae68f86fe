package replica

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/store"
)

// The real store keeps what the machine relies on: cuts, stashes, beginning anew, and all of it over a restart.
func TestOnDisk(t *testing.T) {
	dirs := map[string]string{}
	stores := map[string]*store.Store{}
	open := func(name string) *node {
		if dirs[name] == "" {
			dirs[name] = t.TempDir()
		}
		cfg := store.DefaultConfig()
		cfg.Dir = dirs[name]
		s, err := store.Open(cfg, nil, zap.NewNop(), nil)
		require.NoError(t, err)
		stores[name] = s
		return newNode(t, name, Disk(s))
	}
	a, b, c := open("a"), open("b"), open("c")
	lease := Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c"}}
	for _, n := range []*node{a, b, c} {
		require.NoError(t, n.core.setLease(lease))
	}
	exchange(a, b, c)
	for i := range 5 {
		a.write(fmt.Sprint("all ", i))
	}
	exchange(a, b, c)
	require.Equal(t, int64(5), c.core.hw)
	for i := range 3 {
		a.write(fmt.Sprint("alone ", i)) // nobody hears of it
	}
	a.settle()
	lease.Epoch, lease.Leader = 2, "b"
	for _, n := range []*node{b, c} {
		require.NoError(t, n.core.setLease(lease))
	}
	exchange(b, c)
	b.write("new leader")
	exchange(b, c)
	require.Equal(t, int64(6), b.core.hw)

	require.NoError(t, stores["a"].Close())
	a = open("a")
	require.Equal(t, int64(8), a.core.data.End())
	require.NoError(t, a.core.setLease(lease))
	exchange(a, b, c)
	want := []string{"all 0", "all 1", "all 2", "all 3", "all 4", "new leader", "alone 0", "alone 1", "alone 2"}
	for _, n := range []*node{a, b, c} {
		require.Equal(t, want, n.log(), n.name)
		require.Nil(t, n.core.stash)
	}

	// A replica that was away for longer than anything is kept begins anew.
	require.NoError(t, stores["c"].Close())
	lease.Epoch = 3
	for _, n := range []*node{a, b} {
		require.NoError(t, n.core.setLease(lease))
	}
	exchange(a, b)
	for i := range 20 {
		b.write(fmt.Sprint("later ", i))
	}
	exchange(a, b)
	require.NoError(t, b.core.data.DeleteBefore(25))
	c = open("c")
	require.NoError(t, c.core.setLease(lease))
	exchange(a, b, c)
	require.Equal(t, int64(25), c.core.data.Start())
	require.Equal(t, []string{"later 16", "later 17", "later 18", "later 19"}, c.log())
	for _, s := range stores {
		_ = s.Close() // the first of a and c are closed
	}
}

// node is a core on some store, whose messages a test passes on by hand.
type node struct {
	t     *testing.T
	name  string
	store Store
	core  *core
	sent  map[string]bool
	syncs []simSync

	losses int // how often its leader was lost
}

// newNode is a broker whose store is older than its place among the replicas.
func newNode(t *testing.T, name string, s Store) *node {
	data, err := s.Open(simID, true)
	require.NoError(t, err)
	if data.Promised() < 0 {
		_, err = data.Enter(0)
		require.NoError(t, err)
	}
	return nodeOf(t, name, s)
}

func nodeOf(t *testing.T, name string, s Store) *node {
	n := &node{t: t, name: name, store: s, sent: map[string]bool{}}
	data, err := s.Open(simID, true)
	require.NoError(t, err)
	n.core, err = newCore(name, simID, data, n, zap.NewNop())
	require.NoError(t, err)
	return n
}

func (n *node) send(peer string)                   { n.sent[peer] = true }
func (n *node) persist(m Mark, s snapshot)         { n.syncs = append(n.syncs, simSync{m, s}) }
func (n *node) commit(int64, int64)                {}
func (n *node) ledNow(int32)                       {}
func (n *node) ledOver()                           {}
func (n *node) busy()                              {}
func (n *node) lost()                              { n.losses++ }
func (n *node) linked(string) bool                 { return true }
func (n *node) now() int64                         { return 1 }
func (n *node) count(event, int)                   {}
func (n *node) openStash(create bool) (Log, error) { return n.store.Open(stashID(simID), create) }
func (n *node) dropStash() error                   { return n.store.Delete(stashID(simID)) }

func (n *node) write(payload string) {
	n.t.Helper()
	_, _, err := n.core.append(record(payload, -1, -1), 1, false)
	require.NoError(n.t, err)
}

func (n *node) settle() {
	for len(n.syncs) > 0 {
		s := n.syncs[0]
		n.syncs = n.syncs[1:]
		require.NoError(n.t, n.store.Durable(context.Background(), s.mark))
		n.core.synced(s.snap)
	}
}

func (n *node) log() []string {
	var list []string
	require.NoError(n.t, n.core.data.Batches(n.core.data.Start(), n.core.hw, func(_ batch.Header, raw []byte) error {
		list = append(list, string(batch.Records(raw)))
		return nil
	}))
	return list
}

// exchange links the nodes anew and passes messages on until nobody has any.
func exchange(nodes ...*node) {
	for _, a := range nodes {
		for _, b := range nodes {
			if a != b {
				a.core.linkUp(b.name)
			}
		}
	}
	pass(nodes...)
}

// pass passes messages on until nobody has any.
func pass(nodes ...*node) {
	for again := true; again; {
		again = false
		for _, a := range nodes {
			a.settle()
			for peer := range a.sent {
				delete(a.sent, peer)
				i := slices.IndexFunc(nodes, func(n *node) bool { return n.name == peer })
				for i >= 0 {
					it, ok := a.core.next(peer)
					if !ok {
						break
					}
					again = true
					if it.max > 0 && !a.core.filled(peer, &it, fill(a.core.logOf(&it), &it)) {
						continue
					}
					got, err := decodeItems(appendItem([]byte{wireVersion}, &it))
					require.NoError(a.t, err)
					nodes[i].core.receive(a.name, &got[0])
				}
			}
		}
	}
}
