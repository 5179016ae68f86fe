package contracts

import (
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// Kinds of operations as bits.
const (
	refusedRead     uint16 = 1 << OperationRead
	refusedWrite    uint16 = 1 << OperationWrite
	refusedDescribe uint16 = 1 << OperationDescribe
)

// nextMinute goes to the first second of the clock's next minute.
func (w *topicWorld) nextMinute() { w.seconds += 60 - w.seconds%60 }

// stand has a broker report an account in a tenant, in a block of its own, and tells the account's reputation there.
func (w *topicWorld) stand(b operator, tenant string, account common.Address, refused uint16, honest uint32) int {
	w.t.Helper()
	w.height++
	w.commit(b, Commit{Standings: []Standing{{TenantID(tenant), account, refused, honest}}})
	logs := w.logs
	defer func() { w.logs = logs }()
	return w.reputation(tenant, account)
}

// blacklist has all brokers report an account until it is blacklisted in a tenant.
func (w *topicWorld) blacklist(tenant string, account common.Address) {
	w.t.Helper()
	for range 3 {
		w.nextMinute()
		for _, b := range w.brokers {
			w.stand(b, tenant, account, RefusedKinds, 0)
		}
	}
	require.Less(w.t, w.reputation(tenant, account), MinReputation)
}

func (w *topicWorld) pardon(account common.Address, tenant string) {
	w.t.Helper()
	data, err := PardonCall(account, tenant)
	_, err = w.ask(admin, data, err)
	require.NoError(w.t, err)
}

func TestReputation(t *testing.T) {
	w := newTopicWorld(t, 3)
	w.nextMinute()
	x := w.writer.account
	stand := func(b operator, refused uint16, honest uint32) int {
		t.Helper()
		return w.stand(b, "acme", x, refused, honest)
	}
	a, b, c := w.brokers[0], w.brokers[1], w.brokers[2]
	require.Equal(t, Reputation, w.reputation("acme", x))
	require.Equal(t, 100, stand(a, 0, 9))
	require.Empty(t, eventsOf[StandingChanged](w))
	require.Equal(t, 95, stand(a, refusedRead, 0))
	require.Equal(t, 96, stand(a, 0, 1000), "one point per commit")
	require.Equal(t, 92, stand(a, refusedWrite, 1))
	require.Equal(t, 82, stand(a, refusedDescribe|1<<OperationDelete, 0), "each kind")
	e := eventsOf[StandingChanged](w)[0]
	require.Equal(t, []any{[32]byte(TenantID("acme")), x, a.account, uint8(82), w.seconds, refusedDescribe | 1<<OperationDelete, uint32(0)},
		[]any{e.Tenant, e.Account, e.Broker, e.Reputation, e.Time, e.Refused, e.Honest})
	require.Equal(t, 62, stand(a, 1<<16-1, 0), "kinds that there are not cost nothing")
	require.Equal(t, 62, stand(b, 1<<16-1, 0), "all are charged in this minute")
	require.Empty(t, eventsOf[StandingChanged](w))
	// One point in a block from each broker, however often it says so.
	w.height++
	for range 3 {
		w.commit(b, Commit{Standings: []Standing{{TenantID("acme"), x, 0, 1}, {TenantID("acme"), x, 0, 1}}})
	}
	require.Equal(t, 63, w.reputation("acme", x))
	w.commit(c, Commit{Standings: []Standing{{TenantID("acme"), x, 0, 1}}})
	require.Equal(t, 64, w.reputation("acme", x))
	w.commit(c, Commit{Standings: []Standing{{TenantID("nobody"), x, refusedRead, 0}}})
	require.Empty(t, eventsOf[StandingChanged](w), "there is no such tenant")
}

// One refusal of a kind is charged in a minute, whoever says so and however often.
func TestOneRefusalOfAKindIsChargedInAMinute(t *testing.T) {
	w := newTopicWorld(t, 3)
	w.nextMinute()
	x := w.writer.account
	for second := range 59 {
		require.Equal(t, 95, w.stand(w.brokers[second%3], "acme", x, refusedRead, 0))
		w.seconds++
	}
	w.commit(w.brokers[0], Commit{Standings: []Standing{{TenantID("acme"), x, refusedRead, 0}, {TenantID("acme"), x, refusedRead | refusedWrite, 0}}})
	require.Equal(t, 90, w.reputation("acme", x))
	w.nextMinute()
	require.Equal(t, 93, w.reputation("acme", x), "a quarter of what was lost came back")
	require.Equal(t, 88, w.stand(w.brokers[0], "acme", x, refusedRead, 0))
}

// Time gives back, by the clock of the blocks, and the result is that of RemainingLoss however often it was written to.
func TestReputationHealsWithTime(t *testing.T) {
	w := newTopicWorld(t, 3)
	w.tenant("beta", w.writer, 10, 10)
	w.nextMinute()
	x, y := w.writer.account, w.owner.account
	w.blacklist("acme", x)
	require.Equal(t, 8, w.reputation("acme", x))
	since := w.seconds
	for range 20 {
		w.seconds += 37
		require.EqualValues(t, Reputation-RemainingLoss(92, since, w.seconds), w.reputation("acme", x))
		w.stand(w.brokers[0], "acme", y, refusedRead, 0)
	}
	w.seconds += 3600
	require.Equal(t, 100, w.reputation("acme", x))
	require.Equal(t, 100, w.reputation("beta", x))
	require.Zero(t, RemainingLoss(100, 0, 1<<62))
	require.EqualValues(t, 100, RemainingLoss(100, 1<<62, 0))
	require.EqualValues(t, 75, RemainingLoss(100, 59, 60))
}

// A client that tries again and again what it may not, in its usual kinds of operations, never ends its account; one that
// tries everything does, as long as it goes on.
func TestPoliteRetriesNeverBlacklist(t *testing.T) {
	for kinds, blacklisted := range map[uint16]bool{
		refusedDescribe: false, refusedDescribe | refusedRead: false, refusedDescribe | refusedRead | refusedWrite: false,
		refusedDescribe | refusedRead | refusedWrite | 1<<OperationDescribeConfigs: false, RefusedKinds: true,
	} {
		t.Run(fmt.Sprintf("%#x", kinds), func(t *testing.T) {
			w := newTopicWorld(t, 3)
			x := w.writer.account
			least := Reputation
			for minute := range 120 {
				w.nextMinute()
				for k, second := range []uint64{0, uint64(minute) % 59, 59} {
					w.seconds += second - w.seconds%60
					least = min(least, w.stand(w.brokers[(minute+k)%3], "acme", x, kinds, 0))
				}
			}
			require.Equal(t, blacklisted, least < MinReputation, "down to %d", least)
			for range 2 {
				w.nextMinute()
			}
			require.GreaterOrEqual(t, w.reputation("acme", x), MinReputation, "it stopped")
		})
	}
}

// What is lost with one tenant is not lost with another.
func TestReputationIsATenants(t *testing.T) {
	w := newTopicWorld(t, 2)
	w.nextMinute()
	w.tenant("beta", w.owner, 10, 10)
	acme, beta := w.create(w.owner, "acme.t", 1, 1), w.create(w.owner, "beta.t", 1, 1)
	lose := func() {
		w.blacklist("acme", w.owner.account)
		require.Equal(t, Reputation, w.reputation("beta", w.owner.account))
	}
	lose()
	create := func(name string) []byte {
		data, err := CreateTopicCall(NewTopic{Name: name, Partitions: 1, Replicas: 1})
		require.NoError(t, err)
		return data
	}
	rules := func(tenant string) []Acl {
		return []Acl{{ResourceTopic, PatternLiteral, tenant + ".t", EveryUser, "*", OperationRead, PermissionAllow}}
	}
	calls := func(tenant string, id common.Hash) [][]byte {
		return [][]byte{create(tenant + ".u"), AddPartitionsCall(id, 3), bpsTopics().PackConfigure(id, nil), bpsTopics().PackGrant(tenant, rules(tenant)),
			bpsTopics().PackRevoke(tenant, rules(tenant)), SetOwnerCall(id, w.writer.account), DeleteTopicCall(id)}
	}
	for _, call := range append(calls("acme", acme), bpsTopics().PackSetKeys(acme, 1, nil, nil), RevokePseudonymCall(acme, w.writer.account), NextPseudonymsCall(acme)) {
		w.no("reputation in this tenant is below 20", w.owner, call, nil)
	}
	for _, call := range calls("beta", beta) {
		w.must(w.owner, call, nil)
	}
	// Governance pardons, in one tenant or in all.
	w.pardon(w.owner.account, "beta")
	require.Less(t, w.reputation("acme", w.owner.account), MinReputation)
	w.pardon(w.owner.account, "acme")
	e := eventsOf[StandingChanged](w)[0]
	require.Equal(t, []any{[32]byte(TenantID("acme")), w.owner.account, uint8(Reputation), w.seconds}, []any{e.Tenant, e.Account, e.Reputation, e.Time})
	w.must(w.owner, AddPartitionsCall(acme, 2), nil)
	lose()
	w.pardon(w.owner.account, "")
	require.Zero(t, eventsOf[StandingChanged](w)[0].Tenant)
	require.Equal(t, Reputation, w.reputation("acme", w.owner.account))
	w.must(w.owner, DeleteTopicCall(acme), nil)
	data, err := PardonCall(w.owner.account, "nobody")
	_, err = w.ask(admin, data, err)
	require.ErrorContains(t, err, "no such tenant")
}

// One broker alone blacklists nobody, whatever it reports and for however long, while there are others.
func TestOneBrokerBlacklistsNobody(t *testing.T) {
	w := newTopicWorld(t, 3)
	x := w.writer.account
	a, b, c := w.brokers[0], w.brokers[1], w.brokers[2]
	stand := func(b operator, refused uint16, honest uint32) int {
		t.Helper()
		return w.stand(b, "acme", x, refused, honest)
	}
	for range 60 {
		w.nextMinute()
		stand(a, RefusedKinds, 0)
		require.GreaterOrEqual(t, stand(a, RefusedKinds, 1), Reputation-BrokerLowers)
	}
	// It takes a second one.
	least := Reputation
	for range 5 {
		w.nextMinute()
		stand(a, refusedRead|refusedWrite|refusedDescribe|1<<OperationDelete, 0)
		least = min(least, stand(b, RefusedKinds, 0))
	}
	require.Less(t, least, MinReputation)
	// A pardon has every broker count from the start.
	w.pardon(x, "acme")
	require.Equal(t, Reputation, w.reputation("acme", x))
	require.Equal(t, 60, stand(a, RefusedKinds, 0))

	// The only live broker is not bound: nobody else could.
	w.must(b, RetireBrokerCall(), nil)
	w.must(c, RetireBrokerCall(), nil)
	for range 3 {
		w.nextMinute()
		least = stand(a, RefusedKinds, 0)
	}
	require.Less(t, least, MinReputation)
	data, err := RegisterBrokerCall("h", 1, peerOf(2))
	w.must(b, data, err)
	w.nextMinute()
	before := w.reputation("acme", x)
	require.Equal(t, before, stand(a, RefusedKinds, 0), "counted above the bound")
}
