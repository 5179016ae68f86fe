package link

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bornode/bornode/transport"
)

// metrics count all links of a host.
type metrics struct {
	peers            prometheus.Gauge
	resent           prometheus.Counter
	duplicates       prometheus.Counter
	reconnects       prometheus.Counter
	sentBytes        [transport.Lanes]prometheus.Counter
	sentMessages     [transport.Lanes]prometheus.Counter
	receivedBytes    [transport.Lanes]prometheus.Counter
	receivedMessages [transport.Lanes]prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"lane"})
	}
	sentBytes := vec("bornode_link_sent_bytes_total", "Payload bytes sent, without resends.")
	sentMessages := vec("bornode_link_sent_messages_total", "Messages sent.")
	receivedBytes := vec("bornode_link_received_bytes_total", "Payload bytes received, without duplicates.")
	receivedMessages := vec("bornode_link_received_messages_total", "Messages received.")
	m := &metrics{
		peers:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "bornode_link_peers", Help: "Links that exist now."}),
		resent:     counter("bornode_link_resent_frames_total", "Frames sent again after a change of connection."),
		duplicates: counter("bornode_link_duplicate_frames_total", "Frames received again and dropped."),
		reconnects: counter("bornode_link_reconnects_total", "Links continued over another connection."),
	}
	for i := range m.sentBytes {
		name := transport.Lane(i).String()
		m.sentBytes[i] = sentBytes.WithLabelValues(name)
		m.sentMessages[i] = sentMessages.WithLabelValues(name)
		m.receivedBytes[i] = receivedBytes.WithLabelValues(name)
		m.receivedMessages[i] = receivedMessages.WithLabelValues(name)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.peers, m.resent, m.duplicates, m.reconnects, sentBytes, sentMessages, receivedBytes, receivedMessages} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// sent and received bring the counters of lanes up to what a link has counted; shown is what they know of it. They are
// called once for several frames: a counter costs about as much as taking a small frame.
func (m *metrics) sent(now, shown *transport.Stats) {
	for i := range now.Lanes {
		n, s := &now.Lanes[i], &shown.Lanes[i]
		if n.BytesSent != s.BytesSent || n.MessagesSent != s.MessagesSent {
			m.sentBytes[i].Add(float64(n.BytesSent - s.BytesSent))
			m.sentMessages[i].Add(float64(n.MessagesSent - s.MessagesSent))
			s.BytesSent, s.MessagesSent = n.BytesSent, n.MessagesSent
		}
	}
}

func (m *metrics) received(now, shown *transport.Stats) {
	for i := range now.Lanes {
		n, s := &now.Lanes[i], &shown.Lanes[i]
		if n.BytesReceived != s.BytesReceived || n.MessagesReceived != s.MessagesReceived {
			m.receivedBytes[i].Add(float64(n.BytesReceived - s.BytesReceived))
			m.receivedMessages[i].Add(float64(n.MessagesReceived - s.MessagesReceived))
			s.BytesReceived, s.MessagesReceived = n.BytesReceived, n.MessagesReceived
		}
	}
}
