package contracts

import (
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// maxViewGas is what a node allows a call that only reads, unless its operator says otherwise.
const maxViewGas = 50_000_000

// What one tenant stores must not make the pages of all topics too expensive to read for those who serve the others.
func TestWideTopicsDoNotStopTheReaders(t *testing.T) {
	w := newTopicWorld(t, 8)
	w.tenant("wide", w.owner, 1000, 1<<31)
	var all []common.Address
	for _, b := range w.brokers {
		all = append(all, b.account)
	}
	config := []byte(longText(MaxTopicConfig))
	for i := range MaxTopicPage {
		data := bpsTopics().PackCreateTopic("wide."+longText(240)+fmt.Sprint(i), MaxNewPartitions/16, MaxReplicas, config, common.Address{}, false)
		id, err := DecodeTopicID(w.must(w.owner, data, nil))
		require.NoError(t, err)
		for p := range uint32(MaxNewPartitions / 16) {
			w.must(w.owner, bpsTopics().PackWantReplicas(id, p, all[1:]), nil)
		}
	}
	// The widest of all fills a page by itself.
	id, err := DecodeTopicID(w.must(w.owner, bpsTopics().PackCreateTopic("wide.st", MaxNewPartitions, MaxReplicas, config, common.Address{}, false), nil))
	require.NoError(t, err)
	for total := uint32(2 * MaxNewPartitions); total <= MaxPartitions; total += MaxNewPartitions {
		w.must(w.owner, AddPartitionsCall(id, total), nil)
	}
	for p := range uint32(MaxPartitions) {
		w.must(w.owner, bpsTopics().PackWantReplicas(id, p, all[1:]), nil)
	}
	most := uint64(0)
	list, err := ReadTopics(func(data []byte) ([]byte, error) {
		ret, err := w.call(SystemAddress, TopicsAddress, nil, data)
		most = max(most, w.gas)
		return ret, err
	})
	require.NoError(t, err)
	require.Len(t, list, MaxTopicPage+1)
	t.Logf("%d gas at most", most)
	require.Less(t, most, uint64(maxViewGas)*3/4)
}
