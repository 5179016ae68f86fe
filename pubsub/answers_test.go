package pubsub

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
)

// asking is a call of the owner of a tenant with a topic of many partitions.
func asking(t *testing.T, partitions int) *call {
	t.Helper()
	c, l, r := replacing(t, partitions)
	owner := common.Address{'O'}
	c.owner = owner
	c.other = common.BigToHash(big.NewInt(contracts.Reputation)).Bytes() // of everybody
	r.b.deps.Replicas = l
	r.b.m, _ = newMetrics(nil)
	r.b.topics = new(topicIndex)
	return &call{b: r.b, conn: new(kafka.Conn), s: new(kafka.Session), who: ledger.Principal{Account: owner}, v: c.view(t)}
}

// A topic that a request names many times is told of once: its answer is far larger than its name.
func TestARepeatedNameIsAnsweredOnce(t *testing.T) {
	x := asking(t, 100)
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 12
	name, absent, id := "acme.t", "acme.none", uuidOf([32]byte{1})
	for range 1000 {
		r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: &name}, kmsg.MetadataRequestTopic{Topic: &absent}, kmsg.MetadataRequestTopic{TopicID: id})
	}
	resp := x.b.metadata(x, r)(t.Context()).(*kmsg.MetadataResponse)
	require.Len(t, resp.Topics, 3)
	require.Len(t, resp.Topics[0].Partitions, 100)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, resp.Topics[1].ErrorCode)
	require.Equal(t, "acme.t", *resp.Topics[2].Topic, "by its id")

	c := kmsg.NewPtrDescribeConfigsRequest()
	for range 1000 {
		c.Resources = append(c.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name})
	}
	require.Len(t, x.b.describeConfigs(x, c)(t.Context()).(*kmsg.DescribeConfigsResponse).Resources, 1)
}
