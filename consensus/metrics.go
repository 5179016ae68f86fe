package consensus

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	meters "github.com/bornode/bornode/internal/metrics"
)

type metrics struct {
	headHeight, libHeight, justifiedSlot, reversible prometheus.Gauge
	silent, stalled, unheard, awaitsRepair           prometheus.Gauge
	produced, missed, failed                         prometheus.Counter
	votes                                            *prometheus.CounterVec // kind
	tallies                                          *prometheus.CounterVec // result
	badVotes, evidence                               prometheus.Counter
	aggregates, seals                                prometheus.Counter
	voteChecks                                       prometheus.Counter
	judged                                           *prometheus.CounterVec // verdict
	silence                                          *prometheus.GaugeVec   // cause
	silentSince                                      prometheus.Gauge
	finality, logSync                                prometheus.Histogram
	rangeBlocks                                      *prometheus.CounterVec // mode
	rangeRate                                        prometheus.Gauge
	entered                                          prometheus.Counter
	clockOffset, networkOffset, knownClocks          prometheus.Gauge
	forks                                            prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	f := meters.New(reg, "consensus")
	histogram := func(name, help string, first, factor float64, count int) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "bornode", Subsystem: "consensus", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(first, factor, count)})
		f.Register(h)
		return h
	}
	silence := prometheus.NewGaugeVec(prometheus.GaugeOpts(f.Opts("signer_silence_state", "1 for the cause why the signer casts no vote, 0 for the others")), []string{"cause"})
	f.Register(silence)
	m := &metrics{
		headHeight:    f.Gauge("head_height_blocks", "height of the preferred head"),
		libHeight:     f.Gauge("lib_height_blocks", "height of the last irreversible block"),
		justifiedSlot: f.Gauge("justified_slot_slots", "slot of the newest justified block"),
		reversible:    f.Gauge("reversible_depth_blocks", "preferred head minus last irreversible block"),
		silent:        f.Gauge("signer_silent_state", "1 while the signer waits for proof that it signs nothing twice"),
		unheard:       f.Gauge("signer_missing_answers", "producers that have yet to tell, after this start, what they hold of the signer's votes"),
		silentSince:   f.Gauge("signer_silent_since_seconds", "Unix time since which the signer casts no vote; 0: it casts votes"),
		silence:       silence,
		stalled:       f.Gauge("stalled_state", "1 while production is slowed since nothing becomes final"),
		awaitsRepair:  f.Gauge("awaits_repair_state", "1 while execution waits for a damaged block that is fetched again from a peer"),
		produced:      f.Counter("produced_blocks", "blocks this node produced"),
		missed:        f.Counter("missed_slots", "own slots in which no block was produced"),
		failed:        f.Counter("failed_blocks", "blocks that failed execution"),
		votes:         f.CounterVec("sent_votes", "own votes sent", "kind"),
		tallies:       f.CounterVec("tallies_total", "quorums of votes verified", "result"),
		badVotes:      f.Counter("bad_votes", "votes whose signature was wrong"),
		evidence:      f.Counter("evidence_total", "provable faults seen"),
		aggregates:    f.Counter("aggregate_checks_total", "aggregate signatures verified, own tallies not counted"),
		voteChecks:    f.Counter("vote_checks_total", "pairings made to verify votes, one for all votes on a link that wait together"),
		judged:        f.CounterVec("received_votes_total", "votes of peers, by what they were worth", "verdict"),
		seals:         f.Counter("seal_checks_total", "block seals verified"),
		finality:      histogram("finality_latency_seconds", "start of a block's slot until it is final here", 0.002, 1.4, 28),
		logSync:       histogram("votelog_sync_seconds", "one write and fsync of the vote log", 0.0001, 2, 14),
		rangeBlocks:   f.CounterVec("range_blocks", "blocks imported in ranges", "mode"),
		rangeRate:     f.Gauge("range_rate_blocks_per_second", "rate of the newest range import"),
		entered:       f.Counter("entered_blocks", "headers that entered the tree"),
	}
	m.forks = f.Gauge("fork_alarms", "evidence that a quorum signed a block of another history as final: this node signs nothing then, unless a recovery undid that history")
	clocks := meters.New(reg, "clock")
	m.clockOffset = clocks.Gauge("offset_seconds", "this machine's clock minus the median of the producers' clocks; 0 while too few of them are known")
	m.networkOffset = clocks.Gauge("network_offset_seconds", "the network's time minus the median of the producers' clocks, which it follows by 1 ms per second; 0 while too few of them are known")
	m.knownClocks = clocks.Gauge("known_producers", "producers whose clocks are known, the own included, of the schedule that lacks most")
	if err := errors.Join(f.Err(), clocks.Err()); err != nil {
		return nil, fmt.Errorf("register metrics of consensus: %w", err)
	}
	return m, nil
}

// showClocks shows how far this machine's clock is off.
func (m *metrics) showClocks(r *timeReading) {
	m.knownClocks.Set(float64(r.Clocks.Known))
	if r.Clocks.Enough {
		m.clockOffset.Set((r.Wall - r.Mono - r.Clocks.Offset).Seconds())
		m.networkOffset.Set((r.Now - r.Mono - r.Clocks.Offset).Seconds())
	} else {
		m.clockOffset.Set(0)
		m.networkOffset.Set(0)
	}
}
