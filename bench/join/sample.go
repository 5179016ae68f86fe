package join

import (
	"errors"
	"time"
)

const (
	sampleEvery = 100 * time.Millisecond
	peakWindow  = 10 // samples: a second
)

// Series is processor time over a run, in percent of one core, for each sample's interval.
type Series struct {
	Seconds []float64 `json:"seconds"` // at the end of the interval, since the joiner was told of the server
	Joiner  []float64 `json:"joiner"`
	Server  []float64 `json:"server"`
}

// sampled is what the sampler saw of a run.
type sampled struct {
	series         Series
	wall           time.Duration
	joiner, server time.Duration // processor time
}

// sampler reads the processor time of two processes until it is stopped.
type sampler struct {
	joiner, server *process
	begun          time.Time
	at             [2]time.Duration // last reading
	from           [2]time.Duration // first reading
	last           time.Time
	out            sampled
	stop           chan struct{}
	done           chan error
}

func (s *sampler) read() (at [2]time.Duration, err error) {
	j, err := s.joiner.cpu()
	if err != nil {
		return at, err
	}
	v, err := s.server.cpu()
	return [2]time.Duration{j, v}, err
}

func startSampler(joiner, server *process) (*sampler, error) {
	s := &sampler{joiner: joiner, server: server, stop: make(chan struct{}), done: make(chan error, 1)}
	var err error
	if s.from, err = s.read(); err != nil {
		return nil, err
	}
	s.at, s.begun = s.from, time.Now()
	s.last = s.begun
	go func() {
		t := time.NewTicker(sampleEvery)
		defer t.Stop()
		for {
			select {
			case <-s.stop:
				s.done <- nil
				return
			case <-t.C:
				if err := s.sample(); err != nil {
					s.done <- err
					return
				}
			}
		}
	}()
	return s, nil
}

func (s *sampler) sample() error {
	at, err := s.read()
	if err != nil {
		return err
	}
	now := time.Now()
	percent := func(i int) float64 { return 100 * float64(at[i]-s.at[i]) / float64(now.Sub(s.last)) }
	x := &s.out.series
	x.Seconds = append(x.Seconds, now.Sub(s.begun).Seconds())
	x.Joiner, x.Server = append(x.Joiner, percent(0)), append(x.Server, percent(1))
	s.at, s.last = at, now
	return nil
}

// end takes the last readings. Call it right after what is measured has ended.
func (s *sampler) end() (*sampled, error) {
	wall := time.Since(s.begun)
	close(s.stop)
	if err := errors.Join(<-s.done, s.sample()); err != nil {
		return nil, err
	}
	s.out.wall = wall
	s.out.joiner, s.out.server = s.at[0]-s.from[0], s.at[1]-s.from[1]
	return &s.out, nil
}

// peak is the highest mean over a second, or over the whole of a shorter run; in percent.
func peak(seconds, percent []float64) float64 {
	used := make([]float64, len(seconds)+1) // since the beginning, in seconds of a core
	from := 0.0
	for i, at := range seconds {
		used[i+1] = used[i] + percent[i]/100*(at-from)
		from = at
	}
	high := 0.0
	for i := range seconds {
		first := max(0, i+1-peakWindow)
		begin := 0.0
		if first > 0 {
			begin = seconds[first-1]
		}
		if i+1 < peakWindow && i+1 < len(seconds) {
			continue // not a whole second yet, and the run is longer
		}
		high = max(high, 100*(used[i+1]-used[first])/(seconds[i]-begin))
	}
	return high
}
