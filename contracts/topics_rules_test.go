package contracts

import (
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

const (
	onlyOwners  = "only the topic's or the tenant's owner"
	onlyBrokers = "only a registered, live broker"
)

// Who may do what: every function, by the owner of the tenant, a creator, a broker, and somebody else.
func TestWhoMayAdminister(t *testing.T) {
	w := newTopicWorld(t, 3)
	tenantOwner, creator, stranger := w.owner, w.writer, w.brokers[0]
	makeTopic, err := CreateTopicCall(NewTopic{Name: "acme.mine", Partitions: 1, Replicas: 1})
	w.no("only the tenant's owner, and who it allows CREATE", creator, makeTopic, err)

	rule := Acl{ResourceTopic, PatternPrefixed, "acme.", UserPrincipal(creator.account), "*", OperationCreate, PermissionAllow}
	w.no("only the tenant's owner sets its rules", creator, bpsTopics().PackGrant("acme", []Acl{rule}), nil)
	grant, err := GrantCall("acme", []Acl{rule})
	w.must(tenantOwner, grant, err)
	deny := rule
	deny.Permission = PermissionDeny
	data, err := GrantCall("acme", []Acl{deny})
	w.must(tenantOwner, data, err)
	w.no("only the tenant's owner, and who it allows CREATE", creator, makeTopic, nil)
	data, err = RevokeCall("acme", []Acl{deny})
	w.must(tenantOwner, data, err)
	id, err := DecodeTopicID(w.must(creator, makeTopic, nil))
	require.NoError(t, err)
	require.Equal(t, creator.account, w.topic(id).Owner)

	config, err := ConfigureCall(id, map[string]string{"retention.ms": "1"})
	require.NoError(t, err)
	literal := Acl{ResourceTopic, PatternLiteral, "acme.mine", EveryUser, "*", OperationRead, PermissionAllow}
	onTopic, err := GrantCall("acme", []Acl{literal})
	require.NoError(t, err)
	for i, call := range [][]byte{AddPartitionsCall(id, 2), config, SetOwnerCall(id, creator.account), onTopic, DeleteTopicCall(id)} {
		words := onlyOwners
		if i == 3 {
			words = "a topic's owner those of his topic"
		}
		w.no(words, stranger, call, nil)
		before := w.state.Copy()
		w.must(tenantOwner, call, nil)
		w.state = before
		w.must(creator, call, nil)
	}
	// The owner of a topic sets no rule on anything else.
	for _, a := range []Acl{
		{ResourceGroup, PatternLiteral, "acme.mine", EveryUser, "*", OperationRead, PermissionAllow},
		{ResourceTopic, PatternPrefixed, "acme.mine", EveryUser, "*", OperationRead, PermissionAllow},
		{ResourceTopic, PatternLiteral, "acme.other", EveryUser, "*", OperationRead, PermissionAllow},
	} {
		data, err := GrantCall("acme", []Acl{a})
		w.no("a topic's owner those of his topic", creator, data, err)
	}
	w.no("set by proposal to Members", tenantOwner, bpsTopics().PackSetTenant("acme", tenantOwner.account, 1, 1, 1, 1), nil)
	w.no("pardoned by proposal to Members", tenantOwner, bpsTopics().PackPardon(tenantOwner.account, ""), nil)
	w.no("only the Members contract revokes", tenantOwner, bpsTopics().PackRevokeBroker([]byte(peerOf(1))), nil)
}

func TestSetOwner(t *testing.T) {
	w := newTopicWorld(t, 1)
	id := w.create(w.owner, "acme.t", 1, 1)
	w.must(w.owner, SetOwnerCall(id, w.writer.account), nil)
	require.Equal(t, w.writer.account, eventsOf[TopicChanged](w)[0].Owner)
	w.must(w.writer, AddPartitionsCall(id, 2), nil)
	w.tenant("acme", w.brokers[0], 100, 4000) // another owner of the tenant
	w.no(onlyOwners, w.owner, AddPartitionsCall(id, 3), nil)
	w.must(w.brokers[0], AddPartitionsCall(id, 3), nil)
	// With nobody as the tenant's owner only the topic's is left.
	w.tenant("acme", operator{}, 100, 4000)
	w.no(onlyOwners, w.brokers[0], AddPartitionsCall(id, 4), nil)
	w.must(w.writer, AddPartitionsCall(id, 4), nil)
}

func TestTenants(t *testing.T) {
	w := newTopicWorld(t, 1)
	data, err := SetTenantCall(Tenant{Name: "two", Owner: w.writer.account, BytesPerSecond: 7, Connections: 8, Topics: 9, Partitions: 10})
	_, err = w.ask(admin, data, err)
	require.NoError(t, err)
	require.Equal(t, "two", eventsOf[TenantSet](w)[0].Name)
	want := Tenant{Name: "two", Owner: w.writer.account, BytesPerSecond: 7, Connections: 8, Topics: 9, Partitions: 10}
	require.Equal(t, want, w.tenantInfo("two"))
	require.Zero(t, w.tenantInfo("three").Connections)

	page, total, err := DecodeTenantPage(w.readFrom(TopicsAddress, TenantPageCall(1, 5)))
	require.NoError(t, err)
	require.EqualValues(t, 3, total) // _bps came with the first broker
	require.Equal(t, []string{"acme", "two"}, []string{page[0].Name, page[1].Name})
	page, _, err = DecodeTenantPage(w.readFrom(TopicsAddress, TenantPageCall(0, 1)))
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.Equal(t, BrokersTenant, page[0].Name)
	page, _, err = DecodeTenantPage(w.readFrom(TopicsAddress, TenantPageCall(3, 1<<63)))
	require.NoError(t, err)
	require.Empty(t, page)

	for name, words := range map[string]string{
		"": "1 to 63", "a.b": "1 to 63", "a b": "1 to 63", longText(64): "1 to 63", "\u00e4": "1 to 63", BrokersTenant: "the brokers' own",
	} {
		_, err := SetTenantCall(Tenant{Name: name, BytesPerSecond: 1, Connections: 1})
		require.ErrorIs(t, err, ErrName)
		data, err := propose(ProposeSetTenant, "string,address,uint64,uint32,uint32,uint32", name, w.owner.account, uint64(1), uint32(1), uint32(1), uint32(1))
		_, err = w.ask(admin, data, err)
		require.ErrorContains(t, err, words)
	}
	for _, q := range [][2]uint64{{0, 1}, {1, 0}} {
		data, err := propose(ProposeSetTenant, "string,address,uint64,uint32,uint32,uint32", "x", w.owner.account, q[0], uint32(q[1]), uint32(1), uint32(1))
		_, err = w.ask(admin, data, err)
		require.ErrorContains(t, err, "at least one byte per second and connection")
	}
}

// Members keeps its rule for tenants too: a quorum decides, nobody else.
func TestTenantsByQuorum(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	data, err := SetTenantCall(Tenant{Name: "acme", BytesPerSecond: 1, Connections: 1})
	_, perr := w.ask(w.ops[4].account, data, err)
	require.ErrorContains(t, perr, "only a producer of the schedule or the admin")
	id, perr := w.ask(w.ops[0].account, data, err)
	require.NoError(t, perr)
	connections := func() uint32 {
		tenant, err := DecodeTenant(w.readFrom(TopicsAddress, TenantCall("acme")))
		require.NoError(t, err)
		return tenant.Connections
	}
	require.NoError(t, w.approve(w.ops[1], id))
	require.Zero(t, connections())
	require.NoError(t, w.approve(w.ops[2], id))
	require.EqualValues(t, 1, connections())
}

func TestQuotas(t *testing.T) {
	w := newTopicWorld(t, 2)
	w.tenant("small", w.owner, 2, 5)
	a := w.create(w.owner, "small.a", 2, 1)
	w.create(w.owner, "small.b", 2, 2)
	data, err := CreateTopicCall(NewTopic{Name: "small.c", Partitions: 1, Replicas: 1})
	w.no("as many topics as it may", w.owner, data, err)
	w.no("not as many partitions left", w.owner, AddPartitionsCall(a, 4), nil)
	w.must(w.owner, AddPartitionsCall(a, 3), nil)
	w.no("not as many partitions left", w.owner, AddPartitionsCall(a, 4), nil)

	w.must(w.owner, DeleteTopicCall(a), nil)
	w.no("not as many partitions left", w.owner, bpsTopics().PackCreateTopic("small.c", 4, 1, nil, common.Address{}, false), nil)
	w.must(w.owner, data, nil)
	// Smaller quotas take nothing away and let nothing more come.
	w.tenant("small", w.owner, 1, 1)
	require.Equal(t, [2]uint32{2, 3}, [2]uint32{w.tenantInfo("small").TopicsUsed, w.tenantInfo("small").PartitionsUsed})
	b := TopicID("small.b", 2)
	w.no("not as many partitions left", w.owner, AddPartitionsCall(b, 3), nil)
	w.must(w.owner, DeleteTopicCall(b), nil)
	w.no("as many topics as it may", w.owner, bpsTopics().PackCreateTopic("small.d", 1, 1, nil, common.Address{}, false), nil)
}

func TestTopicBounds(t *testing.T) {
	w := newTopicWorld(t, 8)
	pack := func(partitions uint32, replicas uint16, config []byte) []byte {
		return bpsTopics().PackCreateTopic("acme.t", partitions, replicas, config, common.Address{}, false)
	}
	w.no("1 to 1024 partitions", w.owner, pack(0, 1, nil), nil)
	w.no("1 to 1024 partitions", w.owner, pack(1025, 1, nil), nil)
	w.no("more than 256 new partitions", w.owner, pack(257, 1, nil), nil)
	w.no("1 to 7 replicas", w.owner, pack(1, 0, nil), nil)
	w.no("1 to 7 replicas", w.owner, pack(1, 8, nil), nil)
	w.no("1 to 7 replicas", w.owner, pack(1, 256+3, nil), nil)
	w.no("more than 4096 bytes", w.owner, pack(1, 1, make([]byte, MaxTopicConfig+1)), nil)
	w.must(w.owner, pack(MaxNewPartitions, MaxReplicas, make([]byte, MaxTopicConfig)), nil)
	t.Logf("a topic of %d partitions with %d replicas each and 4 KiB of configuration: %d gas", MaxNewPartitions, MaxReplicas, w.gas)
	id := TopicID("acme.t", 1)
	w.no("more than 4096 bytes", w.owner, bpsTopics().PackConfigure(id, make([]byte, MaxTopicConfig+1)), nil)
	for total := uint32(512); total <= MaxPartitions; total += MaxNewPartitions {
		w.must(w.owner, AddPartitionsCall(id, total), nil)
	}
	w.no("1 to 1024 partitions", w.owner, AddPartitionsCall(id, MaxPartitions+1), nil)
	require.Len(t, w.topic(id).Leases, MaxPartitions)
	_, err := DecodeTopicConfig(w.topic(id).Config)
	require.ErrorIs(t, err, ErrReturn)
	for _, bad := range []NewTopic{{Name: "acme"}, {Name: "acme.t"}, {Name: "acme.t", Partitions: 257, Replicas: 1}, {Name: "acme.t", Partitions: 1, Replicas: 8}} {
		_, err := CreateTopicCall(bad)
		require.Error(t, err)
	}
}

// The brokers' own topic is made by any broker, once, in one form, and is nobody's.
func TestOffsetsTopic(t *testing.T) {
	w := newTopicWorld(t, 3)
	data, err := CreateTopicCall(NewTopic{Name: OffsetsTopic, Partitions: OffsetsPartitions, Replicas: 3})
	w.no(onlyBrokers, w.owner, data, err)
	for _, bad := range []NewTopic{
		{Name: "_bps.other", Partitions: OffsetsPartitions, Replicas: 3},
		{Name: OffsetsTopic, Partitions: 15, Replicas: 3},
		{Name: OffsetsTopic, Partitions: OffsetsPartitions, Replicas: 3, Encrypted: true},
		{Name: OffsetsTopic, Partitions: OffsetsPartitions, Replicas: 3, Auditor: w.owner.account},
	} {
		data, err := CreateTopicCall(bad)
		w.no("no other", w.brokers[0], data, err)
	}
	id, err := DecodeTopicID(w.must(w.brokers[2], data, nil))
	require.NoError(t, err)
	require.Zero(t, w.topic(id).Owner)
	w.no("there is a topic of this name", w.brokers[0], data, nil)
	for _, o := range append(w.brokers, w.owner) {
		w.no(onlyOwners, o, DeleteTopicCall(id), nil)
	}
}

func TestTopicPages(t *testing.T) {
	w := newTopicWorld(t, 3)
	names := map[string]bool{}
	for i := range 25 {
		name := fmt.Sprintf("acme.t%02d", i)
		w.create(w.owner, name, 1+uint32(i%3), 2)
		names[name] = true
	}
	for _, i := range []uint64{1, 13, 25} { // the first, one within, the last
		w.must(w.owner, DeleteTopicCall(TopicID(fmt.Sprintf("acme.t%02d", i-1), i)), nil)
		delete(names, fmt.Sprintf("acme.t%02d", i-1))
	}
	var from uint64
	for {
		page, total, err := DecodeTopicPage(w.readFrom(TopicsAddress, TopicPageCall(from, 10)))
		require.NoError(t, err)
		require.EqualValues(t, 22, total)
		if len(page) == 0 {
			break
		}
		for _, x := range page {
			require.True(t, names[x.Name], x.Name)
			delete(names, x.Name)
			require.Equal(t, x, w.topic(x.ID))
		}
		from += uint64(len(page))
	}
	require.Empty(t, names)
	none := w.topic(common.Hash{1})
	require.Zero(t, none.Created)
	require.Empty(t, none.Leases)
}
