package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/internal/pause"
)

// ErrRebalanced is wrapped by errors of commits about what the group has given to another member, or to the same one anew,
// since Records returned it: it comes again, to whoever has the partition now.
var ErrRebalanced = errors.New("the group was divided anew before the commit")

// ErrNotJoined is wrapped by errors of Records that ended while the consumer was no member of its group.
var ErrNotJoined = errors.New("not a member of the group")

// membership is what a member of a group knows of itself. The Consumer's lock guards it.
type membership struct {
	returned map[partitionKey]int64 // by Records and not committed: the offset after the last one
	lost     error                  // why there is no session
	closed   bool
}

// sessions hears from franz-go how the group's sessions go. What is polled tells it later: the next one may have begun then.
type sessions struct{ x *Consumer }

// OnGroupManageError is the end of a session, or of an attempt to begin one.
func (s sessions) OnGroupManageError(err error) { s.set(err) }

// OnBrokerRead sees the answer that begins a session. If it refuses, OnGroupManageError comes after it.
func (s sessions) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if kmsg.Key(key) == kmsg.SyncGroup && err == nil {
		s.set(nil)
	}
}

func (s sessions) set(lost error) {
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	s.x.member.lost = lost
}

// passing tells whether what failed may succeed when it is tried again: a broker died or is not there yet, the coordinator
// moved, the group does not know the member any more, which then joins anew. What TLS refuses stays refused.
func passing(err error) bool {
	var network *net.OpError
	switch {
	case errors.Is(err, ErrLogin), errors.Is(err, ErrToken):
		return false
	case errors.As(err, &network):
		return network.Op != "remote error" && network.Op != "local error"
	}
	return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) || errors.Is(err, io.EOF) || errors.Is(err, kerr.RebalanceInProgress) ||
		errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration)
}

// rejoins tells whether err is the end of a session that franz-go follows by another: nothing that a reader could do
// something about, for what was not committed comes again.
func rejoins(err error) bool {
	var ended *kgo.ErrGroupSession
	return errors.As(err, &ended) && passing(ended.Err)
}

// apart tells why there is no membership at the moment; nil: there is one, or none is wanted.
func (x *Consumer) apart() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.member.lost == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotJoined, x.member.lost)
}

// handOver notes what Records returns.
func (x *Consumer) handOver(records []*Record) {
	if !x.group {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range records {
		at := partitionKey{r.Topic, r.Partition}
		x.member.returned[at] = max(x.member.returned[at], r.Offset+1)
	}
}

// Commit has the group remember everything that Records returned. The broker has it durable when Commit returns nil; the
// chain some seconds later. While coordinators fail and move it tries again, for at most CommitTime. What the group took
// from this member is told once, by an error that wraps ErrRebalanced: the rest is committed, and the consumer goes on.
func (x *Consumer) Commit(ctx context.Context) error { return x.commit(ctx, nil) }

// CommitProved is Commit up to what is proved: after a restart, what was returned and not proved comes again. What the
// group has committed already stays so.
func (x *Consumer) CommitProved(ctx context.Context) error { return x.commit(ctx, x.Proved) }

// limit is the offset up to which a partition may be committed.
type limit func(ctx context.Context, topic string, partition int32) (int64, error)

// offsets are by topic and partition.
type offsets map[string]map[int32]kgo.EpochOffset

func (o offsets) of(at partitionKey) int64 { return o[at.topic][at.partition].Offset }

// commit commits one after the other: of two at once the older could come last, and the group would go back.
func (x *Consumer) commit(ctx context.Context, upTo limit) error {
	if !x.group {
		return errors.New("a consumer without a group has nothing to commit: keep offsets yourself")
	}
	ctx, cancel := context.WithTimeout(ctx, CommitTime)
	defer cancel()
	select {
	case x.commits <- struct{}{}:
		defer func() { <-x.commits }()
	case <-ctx.Done():
		return fmt.Errorf("committing offsets, behind another commit: %w", context.Cause(ctx))
	}
	var taken, before error
	for {
		gone, err := x.commitOnce(ctx, upTo)
		taken = errors.Join(taken, gone)
		switch {
		case x.closed() && errors.Join(taken, err) != nil:
			return ErrClosed
		case err == nil:
			return taken
		case passing(err) && pause.For(ctx, CommitPause):
			before = err
			continue
		case ctx.Err() != nil && before != nil:
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), before)
		}
		return errors.Join(taken, fmt.Errorf("committing offsets: %w", err))
	}
}

// commitOnce also tells what the group took.
func (x *Consumer) commitOnce(ctx context.Context, upTo limit) (taken, err error) {
	m := member{x: x}
	m.id, m.generation = x.kafka.GroupMetadata() // before the offsets: they are of this session or of a newer one
	x.mu.Lock()
	returned := maps.Clone(x.member.returned)
	x.mu.Unlock()
	at := offsets(x.kafka.UncommittedOffsets())
	committed := offsets(x.kafka.CommittedOffsets())
	taken = x.taken(returned, at, committed)
	limits := []limit{func(_ context.Context, topic string, p int32) (int64, error) { // franz-go knows what is about to be returned
		return returned[partitionKey{topic, p}], nil
	}}
	if upTo != nil {
		limits = append(limits, upTo)
	}
	for _, l := range limits {
		if err := at.cutOff(ctx, committed, l); err != nil {
			return taken, err
		}
	}
	if err := m.commit(ctx, at); err != nil {
		return taken, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, next := range x.member.returned {
		if max(at.of(key), committed.of(key)) >= next {
			delete(x.member.returned, key)
		}
	}
	return taken, nil
}

func (x *Consumer) closed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.member.closed
}

// taken tells once of what was returned and is neither committed nor among the offsets that franz-go would commit: it
// forgets those of partitions that the group takes away.
func (x *Consumer) taken(returned map[partitionKey]int64, uncommitted, committed offsets) error {
	var gone []error
	x.mu.Lock()
	defer x.mu.Unlock()
	for at, next := range returned {
		if uncommitted.of(at) >= next || committed.of(at) >= next || x.member.returned[at] != next {
			continue
		}
		gone = append(gone, fmt.Errorf("%w: what was read of topic %s, partition %d, before offset %d may come again",
			ErrRebalanced, at.topic, at.partition, next))
		if again := uncommitted.of(at); again > 0 { // came again since
			x.member.returned[at] = again
		} else {
			delete(x.member.returned, at)
		}
	}
	return errors.Join(gone...)
}

// cutOff takes away what is beyond the limit; nothing goes back behind what is committed for that.
func (o offsets) cutOff(ctx context.Context, committed offsets, upTo limit) error {
	for topic, parts := range o {
		for p, at := range parts {
			end, err := upTo(ctx, topic, p)
			switch {
			case err != nil:
				return err
			case end >= at.Offset:
			case end <= committed.of(partitionKey{topic, p}):
				delete(parts, p)
			default:
				parts[p] = kgo.EpochOffset{Epoch: -1, Offset: end}
			}
		}
		if len(parts) == 0 {
			delete(o, topic)
		}
	}
	return nil
}

// member is who a consumer is in one session.
type member struct {
	x          *Consumer
	id         string
	generation int32
}

// commit tries once. franz-go waits for a division that is under way and would commit as a member of the next session,
// also what others have then: that is refused here.
func (m member) commit(ctx context.Context, at offsets) error {
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		if req.MemberID != m.id || req.Generation != m.generation {
			return kerr.RebalanceInProgress
		}
		return nil
	})
	var failed error
	m.x.kafka.CommitOffsetsSync(ctx, at, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if err != nil || resp == nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				err := kerr.ErrorForCode(p.ErrorCode)
				if err != nil && (failed == nil || !passing(err)) { // what does not pass is told
					failed = fmt.Errorf("topic %s, partition %d: %w", t.Topic, p.Partition, err)
				}
			}
		}
	})
	return failed
}
