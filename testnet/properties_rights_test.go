package testnet

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/token"
)

// Rules allow and deny by account, name, prefix, operation and host; whatever is refused is refused by the code that
// Kafka has for it. A revocation holds from its final block on. Refusals are charged once in a minute, in the tenant whose
// rules refused, until time or governance gives back what was lost.
func (p *properties) authorisation(t *testing.T) {
	const books, log, public = "rights.books", "rights.log-1", "rights.public"
	a := p.admin(t, p.open(t, p.owner("rights")))
	ids := map[string]common.Hash{}
	for _, name := range []string{books, log, public} {
		ids[name] = p.topic(t, a, contracts.NewTopic{Name: name})
		p.send(t, p.open(t, p.owner("rights")), name, "first")
	}
	alice, bob, carol, dave := p.spare(), p.spare(), p.spare(), p.spare()
	const allow, deny = contracts.PermissionAllow, contracts.PermissionDeny
	onTopic := func(name string, who Account, op, permission uint8) contracts.Acl {
		return rule(contracts.ResourceTopic, name, who.Address, op, permission)
	}
	prefixed := func(x contracts.Acl) contracts.Acl { x.Pattern = contracts.PatternPrefixed; return x }
	from := func(host string, x contracts.Acl) contracts.Acl { x.Host = host; return x }
	everybody := func(x contracts.Acl) contracts.Acl { x.Principal = contracts.EveryUser; return x }
	aliceReads := onTopic(books, alice, contracts.OperationRead, allow)
	require.NoError(t, a.Grant(p.ctx, "rights", aliceReads,
		prefixed(onTopic("rights.log-", alice, contracts.OperationWrite, allow)),
		prefixed(rule(contracts.ResourceGroup, "rights.", alice.Address, contracts.OperationRead, allow)),
		from("10.1.2.3", onTopic(books, bob, contracts.OperationWrite, allow)), from("127.0.0.1", onTopic(books, bob, contracts.OperationRead, allow)),
		prefixed(onTopic("rights.", carol, contracts.OperationAll, allow)), onTopic(books, carol, contracts.OperationWrite, deny),
		prefixed(onTopic("rights.", carol, contracts.OperationCreate, allow)),
		everybody(onTopic(public, dave, contracts.OperationDescribe, allow))))
	p.settled(t)
	clients := map[common.Address]*kgo.Client{}
	for _, who := range []Account{alice, bob, carol, dave} {
		clients[who.Address] = p.kafka(t, who, token.Data)
	}
	produce := func(who Account, name string) int16 {
		code, _ := p.rawProduce(t, clients[who.Address], ids[name], name, recordBatch("by "+who.Address.Hex()))
		return code
	}
	fetch := func(who Account, name string) int16 {
		code, _ := p.fetchOnce(t, clients[who.Address], ids[name], name, 0)
		return code
	}
	describe := func(who Account, name string) int16 {
		return p.metadata(t, clients[who.Address], name).Topics[0].ErrorCode
	}
	p.eventually(t, "the brokers go by the rules", func() bool { return fetch(alice, books) == 0 && fetch(carol, log) == 0 && fetch(bob, books) == 0 })

	refused := kerr.TopicAuthorizationFailed.Code
	for _, x := range []struct {
		what string
		do   func(Account, string) int16
		who  Account
		name string
		want int16
	}{
		{"read by rule", fetch, alice, books, 0}, {"reading is not writing", produce, alice, books, refused}, {"reading implies describing", describe, alice, books, 0},
		{"write by prefix", produce, alice, log, 0}, {"writing is not reading", fetch, alice, log, refused}, {"no rule at all", fetch, alice, public, refused},
		{"from another host", produce, bob, books, refused}, {"from this host", fetch, bob, books, 0},
		{"all by prefix", produce, carol, log, 0}, {"denied beats allowed", produce, carol, books, refused}, {"denied one operation", fetch, carol, books, 0},
		{"everybody describes", describe, dave, public, 0}, {"and does not read", fetch, dave, public, refused},
		{"hidden", describe, dave, books, refused}, {"as hidden as what is not there", describe, dave, "rights.nothing", refused},
	} {
		require.Equal(t, x.want, x.do(x.who, x.name), x.what)
	}
	p.otherCodes(t, clients[alice.Address], clients[dave.Address], books, log)
	p.administration(t, alice, carol, dave)

	// A revocation holds at every broker, for who is logged in too.
	require.NoError(t, a.Revoke(p.ctx, "rights", aliceReads))
	p.settled(t)
	p.everywhere(t, "alice reads no more", func(broker int32) bool { return p.describeAt(t, clients[alice.Address], broker, books) == refused })
	for range 4 {
		require.Equal(t, kerr.UnknownTopicID.Code, fetch(alice, books), "by its id, a topic that may not be seen is unknown")
	}
	require.Zero(t, produce(alice, log), "the other rules stand")
	p.eventually(t, "the refusal is on record", func() bool {
		list, _ := p.operations(t, ids[books])
		for _, o := range list {
			if o.Operator == alice.Address && !o.Allowed && o.Code == refused && o.Operation == "0x3" {
				return true
			}
		}
		return false
	})
	p.charged(t, p.spare(), books)
}

// everywhere waits until something holds at each broker.
func (p *properties) everywhere(t *testing.T, what string, ok func(broker int32) bool) {
	t.Helper()
	for broker := int32(1); broker <= 3; broker++ {
		p.eventually(t, what, func() bool { return ok(broker) })
	}
}

// describeAt asks one broker for a topic.
func (p *properties) describeAt(t *testing.T, c *kgo.Client, broker int32, topic string) int16 {
	t.Helper()
	p.metadata(t, c, []string{}...)
	req := kmsg.NewPtrMetadataRequest()
	x := kmsg.NewMetadataRequestTopic()
	x.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, x)
	resp, err := req.RequestWith(p.ctx, c.Broker(int(broker)))
	require.NoError(t, err)
	return resp.Topics[0].ErrorCode
}

// otherCodes are the refusals of requests that are neither Produce nor Fetch, as one who may something and one who may
// nothing meet them.
func (p *properties) otherCodes(t *testing.T, some, none *kgo.Client, readable, writable string) {
	t.Helper()
	a, b := kadm.NewClient(some), kadm.NewClient(none)
	offsets, err := a.ListEndOffsets(p.ctx, readable)
	require.NoError(t, err)
	require.NoError(t, offsets.Error())
	offsets, err = b.ListEndOffsets(p.ctx, readable)
	require.ErrorIs(t, errors.Join(err, offsets.Error()), kerr.TopicAuthorizationFailed, "ListOffsets")

	var at kadm.FindCoordinatorResponse
	p.eventually(t, "the group has a coordinator", func() bool {
		at = a.FindGroupCoordinators(p.ctx, "rights.readers")["rights.readers"]
		return at.Err == nil
	})
	commit := func(c *kgo.Client, topic string) int16 {
		p.metadata(t, c)
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, "rights.readers", -1
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Offset = 1
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{part}}}
		resp, err := req.RequestWith(p.ctx, c.Broker(int(at.NodeID)))
		require.NoError(t, err)
		return resp.Topics[0].Partitions[0].ErrorCode
	}
	p.eventually(t, "OffsetCommit", func() bool { return commit(some, readable) == 0 })
	require.Equal(t, kerr.TopicAuthorizationFailed.Code, commit(some, writable), "OffsetCommit of a topic that is not readable")
	require.Equal(t, kerr.GroupAuthorizationFailed.Code, commit(none, readable), "OffsetCommit")
	groups, err := b.DescribeGroups(p.ctx, "rights.readers")
	require.ErrorIs(t, errors.Join(err, groups.Error()), kerr.GroupAuthorizationFailed, "DescribeGroups")
	require.ErrorIs(t, b.FindGroupCoordinators(p.ctx, "rights.readers")["rights.readers"].Err, kerr.GroupAuthorizationFailed, "FindCoordinator")
}

// administration is refused without the scope, and to whom no rule gives it.
func (p *properties) administration(t *testing.T, alice, carol, dave Account) {
	t.Helper()
	create := func(who Account, scope uint8, name string) error {
		r, err := kadm.NewClient(p.kafka(t, who, scope)).CreateTopic(p.ctx, 1, 3, nil, name)
		if r.Err != nil {
			return r.Err
		}
		return err
	}
	require.ErrorIs(t, create(alice, token.Data, "rights.more"), kerr.ClusterAuthorizationFailed, "the token is for data")
	require.ErrorIs(t, create(dave, token.Data|token.Admin, "rights.more"), kerr.TopicAuthorizationFailed)
	require.ErrorIs(t, create(p.owner("rights"), token.Data|token.Admin, "large.more"), kerr.TopicAuthorizationFailed, "a tenant of others")
	require.NoError(t, create(carol, token.Data|token.Admin, "rights.carols"), "she may create by the rule on the prefix of the tenant")

	d := kadm.NewClient(p.kafka(t, dave, token.Data|token.Admin))
	deleted, err := d.DeleteTopics(p.ctx, "rights.books")
	require.ErrorIs(t, errors.Join(err, deleted["rights.books"].Err), kerr.TopicAuthorizationFailed)
	more, err := d.UpdatePartitions(p.ctx, 8, "rights.books")
	require.ErrorIs(t, errors.Join(err, more["rights.books"].Err), kerr.TopicAuthorizationFailed)
	cut := make(kadm.Offsets)
	cut.AddOffset("rights.books", 0, 1, -1)
	records, err := d.DeleteRecords(p.ctx, cut)
	require.ErrorIs(t, errors.Join(err, records.Error()), kerr.TopicAuthorizationFailed)
	rules := kadm.NewACLs().Topics("rights.books").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead).Allow("User:*").AllowHosts("*")
	acls, err := d.CreateACLs(p.ctx, rules)
	require.NoError(t, err)
	require.ErrorIs(t, acls[0].Err, kerr.ClusterAuthorizationFailed, "CreateAcls")
	shown, err := d.DescribeACLs(p.ctx, kadm.NewACLs().AnyResource().ResourcePatternType(kadm.ACLPatternAny).Operations().Allow().AllowHosts().Deny().DenyHosts())
	require.NoError(t, err)
	require.ErrorIs(t, shown[0].Err, kerr.ClusterAuthorizationFailed, "DescribeAcls")
}

// charged has an account be refused many times at two brokers, which costs it one refusal in a minute, in this tenant alone,
// and governance pardon it.
func (p *properties) charged(t *testing.T, who Account, topic string) {
	t.Helper()
	c := p.kafka(t, who, token.Data)
	for _, broker := range []int32{1, 2} {
		for range 16 {
			require.Equal(t, kerr.TopicAuthorizationFailed.Code, p.describeAt(t, c, broker, topic))
		}
	}
	p.eventually(t, "the account is charged", func() bool { return p.reputation(t, "rights", who.Address) < contracts.Reputation })
	const most = 4 * contracts.RefusedCosts // by one kind of operation, however long
	require.GreaterOrEqual(t, p.reputation(t, "rights", who.Address), uint8(contracts.Reputation-most))
	require.EqualValues(t, contracts.Reputation, p.reputation(t, "large", who.Address))
	p.settled(t)
	require.NoError(t, p.kafka(t, who, token.Data).Ping(p.ctx), "it is let in")

	data, err := contracts.PardonCall(who.Address, "rights")
	require.NoError(t, err)
	receipt, err := p.decide(p.ctx, p.eth, data)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(receipt.Logs, func(l *types.Log) bool {
		e, err := contracts.DecodeTopicsEvent(l)
		s, ok := e.(*contracts.StandingChanged)
		return err == nil && ok && s.Account == who.Address && s.Reputation == contracts.Reputation
	}), "its reputation is whole again")
}

func (p *properties) reputation(t *testing.T, tenant string, a common.Address) uint8 {
	t.Helper()
	ret, err := read(p.ctx, p.eth, contracts.TopicsAddress, contracts.ReputationCall(contracts.TenantID(tenant), a))
	require.NoError(t, err)
	r, err := contracts.DecodeReputation(ret)
	require.NoError(t, err)
	return r
}

// One tenant sees nothing of another, and what one uses up is not taken from the other.
func (p *properties) multiTenantIsolation(t *testing.T) {
	small, large := p.owner("small"), p.owner("large")
	ids := map[string]common.Hash{}
	for name, owner := range map[string]Account{"small.box": small, "large.box": large} {
		ids[name] = p.topic(t, p.admin(t, p.open(t, owner)), contracts.NewTopic{Name: name})
	}
	p.unseen(t, small, large)

	// Connections: the small tenant has three at a broker.
	var held []*kgo.Client
	try := func(who Account, name string) (int16, *kgo.Client) {
		c := p.kafka(t, who, token.Data)
		code, _ := p.rawProduce(t, c, ids[name], name, recordBatch("hello"))
		return code, c
	}
	p.eventually(t, "all three connections are free", func() bool {
		for _, c := range held {
			c.Close()
		}
		held = nil
		for range 3 {
			code, c := try(small, "small.box")
			held = append(held, c)
			if code != 0 {
				return false
			}
		}
		return true
	})
	code, c := try(small, "small.box")
	require.Equal(t, kerr.ThrottlingQuotaExceeded.Code, code, "the fourth is refused")
	c.Close()
	for range 4 {
		code, c := try(large, "large.box")
		require.Zero(t, code)
		c.Close()
	}
	held[0].Close()
	p.eventually(t, "another has room when one goes", func() bool {
		code, c := try(small, "small.box")
		c.Close()
		return code == 0
	})

	// Bytes: the small tenant has 20,000 a second.
	batch := recordBatch(strings.Repeat("x", 100_000))
	slow, fast := held[1], p.kafka(t, large, token.Data)
	_, throttled := p.rawProduce(t, slow, ids["small.box"], "small.box", batch)
	require.Greater(t, throttled, time.Second, "100,000 bytes are 4 seconds more than it has")
	for range 5 {
		code, throttled := p.rawProduce(t, fast, ids["large.box"], "large.box", batch)
		require.Zero(t, code)
		require.Zero(t, throttled, "the large one does not wait for it")
	}
	// Topics: the small tenant has one besides.
	a := p.admin(t, p.open(t, small))
	p.topic(t, a, contracts.NewTopic{Name: "small.second"})
	_, err := a.CreateTopic(p.ctx, contracts.NewTopic{Name: "small.third", Partitions: 1, Replicas: 3})
	require.ErrorContains(t, err, "as many topics as it may")
}

// unseen looks with each tenant's eyes.
func (p *properties) unseen(t *testing.T, small, large Account) {
	t.Helper()
	for name, owner := range map[string]Account{"small": small, "large": large} {
		other := map[string]string{"small": "large", "large": "small"}[name]
		c := p.kafka(t, owner, token.Data)
		a := kadm.NewClient(c)
		var list kadm.Offsets
		list.AddOffset(name+".box", 0, 0, -1)
		p.eventually(t, "the group has an offset", func() bool {
			resp, err := a.CommitOffsets(p.ctx, name+".team", list)
			return err == nil && resp.Error() == nil
		})
		for _, x := range p.metadata(t, c).Topics {
			everybodys := *x.Topic == "rights.public" // its tenant shows it to all
			require.True(t, strings.HasPrefix(*x.Topic, name+".") || everybodys, "%s sees %s", name, *x.Topic)
		}
		there, missing := p.metadata(t, c, other+".box").Topics[0], p.metadata(t, c, other+".nothing").Topics[0]
		require.Equal(t, kerr.TopicAuthorizationFailed.Code, there.ErrorCode)
		require.Equal(t, there.ErrorCode, missing.ErrorCode, "nobody learns which topics of another there are")
		require.Zero(t, there.TopicID)
		groups, err := a.ListGroups(p.ctx)
		require.NoError(t, err)
		require.Contains(t, groups, name+".team")
		for g := range groups {
			require.True(t, strings.HasPrefix(g, name+"."), "%s sees group %s", name, g)
		}
		described, err := a.DescribeGroups(p.ctx, other+".team")
		require.ErrorIs(t, errors.Join(err, described.Error()), kerr.GroupAuthorizationFailed)
		c.Close()
	}
}
