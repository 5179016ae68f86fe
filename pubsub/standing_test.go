package pubsub

import (
	"context"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/proof"
)

// counting keeps in which tenants operations count.
type counting struct {
	Evidence
	in      []common.Hash
	refused []bool
}

func (c *counting) Operated(_, tenant [32]byte, op proof.Operation) {
	c.in, c.refused = append(c.in, tenant), append(c.refused, op.Refused())
}

// describing asks for a topic as a principal whose reputation is the same in every tenant.
func describing(t *testing.T, who common.Address, reputation int64, topic string) (code int16, counts *counting) {
	t.Helper()
	c, l, r := replacing(t, 1)
	c.owner = common.Address{'O'}
	c.other = common.BigToHash(big.NewInt(reputation)).Bytes()
	counts = new(counting)
	r.b.deps.Replicas, r.b.deps.Evidence = l, counts
	r.b.m, _ = newMetrics(nil)
	r.b.topics = new(topicIndex)
	x := &call{b: r.b, s: new(kafka.Session), who: ledger.Principal{Account: who}, v: c.view(t)}
	server, err := kafka.NewUnbound(kafka.DefaultConfig(), handled(func(conn *kafka.Conn, req kmsg.Request) kafka.Reply {
		x.conn = conn
		_, err := x.topic(topic, opDescribe)
		if err == nil {
			x.record(x.v.Topic(topic), opDescribe, -1, -1, -1)
		} else if k, ok := err.(*kerr.Error); ok { //nolint:errorlint // it is never wrapped
			code = k.Code
		}
		return kafka.Now(req.ResponseKind())
	}), nil, zap.NewNop(), nil)
	require.NoError(t, err)
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); server.ServeConn(context.Background(), far) }()
	require.NoError(t, near.SetDeadline(time.Now().Add(time.Minute)))
	_, err = near.Write(kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrMetadataRequest(), 1))
	require.NoError(t, err)
	_, err = near.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, near.Close())
	<-done
	return code, counts
}

// A name without a tenant is wrong, not forbidden; there is no tenant in which it could count against anybody.
func TestANameWithoutATenantIsWrong(t *testing.T) {
	for _, name := range []string{"nodot", "acme.", "acme", ""} {
		code, counts := describing(t, common.Address{'S'}, 100, name)
		require.Equal(t, kerr.InvalidTopicException.Code, code, "%q", name)
		require.Empty(t, counts.in, "%q", name)
	}
}

// What the rules refuse counts against an account in the tenant whose rules they are; what is refused for want of reputation
// alone costs no more of it, so that time can give it back.
func TestRefusalsCountWhereNoRuleAllows(t *testing.T) {
	owner, stranger, acme := common.Address{'O'}, common.Address{'S'}, contracts.TenantID("acme")
	refused := kerr.TopicAuthorizationFailed.Code
	for name, c := range map[string]struct {
		who        common.Address
		reputation int64
		topic      string
		code       int16
		in         common.Hash
	}{
		"allowed":                              {owner, 100, "acme.t", 0, common.Hash{}},
		"allowed, with something to make good": {owner, 99, "acme.t", 0, acme},
		"allowed by the rules, blacklisted":    {owner, 19, "acme.t", refused, common.Hash{}},
		"no rule":                              {stranger, 100, "acme.t", refused, acme},
		"no rule, and no such topic":           {stranger, 100, "acme.none", refused, acme},
		"no rule, blacklisted":                 {stranger, 0, "acme.t", refused, acme},
		"no such tenant":                       {stranger, 100, "nobody.t", refused, common.Hash{}},
	} {
		t.Run(name, func(t *testing.T) {
			code, counts := describing(t, c.who, c.reputation, c.topic)
			require.Equal(t, c.code, code)
			require.Equal(t, []common.Hash{c.in}, counts.in)
			require.Equal(t, []bool{c.code != 0}, counts.refused)
		})
	}
}
