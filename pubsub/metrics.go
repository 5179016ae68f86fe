package pubsub

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type metrics struct {
	bytesIn, bytesOut, recordsIn, throttled prometheus.Counter
	offsetsLeft                             prometheus.Counter
	operations, failed, claimed, moved      *prometheus.CounterVec
	partitions, leading                     prometheus.Gauge
	handled                                 *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	var errs []error
	register := func(c prometheus.Collector) {
		if reg != nil {
			errs = append(errs, reg.Register(c))
		}
	}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "bornode", Subsystem: "topics_broker", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
		register(c)
		return c
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
		register(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts(opts(name, help)))
		register(g)
		return g
	}
	m := &metrics{
		bytesIn:     counter("produced_bytes_total", "bytes of batches that clients sent"),
		bytesOut:    counter("fetched_bytes_total", "bytes of batches that clients got"),
		recordsIn:   counter("produced_records_total", "records that clients sent and the log took"),
		throttled:   counter("throttled_seconds_total", "time that connections were held back for their tenants' quotas"),
		offsetsLeft: counter("offsets_left_out_total", "committed offsets that did not go to the ledger since too many waited; brokers keep them all the same"),
		operations:  vec("operations_total", "operations of clients on topics by kind and result: allowed, refused", "operation", "result"),
		failed:      vec("failed_total", "partitions of produce and fetch that got an error, by Kafka's name of it", "request", "error"),
		claimed:     vec("claims_total", "partitions whose lease this broker claimed after their leader was lost, by result: sent, refused", "result"),
		moved:       vec("replica_changes_total", "changes of the replicas of partitions that this broker led, by kind: added, removed, handed over, failed", "kind"),
		partitions:  gauge("partitions_count", "partitions that this broker keeps a copy of"),
		leading:     gauge("leading_count", "partitions that this broker leads"),
		handled: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "bornode", Subsystem: "topics_broker", Name: "request_seconds",
			Help: "time to judge and order a request, without waiting for replicas or records", Buckets: prometheus.ExponentialBuckets(1e-5, 4, 8)}, []string{"request"}),
	}
	register(m.handled)
	m.handled.WithLabelValues("Metadata") // a histogram shows itself by a value only
	return m, errors.Join(errs...)
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
