package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/bench/wire"
)

// Phases.
const (
	TransferOnly = "transfer" // receive, check digests, append
	WholeJoin    = "join"     // a node, from an empty folder to in sync
)

// Limits of a run.
const (
	startTime = time.Minute
	runTime   = 30 * time.Minute
)

// Route is a way for the history to get to the joiner: settings of both nodes.
type Route struct {
	Name     string
	Settings []string
	Provider string // that must carry the link
}

// TCP is the route to compare with.
const TCP = "tcp"

// Routes lists what this program can do.
func Routes() []Route {
	return []Route{
		{Name: TCP, Provider: "tcp", Settings: []string{"rdma.mode=off"}},
		{Name: "shm push", Provider: "shm", Settings: []string{"rdma.mode=auto", "sync.pull=false"}},
		{Name: "shm pull", Provider: "shm", Settings: []string{"rdma.mode=auto", "sync.pull=true"}},
	}
}

// Options of a measurement.
type Options struct {
	Dir       string   // where histories are kept and runs have their folders
	Histories []string // kind:MiB, for example transfers:32
	Phases    []string
	Modes     []string // of whole joins
	Routes    []Route
	Rounds    int
	Program   []string // that knows run, and transfer as below
	Transfer  []string // arguments of the program before --dir for the transfer phase
	Progress  func(string)

	moveTime time.Duration // for a link to move to its provider, beyond what is measured; 0: moveTime
}

// Result is one phase of one history in one mode over one route.
type Result struct {
	History  string `json:"history"`
	Phase    string `json:"phase"`
	Mode     string `json:"mode"` // "-" in the transfer phase
	Route    string `json:"route"`
	Provider string `json:"provider"` // that carried the link at the end; one run that says otherwise fails
	forge.Totals

	Seconds     figures.Spread `json:"seconds"`
	MBPerSecond figures.Spread `json:"mb_per_s"`
	JoinerCPU   figures.Spread `json:"joiner_cpu_s"`
	ServerCPU   figures.Spread `json:"server_cpu_s"`
	BothCPU     figures.Spread `json:"both_cpu_s"`
	JoinerMean  figures.Spread `json:"joiner_mean_percent"` // of one core
	ServerMean  figures.Spread `json:"server_mean_percent"`
	JoinerPeak  figures.Spread `json:"joiner_peak_percent"` // highest second
	ServerPeak  figures.Spread `json:"server_peak_percent"`
	Fast        figures.Spread `json:"fast_percent"`   // of the history's bytes, not over tcp
	Pulled      figures.Spread `json:"pulled_percent"` // of the history's bytes, read from the server's window
	Series      Series         `json:"series"`         // of the run with the median time
}

// Report is everything one measurement gave.
type Report struct {
	Machine string       `json:"machine"`
	Rounds  int          `json:"rounds"`
	Links   *wire.Report `json:"links,omitempty"` // bandwidth of the bare links in the same session
	Results []Result     `json:"results"`
	Failed  []string     `json:"failed,omitempty"` // runs that failed, and why
}

// Err tells of failed runs.
func (r *Report) Err() error {
	if len(r.Failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d runs failed, the first: %s", len(r.Failed), r.Failed[0])
}

// what is one line of the report, before it is measured.
type what struct {
	history     *forge.Stored
	phase, mode string
	route       Route
	runs        []*sampled
}

// Measure makes the histories that are not there yet and measures every phase, mode and route, taking turns. A run that
// fails is named in the report; the others go on.
func Measure(ctx context.Context, o Options) (*Report, error) {
	if o.moveTime == 0 {
		o.moveTime = moveTime
	}
	list, err := o.list(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{Machine: figures.Machine(), Rounds: o.Rounds}
	for round := range o.Rounds {
		for _, w := range list {
			o.Progress(fmt.Sprintf("round %d of %d: %s, %s %s over %s", round+1, o.Rounds, w.history.Name, w.phase, w.mode, w.route.Name))
			if err := o.once(ctx, w); ctx.Err() != nil {
				return nil, errors.Join(ctx.Err(), err)
			} else if err != nil {
				r.Failed = append(r.Failed, fmt.Sprintf("%s, %s %s over %s: %v", w.history.Name, w.phase, w.mode, w.route.Name, err))
				o.Progress("failed: " + r.Failed[len(r.Failed)-1])
			}
		}
	}
	for _, w := range list {
		r.Results = append(r.Results, w.result())
	}
	return r, nil
}

func (o *Options) list(ctx context.Context) (list []*what, err error) {
	for _, name := range o.Histories {
		plan, err := parseHistory(name)
		if err != nil {
			return nil, err
		}
		h, err := forge.Keep(ctx, o.Dir, strings.ReplaceAll(name, ":", "-")+"MiB", plan, o.Progress)
		if err != nil {
			return nil, err
		}
		if err := warm(h.ServerDir()); err != nil {
			return nil, err
		}
		for _, phase := range o.Phases {
			modes := o.Modes
			switch phase {
			case TransferOnly:
				modes = []string{"-"}
			case WholeJoin:
			default:
				return nil, fmt.Errorf("phase %q; there are %s and %s", phase, TransferOnly, WholeJoin)
			}
			for _, m := range modes {
				for _, r := range o.Routes {
					list = append(list, &what{history: h, phase: phase, mode: m, route: r})
				}
			}
		}
	}
	return list, nil
}

// parseHistory reads kind:MiB.
func parseHistory(name string) (forge.Plan, error) {
	kind, size, _ := strings.Cut(name, ":")
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 || n > 1<<20 {
		return forge.Plan{}, fmt.Errorf("history %q; write kind:MiB, for example %s:32", name, forge.Transfers)
	}
	p, err := forge.PlanOf(kind)
	p.Bytes = int64(n) << 20
	return p, err
}

// warm reads all files once, so that they are in the page cache.
func warm(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(io.Discard, f)
		return err
	})
}

func (w *what) result() Result {
	r := Result{History: w.history.Name, Phase: w.phase, Mode: w.mode, Route: w.route.Name, Provider: w.route.Provider, Totals: w.history.Totals}
	of := func(f func(*sampled) float64) figures.Spread {
		x := make([]float64, len(w.runs))
		for i, s := range w.runs {
			x[i] = f(s)
		}
		return figures.Of(x)
	}
	use := func(f func(*sampled) (joiner, server float64)) (joiner, server figures.Spread) {
		return of(func(s *sampled) float64 { j, _ := f(s); return j }), of(func(s *sampled) float64 { _, v := f(s); return v })
	}
	r.Seconds = of(func(s *sampled) float64 { return s.total().at.Seconds() })
	r.MBPerSecond = of(func(s *sampled) float64 { return float64(w.history.Bytes) / 1e6 / s.total().at.Seconds() })
	r.JoinerCPU = of(func(s *sampled) float64 { return s.total().joiner.Seconds() })
	r.ServerCPU = of(func(s *sampled) float64 { return s.total().server.Seconds() })
	r.BothCPU = of(func(s *sampled) float64 { return (s.total().joiner + s.total().server).Seconds() })
	r.JoinerMean, r.ServerMean = use(func(s *sampled) (float64, float64) { return mean(reading{}, s.total()) })
	r.JoinerPeak, r.ServerPeak = use((*sampled).peak)
	r.Fast, r.Pulled = of(func(s *sampled) float64 { return s.carried.fast() }), of(func(s *sampled) float64 { return s.carried.pulled() })
	byTime := slices.SortedFunc(slices.Values(w.runs), func(a, b *sampled) int { return int(a.total().at - b.total().at) })
	if len(byTime) > 0 {
		r.Series = byTime[len(byTime)/2].series()
	}
	return r
}

// runner is one run with its folders.
type runner struct {
	o       *Options
	history *forge.Stored
	dir     string // of the joiner, and logs
	sockets string // short enough for the names of Unix sockets
}

// once does one run: two new processes, a new folder for the joiner.
func (o *Options) once(ctx context.Context, w *what) (err error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	r := &runner{o: o, history: w.history}
	if r.dir, err = os.MkdirTemp(o.Dir, "run-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if r.sockets, err = os.MkdirTemp("", "bornode-bench"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.sockets)) }()
	server, err := r.startNode(ctx, "server", w.history.ServerDir(), w.history.Server, w.route.Settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	folder := filepath.Join(r.dir, "joiner")
	if err := copyKeys(folder, w.history.JoinerKeys()); err != nil {
		return err
	}
	var s *sampled
	if w.phase == TransferOnly {
		s, err = r.transfer(ctx, folder, server, w.route)
	} else {
		s, err = r.join(ctx, folder, server, w.route, w.mode)
	}
	if err != nil {
		return err
	}
	if got, want := s.carried.Provider, w.route.Provider; got != want {
		return fmt.Errorf("the link was on %q at the end, not on %q", got, want)
	}
	w.runs = append(w.runs, s)
	return nil
}

// copyKeys makes a node's folder with the keys of another.
func copyKeys(to, from string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	})
}

// join measures a node from being told of the server until it is in sync.
func (r *runner) join(ctx context.Context, folder string, server *nodeProcess, by Route, mode string) (s *sampled, err error) {
	n, err := r.startNode(ctx, "joiner", folder, r.history.Joiner, append(slices.Clone(by.Settings), "sync.mode="+mode))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	m, err := startSampler(n.process, server.process)
	if err != nil {
		return nil, err
	}
	err = n.join(ctx, server.addr, r.history)
	s, serr := m.end()
	if err = errors.Join(err, serr); err != nil {
		return nil, err
	}
	s.carried, err = n.verify(ctx, r.history, by.Provider, r.o.moveTime)
	return s, err
}

// transfer measures a process that only stores, from being told of the server until all is durable.
func (r *runner) transfer(ctx context.Context, folder string, server *nodeProcess, by Route) (s *sampled, err error) {
	if _, err := writeConfig(folder, "", r.history, r.history.Joiner, by.Settings); err != nil {
		return nil, err
	}
	program := slices.Concat(r.o.Program, r.o.Transfer, []string{"--dir", folder})
	p, err := start("joiner", program, filepath.Join(r.dir, "joiner.log"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	unhook := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() }) // wakes the decoder
	defer unhook()
	to, from := json.NewEncoder(p.in), json.NewDecoder(p.out)
	var a answer
	said := func() error {
		if err := from.Decode(&a); err != nil {
			_ = p.in.Close()
			<-p.ended
			return p.failure()
		}
		return nil
	}
	if err := said(); err != nil {
		return nil, err
	}
	m, err := startSampler(p, server.process)
	if err != nil {
		return nil, err
	}
	if err = to.Encode(task{Peer: server.addr, Height: r.history.LIB, Provider: by.Provider, MoveTime: r.o.moveTime}); err == nil {
		err = said()
	}
	s, serr := m.end()
	if err = errors.Join(err, serr); err != nil {
		return nil, err
	}
	if err := said(); err != nil {
		return nil, err
	}
	if a.Hash != r.history.Hash {
		return nil, fmt.Errorf("block %d is %s, the history's is %s", r.history.LIB, a.Hash, r.history.Hash)
	}
	s.carried = a.Carried
	return s, nil
}
