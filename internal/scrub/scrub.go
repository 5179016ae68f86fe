package scrub

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/pause"
)

// Config says how fast everything is read.
type Config struct {
	MegabytesPerSecond int `mapstructure:"megabytes_per_second" comment:"files are read again in the background at this rate to find damage while other copies exist; 0: they are not"`
}

// DefaultConfig reads a terabyte in six days.
func DefaultConfig() Config { return Config{MegabytesPerSecond: 2} }

// Validate says what is wrong with the settings.
func (c *Config) Validate() error {
	if c.MegabytesPerSecond < 0 || c.MegabytesPerSecond > maxRate {
		return fmt.Errorf("scrub: megabytes_per_second is %d; use 0 to %d", c.MegabytesPerSecond, maxRate)
	}
	return nil
}

// Area is one kind of files.
type Area struct {
	Name string
	// Read checks what lies from a place on ("": the start), about most bytes of it, and notes damage as any reader of the
	// files does. An error says that nothing can be read there, not that something is damaged. It ends soon after ctx.
	Read func(ctx context.Context, from string, most int64) (Step, error)
}

// Saved keeps the progress over a restart. A value that is lost or cannot be kept costs a part of a round.
type Saved interface {
	Load() ([]byte, error)
	Store(progress []byte) error
}

// Scrubber reads the areas in turn. Make it with New, start it with Run.
type Scrubber struct {
	areas []Area
	saved Saved
	log   *zap.Logger

	bytes    prometheus.Counter
	problems *prometheus.CounterVec
	failures prometheus.Counter

	mu     sync.Mutex
	rounds *Rounds // nil: nothing is read
}

// New makes a scrubber of areas with different names. Nothing is read before Run.
func New(cfg Config, areas []Area, saved Saved, log *zap.Logger, reg prometheus.Registerer) *Scrubber {
	s := &Scrubber{areas: areas, saved: saved, log: log}
	f := promauto.With(reg)
	s.bytes = f.NewCounter(prometheus.CounterOpts{Name: "bornode_scrub_read_bytes_total", Help: "Bytes that the background scrub read."})
	s.problems = f.NewCounterVec(prometheus.CounterOpts{Name: "bornode_scrub_problems_total", Help: "Damaged or missing things that the background scrub found, by area and kind."}, []string{"area", "kind"})
	s.failures = f.NewCounter(prometheus.CounterOpts{Name: "bornode_scrub_failures_total", Help: "Areas whose rest the background scrub could not read in a round; the log names the cause."})
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "bornode_scrub_last_round_timestamp_seconds", Help: "When the background scrub had last read everything; 0: not yet."}, func() float64 {
		return float64(s.Progress().Last.Ended) / 1000
	})
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "bornode_scrub_last_round_problems", Help: "Problems that the last full round of the background scrub found."}, func() float64 {
		return float64(s.Progress().Last.Problems)
	})
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "bornode_scrub_round_bytes", Help: "Bytes read in the round under way."}, func() float64 {
		return float64(s.Progress().Now.Bytes)
	})
	if cfg.MegabytesPerSecond > 0 && len(areas) > 0 {
		s.rounds = NewRounds(s.names(), int64(cfg.MegabytesPerSecond)*megabyte, s.load(), time.Now())
	}
	return s
}

func (s *Scrubber) names() []string {
	out := make([]string, len(s.areas))
	for i, a := range s.areas {
		out[i] = a.Name
	}
	return out
}

func (s *Scrubber) load() []byte {
	b, err := s.saved.Load()
	if err != nil || len(b) > maxSavedBytes {
		s.log.Warn("how far the background scrub was cannot be read; it begins a round", zap.Error(err))
		return nil
	}
	return b
}

// On reports whether anything is read.
func (s *Scrubber) On() bool { return s.rounds != nil }

// Progress is how far it is.
func (s *Scrubber) Progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rounds == nil {
		return Progress{}
	}
	return s.rounds.Progress()
}

// Run reads until ctx ends. Its progress is saved then.
func (s *Scrubber) Run(ctx context.Context) {
	if s.rounds == nil {
		return
	}
	defer s.save()
	saved := time.Now()
	for {
		s.mu.Lock()
		name, from, wait := s.rounds.Next(time.Now())
		s.mu.Unlock()
		if !pause.For(ctx, wait) || ctx.Err() != nil {
			return
		}
		if s.step(ctx, name, from) || time.Since(saved) >= saveEvery {
			s.save()
			saved = time.Now()
		}
	}
}

// step reads once; it reports the end of a round.
func (s *Scrubber) step(ctx context.Context, name, from string) (ended bool) {
	var area Area
	for _, a := range s.areas {
		if a.Name == name {
			area = a
		}
	}
	step, err := area.Read(ctx, from, stepBytes)
	if ctx.Err() != nil {
		return false // read again after the next start
	}
	s.bytes.Add(float64(step.Bytes))
	for _, kind := range step.Problems {
		s.problems.WithLabelValues(name, kind).Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failures.Inc()
		s.log.Error("the background scrub cannot read further here, and goes on elsewhere; check the disk", zap.String("area", name), zap.String("from", from), zap.Error(err))
		ended = s.rounds.Failed(time.Now())
	} else {
		ended = s.rounds.Done(step, time.Now())
	}
	if last := s.rounds.Progress().Last; ended {
		s.log.Info("the background scrub has read everything", zap.Int64("bytes", last.Bytes), zap.Uint64("problems", last.Problems), zap.Uint64("failures", last.Failures),
			zap.Duration("took", time.Duration(last.Ended-last.Began)*time.Millisecond))
	}
	return ended
}

func (s *Scrubber) save() {
	s.mu.Lock()
	b := s.rounds.Encode()
	s.mu.Unlock()
	if err := s.saved.Store(b); err != nil {
		s.log.Warn("how far the background scrub is cannot be saved; a restart repeats a part of the round", zap.Error(err))
	}
}
