package blockstore

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	commits   prometheus.Counter
	grouped   prometheus.Counter
	seconds   prometheus.Histogram
	appended  prometheus.Counter
	corrupt   prometheus.Counter
	cacheHits prometheus.Counter
	cacheMiss prometheus.Counter

	repairWaits, repairWaitsFailed prometheus.Counter

	derivedReplaced prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "bornode_blockstore_" + name, Help: help})
	}
	gauge := func(name, help string, v func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: "bornode_blockstore_" + name, Help: help}, v)
	}
	gauge("lib_height", "Height of the last irreversible block.", func() float64 { h, _ := s.LIB(); return float64(h) })
	gauge("first_height", "Lowest height kept.", func() float64 { return float64(s.FirstHeight()) })
	gauge("reversible_blocks", "Reversible blocks kept.", func() float64 {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return float64(len(s.rev))
	})
	gauge("segments", "Segment files, the active one included.", func() float64 { return float64(len(s.Segments())) })
	gauge("failed_state", "1 after a failed write: the store takes no more writes.", func() float64 {
		if s.gate.check() != nil {
			return 1
		}
		return 0
	})
	gauge("damaged_blocks", "Irreversible blocks known to be damaged that are not fetched again yet.", func() float64 { return float64(len(s.Damaged())) })
	gauge("missing_receipts", "Irreversible blocks whose receipts are missing, cannot be made again, and are not fetched from a peer yet.", func() float64 { return float64(len(s.LostReceipts())) })
	gauge("repair_waiting_readers", "Readers that wait for a damaged block, or receipts that are missing, to be fetched again.", func() float64 { return float64(s.damaged.waitingReaders() + s.receiptless.waitingReaders()) })
	return &metrics{
		repairWaits:       counter("repair_waits_total", "Waits of readers for a damaged block, or receipts that are missing, to be fetched again."),
		derivedReplaced:   counter("derived_replaced_total", "Damaged databases of derived data that were set aside and begun anew while the node ran."),
		repairWaitsFailed: counter("repair_waits_failed_total", "Reads that met a damaged block, or receipts that are missing, and could not wait until they were whole: no peer has them, it took too long, or too many waited."),
		commits:           counter("commits_total", "Groups of operations made durable by one sync."),
		grouped:           counter("operations_total", "Operations made durable."),
		appended:          counter("appended_bytes", "Bytes appended to segments."),
		corrupt:           counter("corrupt_reads_total", "Reads that met a damaged record."),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "bornode_blockstore_commit_seconds", Help: "Time to make one group durable.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		cacheHits: counter("cache_hits_total", "Blocks answered from the cache of decoded blocks."),
		cacheMiss: counter("cache_misses_total", "Blocks read and decoded."),
	}
}
