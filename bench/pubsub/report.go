package pubsub

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/bornode/bornode/bench/figures"
)

// Report is what a measurement found.
type Report struct {
	Machine string  `json:"machine"`
	Rounds  int     `json:"rounds"`
	Rate    int     `json:"records_per_second_of_delay"`
	Loads   []Load  `json:"loads"`
	Delays  []Delay `json:"delays"`
}

// Load is one variant at one record size. CPU is that of all nodes, the chain included, in us per record.
type Load struct {
	Variant    string         `json:"variant"`
	Size       int            `json:"record_bytes"`
	Acks       string         `json:"acks"`
	Produce    figures.Spread `json:"produced_per_second"`
	ProduceCPU figures.Spread `json:"produce_cpu_us_per_record"`
	Fetch      figures.Spread `json:"fetched_per_second"`
	FetchCPU   figures.Spread `json:"fetch_cpu_us_per_record"`
}

// Delay is the time from producer to consumer at a fixed rate, and until a new client has its first answer, in ms.
type Delay struct {
	Variant string         `json:"variant"`
	P50     figures.Spread `json:"p50_ms"`
	P99     figures.Spread `json:"p99_ms"`
	Login   figures.Spread `json:"first_answer_ms"`
}

func report(o *Options, all sums) *Report {
	r := &Report{Machine: figures.Machine(), Rounds: o.Rounds, Rate: o.Rate}
	for _, size := range o.Sizes {
		for _, acks := range []string{"1", "all"} {
			for _, v := range variants {
				get := func(what string) figures.Spread { return figures.Of(all[key{v.name, acks, size, what}]) }
				r.Loads = append(r.Loads, Load{v.name, size, acks, get("produce"), get("produce cpu"), get("fetch"), get("fetch cpu")})
			}
		}
	}
	for _, v := range variants {
		get := func(what string) figures.Spread { return figures.Of(all[key{variant: v.name, what: what}]) }
		r.Delays = append(r.Delays, Delay{v.name, get("p50"), get("p99"), get("login")})
	}
	return r
}

// Print writes the tables.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "machine: %s\n%d rounds, %d brokers and the clients on it; median (min-max)\n\n", r.Machine, r.Rounds, brokers)
	fmt.Fprintln(t, "record bytes\tacks\tvariant\tproduced/s\tMB/s\tCPU us/record\tfetched/s\tCPU us/record\t")
	for _, x := range r.Loads {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", x.Size, x.Acks, x.Variant, x.Produce, figures.Short(x.Produce.Median*float64(x.Size)/1e6),
			x.ProduceCPU, x.Fetch, x.FetchCPU)
	}
	fmt.Fprintf(t, "\n%d records/s, acks all\t\t\t\t\n", r.Rate)
	fmt.Fprintln(t, "variant\tproducer to consumer p50 ms\tp99 ms\tfirst answer to a new client ms\t")
	for _, x := range r.Delays {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", x.Variant, x.P50, x.P99, x.Login)
	}
	return t.Flush()
}
