package pubsub

import (
	"bytes"
	"context"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
)

// chain is a ledger whose state a test writes as the contract would give it.
type chain struct {
	height  int64
	brokers []contracts.BrokersBroker
	topic   contracts.TopicAdminInfo
	owner   common.Address // of the tenant
	other   []byte         // answers what else is asked for; nil: nothing does
}

func (c *chain) Final() *types.Header { return &types.Header{Number: big.NewInt(c.height)} }

func (c *chain) Logs(context.Context, uint64, uint64) ([]*types.Log, error) { return nil, nil }

func (c *chain) Call(_ context.Context, _ *types.Header, _ common.Address, data []byte) ([]byte, error) {
	for name, out := range map[string][]any{
		"brokers":    {c.brokers},
		"tenantPage": {[]contracts.Tenant{{Name: "acme", Owner: c.owner, Connections: 1}}, big.NewInt(1)},
		"aclPage":    {[]contracts.Acl{}, big.NewInt(0)},
		"topicPage":  {[]contracts.TopicAdminInfo{c.topic}, big.NewInt(1)},
	} {
		if m := contracts.TopicsABI().Methods[name]; bytes.HasPrefix(data, m.ID) {
			return m.Outputs.Pack(out...)
		}
	}
	if c.other != nil {
		return c.other, nil
	}
	return nil, fmt.Errorf("no call %x", data[:4])
}

// view reads the state anew.
func (c *chain) view(t *testing.T) *ledger.View {
	t.Helper()
	m := ledger.New(c, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	changed := m.Changed()
	go func() { done <- m.Run(ctx) }()
	<-changed
	cancel()
	<-done
	return m.View()
}

// links is what the replicas say.
type links struct {
	Replicas
	ready  bool
	insync []string
	quiet  map[string]time.Duration
	down   map[string]bool
}

func (l *links) Leader(replica.ID) (int32, bool)      { return 1, l.ready }
func (l *links) CutOff(replica.ID) bool               { return false }
func (l *links) InSync(replica.ID) []string           { return l.insync }
func (l *links) Reach(p string) (bool, time.Duration) { return !l.down[p], l.quiet[p] }

func replacing(t *testing.T, partitions int) (*chain, *links, *replacer) {
	c := &chain{height: 1, topic: contracts.TopicAdminInfo{Id: [32]byte{1}, Name: "acme.t", Created: 1, Replicas: 3}}
	for i, name := range "LFDX" {
		c.brokers = append(c.brokers, contracts.BrokersBroker{Id: uint32(i + 1), Account: common.Address{byte(name)}, Host: "h", Port: 1, PeerId: []byte{byte(name)}, Live: true})
	}
	for range partitions {
		c.topic.Leases = append(c.topic.Leases, contracts.Lease{Leader: common.Address{'L'}, Epoch: 1, Replicas: accountsOf("LFD")})
	}
	l := &links{ready: true, insync: []string{"L", "F", "D"}, quiet: map[string]time.Duration{}, down: map[string]bool{}}
	cfg := DefaultConfig()
	b := &Broker{cfg: cfg, deps: Deps{Account: common.Address{'L'}, PeerID: "L", Replicas: l}}
	return c, l, newReplacer(b)
}

func TestASilentBrokerIsReplacedInTime(t *testing.T) {
	c, l, r := replacing(t, 1)
	now, v := time.Unix(1e6, 0), c.view(t)
	look := func(after time.Duration) []step { return r.look(v, now.Add(after)).steps }
	require.Empty(t, look(0))
	l.quiet["D"], l.insync = time.Hour, []string{"L", "F"}
	require.Empty(t, look(time.Second), "an hour without a word from one that had nothing to say is not silence")
	require.Empty(t, look(10*time.Minute))
	l.quiet["D"] = 0
	require.Empty(t, look(10*time.Minute+time.Second), "it was heard")
	l.quiet["D"] = time.Hour
	require.Empty(t, look(11*time.Minute))
	require.Empty(t, look(20*time.Minute))

	l.ready = false
	require.Empty(t, look(22*time.Minute), "a leader that is not ready changes nothing")
	l.ready, l.down["X"] = true, true
	require.Empty(t, look(22*time.Minute), "nobody takes its place")
	l.down["X"], l.insync = false, []string{"L"}
	require.Empty(t, look(22*time.Minute), "no majority is there")
	l.insync = []string{"L", "F"}
	steps := look(22 * time.Minute)
	require.Len(t, steps, 1)
	require.Equal(t, "LF", letters(steps[0].replicas))

	c.topic.Leases[0].Replicas = accountsOf("LF")
	v = c.view(t)
	steps = look(22 * time.Minute)
	require.Len(t, steps, 1)
	require.Equal(t, common.Address{'X'}, steps[0].added)

	l.quiet["D"] = time.Minute
	steps = look(22 * time.Minute)
	require.Len(t, steps, 1, "it was heard since: it may come again")

	r.b.cfg.ReplaceAfter = 0
	c.topic.Leases[0].Replicas = accountsOf("LFD")
	v = c.view(t)
	require.Empty(t, look(48*time.Hour), "silence is no reason where the operator says so")
}

func TestARetiredBrokerIsReplacedAtOnceAndWithinBounds(t *testing.T) {
	c, l, r := replacing(t, 200)
	c.brokers[2].Live = false
	v, now := c.view(t), time.Unix(1e6, 0)
	require.Len(t, r.look(v, now).steps, maxMoves)
	for i := range c.topic.Leases {
		c.topic.Leases[i].Replicas = accountsOf("LF")
	}
	v = c.view(t)
	l.insync = []string{"L", "F"}
	for range 10 {
		for _, s := range r.look(v, now).steps {
			c.topic.Leases[s.id.Partition].Replicas = s.replicas
		}
		v = c.view(t)
	}
	came := 0
	for i := range c.topic.Leases {
		if len(c.topic.Leases[i].Replicas) == 3 {
			came++
		}
	}
	require.Equal(t, maxNewcomers, came, "no more while these have not everything")
	l.insync = []string{"L", "F", "X"}
	require.Len(t, r.look(v, now).steps, maxMoves)
}

// A broker that is there and does not attend, as its disk is full, is not taken in by the ledger: another one is asked,
// although it keeps more, also where the owner wants both.
func TestABrokerThatIsNotTakenInDoesNotKeepOthersOut(t *testing.T) {
	for _, wanted := range []string{"", "LFDX"} {
		c, l, r := replacing(t, 1)
		l.insync = []string{"L", "F"}
		c.topic.Leases[0].Replicas, c.topic.Leases[0].Wanted = accountsOf("LF"), accountsOf(wanted)
		v, now := c.view(t), time.Unix(1e6, 0)
		ask := func(after time.Duration) string {
			steps := r.look(v, now.Add(after)).steps
			require.Len(t, steps, 1)
			r.rest(&steps[0], now.Add(after))
			return letters([]common.Address{steps[0].added})
		}
		require.Equal(t, "D", ask(0))
		require.Empty(t, r.look(v, now.Add(moveAgain-1)).steps)
		require.Equal(t, "X", ask(moveAgain), wanted)
		require.Equal(t, "D", ask(2*moveAgain), "nobody else is left")
		require.Equal(t, "X", ask(moveAgain+declinedFor), "it may attend by now")
	}
}

func TestALeaderWithoutItsRoleLosesItsLeases(t *testing.T) {
	c, l, r := replacing(t, 1)
	c.topic.Leases[0].Replicas, c.topic.Leases[0].Leader = accountsOf("DFL"), common.Address{'D'}
	now := time.Unix(1e6, 0)
	require.Empty(t, r.look(c.view(t), now).claims)
	c.brokers[2].Live = false
	v := c.view(t)
	require.Empty(t, r.look(v, now).claims, "the first in line does it")
	l.down["F"] = true
	require.Equal(t, []replica.Lost{{ID: replica.ID{Topic: [32]byte{1}}, Epoch: 1}}, r.look(v, now).claims)
	l.down["F"], l.quiet["F"] = false, time.Minute
	require.Len(t, r.look(v, now).claims, 1)
	c.brokers[0].Live = false
	require.Empty(t, r.look(c.view(t), now).claims, "one that is no broker itself claims nothing")

	// One that leads and lost its role gives away what it can, and changes no replicas.
	c.topic.Leases[0].Leader = common.Address{'L'}
	steps := r.look(c.view(t), now).steps
	require.Len(t, steps, 1)
	require.Equal(t, common.Address{'F'}, steps[0].to)
}
