package detect

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count over all peers, by provider.
type metrics struct {
	reg      prometheus.Registerer
	links    *prometheus.GaugeVec
	moved    *prometheus.CounterVec
	failed   *prometheus.CounterVec
	fallback *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"provider"})
	}
	m := &metrics{
		reg:      reg,
		links:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "bornode_rdma_links", Help: "Links carried by shared memory or RDMA now."}, []string{"provider"}),
		moved:    counter("bornode_rdma_upgrades_total", "Times a link moved from tcp to a faster provider."),
		failed:   counter("bornode_rdma_failed_attempts_total", "Attempts to move a link that failed before it moved."),
		fallback: counter("bornode_rdma_fallbacks_total", "Times a link went back to tcp because the faster provider failed."),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range m.collectors() {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("rdma: registering metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.links, m.moved, m.failed, m.fallback}
}

func (m *metrics) unregister() {
	if m.reg == nil {
		return
	}
	for _, c := range m.collectors() {
		m.reg.Unregister(c)
	}
}
