package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/bornode/bornode/bench/figures"
)

// Options of a measurement of all paths.
type Options struct {
	Rounds   int           // how often all is repeated, path after path
	Time     time.Duration // of each single measurement
	Paths    []Path
	Steps    []string // names of the only ones to do; empty: all
	MaxPeers int
	Far      []string  // program and arguments that run Far
	Stderr   io.Writer // of the far processes
	Progress func(string)
}

// Figure is one measured figure.
type Figure struct {
	Path
	Measure string `json:"measure"`
	figures.Spread
}

// Report is what was measured.
type Report struct {
	Machine string   `json:"machine"`
	Rounds  int      `json:"rounds"`
	Seconds float64  `json:"seconds"` // of each measurement
	Paths   []Path   `json:"paths"`
	Missing []string `json:"missing,omitempty"` // what could not be measured here, and why
	Figures []Figure `json:"figures"`
	Failed  []string `json:"failed,omitempty"` // measurements that failed, and why
}

// StepNames lists the measurements.
func StepNames() []string {
	var out []string
	for _, s := range steps() {
		out = append(out, s.name)
	}
	return out
}

// Measure does every measurement on every path, interleaved: one after the other the paths do the same step, and all
// of it Rounds times. A measurement that fails is named in the report; the others go on.
func Measure(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Machine: figures.Machine(), Rounds: o.Rounds, Seconds: o.Time.Seconds(), Paths: o.Paths}
	for _, n := range o.Steps {
		if !slices.Contains(StepNames(), n) {
			return nil, fmt.Errorf("there is no measurement %q; there are %q", n, StepNames())
		}
	}
	runs := make(map[Path]map[string][]float64)
	for _, p := range o.Paths {
		runs[p] = make(map[string][]float64)
	}
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	for round := range o.Rounds {
		for _, st := range steps() {
			if o.MaxPeers > 0 && st.peers > o.MaxPeers || len(o.Steps) > 0 && !slices.Contains(o.Steps, st.name) {
				continue
			}
			o.Progress(fmt.Sprintf("round %d of %d: %s", round+1, o.Rounds, st.name))
			for _, p := range o.Paths {
				if !st.fits(p) {
					continue
				}
				if err := once(ctx, &o, p, &st, runs[p]); ctx.Err() != nil {
					return nil, ctx.Err()
				} else if err != nil {
					o.Progress("failed: " + err.Error())
					r.Failed = append(r.Failed, err.Error())
				}
			}
		}
	}
	for _, p := range o.Paths {
		for _, m := range slices.Sorted(maps.Keys(runs[p])) {
			r.Figures = append(r.Figures, Figure{p, m, figures.Of(runs[p][m])})
		}
	}
	return r, nil
}

func once(ctx context.Context, o *Options, p Path, st *step, into map[string][]float64) (err error) {
	s, err := openSession(ctx, o, p, st.peers)
	if err != nil {
		return fmt.Errorf("%s: %w", st.name, err)
	}
	got, err := st.run(s, o.Time)
	if err = errors.Join(err, s.close()); err != nil {
		return fmt.Errorf("%s: %s: %w", st.name, p, err)
	}
	for k, v := range got {
		into[k] = append(into[k], v)
	}
	return nil
}

// Err tells of failed measurements.
func (r *Report) Err() error {
	if len(r.Failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d measurements failed, the first: %s", len(r.Failed), r.Failed[0])
}

// Get is a figure; the zero spread if it was not measured.
func (r *Report) Get(p Path, measure string) figures.Spread {
	for _, f := range r.Figures {
		if f.Path == p && f.Measure == measure {
			return f.Spread
		}
	}
	return figures.Spread{}
}

func decimal(n int) string { return strconv.Itoa(n) }
