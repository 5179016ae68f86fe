package wire

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/transport"
)

const (
	pingBytes     = 64
	batchMessages = 32
	maxPings      = 1 << 20 // round trips whose times are kept
	warmUpShare   = 5       // a fifth of the measured time, before it
	lookEvery     = 16      // round trips between two looks at the deadline
)

// peerCounts are the numbers of peers that the cost of a message is told for.
var peerCounts = []int{1, 4, 16, 64}

// step is one measurement.
type step struct {
	name  string
	peers int
	fits  func(Path) bool
	run   func(s *session, d time.Duration) (map[string]float64, error)
}

// Measures, the keys of figures.
const (
	RoundTripP50 = "round_trip_p50_us" // 64 bytes on lane 0, nothing else under way
	RoundTripP99 = "round_trip_p99_us"
	BusyP50      = "lane0_busy_p50_us" // the same while messages of 1 MiB fill lane 2
	BusyP99      = "lane0_busy_p99_us"
	BusyGBps     = "lane2_busy_gb_per_s"
)

// Rate, Bandwidth, CPUPerGB, PeerRate, PeerMemory and PeerCost are the keys of figures that depend on a size or number.
func Rate(size string, batch int) string { return "messages_per_s_" + size + times(batch) }
func Bandwidth(size string) string       { return "gb_per_s_" + size }
func CPUPerGB(size string) string        { return "cpu_s_per_gb_" + size }
func PeerRate(peers int) string          { return "messages_per_s_1KiB_peers_" + decimal(peers) }
func PeerMemory(peers int) string        { return "registered_bytes_peers_" + decimal(peers) }
func PeerCost(peers int) string          { return "cpu_us_per_message_1KiB_peers_" + decimal(peers) }

func times(batch int) string {
	if batch == 1 {
		return ""
	}
	return "_x" + decimal(batch)
}

var sizes = []struct {
	name  string
	bytes int
}{{"64B", 64}, {"1KiB", 1 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}}

func always(Path) bool { return true }

// steps lists the measurements in their order.
func steps() []step {
	out := []step{{"round trip", 1, always, roundTrip}}
	for _, z := range sizes[:2] {
		for _, batch := range []int{1, batchMessages} {
			fits := always
			if batch > 1 {
				fits = func(p Path) bool { return p.Level != LinkUp } // a link makes its own batches
			}
			out = append(out, step{z.name + times(batch), 1, fits, oneWay(z.bytes, batch, func(m measured) map[string]float64 {
				return map[string]float64{Rate(z.name, batch): float64(m.far.Messages) / m.wall.Seconds()}
			})})
		}
	}
	for _, z := range sizes[2:] {
		out = append(out, step{z.name, 1, always, oneWay(z.bytes, 1, func(m measured) map[string]float64 {
			gb := float64(m.far.Messages) * float64(z.bytes) / 1e9
			return map[string]float64{Bandwidth(z.name): gb / m.wall.Seconds(), CPUPerGB(z.name): m.cpu.Seconds() / gb}
		})})
	}
	sleeps := func(p Path) bool { return p.Wait != Polled } // many that never sleep on few cores only take them from each other
	for _, n := range peerCounts {
		out = append(out, step{decimal(n) + " peers", n, sleeps, fromPeers(n)})
	}
	lanes := func(p Path) bool { return p.Level == LinkUp }
	return append(out, step{"lane 0 busy", 1, lanes, busyLanes})
}

// warm runs the near and far half once before they are measured.
func warm(s *session, j job, d time.Duration, near func(job) error) (measured, error) {
	j.Time = d / warmUpShare
	if _, err := s.run(j, func() error { return near(j) }); err != nil {
		return measured{}, err
	}
	j.Time = d
	return s.run(j, func() error { return near(j) })
}

func roundTrip(s *session, d time.Duration) (map[string]float64, error) {
	var took []time.Duration
	j := job{Run: runEcho, Lane: transport.LaneConsensus, Size: pingBytes}
	_, err := warm(s, j, d, func(j job) (err error) {
		took, err = ping(s.ends[0], j.Time)
		return err
	})
	return quantiles(took, RoundTripP50, RoundTripP99), err
}

func quantiles(took []time.Duration, p50, p99 string) map[string]float64 {
	slices.Sort(took)
	us := func(q float64) float64 { return float64(figures.Quantile(took, q).Nanoseconds()) / 1e3 }
	return map[string]float64{p50: us(0.5), p99: us(0.99)}
}

// ping sends messages on lane 0 one after the other, each when the one before came back.
func ping(e end, d time.Duration) ([]time.Duration, error) {
	usual, ending := payloads(pingBytes)
	took := make([]time.Duration, 0, maxPings)
	begun := time.Now()
	for i := 0; ; i++ {
		message := usual
		at := time.Now()
		ends := i%lookEvery == 0 && at.Sub(begun) >= d
		if ends {
			message = ending
		}
		if err := e.send(transport.LaneConsensus, message, 1); err != nil {
			return nil, err
		}
		if _, err := e.receive(transport.LaneConsensus, pingBytes); err != nil {
			return nil, err
		}
		if ends {
			return took, nil
		}
		if len(took) < maxPings {
			took = append(took, time.Since(at))
		}
	}
}

// oneWay sends messages of a size on lane 2, handed over so many at once.
func oneWay(size, batch int, tell func(measured) map[string]float64) func(*session, time.Duration) (map[string]float64, error) {
	return func(s *session, d time.Duration) (map[string]float64, error) {
		j := job{Run: runSink, Lane: transport.LaneCatchUp, Size: size, Batch: batch}
		m, err := warm(s, j, d, func(j job) error {
			_, err := source(s.ends[0], &j)
			return err
		})
		if err != nil {
			return nil, err
		}
		return tell(m), nil
	}
}

// fromPeers takes messages of 1 KiB from many peers that all send as fast as they can.
func fromPeers(n int) func(*session, time.Duration) (map[string]float64, error) {
	return func(s *session, d time.Duration) (map[string]float64, error) {
		j := job{Run: runSource, Lane: transport.LaneCatchUp, Size: 1 << 10, Batch: batchMessages}
		m, err := warm(s, j, d, func(j job) error {
			var g errgroup.Group
			for _, e := range s.ends {
				g.Go(func() error {
					_, err := sink(e, j.Lane, j.Size)
					return err
				})
			}
			return g.Wait()
		})
		if err != nil {
			return nil, err
		}
		messages := float64(m.far.Messages)
		f := map[string]float64{PeerRate(n): messages / m.wall.Seconds(), PeerCost(n): m.cpu.Seconds() * 1e6 / messages}
		if c, ok := s.carrier.(interface{ memory() int64 }); ok {
			f[PeerMemory(n)] = float64(c.memory())
		}
		return f, nil
	}
}

// busyLanes measures round trips on lane 0 while messages of 1 MiB fill lane 2.
func busyLanes(s *session, d time.Duration) (map[string]float64, error) {
	var took []time.Duration
	j := job{Run: runBusy, Lane: transport.LaneCatchUp, Size: 1 << 20}
	m, err := warm(s, j, d, func(j job) error {
		var pinged atomic.Bool
		var g errgroup.Group
		g.Go(func() error { return fill(s.ends[0], &j, &pinged) })
		var err error
		took, err = ping(s.ends[0], j.Time)
		pinged.Store(true)
		return errors.Join(err, g.Wait())
	})
	if err != nil {
		return nil, err
	}
	f := quantiles(took, BusyP50, BusyP99)
	f[BusyGBps] = float64(m.far.Messages) * float64(j.Size) / 1e9 / m.wall.Seconds()
	return f, nil
}

// fill sends on the job's lane until told to stop.
func fill(e end, j *job, stop *atomic.Bool) error {
	usual, ending := payloads(j.Size)
	for !stop.Load() {
		if err := e.send(j.Lane, usual, 1); err != nil {
			return err
		}
	}
	return e.send(j.Lane, ending, 1)
}
