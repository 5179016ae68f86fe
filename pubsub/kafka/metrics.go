package kafka

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type metrics struct {
	connections prometheus.Gauge
	refused     *prometheus.CounterVec
	logins      *prometheus.CounterVec
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	received    prometheus.Counter
	sent        prometheus.Counter
	throttled   prometheus.Counter
	waits       prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, s *Server) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_topics_kafka_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bornode_topics_kafka_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "bornode_topics_kafka_connections", Help: "Open connections of Kafka clients."}),
		refused:     vec("closed_total", "Connections of Kafka clients that were refused or closed by the node, by reason.", "reason"),
		logins:      vec("logins_total", "Logins of Kafka clients, by result.", "result"),
		requests:    vec("requests_total", "Requests of Kafka clients, by request.", "request"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "bornode_topics_kafka_request_seconds", Help: "Time from a whole request to its answer being written, waiting included, by request.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 4, 9)}, []string{"request"}),
		received:  counter("received_bytes_total", "Bytes of requests of Kafka clients."),
		sent:      counter("sent_bytes_total", "Bytes of answers to Kafka clients."),
		throttled: counter("throttled_seconds_total", "Time for which clients above their quota were not read from."),
		waits:     counter("memory_waits_total", "Requests that waited because pubsub.kafka.request_memory was in use, and answers that waited for answer_memory."),
	}
	if reg != nil {
		gauge := func(name, help string, f func() float64) prometheus.Collector {
			return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "bornode_topics_kafka_" + name, Help: help}, f)
		}
		reg.MustRegister(m.connections, m.refused, m.logins, m.requests, m.seconds, m.received, m.sent, m.throttled, m.waits,
			gauge("request_memory_bytes", "Memory of requests on their way.", func() float64 { return float64(s.requests.inUse(int64(s.cfg.RequestMemory))) }),
			gauge("answer_memory_bytes", "Memory of records on their way to clients.", func() float64 { return float64(s.answers.inUse(int64(s.cfg.AnswerMemory))) }))
	}
	return m
}

// apiName is the label of a request; what is not in the table is one label, so that clients cannot make new ones.
func (t *table) apiName(key int16) string {
	if _, ok := t.versions[key]; !ok {
		return "other"
	}
	return kmsg.NameForKey(key)
}
