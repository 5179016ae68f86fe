package rdma

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// register shows the device's counters on reg, read when they are asked for.
func register(d *Device, reg prometheus.Registerer) (unregister func(), err error) {
	if reg == nil {
		return func() {}, nil
	}
	c := &collector{d: d}
	label := prometheus.Labels{"provider": d.caps.Provider}
	for _, m := range deviceMetrics {
		c.descs = append(c.descs, prometheus.NewDesc(m.name, m.help, nil, label))
	}
	if err := reg.Register(c); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return func() { reg.Unregister(c) }, nil
}

// deviceMetrics are what a device shows.
var deviceMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*DeviceStats) float64
}{
	{"bornode_rdma_channels", "Channels that exist now.", prometheus.GaugeValue, func(s *DeviceStats) float64 { return float64(s.Channels) }},
	{"bornode_rdma_channels_opened_total", "Channels made.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.Opened) }},
	{"bornode_rdma_channels_broken_total", "Channels that ended by a failure.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.Broken) }},
	{"bornode_rdma_protocol_errors_total", "Channels whose peer broke the protocol.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.ProtocolErrors) }},
	{"bornode_rdma_registrations_total", "Memory regions registered; none while channels only carry frames.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.Registrations) }},
	{"bornode_rdma_window_registrations_total", "Memory registered for windows: the copy of history, and each peer that reads it.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.WindowRegistrations) }},
	{"bornode_rdma_window_bytes", "Registered copy of history that peers read.", prometheus.GaugeValue, func(s *DeviceStats) float64 { return float64(s.WindowBytes) }},
	{"bornode_rdma_window_loads_total", "Chunks of history brought into the copy.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.WindowLoads) }},
	{"bornode_rdma_pool_bytes", "Registered memory.", prometheus.GaugeValue, func(s *DeviceStats) float64 { return float64(s.PoolBytes) }},
	{"bornode_rdma_pool_used_bytes", "Registered memory in use.", prometheus.GaugeValue, func(s *DeviceStats) float64 { return float64(s.PoolUsed) }},
	{"bornode_rdma_pool_waits_total", "Times a channel waited for registered memory.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.PoolWaits) }},
	{"bornode_rdma_polls_total", "Polls of the completion queue that found something.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.Polls) }},
	{"bornode_rdma_completions_total", "Completions taken.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.Completions) }},
	{"bornode_rdma_arms_total", "Times an event of the completion queue was asked for.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.Arms) }},
	{"bornode_rdma_wakeups_total", "Times an event woke the poller.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.Wakeups) }},
	{"bornode_rdma_reader_wakeups_total", "Times a sleeping reader or writer of a channel was woken.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.ReaderWakeups) }},
	{"bornode_rdma_guard_ticks_total", "Times the guard looked after an unarmed completion queue.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.GuardTicks) }},
	{"bornode_rdma_rescued_total", "Completions whose event never came; must stay 0.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.Rescued) }},
	{"bornode_rdma_stale_total", "Completions of queue pairs that are gone.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.Stale) }},
	{"bornode_rdma_rnr_total", "Queue pairs that broke for want of a receive entry; must stay 0.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.RNR) }},
	{"bornode_rdma_cq_overruns_total", "Overruns of the completion queue; must stay 0.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.CQOverruns) }},
	{"bornode_rdma_srq_low_total", "Times the shared receive queue ran low.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.SRQLow) }},
	{"bornode_rdma_srq_lost_total", "Receive entries swallowed by closed queue pairs, and posted again.", prometheus.CounterValue, func(s *DeviceStats) float64 { return float64(s.SRQLost) }},
}

// collector implements prometheus.Collector.
type collector struct {
	d     *Device
	descs []*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.d.Stats()
	for i, m := range deviceMetrics {
		out <- prometheus.MustNewConstMetric(c.descs[i], m.kind, m.value(&s))
	}
}
