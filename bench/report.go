package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Report is everything one run measured.
type Report struct {
	Machine string          `json:"machine"`
	Imports []ImportResult  `json:"imports,omitempty"`
	Network []NetworkResult `json:"network,omitempty"`
}

// Print writes the tables.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "machine: %s\n", r.Machine)
	if len(r.Imports) > 0 {
		fmt.Fprintln(t, "\nimport (no network), median (min-max)\t\t\t\t\t")
		fmt.Fprintln(t, "history\tmode\ttx/s\tMB/s\tblocks/s\tCPU us/tx\t")
		for _, x := range r.Imports {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", x.History, x.Mode, x.TPS, x.MBps, x.BlocksPerSec, x.CPUMicros)
		}
	}
	if len(r.Network) > 0 {
		fmt.Fprintln(t, "\n4 producers on this machine, transfers\t\t\t\t\t\t\t\t")
		fmt.Fprintln(t, "provider\tslot ms\toffered/s\tfinal/s\tmissing\tincluded p50/p99 ms\tfinal p50/p99 ms\tfinal after production p50/p99 ms\tCPU us/tx/node\t")
		for _, x := range r.Network {
			fmt.Fprintf(t, "%s\t%d\t%d\t%.0f\t%d\t%.0f / %.0f\t%.0f / %.0f\t<=%.0f / <=%.0f\t%.0f\t\n", x.Provider, x.SlotMillis, x.Rate, x.Load.FinalTPS, x.Load.Missing,
				x.Load.Inclusion.P50, x.Load.Inclusion.P99, x.Load.Finality.P50, x.Load.Finality.P99, x.FinalityP50, x.FinalityP99, x.CPUPerTx)
		}
	}
	return t.Flush()
}
