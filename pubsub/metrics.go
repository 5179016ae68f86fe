package pubsub

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	meters "github.com/bornode/bornode/internal/metrics"
)

type metrics struct {
	bytesIn, bytesOut, recordsIn, throttled prometheus.Counter
	offsetsLeft                             prometheus.Counter
	operations, failed, claimed, moved      *prometheus.CounterVec
	partitions, leading                     prometheus.Gauge
	handled                                 *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	f := meters.New(reg, "topics_broker")
	m := &metrics{
		bytesIn:     f.Counter("produced_bytes_total", "bytes of batches that clients sent"),
		bytesOut:    f.Counter("fetched_bytes_total", "bytes of batches that clients got"),
		recordsIn:   f.Counter("produced_records_total", "records that clients sent and the log took"),
		throttled:   f.Counter("throttled_seconds_total", "time that connections were held back for their tenants' quotas"),
		offsetsLeft: f.Counter("offsets_left_out_total", "committed offsets that did not go to the ledger since too many waited; brokers keep them all the same"),
		operations:  f.CounterVec("operations_total", "operations of clients on topics by kind and result: allowed, refused", "operation", "result"),
		failed:      f.CounterVec("failed_total", "partitions of produce and fetch that got an error, by Kafka's name of it", "request", "error"),
		claimed:     f.CounterVec("claims_total", "partitions whose lease this broker claimed after their leader was lost, by result: sent, refused", "result"),
		moved:       f.CounterVec("replica_changes_total", "changes of the replicas of partitions that this broker led, by kind: added, removed, handed over, failed", "kind"),
		partitions:  f.Gauge("partitions_count", "partitions that this broker keeps a copy of"),
		leading:     f.Gauge("leading_count", "partitions that this broker leads"),
		handled: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "bornode", Subsystem: "topics_broker", Name: "request_seconds",
			Help: "time to judge and order a request, without waiting for replicas or records", Buckets: prometheus.ExponentialBuckets(1e-5, 4, 8)}, []string{"request"}),
	}
	f.Register(m.handled)
	m.handled.WithLabelValues("Metadata") // a histogram shows itself by a value only
	return m, f.Err()
}

// codeName is Kafka's name of an error.
func codeName(c int16) string {
	if e := kerr.TypedErrorForCode(c); e != nil {
		return e.Message
	}
	return strconv.Itoa(int(c))
}

// operationName is Kafka's name of an operation.
func operationName(op uint8) string { return kmsg.ACLOperation(op).String() } //nolint:gosec // small
