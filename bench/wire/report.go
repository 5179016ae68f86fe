package wire

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/bornode/bornode/bench/figures"
)

// table is one part of the report: a row per path, a column per measure.
type table struct {
	title   string
	columns []column
}

type column struct {
	name    string
	measure string
	scale   float64
}

func tables() []table {
	us := func(name, m string) column { return column{name, m, 1} }
	millions := func(name, m string) column { return column{name + " M/s", m, 1e-6} }
	out := []table{
		{"round trip of 64 bytes, nothing else under way", []column{us("p50 us", RoundTripP50), us("p99 us", RoundTripP99)}},
		{"messages one way (x32: handed over 32 at once)", []column{
			millions("64 B", Rate("64B", 1)), millions("64 B x32", Rate("64B", batchMessages)),
			millions("1 KiB", Rate("1KiB", 1)), millions("1 KiB x32", Rate("1KiB", batchMessages))}},
		{"bandwidth one way; CPU of both processes", []column{
			us("64 KiB GB/s", Bandwidth("64KiB")), us("CPU s/GB", CPUPerGB("64KiB")),
			us("1 MiB GB/s", Bandwidth("1MiB")), us("CPU s/GB", CPUPerGB("1MiB"))}},
		{"lane 0 beside a full lane 2 (messages of 1 MiB)", []column{
			us("idle p99 us", RoundTripP99), us("busy p50 us", BusyP50), us("busy p99 us", BusyP99), us("lane 2 GB/s", BusyGBps)}},
	}
	cost := table{title: "messages of 1 KiB from many peers at once: CPU us per message, both processes"}
	rate := table{title: "the same: million messages per second, all peers together"}
	memory := table{title: "registered memory of the receiver, MiB"}
	for _, n := range peerCounts {
		name := decimal(n) + " peers"
		if n == 1 {
			name = "1 peer"
		}
		memory.columns = append(memory.columns, column{name, PeerMemory(n), 1.0 / (1 << 20)})
		cost.columns = append(cost.columns, us(name, PeerCost(n)))
		rate.columns = append(rate.columns, column{name, PeerRate(n), 1e-6})
	}
	return append(out, cost, rate, memory)
}

// has tells whether a path belongs into a table: the idle round trip alone makes no row of the busy ones.
func (r *Report) has(p Path, columns []column) bool {
	for _, c := range columns {
		if c.measure != RoundTripP99 && r.Get(p, c.measure).Measured() {
			return true
		}
	}
	return false
}

// Print writes the tables.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "machine: %s; %d rounds, %s s each; median (min-max)\n", r.Machine, r.Rounds, figures.Short(r.Seconds))
	for _, m := range r.Missing {
		fmt.Fprintf(w, "not measured: %s\n", m)
	}
	for _, f := range r.Failed {
		fmt.Fprintf(w, "failed: %s\n", f)
	}
	for _, t := range tables() {
		if err := r.print(w, &t); err != nil {
			return err
		}
	}
	return r.printGoals(w)
}

func (r *Report) print(w io.Writer, t *table) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	rows := 0
	for _, p := range r.Paths {
		if !r.has(p, t.columns) {
			continue
		}
		if rows == 0 {
			fmt.Fprintf(w, "\n%s\n", t.title)
			fmt.Fprint(tw, "path\t")
			for _, c := range t.columns {
				fmt.Fprintf(tw, "%s\t", c.name)
			}
			fmt.Fprintln(tw)
		}
		rows++
		fmt.Fprintf(tw, "%s\t", p)
		for _, c := range t.columns {
			fmt.Fprintf(tw, "%s\t", r.Get(p, c.measure).Scale(c.scale))
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

// comparison sets one path's figure against another's.
type comparison struct {
	what       string
	path, base Path
	measure    string
	baseKey    string // "": the same measure
	aim        string
}

// comparisons are those of the project's goals, for every fast provider.
func (r *Report) comparisons() (out []comparison) {
	tcp := Path{libp2pTCP, LinkUp, Slept}
	raw := Path{rawTCP, Socket, Slept}
	for _, p := range r.Paths {
		if p.Provider == rawTCP || p.Provider == libp2pTCP {
			continue
		}
		switch {
		case p.Level == LinkUp && p.Wait == Spin:
			out = append(out,
				comparison{"bandwidth at 64 KiB", p, tcp, Bandwidth("64KiB"), "", ">= 8x"},
				comparison{"bandwidth at 1 MiB", p, tcp, Bandwidth("1MiB"), "", ">= 6x"},
				comparison{"CPU s/GB at 64 KiB", p, tcp, CPUPerGB("64KiB"), "", "<= 0.17x"},
				comparison{"CPU s/GB at 1 MiB", p, tcp, CPUPerGB("1MiB"), "", "<= 0.17x"},
				comparison{"messages/s at 64 B", p, tcp, Rate("64B", 1), "", ""},
				comparison{"lane 0 p99 busy against idle", p, p, BusyP99, RoundTripP99, "<= 2x"},
				comparison{"CPU per message, 64 peers against 1", p, p, PeerCost(64), PeerCost(1), "<= 1.2x"})
		case p.Level == LinkUp && p.Wait == Slept:
			out = append(out, comparison{"round trip p50", p, tcp, RoundTripP50, "", "<= 1x"})
		case p.Level == Channel && p.Wait == Polled:
			out = append(out,
				comparison{"round trip p50", p, raw, RoundTripP50, "", "(<= 1 us)"},
				comparison{"messages/s at 64 B, one by one", p, raw, Rate("64B", 1), "", ">= 10x"},
				comparison{"messages/s at 64 B, 32 at once", p, raw, Rate("64B", batchMessages), "", ""})
		case p.Level == Channel && p.Wait == Spin:
			out = append(out,
				comparison{"messages/s at 64 B, one by one", p, raw, Rate("64B", 1), "", ">= 10x"},
				comparison{"bandwidth at 64 KiB", p, raw, Bandwidth("64KiB"), "", ""},
				comparison{"bandwidth at 1 MiB", p, raw, Bandwidth("1MiB"), "", ""},
				comparison{"CPU per message, 64 peers against 1", p, p, PeerCost(64), PeerCost(1), "<= 1.2x"})
		}
	}
	return out
}

func (r *Report) printGoals(w io.Writer) error {
	list := r.comparisons()
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nratios of the medians")
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "path\twhat\tagainst\tfigure\tbase\tratio\taim")
	for _, c := range list {
		key := c.baseKey
		if key == "" {
			key = c.measure
		}
		base := c.base.String()
		if c.base == c.path {
			base = "itself"
		}
		a, b := r.Get(c.path, c.measure), r.Get(c.base, key)
		if !a.Measured() || !b.Measured() {
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.path, c.what, base, figures.Short(a.Median), figures.Short(b.Median), figures.Ratio(a, b), c.aim)
	}
	return tw.Flush()
}

// WriteSVG draws the figures as a page of charts.
func (r *Report) WriteSVG(w io.Writer) error {
	chart := func(title, unit string, log bool, series ...column) figures.Panel {
		b := figures.Bars{Title: title, Unit: unit, Log: log}
		for _, c := range series {
			b.Series = append(b.Series, c.name)
		}
		for _, p := range r.Paths {
			if !r.has(p, series) {
				continue
			}
			row := make([]figures.Spread, len(series))
			for i, c := range series {
				row[i] = r.Get(p, c.measure).Scale(c.scale)
			}
			b.Groups, b.Values = append(b.Groups, p.String()), append(b.Values, row)
		}
		return b
	}
	t := tables()
	return figures.WriteSVG(w, "bornode bench transport", fmt.Sprintf("%s; %d rounds of %s s, interleaved; bars are medians, whiskers the range",
		r.Machine, r.Rounds, figures.Short(r.Seconds)),
		chart("Round trip of 64 bytes", "us", true, t[0].columns...),
		chart("Messages one way", "million per second", true, t[1].columns...),
		chart("Bandwidth one way", "GB/s", false, t[2].columns[0], t[2].columns[2]),
		chart("Processor time of both processes", "CPU s/GB", true,
			column{"64 KiB", CPUPerGB("64KiB"), 1}, column{"1 MiB", CPUPerGB("1MiB"), 1}),
		chart("Lane 0 while lane 2 is full", "us", true, t[3].columns[:3]...),
		chart("Cost of a message of 1 KiB from many peers", "CPU us", false, t[4].columns...))
}
