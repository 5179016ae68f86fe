package evidence

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/proof"
)

// beyond is a broker that answers with a leaf from behind what it was asked for.
type beyond struct{ asked int }

func (b *beyond) Ask(context.Context, string, uint8, []byte) ([]byte, error) {
	if b.asked++; b.asked > 10 {
		return nil, errors.New("asked again and again")
	}
	raw := makeBatch(30, 1, 3, "later")
	h, _, err := batch.Parse(raw)
	if err != nil {
		return nil, err
	}
	l := proof.LeafOf(&h, batch.Covered(raw))
	return l.Append(nil), nil
}

// A broker with an empty tree asks the others for what its log lacks. One that gives nothing of it is asked once: the
// trees of all other partitions wait meanwhile.
func TestABrokerThatGivesNothingOfAGapIsAskedOnce(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick)
	defer n.close(t)
	peer := new(beyond)
	n.e.deps.Peers = peer
	id := ID{Topic: topicA}
	topic, ok := c.Topic(topicA)
	require.True(t, ok)
	require.Error(t, n.e.fill(t.Context(), id, &gapError{0, 6}))
	require.LessOrEqual(t, peer.asked, 1+len(topic.Partitions[0].Replicas))
	h, err := n.e.trees.head(id)
	require.NoError(t, err)
	require.Zero(t, h.Leaves)
}
