package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/leaks"
	"github.com/bornode/bornode/pubsub/acl"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// dump is all that a view says, in an order of its own.
func dump(v *View) string {
	var b strings.Builder
	for _, x := range v.Tenants() {
		fmt.Fprintf(&b, "%+v\n", *x)
		var l []string
		for _, a := range v.Acls(x.Name) {
			l = append(l, acl.Entry(a).String())
		}
		slices.Sort(l)
		fmt.Fprintln(&b, strings.Join(l, "\n"))
	}
	for _, t := range v.Topics("") {
		fmt.Fprintf(&b, "%+v\n", *t)
	}
	fmt.Fprintf(&b, "%+v", v.Brokers())
	return b.String()
}

func TestEventsTellWhatTheStateSays(t *testing.T) {
	seeds := 4
	for seed := range uint64(seeds) { //nolint:gosec // few
		w := newWorld(t, 4)
		r := rand.New(rand.NewPCG(seed, 3))
		w.tenant("acme", w.users[0])
		w.tenant("beta", w.users[1])
		w.sync()
		moved := map[string]int{}
		old, text := w.m.View(), dump(w.m.View())
		for range 40 {
			for range r.IntN(8) {
				kind, ok := w.random(r)
				if ok {
					moved[kind]++
				}
			}
			if r.IntN(3) == 0 {
				w.seal() // several blocks at once
				continue
			}
			w.second += uint64(r.IntN(40)) //nolint:gosec // few
			v := w.sync()
			require.Equal(t, dump(w.fresh()), dump(v), "seed %d", seed)
			require.Equal(t, text, dump(old), "a view changed after it was given out")
			old, text = v, dump(v)
			for _, a := range slices.Concat(w.users, w.brokers) {
				s, err := v.Standing("acme", a)
				require.NoError(t, err)
				ret, err := w.at(v.Height, contracts.ReputationCall(contracts.TenantID("acme"), a))
				require.NoError(t, err)
				want, err := contracts.DecodeReputation(ret)
				require.NoError(t, err)
				require.Equal(t, int(want), s)
			}
		}
		require.Greater(t, len(moved), 12, "%v", moved)
	}
}

// random sends one random call.
func (w *world) random(r *rand.Rand) (kind string, ok bool) {
	from := w.users[r.IntN(3)]
	broker := w.brokers[r.IntN(len(w.brokers))]
	topics := w.fresh().Topics("")
	topic := &Topic{Partitions: []Partition{{}}}
	if len(topics) > 0 {
		topic = topics[r.IntN(len(topics))]
	}
	if r.IntN(4) > 0 { // mostly somebody who may
		from = topic.Owner
	}
	p := uint32(r.IntN(len(topic.Partitions))) //nolint:gosec // few
	lease := topic.Partitions[p]
	epoch := uint32(lease.Epoch) //nolint:gosec // positive
	tenant := []string{"acme", "beta"}[r.IntN(2)]
	owner := w.users[slices.Index([]string{"acme", "beta"}, tenant)]
	entry := contracts.Acl{Resource: uint8(2 + r.IntN(2)), Pattern: uint8(3 + r.IntN(2)), Name: tenant + "." + string(rune('a'+r.IntN(3))), //nolint:gosec // few
		Principal: contracts.UserPrincipal(w.users[r.IntN(3)]), Host: "*", Operation: 3 + uint8(r.IntN(2)), Permission: uint8(2 + r.IntN(2))} //nolint:gosec // few
	var data []byte
	var err error
	switch r.IntN(18) {
	case 0, 1, 2:
		kind, from = "create", owner
		data, err = contracts.CreateTopicCall(contracts.NewTopic{Name: fmt.Sprintf("%s.%d", tenant, r.IntN(12)), Partitions: 1 + uint32(r.IntN(4)), //nolint:gosec // few
			Replicas: 1 + uint16(r.IntN(3)), Config: map[string]string{"retention.ms": "5"}, Auditor: w.users[2], Encrypted: r.IntN(2) == 0}) //nolint:gosec // few
	case 3:
		kind, data = "grow", contracts.AddPartitionsCall(topic.ID, uint32(len(topic.Partitions)+r.IntN(3))) //nolint:gosec // few
	case 4:
		kind = "configure"
		data, err = contracts.ConfigureCall(topic.ID, map[string]string{"x": fmt.Sprint(r.IntN(9))})
	case 5:
		kind, data = "delete", contracts.DeleteTopicCall(topic.ID)
	case 6:
		kind, data = "owner", contracts.SetOwnerCall(topic.ID, w.users[r.IntN(3)])
	case 7, 8:
		kind, from = "grant", owner
		data, err = contracts.GrantCall(tenant, []contracts.Acl{entry})
	case 9:
		kind, from = "revoke", owner
		data, err = contracts.RevokeCall(tenant, []contracts.Acl{entry})
	case 10:
		kind = "keys"
		data, err = contracts.SetKeysCall(topic.ID, topic.KeyEpoch+1, []common.Address{w.users[3]}, [][]byte{{1}})
	case 11:
		kind, from = "claim", broker
		data, err = contracts.ClaimCall([]contracts.Claim{{Topic: topic.ID, Partition: p, Epoch: epoch}})
	case 12:
		kind, from = "replicas", lease.Leader
		next := append(slices.Clone(lease.Replicas), broker)
		if r.IntN(2) == 0 && len(lease.Replicas) > 1 {
			next = slices.DeleteFunc(slices.Clone(lease.Replicas), func(a common.Address) bool { return a == broker })
		}
		data = contracts.SetReplicasCall(topic.ID, p, epoch, next)
	case 13:
		i := r.IntN(len(w.brokers))
		kind, from = "broker", w.brokers[i]
		if data, err = contracts.RegisterBrokerCall(fmt.Sprintf("h%d", r.IntN(9)), 1234, peerID(i)); r.IntN(3) == 0 {
			kind, data = "retire", contracts.RetireBrokerCall()
		}
	case 14:
		kind, from, data = "pseudonyms", topic.Auditor, contracts.NextPseudonymsCall(topic.ID)
	case 15:
		kind, from = "tenant", contracts.MembersAddress
		data = contracts.NewTopics().PackSetTenant(tenant, owner, 1+uint64(r.IntN(9)), 5, 60, 200) //nolint:gosec // few
	case 17:
		kind = "want"
		data, err = contracts.WantReplicasCall(topic.ID, p, w.brokers[r.IntN(len(w.brokers)):])
		if r.IntN(3) == 0 {
			data, err = contracts.WantReplicasCall(topic.ID, p, nil)
		}
	case 16:
		kind, from = "standing", broker
		ret, _ := w.run(w.state.Copy(), broker, contracts.CommitsCall(broker))
		n, _ := contracts.DecodeCommits(ret)
		data, err = contracts.CommitCall(contracts.Commit{Number: n + 1, Standings: []contracts.Standing{{Tenant: contracts.TenantID("acme"), Account: w.users[r.IntN(3)], Refused: contracts.RefusedKinds, Honest: 1}}})
	}
	require.NoError(w.t, err)
	_, err = w.try(from, data)
	return kind, err == nil
}

func TestAccessFollowsTheLedger(t *testing.T) {
	w := newWorld(t, 3)
	owner, reader, auditor, ghost := w.users[0], w.users[1], w.users[2], w.users[3]
	w.tenant("acme", owner)
	id := w.create(owner, contracts.NewTopic{Name: "acme.orders", Partitions: 2, Replicas: 2, Auditor: auditor})
	v := w.sync()
	may := func(v *View, p Principal, op, resource uint8, name string) bool {
		ok, reason := v.Authorize(p, "10.0.0.1", op, resource, name)
		require.NotEmpty(t, reason)
		again, same := v.Authorize(p, "10.0.0.1", op, resource, name)
		require.Equal(t, ok, again)
		require.Equal(t, reason, same)
		return ok
	}
	who := Principal{Account: reader}
	require.True(t, may(v, Principal{Account: owner}, acl.Alter, acl.Topic, "acme.orders"))
	require.False(t, may(v, who, acl.Read, acl.Topic, "acme.orders"))
	require.False(t, may(v, who, acl.Read, acl.Topic, "nobody.orders"))
	require.False(t, may(v, Principal{}, acl.Read, acl.Topic, "_bps.offsets"), "what nobody owns is not the zero account's")
	grant := func(entries ...string) {
		var l []contracts.Acl
		for _, text := range entries {
			e, err := acl.Parse(text)
			require.NoError(t, err)
			l = append(l, contracts.Acl(e))
		}
		w.must(owner, func() ([]byte, error) { return contracts.GrantCall("acme", l) })
	}
	read := "Principal " + who.Name() + " is Allowed Operation READ From Host * on Resource TOPIC:acme. matching Pattern PREFIXED"
	grant(read)
	n := w.sync()
	require.True(t, may(n, who, acl.Read, acl.Topic, "acme.orders"))
	require.False(t, may(v, who, acl.Read, acl.Topic, "acme.orders"), "the older view still says what was")
	require.False(t, may(n, who, acl.Write, acl.Topic, "acme.orders"))

	// A topic's new owner may write; another block's views keep the old answer.
	w.must(owner, func() ([]byte, error) { return contracts.SetOwnerCall(id, reader), nil })
	v = w.sync()
	require.True(t, may(v, who, acl.Write, acl.Topic, "acme.orders"))
	require.False(t, may(n, who, acl.Write, acl.Topic, "acme.orders"))

	// A pseudonym has what its certificate says, and what is denied to everybody is denied to it.
	p := Principal{Account: ghost, Pseudonym: true, Topic: id, Rights: rightRead}
	require.True(t, may(v, p, acl.Read, acl.Topic, "acme.orders"))
	require.True(t, may(v, p, acl.Describe, acl.Topic, "acme.orders"))
	require.True(t, may(v, p, acl.Read, acl.Group, "acme.orders.readers"))
	for _, no := range []struct {
		op, resource uint8
		name         string
	}{{acl.Write, acl.Topic, "acme.orders"}, {acl.Read, acl.Topic, "acme.other"}, {acl.Read, acl.Group, "acme.readers"}, {acl.Delete, acl.Topic, "acme.orders"}, {acl.Delete, acl.Group, "acme.orders.readers"}} {
		require.False(t, may(v, p, no.op, no.resource, no.name), "%v", no)
	}
	asOwner := Principal{Account: owner, Pseudonym: true, Topic: id, Rights: rightRead}
	require.False(t, may(v, asOwner, acl.Write, acl.Topic, "acme.orders"), "a pseudonym is no account")
	grant("Principal User:* is Denied Operation READ From Host 10.0.0.1 on Resource TOPIC:acme.orders matching Pattern LITERAL")
	v = w.sync()
	require.False(t, may(v, p, acl.Read, acl.Topic, "acme.orders"))
	require.False(t, v.PseudonymRevoked(id, ghost))
	w.must(auditor, func() ([]byte, error) { return contracts.RevokePseudonymCall(id, ghost), nil })
	v = w.sync()
	require.True(t, v.PseudonymRevoked(id, ghost))

	// Accounts that lost their reputation in a tenant are refused everything there, by whatever view, until time gives it back.
	w.tenant("beta", w.users[4])
	w.must(w.users[4], func() ([]byte, error) {
		return contracts.GrantCall("beta", []contracts.Acl{{Resource: acl.Topic, Pattern: acl.Prefixed, Name: "beta.", Principal: who.Name(), Host: "*", Operation: acl.Read, Permission: acl.Allow}})
	})
	v = w.sync()
	require.False(t, v.Blacklisted("acme", reader))
	w.blacklist("acme", reader)
	v = w.sync()
	require.True(t, v.Blacklisted("acme", reader))
	require.True(t, may(v, who, acl.Read, acl.Topic, "beta.things"), "another tenant's rule")
	allowed, reason := v.Allows(who, "10.0.0.1", acl.Read, acl.Topic, "acme.other")
	require.True(t, allowed, reason)
	allowed, reason = v.Authorize(who, "10.0.0.1", acl.Read, acl.Topic, "acme.other")
	require.False(t, allowed)
	require.Contains(t, reason, "reputation below 20 in tenant acme")
	w.second += 60
	v = w.sync()
	require.True(t, may(v, who, acl.Read, acl.Topic, "acme.other"), "a minute later")
	w.blacklist("acme", reader)
	w.must(contracts.MembersAddress, func() ([]byte, error) { return contracts.NewTopics().PackPardon(reader, ""), nil })
	require.True(t, may(w.sync(), who, acl.Read, acl.Topic, "acme.other"), "pardoned")

	c, err := v.TokensCancelled(owner)
	require.NoError(t, err)
	require.Zero(t, c)
	w.must(owner, func() ([]byte, error) { return contracts.CancelTokensCall(), nil })
	c, err = w.sync().TokensCancelled(owner)
	require.NoError(t, err)
	require.NotZero(t, c)

	// What cannot be read is refused, and asked for again.
	w.fail = errAway
	require.True(t, v.Blacklisted("acme", w.users[5]))
	w.fail = nil
	require.False(t, v.Blacklisted("acme", w.users[5]))
	before := w.calls
	require.False(t, v.Blacklisted("acme", w.users[5]))
	require.Equal(t, before, w.calls, "what is known is not asked for")
}

func TestTheLedgerKnowsWhomSomebodyNamed(t *testing.T) {
	w := newWorld(t, 3)
	owner, reader, auditor, creator, ghost := w.users[0], w.users[1], w.users[2], w.users[3], w.users[4]
	w.tenant("acme", owner)
	w.tenant("other", owner)
	id := w.create(owner, contracts.NewTopic{Name: "acme.orders", Partitions: 1, Replicas: 2, Auditor: auditor})
	knows := func(v *View, a common.Address) bool { return v.Knows(Principal{Account: a}) }
	v := w.sync()
	for _, a := range []common.Address{owner, auditor, w.brokers[0]} {
		require.True(t, knows(v, a), a)
	}
	require.False(t, knows(v, reader))
	require.False(t, knows(v, common.Address{1}))
	require.True(t, v.Knows(Principal{Account: ghost, Pseudonym: true, Topic: id}), "its auditor does")
	rule := func(principal string, permission uint8) contracts.Acl {
		return contracts.Acl{Resource: acl.Topic, Pattern: acl.Prefixed, Name: "other.", Principal: principal, Host: "*", Operation: acl.Read, Permission: permission}
	}
	w.must(owner, func() ([]byte, error) {
		return contracts.GrantCall("other", []contracts.Acl{rule("User:*", acl.Allow), rule(contracts.UserPrincipal(ghost), acl.Deny), rule(contracts.UserPrincipal(reader), acl.Allow)})
	})
	w.must(owner, func() ([]byte, error) { return contracts.SetOwnerCall(id, creator), nil })
	v = w.sync()
	require.True(t, knows(v, reader))
	require.True(t, knows(v, creator))
	require.False(t, knows(v, ghost), "neither a denial nor a rule for everybody makes an account known")
}

func TestMirrorReadsAnewWhatDoesNotFit(t *testing.T) {
	w := newWorld(t, 3)
	require.Nil(t, w.m.View())
	w.tenant("acme", w.users[0])
	id := w.create(w.users[0], contracts.NewTopic{Name: "acme.a", Partitions: 1, Replicas: 1})
	w.sync()
	changed := w.m.Changed()
	w.create(w.users[0], contracts.NewTopic{Name: "acme.b", Partitions: 1, Replicas: 1})
	w.logs[w.height] = w.logs[w.height][1:] // the creation is lost
	v := w.sync()
	require.NotNil(t, v.Topic("acme.b"))
	require.Equal(t, dump(w.fresh()), dump(v))
	select {
	case <-changed:
	default:
		t.Fatal("a new view must be told")
	}
	w.fail = errAway
	w.seal()
	require.ErrorIs(t, w.m.follow(context.Background()), errAway)
	require.Equal(t, v, w.m.View(), "the last view stays while the source is away")
	w.fail = nil
	require.NotNil(t, w.sync().TopicByID(id))
	l, ok := v.Lease(id, 0)
	require.True(t, ok)
	require.Len(t, l.Replicas, 1)
	_, ok = v.Lease(id, 1)
	require.False(t, ok)
	require.NotNil(t, v.BrokerByAccount(l.Leader))
	require.Equal(t, l.Leader, v.Broker(v.BrokerByAccount(l.Leader).ID).Account)
	require.Nil(t, v.Broker(99))
}

func TestRunFollowsAndEnds(t *testing.T) {
	w := newWorld(t, 3)
	w.tenant("acme", w.users[0])
	w.seal()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	changed := w.m.Changed()
	go func() { done <- w.m.Run(ctx) }()
	w.m.Poke()
	<-changed
	require.NotNil(t, w.m.View().Tenant("acme"))
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Less(t, w.m.StaleFor().Hours(), 1.0)
}

// BenchmarkBlock is a block that changes one lease of 10,000 topics.
func BenchmarkBlock(b *testing.B) {
	v := newView(&facts{})
	topics, names := v.topics.draft(), v.names.draft()
	for i := range 10_000 {
		t := &Topic{ID: common.Hash{30: byte(i >> 8), 31: byte(i)}, Name: fmt.Sprintf("acme.%d", i), Tenant: "acme", Partitions: make([]Partition, 8)}
		topics.put(t.ID, t)
		names.put(t.Name, t.ID)
	}
	v.topics, v.names = topics.t, names.t
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		n := &next{v: v, tenants: v.tenants.draft(), topics: v.topics.draft(), names: v.names.draft(), mineT: map[common.Hash]bool{}}
		require.NoError(b, n.lease(common.Hash{30: byte(i % 10_000 >> 8), 31: byte(i)}, 3, common.Address{1}, uint32(i+1), []common.Address{{1}})) //nolint:gosec // small
	}
}

// A broker deletes the log of a topic only when the contract says that the topic was deleted.
func TestOnlyADeletedTopicIsDeleted(t *testing.T) {
	w := newWorld(t, 2)
	w.tenant("acme", w.users[0])
	id := w.create(w.users[0], contracts.NewTopic{Name: "acme.a", Partitions: 2, Replicas: 1})
	v := w.sync()
	require.False(t, v.TopicDeleted(id))
	require.False(t, v.TopicDeleted([32]byte{1}), "no topic ever had this id")
	w.must(w.users[0], func() ([]byte, error) { return contracts.DeleteTopicCall(id), nil })
	v = w.sync()
	require.True(t, v.TopicDeleted(id), "told by the event")
	w.m.facts.forget()
	require.True(t, v.TopicDeleted(id), "read from the contract")
	require.False(t, v.TopicDeleted([32]byte{1}))
}

// A chain that is synced anew gives final blocks all the time; what they say is of long ago.
func TestOldBlocksAreStale(t *testing.T) {
	w := newWorld(t, 1)
	w.age = 1_800_000_000 - uint64(time.Now().Add(-2*time.Hour).Unix())
	w.sync()
	require.InDelta(t, 2, w.m.StaleFor().Hours(), 0.5)
	w.age -= 2 * 60 * 60
	w.sync()
	require.Less(t, w.m.StaleFor().Hours(), 1.0)
}
