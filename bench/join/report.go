package join

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/bench/wire"
)

// title of what a result belongs to: all routes of it are compared.
func (r *Result) title() string {
	t := fmt.Sprintf("%s, ", r.History)
	if r.Phase == TransferOnly {
		return t + "transfer phase alone (receive, check digests, append)"
	}
	return t + "whole join, " + r.Mode
}

func (r *Result) short() string {
	if r.Phase == TransferOnly {
		return "transfer"
	}
	return "join " + r.Mode
}

// groups are the results by title, in their order; the first of a group is the one to compare with.
func (r *Report) groups() (out [][]*Result) {
	for i := range r.Results {
		x := &r.Results[i]
		if n := len(out); n > 0 && out[n-1][0].title() == x.title() {
			out[n-1] = append(out[n-1], x)
			continue
		}
		out = append(out, []*Result{x})
	}
	return out
}

// Print writes the tables.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "machine: %s; %d rounds; median (min-max); CPU in %% of one core, peak of a second; server: a real node, its files in the page cache\n",
		r.Machine, r.Rounds)
	for _, f := range r.Failed {
		fmt.Fprintf(w, "failed: %s\n", f)
	}
	if r.Links != nil {
		fmt.Fprintln(w, "\nbare links in the same session, GB/s one way")
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "path\t64 KiB\t1 MiB\tCPU s/GB at 1 MiB")
		for _, p := range r.Links.Paths {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", p, r.Links.Get(p, wire.Bandwidth("64KiB")), r.Links.Get(p, wire.Bandwidth("1MiB")), r.Links.Get(p, wire.CPUPerGB("1MiB")))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	for _, g := range r.groups() {
		fmt.Fprintf(w, "\n%s: %d blocks, %d transactions, %.0f MB\n", g[0].title(), g[0].Blocks, g[0].Transactions, float64(g[0].Bytes)/1e6)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, "route\tprovider\tfast/pulled %\tseconds\tMB/s\tjoiner CPU s\tserver CPU s\tboth\tjoiner mean/peak %\tserver mean/peak %\t")
		for _, x := range g {
			fmt.Fprintf(tw, "%s\t%s\t%.0f / %.0f\t%s\t%s\t%s\t%s\t%s\t%.0f / %.0f\t%.0f / %.0f\t\n", x.Route, x.Provider, x.Fast.Median, x.Pulled.Median, x.Seconds, x.MBPerSecond,
				x.JoinerCPU, x.ServerCPU, x.BothCPU, x.JoinerMean.Median, x.JoinerPeak.Median, x.ServerMean.Median, x.ServerPeak.Median)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		base := g[0]
		for _, x := range g[1:] {
			if !x.Seconds.Measured() || !base.Seconds.Measured() {
				continue
			}
			fmt.Fprintf(w, "  %s against %s: time %s, CPU of both %s (joiner %s, server %s)\n", x.Route, base.Route, figures.Change(x.Seconds, base.Seconds),
				figures.Change(x.BothCPU, base.BothCPU), figures.Change(x.JoinerCPU, base.JoinerCPU), figures.Change(x.ServerCPU, base.ServerCPU))
		}
	}
	return nil
}

// WriteSVG draws times, processor seconds and, per group, the processor use over time.
func (r *Report) WriteSVG(w io.Writer) error {
	seconds := figures.Bars{Title: "Time", Unit: "s", Log: true}
	cpu := figures.Bars{Title: "Processor time", Unit: "CPU s", Log: true, Series: []string{"joiner", "server"}}
	var panels []figures.Panel
	for _, g := range r.groups() {
		use := figures.Lines{Title: g[0].title() + ": processor use over time", XUnit: "seconds", YUnit: "% of one core"}
		for i, x := range g {
			name := fmt.Sprintf("%s, %s, %s", x.History, x.short(), x.Route)
			seconds.Groups, seconds.Values = append(seconds.Groups, name), append(seconds.Values, []figures.Spread{x.Seconds})
			cpu.Groups, cpu.Values = append(cpu.Groups, name), append(cpu.Values, []figures.Spread{x.JoinerCPU, x.ServerCPU})
			at, joiner, server := x.Series.coarse()
			use.Lines = append(use.Lines, figures.Line{Name: "joiner, " + x.Route, X: at, Y: joiner, Colour: i},
				figures.Line{Name: "server, " + x.Route, X: at, Y: server, Colour: i, Dashed: true})
		}
		panels = append(panels, use)
	}
	seconds.Series = []string{"seconds"}
	return figures.WriteSVG(w, "bornode bench sync", fmt.Sprintf("%s; %d rounds, interleaved; bars are medians, whiskers the range; lines are the run with the median time",
		r.Machine, r.Rounds), append([]figures.Panel{seconds, cpu}, panels...)...)
}

// chartSamples is how many intervals a chart shows at most; the samples of a longer series are drawn together.
const chartSamples = 40

func (s *Series) coarse() (at, joiner, server []float64) {
	by := (len(s.Seconds) + chartSamples - 1) / chartSamples
	from := 0.0
	for i := 0; i < len(s.Seconds); i += by {
		begin, j, v := from, 0.0, 0.0
		for k := i; k < min(i+by, len(s.Seconds)); k++ {
			d := s.Seconds[k] - from
			j, v, from = j+d*s.Joiner[k], v+d*s.Server[k], s.Seconds[k]
		}
		at, joiner, server = append(at, from), append(joiner, j/(from-begin)), append(server, v/(from-begin))
	}
	return at, joiner, server
}
