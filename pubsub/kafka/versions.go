package kafka

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Version is the range of versions in which a request is answered.
type Version struct{ Min, Max int16 }

// Requests that are answered here and by no handler.
var ownKeys = map[int16]Version{
	kmsg.SASLHandshake.Int16():    {0, 1},
	kmsg.ApiVersions.Int16():      {0, 4},
	kmsg.SASLAuthenticate.Int16(): {0, 2},
}

// lowestProduce is the first version whose batches have the format that is stored. Lower ones are advertised, since
// librdkafka takes a broker without them for one that cannot compress, and refused.
const lowestProduce = 3

// DefaultVersions are the requests of a broker. Versions end before those that speak of transactions, share groups and
// the new group protocol.
func DefaultVersions() map[int16]Version {
	return map[int16]Version{
		kmsg.Produce.Int16():                 {0, 11},
		kmsg.Fetch.Int16():                   {4, 16},
		kmsg.ListOffsets.Int16():             {1, 8},
		kmsg.Metadata.Int16():                {0, 12},
		kmsg.OffsetCommit.Int16():            {2, 8},
		kmsg.OffsetFetch.Int16():             {1, 8},
		kmsg.FindCoordinator.Int16():         {0, 4},
		kmsg.JoinGroup.Int16():               {0, 9},
		kmsg.Heartbeat.Int16():               {0, 4},
		kmsg.LeaveGroup.Int16():              {0, 5},
		kmsg.SyncGroup.Int16():               {0, 5},
		kmsg.DescribeGroups.Int16():          {0, 5},
		kmsg.ListGroups.Int16():              {0, 4},
		kmsg.CreateTopics.Int16():            {2, 7},
		kmsg.DeleteTopics.Int16():            {1, 6},
		kmsg.DeleteRecords.Int16():           {0, 2},
		kmsg.InitProducerID.Int16():          {0, 4},
		kmsg.OffsetForLeaderEpoch.Int16():    {0, 4},
		kmsg.DescribeACLs.Int16():            {0, 3},
		kmsg.CreateACLs.Int16():              {0, 3},
		kmsg.DeleteACLs.Int16():              {0, 3},
		kmsg.DescribeConfigs.Int16():         {0, 4},
		kmsg.AlterConfigs.Int16():            {0, 2},
		kmsg.CreatePartitions.Int16():        {0, 3},
		kmsg.DeleteGroups.Int16():            {0, 2},
		kmsg.IncrementalAlterConfigs.Int16(): {0, 1},
		kmsg.OffsetDelete.Int16():            {0, 0},
		kmsg.DescribeCluster.Int16():         {0, 1},
	}
}

// table is the advertised table: the handler's requests and ours.
type table struct {
	versions map[int16]Version
	keys     []kmsg.ApiVersionsResponseApiKey
}

func newTable(handler map[int16]Version) (*table, error) {
	if handler == nil {
		handler = DefaultVersions()
	}
	t := &table{versions: maps.Clone(handler)}
	maps.Copy(t.versions, ownKeys)
	for _, key := range slices.Sorted(maps.Keys(t.versions)) {
		v := t.versions[key]
		req := kmsg.RequestForKey(key)
		if req == nil || v.Min < 0 || v.Min > v.Max || v.Max > req.MaxVersion() {
			return nil, fmt.Errorf("request %d in versions %d to %d is unknown to the codec", key, v.Min, v.Max)
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = key, v.Min, v.Max
		t.keys = append(t.keys, k)
	}
	return t, nil
}

func (t *table) has(key, version int16) bool {
	v, ok := t.versions[key]
	return ok && version >= v.Min && version <= v.Max
}
