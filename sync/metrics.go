package blocksync

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what the manager does. Labels are bounded: message kinds, verdicts and reasons.
type metrics struct {
	sent, received  *prometheus.CounterVec
	drops, dups     *prometheus.CounterVec
	headers, blocks *prometheus.CounterVec
	timeouts        *prometheus.CounterVec
	servedBlocks    prometheus.Counter
	servedBytes     prometheus.Counter
	rangeBlocks     prometheus.Counter
	rangeBytes      prometheus.Counter
	pulledBlocks    prometheus.Counter
	pulledBytes     prometheus.Counter
	fallbacks       prometheus.Counter
	repairs         prometheus.Counter
	receipts        prometheus.Counter
	stateNow        prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bornode_blocksync_" + name, Help: help}, []string{label})
	}
	one := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_blocksync_" + name, Help: help})
	}
	m := &metrics{
		sent:         vec("go_away_sent_total", "Peers sent away, by reason.", "reason"),
		received:     vec("go_away_received_total", "Peers that sent this node away, by reason.", "reason"),
		drops:        vec("dropped_total", "Items dropped because a queue was full or they came too late, by kind.", "kind"),
		dups:         vec("duplicates_total", "Useless duplicates received, by kind.", "kind"),
		headers:      vec("headers_checked_total", "Headers of live blocks checked, by verdict.", "verdict"),
		blocks:       vec("blocks_added_total", "Live and requested blocks given to consensus, by verdict.", "verdict"),
		timeouts:     vec("timeouts_total", "Requests that brought nothing in time, by kind.", "kind"),
		servedBlocks: one("served_blocks_total", "Blocks served for requests."),
		servedBytes:  one("served_bytes_total", "Bytes of blocks served for requests."),
		rangeBlocks:  one("range_blocks_total", "Blocks received in ranges."),
		rangeBytes:   one("range_bytes_total", "Bytes of blocks received in ranges."),
		pulledBlocks: one("pulled_blocks_total", "Blocks of ranges read from peers' windows."),
		pulledBytes:  one("pulled_bytes_total", "Bytes of blocks of ranges read from peers' windows."),
		fallbacks:    one("pull_fallbacks_total", "Ranges, or rests of them, asked for by message because the peer's window could not be read."),
		repairs:      one("repaired_blocks_total", "Corrupt records replaced by a peer's block."),
		receipts:     one("fetched_receipts_total", "Blocks whose missing receipts were fetched from a peer."),
		stateNow:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "bornode_blocksync_state_number", Help: "0 in_sync, 1 lib_catchup, 2 head_catchup."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.sent, m.received, m.drops, m.dups, m.headers, m.blocks, m.timeouts,
		m.servedBlocks, m.servedBytes, m.rangeBlocks, m.rangeBytes,
		m.pulledBlocks, m.pulledBytes, m.fallbacks, m.repairs, m.receipts, m.stateNow} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

var verdictNames = [...]string{"ok", "invalid", "unknown_parent", "known", "future", "irrelevant", "overloaded"}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "other"
}

func (m *metrics) goAway(r Reason) { m.sent.WithLabelValues(r.String()).Inc() }

func (m *metrics) goneAway(r Reason) {
	if int(r) >= len(reasonNames) {
		r = NoReason // a peer's number must not make labels
	}
	m.received.WithLabelValues(r.String()).Inc()
}

func (m *metrics) dropped(kind string)   { m.drops.WithLabelValues(kind).Inc() }
func (m *metrics) duplicate(kind string) { m.dups.WithLabelValues(kind).Inc() }
func (m *metrics) header(v Verdict)      { m.headers.WithLabelValues(v.String()).Inc() }
func (m *metrics) block(v Verdict)       { m.blocks.WithLabelValues(v.String()).Inc() }
func (m *metrics) timeout(kind string)   { m.timeouts.WithLabelValues(kind).Inc() }
func (m *metrics) repaired()             { m.repairs.Inc() }
func (m *metrics) receiptsFetched()      { m.receipts.Inc() }
func (m *metrics) state(s State)         { m.stateNow.Set(float64(s)) }
func (m *metrics) served(bytes int)      { m.servedBlocks.Inc(); m.servedBytes.Add(float64(bytes)) }
func (m *metrics) pulled(bytes int)      { m.pulledBlocks.Inc(); m.pulledBytes.Add(float64(bytes)) }
func (m *metrics) fellBack()             { m.fallbacks.Inc() }
func (m *metrics) ranged(bytes int)      { m.rangeBlocks.Inc(); m.rangeBytes.Add(float64(bytes)) }
