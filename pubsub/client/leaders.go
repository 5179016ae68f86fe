package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// NoLeaderError names the partitions of a topic that no broker leads, or whose leader does not answer: nothing of them can be read,
// and nothing be written to them.
type NoLeaderError struct {
	Topic      string
	Partitions []int32 // rising
	Cause      error   // the brokers' word about the first one
}

func (e *NoLeaderError) Error() string {
	numbers := make([]string, len(e.Partitions))
	for i, p := range e.Partitions {
		numbers[i] = fmt.Sprint(p)
	}
	word, has := "partition", "has"
	if len(numbers) > 1 {
		word, has = "partitions", "have"
	}
	return fmt.Sprintf("%s %s of topic %s %s no leader (%v)", word, strings.Join(numbers, ", "), e.Topic, has, e.Cause)
}

func (e *NoLeaderError) Unwrap() error { return e.Cause }

// CheckLeaders asks the brokers who leads the topic's partitions, and each of those whether it does; it takes LeaderTime at most. The
// error is a *NoLeaderError when one does not, another one when no broker could be asked. A new leader is there within seconds where a
// majority of the replicas lives: ask again before giving up.
func (p *Producer) CheckLeaders(ctx context.Context, topic string) error {
	return checkLeaders(ctx, p.kafka, topic)
}

// CheckLeaders is Producer.CheckLeaders.
func (x *Consumer) CheckLeaders(ctx context.Context, topic string) error {
	return checkLeaders(ctx, x.kafka, topic)
}

func checkLeaders(ctx context.Context, k *kgo.Client, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, LeaderTime)
	defer cancel()
	led, without, err := askLeaders(ctx, k, topic)
	if err != nil {
		return fmt.Errorf("asking who leads topic %s: %w", topic, err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for leader, partitions := range led {
		wg.Go(func() {
			for p, err := range askLed(ctx, k, leader, topic, partitions) {
				mu.Lock()
				without[p] = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(without) == 0 {
		return nil
	}
	e := &NoLeaderError{Topic: topic}
	for p := range without {
		e.Partitions = append(e.Partitions, p)
	}
	slices.Sort(e.Partitions)
	e.Cause = without[e.Partitions[0]]
	return e
}

// askLeaders asks any broker: which partitions each leader has, and why the others have none.
func askLeaders(ctx context.Context, k *kgo.Client, topic string) (led map[int32][]int32, without map[int32]error, err error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, k)
	if err != nil {
		return nil, nil, err
	}
	led, without = map[int32][]int32{}, map[int32]error{}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, nil, err
		}
		for _, p := range t.Partitions {
			if p.Leader < 0 {
				without[p.Partition] = kerr.LeaderNotAvailable
				continue
			}
			led[p.Leader] = append(led[p.Leader], p.Partition)
		}
	}
	return led, without, nil
}

// askLed asks a broker for the ends of partitions, which their leader alone tells. It gives those that it does not lead.
func askLed(ctx context.Context, k *kgo.Client, leader int32, topic string, partitions []int32) map[int32]error {
	const latest = -1
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, p := range partitions {
		x := kmsg.NewListOffsetsRequestTopicPartition()
		x.Partition, x.CurrentLeaderEpoch, x.Timestamp = p, -1, latest
		t.Partitions = append(t.Partitions, x)
	}
	req.Topics = append(req.Topics, t)
	without := map[int32]error{}
	answer, err := k.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		for _, p := range partitions {
			without[p] = fmt.Errorf("broker %d is to lead it and does not answer: %w", leader, err)
		}
		return without
	}
	for _, t := range answer.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); isLeaderless(err) {
				without[p.Partition] = err
			}
		}
	}
	return without
}

// isLeaderless tells whether a broker's answer means that it does not lead the partition, or cannot.
func isLeaderless(err error) bool {
	return slices.ContainsFunc([]error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.KafkaStorageError, kerr.ReplicaNotAvailable, kerr.BrokerNotAvailable},
		func(e error) bool { return errors.Is(err, e) })
}
