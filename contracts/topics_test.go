package contracts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// A topic from its creation to its deletion and to another of its name.
func TestTopicLife(t *testing.T) {
	w := newTopicWorld(t, 4)
	config := map[string]string{"retention.ms": "1000", "compression.type": "zstd"}
	auditor := common.HexToAddress("0xa0d1")
	data, err := CreateTopicCall(NewTopic{Name: "acme.orders", Partitions: 8, Replicas: 3, Config: config, Auditor: auditor, Encrypted: true})
	id, err := DecodeTopicID(w.must(w.owner, data, err))
	require.NoError(t, err)
	require.Equal(t, TopicID("acme.orders", 1), id)
	created := eventsOf[TopicCreated](w)
	require.Len(t, created, 1)
	require.Equal(t, "acme.orders", created[0].Name)
	require.Equal(t, [32]byte(TenantID("acme")), created[0].Tenant)
	placed := eventsOf[ReplicasChanged](w)
	require.Len(t, placed, 8)

	info := w.topic(id)
	got, err := DecodeTopicConfig(info.Config)
	require.NoError(t, err)
	require.Equal(t, config, got)
	require.Equal(t, w.owner.account, info.Owner)
	require.Equal(t, auditor, info.Auditor)
	require.True(t, info.Encrypted)
	require.False(t, info.Deleted)
	require.Equal(t, w.height, info.Created)
	require.Equal(t, uint32(1), info.PseudonymEpoch)
	for p, l := range info.Leases {
		require.EqualValues(t, p, placed[p].Partition)
		require.Equal(t, l, Lease{placed[p].Leader, placed[p].Epoch, placed[p].Replicas, none})
	}
	w.no("there is a topic of this name", w.owner, data, nil)
	require.Equal(t, uint32(1), w.tenantInfo("acme").TopicsUsed)
	require.Equal(t, uint32(8), w.tenantInfo("acme").PartitionsUsed)

	w.must(w.owner, AddPartitionsCall(id, 10), nil)
	require.Len(t, eventsOf[ReplicasChanged](w), 2)
	require.Equal(t, uint32(10), eventsOf[TopicChanged](w)[0].Partitions)
	require.Len(t, w.topic(id).Leases, 10)
	w.no("never falls", w.owner, AddPartitionsCall(id, 10), nil)

	w.must(w.owner, DeleteTopicCall(id), nil)
	require.Equal(t, "acme.orders", eventsOf[TopicDeleted](w)[0].Name)
	require.True(t, w.topic(id).Deleted)
	require.Zero(t, w.tenantInfo("acme").TopicsUsed)
	require.Zero(t, w.tenantInfo("acme").PartitionsUsed)
	for _, call := range [][]byte{AddPartitionsCall(id, 20), DeleteTopicCall(id), SetOwnerCall(id, auditor), NextPseudonymsCall(id)} {
		w.no("no such topic", w.owner, call, nil)
	}
	again := w.create(w.owner, "acme.orders", 1, 1)
	require.Equal(t, TopicID("acme.orders", 2), again)
	now, err := DecodeTopicID(w.readFrom(TopicsAddress, TopicIDCall("acme.orders")))
	require.NoError(t, err)
	require.Equal(t, again, now)
}

func TestTopicNames(t *testing.T) {
	w := newTopicWorld(t, 1)
	pack := func(name string) []byte { return bpsTopics().PackCreateTopic(name, 1, 1, nil, common.Address{}, false) }
	for name, words := range map[string]string{
		"":                        "a dot and more",
		"acme":                    "a dot and more",
		"acme.":                   "a dot and more",
		".orders":                 "a dot and more",
		"acme." + longText(245):   "at most 249",
		"acme.or ders":            "at most 249",
		"acme.or/ders":            "at most 249",
		"acme.or\x00ders":         "at most 249",
		"acme.\u00e4":             "at most 249",
		"other.orders":            "no such tenant",
		"ACME.orders":             "no such tenant",
		"_bps.else":               "only a registered, live broker",
		longText(100) + ".orders": "no such tenant",
	} {
		w.no(words, w.owner, pack(name), nil)
		if name != "other.orders" && name != "ACME.orders" && name != "_bps.else" {
			_, err := TenantOf(name)
			require.ErrorIs(t, err, ErrName, name)
		}
	}
	for _, name := range []string{"acme.o", "acme..", "acme.A-z_0.9", "acme." + longText(244)} {
		w.must(w.owner, pack(name), nil)
		tenant, err := TenantOf(name)
		require.NoError(t, err)
		require.Equal(t, "acme", tenant)
	}
}

func longText(n int) string { return strings.Repeat("x", n) }

// Partitions go round robin: every broker leads as many, keeps as many, and a broker's followers are spread.
func TestPlacement(t *testing.T) {
	w := newTopicWorld(t, 5)
	leads, keeps, beside := map[common.Address]int{}, map[common.Address]int{}, map[[2]common.Address]int{}
	for i := range 4 {
		for _, l := range w.topic(w.create(w.owner, fmt.Sprintf("acme.t%d", i), 25, 3)).Leases {
			require.Equal(t, l.Leader, l.Replicas[0])
			require.EqualValues(t, FirstEpoch, l.Epoch)
			leads[l.Leader]++
			seen := map[common.Address]bool{}
			for _, r := range l.Replicas {
				require.False(t, seen[r])
				seen[r] = true
				keeps[r]++
				beside[[2]common.Address{l.Leader, r}]++
			}
		}
	}
	for _, b := range w.brokers {
		require.Equal(t, 20, leads[b.account])
		require.Equal(t, 60, keeps[b.account])
		for _, o := range w.brokers {
			if o != b {
				require.Equal(t, 10, beside[[2]common.Address{b.account, o.account}])
			}
		}
	}
	w.must(w.brokers[0], RetireBrokerCall(), nil)
	for _, l := range w.topic(w.create(w.owner, "acme.after", 20, 4)).Leases {
		require.NotContains(t, l.Replicas, w.brokers[0].account)
	}
	data, err := CreateTopicCall(NewTopic{Name: "acme.wide", Partitions: 1, Replicas: 5})
	w.no("fewer live brokers than replicas", w.owner, data, err)
}
