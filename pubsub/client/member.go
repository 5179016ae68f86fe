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
)

// ErrRebalanced is wrapped by errors of commits about what the group has given to another member, or to the same one anew,
// since Records returned it: it comes again, to whoever has the partition now.
var ErrRebalanced = errors.New("the group was divided anew before the commit")

// ErrNotJoined is wrapped by errors of Records that ended while the consumer was no member of its group.
var ErrNotJoined = errors.New("not a member of the group")

// membership is what a member of a group knows of itself. The Consumer's lock guards it.
type membership struct {
	returned map[partitionKey]int64 // by Records and not committed: the offset after the last one
	lost     error                  // why the last session ended
	id       string                 // who it was then
	session  int32
}

// passing tells whether what failed may succeed when it is tried again: a broker died or is not there yet, the
// coordinator moved.
func passing(err error) bool {
	if errors.Is(err, ErrLogin) || errors.Is(err, ErrToken) {
		return false
	}
	return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) || errors.As(err, new(*net.OpError)) || errors.Is(err, io.EOF) ||
		errors.Is(err, kerr.RebalanceInProgress)
}

// expelled tells whether the group no longer knows the member.
func expelled(err error) bool {
	return errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration)
}

// rejoins tells whether err is the end of a session that franz-go follows by another: nothing that a reader could do
// something about, for what was not committed comes again.
func (x *Consumer) rejoins(err error) bool {
	var ended *kgo.ErrGroupSession
	if !errors.As(err, &ended) || !passing(ended.Err) && !expelled(ended.Err) {
		return false
	}
	id, session := x.kafka.GroupMetadata()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.member.lost, x.member.id, x.member.session = ended.Err, id, session
	return true
}

// apart tells why there is no membership at the moment; nil: there is one, or none is wanted.
func (x *Consumer) apart() error {
	id, session := x.kafka.GroupMetadata()
	x.mu.Lock()
	defer x.mu.Unlock()
	if m := &x.member; m.lost != nil && m.id == id && m.session == session {
		return fmt.Errorf("%w: %w", ErrNotJoined, m.lost)
	}
	return nil
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

// CommitProved is Commit up to what is proved: after a restart, what was returned and not proved comes again.
func (x *Consumer) CommitProved(ctx context.Context) error { return x.commit(ctx, x.Proved) }

// commit commits what was returned, of each partition up to the offset that upTo gives.
func (x *Consumer) commit(ctx context.Context, upTo func(context.Context, string, int32) (int64, error)) error {
	if !x.group {
		return errors.New("a consumer without a group has nothing to commit: keep offsets yourself")
	}
	ctx, cancel := context.WithTimeout(ctx, CommitTime)
	defer cancel()
	var taken, before error
	for {
		returned := x.returned()
		offsets := x.kafka.UncommittedOffsets()
		taken = errors.Join(taken, x.taken(returned, offsets))
		if upTo != nil {
			if err := cutOff(ctx, offsets, upTo); err != nil {
				return errors.Join(taken, err)
			}
		}
		err := x.try(ctx, offsets)
		switch {
		case err == nil:
			x.forget(returned, func(at partitionKey, next int64) bool { return offsets[at.topic][at.partition].Offset >= next })
			return taken
		case expelled(err):
			err = fmt.Errorf("%w: %w", ErrRebalanced, err)
		case passing(err) && sleep(ctx, CommitPause):
			before = err
			continue
		case ctx.Err() != nil && before != nil:
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), before)
		}
		return errors.Join(taken, fmt.Errorf("committing offsets: %w", err))
	}
}

func (x *Consumer) returned() map[partitionKey]int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.member.returned)
}

// forget drops what is done with, unless more was returned meanwhile.
func (x *Consumer) forget(returned map[partitionKey]int64, done func(partitionKey, int64) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for at, next := range returned {
		if x.member.returned[at] == next && done(at, next) {
			delete(x.member.returned, at)
		}
	}
}

// taken tells once of what was returned and is neither committed nor among the offsets that franz-go would commit: it
// forgets those of partitions that the group takes away.
func (x *Consumer) taken(returned map[partitionKey]int64, offsets map[string]map[int32]kgo.EpochOffset) error {
	committed := x.kafka.CommittedOffsets()
	var gone []error
	x.forget(returned, func(at partitionKey, next int64) bool {
		if offsets[at.topic][at.partition].Offset >= next {
			return false
		}
		if committed[at.topic][at.partition].Offset < next {
			gone = append(gone, fmt.Errorf("%w: what was read of topic %s, partition %d, before offset %d may come again",
				ErrRebalanced, at.topic, at.partition, next))
		}
		return true
	})
	return errors.Join(gone...)
}

// cutOff takes from offsets what is beyond upTo.
func cutOff(ctx context.Context, offsets map[string]map[int32]kgo.EpochOffset, upTo func(context.Context, string, int32) (int64, error)) error {
	for topic, parts := range offsets {
		for p, at := range parts {
			end, err := upTo(ctx, topic, p)
			if err != nil {
				return err
			}
			if end == 0 {
				delete(parts, p)
			} else if end < at.Offset {
				parts[p] = kgo.EpochOffset{Epoch: -1, Offset: end}
			}
		}
		if len(parts) == 0 {
			delete(offsets, topic)
		}
	}
	return nil
}

// try commits once.
func (x *Consumer) try(ctx context.Context, offsets map[string]map[int32]kgo.EpochOffset) error {
	var failed error
	x.kafka.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if resp == nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				failed = errors.Join(failed, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	})
	return failed
}

// sleep tells whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
