package pubsub

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// none is Kafka's code for success.
const none int16 = 0

// code is the one table from errors of the parts to Kafka's.
func code(err error) int16 {
	var k *kerr.Error
	switch {
	case err == nil:
		return none
	case errors.As(err, &k):
		return k.Code
	case errors.Is(err, replica.ErrNotLeader), errors.Is(err, replica.ErrNotReady), errors.Is(err, store.ErrFenced):
		return kerr.NotLeaderForPartition.Code
	case errors.Is(err, replica.ErrNoQuorum), errors.Is(err, store.ErrProducers):
		return kerr.NotEnoughReplicas.Code
	case errors.Is(err, replica.ErrNoQuorumAfter):
		return kerr.NotEnoughReplicasAfterAppend.Code
	case errors.Is(err, replica.ErrTooLarge):
		return kerr.MessageTooLarge.Code
	case errors.Is(err, replica.ErrBatch):
		return kerr.InvalidRecord.Code
	case errors.Is(err, replica.ErrBusy):
		return kerr.ThrottlingQuotaExceeded.Code
	case errors.Is(err, store.ErrOutOfOrder):
		return kerr.OutOfOrderSequenceNumber.Code
	case errors.Is(err, store.ErrProducerFenced):
		return kerr.InvalidProducerEpoch.Code
	case errors.Is(err, store.ErrOutOfRange):
		return kerr.OffsetOutOfRange.Code
	case errors.Is(err, batch.ErrCorrupt):
		return kerr.CorruptMessage.Code
	case errors.Is(err, batch.ErrRecords):
		return kerr.InvalidRecord.Code
	case errors.Is(err, batch.ErrCodec):
		return kerr.UnsupportedCompressionType.Code
	case errors.Is(err, batch.ErrUnpacked):
		return kerr.MessageTooLarge.Code
	case errors.Is(err, batch.ErrTime):
		return kerr.InvalidTimestamp.Code
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return kerr.RequestTimedOut.Code
	}
	return kerr.KafkaStorageError.Code // a full, failed or lost disk among them; clients look for another leader and try again
}

func text(s string) *string { return &s }
