package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Part makes the metrics of a part, named bornode_<part>_<name>, and registers them; a nil registry makes them alone.
// Unlike promauto it does not panic where a name is taken: Err says so, for libraries that others may open twice.
type Part struct {
	reg  prometheus.Registerer
	part string
	errs []error
}

// New begins the metrics of a part.
func New(reg prometheus.Registerer, part string) *Part { return &Part{reg: reg, part: part} }

// Err is what registering found wrong.
func (m *Part) Err() error { return errors.Join(m.errs...) }

// Register registers a metric that was made elsewhere.
func (m *Part) Register(c prometheus.Collector) {
	if m.reg != nil {
		m.errs = append(m.errs, m.reg.Register(c))
	}
}

// Opts names a metric of the part.
func (m *Part) Opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "bornode", Subsystem: m.part, Name: name, Help: help}
}

// Counter makes a counter.
func (m *Part) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts(m.Opts(name, help)))
	m.Register(c)
	return c
}

// CounterVec makes counters told apart by labels.
func (m *Part) CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts(m.Opts(name, help)), labels)
	m.Register(c)
	return c
}

// Gauge makes a gauge.
func (m *Part) Gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts(m.Opts(name, help)))
	m.Register(g)
	return g
}
