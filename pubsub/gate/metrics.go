package gate

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	meters "github.com/bornode/bornode/internal/metrics"
	"github.com/bornode/bornode/pubsub/seal"
)

// metrics are the engine's figures. Nothing in them names a topic, a client or a key.
type metrics struct {
	connections, pending              prometheus.Gauge
	requests, failures                *prometheus.CounterVec
	sealed, opened, repeated, refused prometheus.Counter
	proved                            prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	f := meters.New(reg, "topics_gate")
	m := &metrics{
		connections: f.Gauge("connections", "Connections of clients, each with one to a broker."),
		pending:     f.Gauge("unproved_batches", "Delivered batches that no checkpoint on the chain binds yet."),
		requests:    f.CounterVec("requests_total", "Requests of clients, by kind.", "request"),
		failures:    f.CounterVec("failures_total", "What brokers served or refused that was told as an error, by kind: tampered, disputed, unproved, no_key, downgrade, login, unreachable, other.", "kind"),
		sealed:      f.Counter("sealed_batches_total", "Batches that were encrypted."),
		opened:      f.Counter("opened_batches_total", "Batches that were decrypted."),
		repeated:    f.Counter("repeated_batches_total", "Batches that stood in a partition twice and were shown once."),
		refused:     f.Counter("refused_batches_total", "Batches that were not sent, for want of a key or of an answer from the chain."),
		proved:      f.Counter("proved_batches_total", "Delivered batches that a checkpoint on the chain was found to bind."),
	}
	return m, f.Err()
}

// failed counts a failure by its kind.
func (m *metrics) failed(err error) {
	var tampered *TamperError
	var none *seal.NoKeyError
	var down *DowngradeError
	var disputed *DisputedError
	var unproved *UnprovedError
	kind := "other"
	switch {
	case errors.As(err, &tampered):
		kind = "tampered"
	case errors.As(err, &unproved):
		kind = "unproved"
	case errors.As(err, &disputed):
		kind = "disputed"
	case errors.As(err, &down):
		kind = "downgrade"
	case errors.As(err, &none), errors.Is(err, seal.ErrSealed):
		kind = "no_key"
	case errors.Is(err, ErrLogin), errors.Is(err, ErrToken):
		kind = "login"
	}
	m.failures.WithLabelValues(kind).Inc()
}
