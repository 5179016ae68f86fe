package bench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/bornode/bornode/bench/figures"
)

// Report is everything one run measured.
type Report struct {
	Machine string          `json:"machine"`
	Imports []ImportResult  `json:"imports,omitempty"`
	Network []NetworkResult `json:"network,omitempty"`
	Disk    []DiskResult    `json:"disk,omitempty"`
	Logs    []LogsResult    `json:"logs,omitempty"`
}

// Print writes the tables.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "machine: %s\n", r.Machine)
	if len(r.Imports) > 0 {
		fmt.Fprintln(t, "\nimport (no network), median (min-max)\t\t\t\t\t\t\t")
		fmt.Fprintln(t, "history\tmode\ttx/s\tMB/s\tblocks/s\tCPU us/tx\tgo-ethereum's CPU / this\tstate written\t")
		for _, x := range r.Imports {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", x.History, x.Mode, x.TPS, x.MBps, x.BlocksPerSec, x.CPUMicros, x.AgainstGeth, x.Flushes)
		}
	}
	if len(r.Network) > 0 {
		fmt.Fprintln(t, "\n4 producers on this machine, transfers; ms after a transaction was due, median (min-max) of the runs\t\t\t\t\t\t\t\t\t\t\t")
		fmt.Fprintln(t, "provider\tslot ms\toffered/s\tfinal/s\trefused\tmissing\tincluded p50\tp99\tfinal p50\tp99\tfinal after production p50 / p99\tCPU us/tx/node\tloader's\t")
		for _, x := range r.Network {
			fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t<=%s / <=%s\t%s\t%s\t\n", x.Provider, x.SlotMillis, x.Rate, x.Final, x.Refused, x.Missing,
				x.IncludedP50, x.IncludedP99, x.FinalP50, x.FinalP99, x.ProducedP50, x.ProducedP99, x.CPUPerTx, x.LoaderCPU)
		}
	}
	if len(r.Disk) > 0 {
		r.printDisk(t)
	}
	if len(r.Logs) > 0 {
		r.printLogs(t)
	}
	return t.Flush()
}

// printLogs prints figures as rows and programs as columns.
func (r *Report) printLogs(w io.Writer) {
	fmt.Fprintf(w, "\nindex of %d logs in %d blocks\t", r.Logs[0].Logs, r.Logs[0].Blocks)
	row := func(value func(LogsResult) string) {
		for _, x := range r.Logs {
			fmt.Fprintf(w, "%s\t", value(x))
		}
		fmt.Fprintln(w)
	}
	row(func(x LogsResult) string { return x.Program })
	fmt.Fprint(w, "bytes per log\t")
	row(func(x LogsResult) string { return figures.Short(x.Bytes) })
	fmt.Fprint(w, "processor time to build, us per log\t")
	row(func(x LogsResult) string { return x.BuildCPU.String() })
	fmt.Fprint(w, "time to build, us per log\t")
	row(func(x LogsResult) string { return x.Build.String() })
	for i, q := range r.Logs[0].Queries {
		fmt.Fprintf(w, "%s: %d logs, ms\t", q.Name, q.Matches)
		row(func(x LogsResult) string { return x.Queries[i].Millis.String() })
	}
}

// printDisk prints parts as rows and programs as columns.
func (r *Report) printDisk(w io.Writer) {
	fmt.Fprint(w, "\ngrowth on disk, bytes\t")
	for _, x := range r.Disk {
		fmt.Fprintf(w, "%s: per %s, %s\t", x.History, x.Unit, x.Program)
	}
	fmt.Fprintln(w)
	row := func(name string, value func(DiskResult) float64) {
		fmt.Fprintf(w, "%s\t", name)
		for _, x := range r.Disk {
			fmt.Fprintf(w, "%.1f\t", value(x))
		}
		fmt.Fprintln(w)
	}
	for _, part := range DiskParts {
		row(part, func(x DiskResult) float64 { return x.Bytes[part] })
	}
	row("blocks, their indexes, receipts", func(x DiskResult) float64 { return x.Chain })
	row("without state and its history", func(x DiskResult) float64 { return x.Blockwise })
	row("all", func(x DiskResult) float64 { return x.Total })
}
