package join

import (
	"time"
)

const sampleEvery = 100 * time.Millisecond

// Series is processor time over a run, in percent of one core, for each sample's interval.
type Series struct {
	Seconds []float64 `json:"seconds"` // at the end of the interval, since the joiner was told of the server
	Joiner  []float64 `json:"joiner"`
	Server  []float64 `json:"server"`
}

// reading is the processor time that both processes have used by a moment.
type reading struct {
	at             time.Duration // since the first one
	joiner, server time.Duration
}

// sampled is what the sampler saw of a run: the first reading is zero, the last one is that of its end.
type sampled struct {
	readings []reading
	carried  carried
}

// carried says how the history came.
type carried struct {
	Provider string `json:"provider"` // of the link at the end
	Ranges   uint64 `json:"ranges"`   // bytes of blocks in ranges
	Pulled   uint64 `json:"pulled"`   // of these, read from the server's window
	Channel  uint64 `json:"channel"`  // bytes that came over the channel beside tcp, all messages
}

func (c *carried) pulled() float64 { return 100 * float64(c.Pulled) / max(float64(c.Ranges), 1) }

// fast is the share of the history that did not come over tcp. What else came over the channel is next to nothing.
func (c *carried) fast() float64 {
	return min(100, 100*float64(c.Pulled+c.Channel)/max(float64(c.Ranges), 1))
}

func (s *sampled) total() reading { return s.readings[len(s.readings)-1] }

// mean is the use between two readings, in percent of one core.
func mean(a, b reading) (joiner, server float64) {
	d := float64(b.at - a.at)
	return 100 * float64(b.joiner-a.joiner) / d, 100 * float64(b.server-a.server) / d
}

func (s *sampled) series() (x Series) {
	for i := 1; i < len(s.readings); i++ {
		j, v := mean(s.readings[i-1], s.readings[i])
		x.Seconds = append(x.Seconds, s.readings[i].at.Seconds())
		x.Joiner, x.Server = append(x.Joiner, j), append(x.Server, v)
	}
	return x
}

// peak is the highest use over a second, or over the whole of a shorter run.
func (s *sampled) peak() (joiner, server float64) {
	if s.total().at <= time.Second {
		return mean(reading{}, s.total())
	}
	from := 0
	for i, r := range s.readings {
		for r.at-s.readings[from+1].at >= time.Second {
			from++
		}
		if from+1 > i || r.at-s.readings[from].at < time.Second {
			continue
		}
		j, v := mean(s.readings[from], s.readings[i])
		joiner, server = max(joiner, j), max(server, v)
	}
	return joiner, server
}

// sampler reads the processor time of two processes until it is stopped.
type sampler struct {
	joiner, server *process
	begun          time.Time
	zero           reading
	out            sampled
	stop           chan struct{}
	done           chan error
}

// read takes a reading of the processes since they began.
func (s *sampler) read() (r reading, err error) {
	if r.joiner, err = s.joiner.cpu(); err != nil {
		return r, err
	}
	r.server, err = s.server.cpu()
	return r, err
}

func startSampler(joiner, server *process) (s *sampler, err error) {
	s = &sampler{joiner: joiner, server: server, stop: make(chan struct{}), done: make(chan error, 1)}
	if s.zero, err = s.read(); err != nil {
		return nil, err
	}
	s.begun = time.Now()
	s.out.readings = []reading{{}}
	go func() { s.done <- s.run() }()
	return s, nil
}

func (s *sampler) run() error {
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return nil
		case <-t.C:
			if err := s.sample(time.Since(s.begun)); err != nil {
				return err
			}
		}
	}
}

func (s *sampler) sample(at time.Duration) error {
	r, err := s.read()
	if err != nil {
		return err
	}
	s.out.readings = append(s.out.readings, reading{at, r.joiner - s.zero.joiner, r.server - s.zero.server})
	return nil
}

// end takes the last reading; one shortly before it gives way. Call it right after what is measured has ended.
func (s *sampler) end() (*sampled, error) {
	at := time.Since(s.begun)
	close(s.stop)
	if err := <-s.done; err != nil {
		return nil, err
	}
	if last := len(s.out.readings) - 1; last > 0 && at-s.out.readings[last].at < sampleEvery/2 {
		s.out.readings = s.out.readings[:last]
	}
	if err := s.sample(at); err != nil {
		return nil, err
	}
	return &s.out, nil
}
