package blocksync

import (
	"crypto/ecdsa"
	"errors"
	"testing"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func ref(height, slot uint64, salt byte) Ref {
	return Ref{height, slot, common.Hash{byte(height), salt}}
}

func TestHandshakeValidity(t *testing.T) {
	chain := common.Hash{0xC1}
	good := func() *Handshake {
		return &Handshake{
			NetVersion: NetVersion, ChainID: chain, NodeID: "peer", Time: 5, Token: HandshakeToken(chain, "peer", 5),
			P2PAddress: "/x", OS: "linux", Head: ref(20, 25, 0), LIB: ref(10, 12, 0), Generation: 1,
		}
	}
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte("k")))
	require.NoError(t, err)
	signed := func(h *Handshake, k *ecdsa.PrivateKey) {
		h.Key = crypto.PubkeyToAddress(key.PublicKey)
		h.Sig, err = crypto.Sign(h.Token[:], k)
		require.NoError(t, err)
	}
	other, err := crypto.ToECDSA(crypto.Keccak256([]byte("other")))
	require.NoError(t, err)
	view := LocalView{NodeID: "me", Chain: chain, Position: Position{Head: ref(30, 35, 0), LIB: ref(28, 33, 0)},
		HashAt: func(h uint64) (common.Hash, bool) { return common.Hash{byte(h), 0}, h >= 5 }}
	for _, c := range []struct {
		name string
		edit func(*Handshake, *LocalView)
		want Reason
	}{
		{"good", func(*Handshake, *LocalView) {}, NoReason},
		{"good, signed by its account", func(h *Handshake, _ *LocalView) { signed(h, key) }, NoReason},
		{"good, LIB above ours cannot be compared", func(h *Handshake, _ *LocalView) { h.Head, h.LIB = ref(90, 95, 1), ref(80, 85, 1) }, NoReason},
		{"good, LIB below what we keep", func(h *Handshake, _ *LocalView) { h.LIB = ref(4, 4, 9) }, NoReason},
		{"self", func(h *Handshake, _ *LocalView) { h.NodeID = "me" }, SelfConnect},
		{"wrong chain", func(h *Handshake, _ *LocalView) { h.ChainID[0]++ }, WrongChain},
		{"wrong version", func(h *Handshake, _ *LocalView) { h.NetVersion++ }, WrongVersion},
		{"another node's name", func(h *Handshake, _ *LocalView) {
			h.NodeID, h.Token = "third", HandshakeToken(chain, "third", 5)
		}, Authentication},
		{"bad token", func(h *Handshake, _ *LocalView) { h.Token[3]++ }, Authentication},
		{"token of another time", func(h *Handshake, _ *LocalView) { h.Time++ }, Authentication},
		{"signature by another account", func(h *Handshake, _ *LocalView) { signed(h, other) }, Authentication},
		{"account without signature", func(h *Handshake, _ *LocalView) { h.Key[0] = 1 }, Authentication},
		{"signature without account", func(h *Handshake, _ *LocalView) { h.Sig = make([]byte, 65) }, Authentication},
		{"not a member", func(_ *Handshake, v *LocalView) { v.Member = errors.New("not on the list") }, NotAMember},
		{"empty address", func(h *Handshake, _ *LocalView) { h.P2PAddress = "" }, Validation},
		{"empty operating system", func(h *Handshake, _ *LocalView) { h.OS = "" }, Validation},
		{"LIB above head", func(h *Handshake, _ *LocalView) { h.LIB = ref(21, 22, 0) }, Validation},
		{"LIB slot above head slot", func(h *Handshake, _ *LocalView) { h.LIB.Slot = 26 }, Validation},
		{"serves nothing of its own", func(h *Handshake, _ *LocalView) { h.First = 12 }, Validation},
		{"generation zero", func(h *Handshake, _ *LocalView) { h.Generation = 0 }, Validation},
		{"precommits as QC", func(h *Handshake, _ *LocalView) {
			h.QC = &block.Certificate{Link: block.Link{Kind: block.Precommit}}
		}, Validation},
		{"forked below our LIB", func(h *Handshake, _ *LocalView) { h.LIB.Hash[1] = 1 }, Forked},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, v := good(), view
			c.edit(h, &v)
			why, err := CheckHandshake(h, "peer", v)
			require.Equal(t, c.want, why, "%v", err)
			require.Equal(t, c.want == NoReason, err == nil)
		})
	}
	why, _ := CheckHandshake(good(), "me", view)
	require.Equal(t, SelfConnect, why, "a link to ourselves")
}

func TestHandshakeCases(t *testing.T) {
	// Positions as head/LIB heights and justified slot; slots are heights here.
	at := func(head, lib, justified uint64, salt byte) Position {
		return Position{Head: ref(head, head, salt), LIB: ref(lib, lib, 0), Justified: justified}
	}
	for _, c := range []struct {
		name        string
		local, peer Position
		want        Case
	}{
		{"equal heads", at(100, 98, 99, 0), at(100, 98, 99, 0), CaseEqual},
		{"equal heads come first", at(100, 98, 99, 0), at(100, 90, 95, 0), CaseEqual},
		{"local head below peer's LIB", at(50, 48, 49, 0), at(100, 98, 99, 0), CaseSyncToPeer},
		{"local head at peer's LIB", at(98, 96, 97, 0), at(100, 98, 99, 0), CaseAskPeer},
		{"peer's head below local LIB", at(100, 98, 99, 0), at(50, 48, 49, 0), CasePeerSyncs},
		{"peer's head at local LIB", at(100, 98, 99, 0), at(98, 96, 97, 0), CasePeerAsks},
		{"peer a little ahead", at(100, 98, 99, 0), at(101, 99, 100, 0), CaseAskPeer},
		{"same height and justified, other branch", at(100, 98, 99, 0), at(100, 98, 99, 1), CaseAskPeer},
		{"peer lower but justified higher", at(120, 90, 95, 0), at(110, 90, 105, 1), CaseAskPeer},
		{"peer higher but justified lower", at(110, 90, 105, 0), at(120, 90, 95, 1), CasePeerAsks},
		{"we are ahead", at(101, 99, 100, 0), at(100, 98, 99, 0), CasePeerAsks},
	} {
		require.Equal(t, c.want, DecideCase(c.local, c.peer), c.name)
	}
	local := at(100, 98, 99, 0)
	require.Equal(t, &Notice{Transactions: IDs{Mode: ModeCatchUp, Pending: 7}}, NoticeFor(CaseEqual, local, 7))
	require.Equal(t, &Notice{Blocks: IDs{Mode: ModeLastIrrCatchUp, Pending: 100}, Transactions: IDs{Mode: ModeLastIrrCatchUp, Pending: 98}}, NoticeFor(CasePeerSyncs, local, 7))
	require.Equal(t, &Notice{Blocks: IDs{Mode: ModeCatchUp, Pending: 100, IDs: []common.Hash{local.Head.Hash}}}, NoticeFor(CasePeerAsks, local, 7))
	require.Nil(t, NoticeFor(CaseSyncToPeer, local, 7))
	require.Nil(t, NoticeFor(CaseAskPeer, local, 7))
}

func TestSurvivorIsTheSameOnBothSides(t *testing.T) {
	// Two links between "a" and "b": one dialled by each. Whatever the order in which each side sees them, the same
	// one stays.
	for _, aFirstAtA := range []bool{true, false} {
		for _, aFirstAtB := range []bool{true, false} {
			// At a the link dialled by a is outgoing; at b it is incoming.
			keepsDialledByA := func(self, peer string, dialledByAFirst bool) bool {
				incoming := func(byA bool) bool { return byA != (self == "a") }
				keepNew := Survivor(self, peer, incoming(dialledByAFirst), incoming(!dialledByAFirst))
				return keepNew != dialledByAFirst
			}
			require.True(t, keepsDialledByA("a", "b", aFirstAtA))
			require.True(t, keepsDialledByA("b", "a", aFirstAtB))
		}
	}
	require.True(t, Survivor("a", "b", true, true), "the newer of two by the same side")
}

func TestNear(t *testing.T) {
	at := func(head, justified uint64) Position { return Position{Head: ref(head, head, 0), Justified: justified} }
	slot := 500 * time.Millisecond
	require.True(t, near(at(100, 99), at(101, 100), 0, slot), "one slot is always within latency")
	require.False(t, near(at(100, 99), at(102, 100), 100*time.Millisecond, slot))
	require.True(t, near(at(100, 99), at(103, 102), 1100*time.Millisecond, slot), "1.1 s are three slots of half a second")
	require.False(t, near(at(100, 99), at(101, 104), 1100*time.Millisecond, slot), "justified slots differ by more")
}

func TestClock(t *testing.T) {
	zero := time.Now()
	at := func(ns int) time.Time { return zero.Add(time.Duration(ns)) }
	s, ok := sampleClock(at(1000), at(1300), 5600, 5700)
	require.True(t, ok)
	require.Equal(t, clockSample{wall: 5650, at: at(1150), rtt: 200}, s)
	for _, bad := range [][4]uint64{{10, 5, 4, 20}, {10, 5, 6, 9}, {10, 0, 100, 20}, {1, 1 << 63, 1 << 63, 2}} {
		_, ok := sampleClock(at(int(bad[0])), at(int(bad[3])), bad[1], bad[2])
		require.False(t, ok, bad)
	}
	var f clockFilter
	offset := func() time.Duration { return f.Offset(1000, at(1000)) }
	require.Zero(t, offset())
	f.Add(clockSample{wall: 100, at: at(0), rtt: 50})
	f.Add(clockSample{wall: 600, at: at(100), rtt: 900})
	require.EqualValues(t, 100, offset(), "the sample with the shortest round trip counts")
	for i := range 8 {
		f.Add(clockSample{wall: time.Duration(310 + i), at: at(200 + i), rtt: 100})
	}
	require.EqualValues(t, 110, offset(), "old samples leave")
	f.Add(clockSample{wall: 9000, at: at(300), rtt: 800})
	require.EqualValues(t, 8700, offset(), "a clock that was set is seen at once: no round trip explains the difference")
}

// Other upgrades in a peer's genesis file are worth one line, and no more than that.
func TestOtherUpgradesAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	onMem(t, func(l *lab) {
		chain := newChain(10, chainShape{})
		a := l.node("a", chain, func(_ *Config, d *Deps) { d.Log = zap.New(core) })
		b := l.node("b", chain, func(_ *Config, d *Deps) { d.Identity.Upgrades = common.Hash{7} })
		b.dial(a.host)
		lines := func() int { return logs.FilterMessageSnippet("describes other upgrades").Len() }
		l.eventually(func() bool { return lines() > 0 }, "a says so")
		l.pass(time.Minute) // many handshakes later
		require.Equal(l.t, 1, lines())
		require.Equal(l.t, 1, a.m.Status().Peers)
	})
}
