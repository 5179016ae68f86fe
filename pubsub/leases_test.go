package pubsub

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/group"
)

// unreadLog is a log of groups that cannot be read.
type unreadLog struct{ asked chan struct{} }

func (unreadLog) Append(context.Context, int32, []byte) (group.Pending, error) {
	return nil, errors.New("not asked for")
}
func (unreadLog) Trim(context.Context, int32, int64) error { return nil }
func (u unreadLog) Replay(ctx context.Context, _ int32, _ func([]byte) error) error {
	close(u.asked)
	<-ctx.Done()
	return ctx.Err()
}

// A topic is deleted while groups are being read: leases are followed on, as the reading may need the next ones.
func TestADeletedTopicDoesNotHoldLeasesUp(t *testing.T) {
	log := unreadLog{make(chan struct{})}
	b := &Broker{groups: group.New(group.DefaultConfig(), group.Deps{Log: log, Logger: zap.NewNop()})}
	defer b.groups.Close()
	l := newLeases(b)
	b.groups.Lead(3, 1)
	<-log.asked
	l.topicsGone(t.Context(), map[string]struct{}{"acme.orders": {}}) // or it would end here
	b.groups.Resign(3)
	l.wg.Wait()
	require.Empty(t, l.known)
}
