package store

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	batches, appended, duplicates prometheus.Counter
	syncs, synced                 prometheus.Counter
	syncSeconds                   prometheus.Histogram
	failures                      prometheus.Counter
	readBytes, cachedBytes        prometheus.Counter
	sealed, removed, moved        prometheus.Counter
	damaged, damagedFiles, lost   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "bornode_topics_store_" + name, Help: help})
	}
	gauge := func(name, help string, v func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: "bornode_topics_store_" + name, Help: help}, func() float64 {
			s.wal.mu.Lock()
			defer s.wal.mu.Unlock()
			return v()
		})
	}
	gauge("partitions", "Partitions kept.", func() float64 { return float64(len(s.byNumber)) })
	gauge("producers", "Idempotent producers remembered.", func() float64 { return float64(s.producers.Load()) })
	gauge("segments", "Segments of the log.", func() float64 { return float64(len(s.segs)) })
	gauge("bytes", "Bytes of the segments.", func() float64 { return float64(s.diskBytes()) })
	gauge("live_bytes", "Bytes of batches that are still kept in the segments.", func() float64 { return float64(s.liveBytes()) })
	gauge("pending_bytes", "Bytes appended and not yet durable.", func() float64 { return float64(s.wal.pending) })
	gauge("unsealed_segments", "Full segments without an index file yet.", func() float64 { return float64(len(s.wal.jobs)) })
	gauge("failed_state", "1 while appends are refused because the disk is full or fails.", func() float64 {
		if s.wal.err != nil {
			return 1
		}
		return 0
	})
	return &metrics{
		batches:    counter("batches_total", "Batches appended."),
		appended:   counter("appended_bytes_total", "Bytes of batches appended."),
		duplicates: counter("duplicates_total", "Batches that idempotent producers sent again."),
		syncs:      counter("syncs_total", "Groups of records made durable by one sync."),
		synced:     counter("synced_bytes_total", "Bytes of the log made durable."),
		syncSeconds: f.NewHistogram(prometheus.HistogramOpts{Name: "bornode_topics_store_sync_seconds",
			Help: "Time to write and sync one group.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16)}),
		failures:     counter("failures_total", "Writes, syncs and index files that failed."),
		readBytes:    counter("read_bytes_total", "Bytes of batches read from files."),
		cachedBytes:  counter("cached_bytes_total", "Bytes of batches read from memory."),
		sealed:       counter("sealed_segments_total", "Segments that got their index file."),
		removed:      counter("removed_segments_total", "Segments removed."),
		moved:        counter("moved_bytes_total", "Bytes of batches copied forward out of mostly dead segments."),
		damaged:      counter("damaged_reads_total", "Reads that met damaged bytes."),
		damagedFiles: counter("damaged_files_total", "Damaged places found in files; the files are kept under a second, dated name."),
		lost:         counter("lost_partitions_total", "Partitions whose copy was damaged, to be copied again from another replica."),
	}
}
