package evidence

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	leaves, checkpoints, compared, alarms prometheus.Counter
	operations, entries, coarse, held     prometheus.Counter
	commits, commitErrors                 prometheus.Counter
	receipts, signatures, receiptsMissed  prometheus.Counter
	queued, off                           prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "bornode_topics_evidence_" + name, Help: help})
	}
	return &metrics{
		leaves:         counter("leaves_total", "Batches added to the trees of partitions."),
		checkpoints:    counter("checkpoints_total", "Checkpoints queued for the chain."),
		compared:       counter("compared_total", "Final checkpoints that agreed with the trees here."),
		alarms:         counter("alarms_total", "Differences between checkpoints and the trees here."),
		operations:     counter("operations_total", "Operations of clients recorded."),
		entries:        counter("entries_total", "Entries of the operations log that they became."),
		coarse:         counter("coarse_windows_total", "Windows that were folded over partitions and hosts for want of room."),
		held:           counter("held_total", "Requests that waited because the operations log has no room."),
		commits:        counter("commits_total", "Commits that became final."),
		commitErrors:   counter("commit_errors_total", "Tries of commits that failed."),
		receipts:       counter("receipts_total", "Receipts given."),
		signatures:     counter("receipt_signatures_total", "Signatures made for receipts."),
		receiptsMissed: counter("receipts_missed_total", "Answers that went out without a receipt."),
		queued:         f.NewGauge(prometheus.GaugeOpts{Name: "bornode_topics_evidence_queued_operations", Help: "Entries that wait for a commit."}),
		off:            f.NewGauge(prometheus.GaugeOpts{Name: "bornode_topics_evidence_off", Help: "1: evidence is off for measuring; nothing can be proved."}),
	}
}
