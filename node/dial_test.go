package node

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/tcp"
)

// A restored folder has no list of members of its last run: its peers are refused until its blocks are executed again. Those of the
// configuration are dialled then.
func TestPeersAreDialledOnceTheMembersAreKnown(t *testing.T) {
	p := newPair(t)
	n, stop := p.run(p.producer)
	p.until("blocks became final", func() bool { return n.chain.FinalHeader().Number.Uint64() > 3 })
	stop()
	restored := killedCopy(t, p.producer)
	cfg := blockstore.DefaultConfig()
	cfg.Dir = restored.Path(restored.Store.Dir)
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	require.NoError(t, s.PutMeta(keptMembersKey, nil, true))
	require.NoError(t, s.Close())

	key, err := tcp.LoadOrCreateIdentity(filepath.Join(t.TempDir(), "identity.key"))
	require.NoError(t, err)
	peer, err := tcp.New(tcp.Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Link: link.DefaultConfig()}, key, nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, peer.Close()) })
	restored.P2P.Peers = []string{peer.Addrs()[0]}
	held, release := holdReplay(t, 1)
	again, _ := p.run(restored)
	<-held
	require.ErrorIs(t, again.members.Check(peer.ID()), transport.ErrNotMember)
	release()
	select {
	case <-peer.Links():
	case <-time.After(time.Minute):
		require.Fail(t, "it was not dialled")
	}
}
