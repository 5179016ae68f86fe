package pubsub

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// One batch goes out as it lies in the log's memory; a fetch that waits for more keeps a copy and lets go of the log's.
func TestAWaitingFetchHoldsNothingOfTheLog(t *testing.T) {
	log := []byte("the newest batch")
	one := joined([][]byte{log})
	require.Same(t, &log[0], &one[0])
	require.Equal(t, []byte("first second"), joined([][]byte{[]byte("first "), []byte("second")}))
	require.Empty(t, joined(nil))

	full, empty := new(kmsg.FetchResponseTopicPartition), new(kmsg.FetchResponseTopicPartition)
	emptyFetch(full, 1)
	emptyFetch(empty, 2)
	full.RecordBatches = one
	f := &fetching{parts: []reading{{out: full}, {out: empty}}}
	f.own()
	require.Equal(t, log, full.RecordBatches)
	require.NotSame(t, &log[0], &full.RecordBatches[0])
	require.NotNil(t, empty.RecordBatches, "clients stumble over null")
}
