package pubsub

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/bornode/bornode/bench/figures"
)

// Report is what a measurement found.
type Report struct {
	Machine   string         `json:"machine"`
	Rounds    int            `json:"rounds"`
	Loads     []Load         `json:"loads"`
	Costs     []Cost         `json:"costs"`
	Delays    []Delay        `json:"delays"`
	Logins    []Login        `json:"logins"`
	Takeover  figures.Spread `json:"takeover_seconds"`
	Takeovers int            `json:"takeovers"`
	Decisions []Decision     `json:"decisions"`
	Hash      figures.Spread `json:"sha256_mb_per_second"`
	Aims      []Aim          `json:"aims"`
}

// Load is one variant at one record size. CPU is in us per record: of all nodes beside what they use at rest, and of
// the process with the client.
type Load struct {
	Variant       string         `json:"variant"`
	Client        string         `json:"client"`
	Replicas      int16          `json:"replicas"`
	Size          int            `json:"record_bytes"`
	Acks          string         `json:"acks"`
	Produce       figures.Spread `json:"produced_per_second"`
	ProduceCPU    figures.Spread `json:"produce_cpu_us_per_record"`
	ProduceClient figures.Spread `json:"produce_client_cpu_us_per_record"`
	Fetch         figures.Spread `json:"fetched_per_second"`
	FetchCPU      figures.Spread `json:"fetch_cpu_us_per_record"`
	FetchClient   figures.Spread `json:"fetch_client_cpu_us_per_record"`
}

const (
	costEvidence   = "evidence, nodes"
	costEncryption = "encryption, nodes and client"
)

// Cost compares the processor time of two loads round by round: how much more the first takes, in per cent.
type Cost struct {
	What     string         `json:"what"`
	Size     int            `json:"record_bytes"`
	Replicas int16          `json:"replicas"`
	Acks     string         `json:"acks"`
	Produce  figures.Spread `json:"produce_percent"`
	Fetch    figures.Spread `json:"fetch_percent"`
}

// Delay is the time from producer to consumer at a fixed rate, in ms, and what the nodes use for both, in us per record.
// More is by how much that exceeds evidence off, in per cent, round by round.
type Delay struct {
	Variant string         `json:"variant"`
	Rate    int            `json:"records_per_second"`
	P50     figures.Spread `json:"p50_ms"`
	P99     figures.Spread `json:"p99_ms"`
	CPU     figures.Spread `json:"cpu_us_per_record"`
	More    figures.Spread `json:"more_than_off_percent"`
}

// Login is the time until a new client has its first answer, in ms.
type Login struct {
	Variant string         `json:"variant"`
	First   figures.Spread `json:"first_answer_ms"`
}

func report(o *Options, all sums) *Report {
	r := &Report{Machine: figures.Machine(), Rounds: o.Rounds, Takeovers: o.Takeovers}
	for _, size := range o.Sizes {
		for _, by := range o.kafka() {
			for i := range variants {
				if by.on(i) {
					r.Loads = append(r.Loads, loadOf(all, variants[i].name, by, size))
				}
			}
		}
		for _, by := range o.library(size) {
			r.Loads = append(r.Loads, loadOf(all, variants[usual].name, by, size))
		}
		r.Costs = append(r.Costs, costs(o, all, size)...)
	}
	for _, rate := range o.Rates {
		for _, v := range variants {
			get := func(what string) []float64 { return all[key{variant: v.name, size: rate, what: what}] }
			off := all[key{variant: variants[unlike].name, size: rate, what: whatRateCPU}]
			r.Delays = append(r.Delays, Delay{v.name, rate, figures.Of(get(whatMedian)), figures.Of(get(whatTail)), figures.Of(get(whatRateCPU)), more(get(whatRateCPU), off)})
		}
	}
	for _, v := range variants {
		r.Logins = append(r.Logins, Login{v.name, figures.Of(all[key{variant: v.name, what: whatLogin}])})
	}
	r.Takeover = figures.Of(all[key{variant: variants[usual].name, what: whatTakeover}])
	r.Hash = hashSpeed(max(o.Rounds, leastHashes))
	r.Aims = aims(r)
	return r
}

func loadOf(all sums, v string, by through, size int) Load {
	get := func(what string) figures.Spread { return figures.Of(all[key{v, by, size, what}]) }
	return Load{v, by.client, by.replicas, size, by.acks, get(whatProduce), get(whatProduceCPU), get(whatProduceClient), get(whatFetch), get(whatFetchCPU), get(whatFetchClient)}
}

func costs(o *Options, all sums, size int) (out []Cost) {
	for _, by := range o.kafka() {
		with := func(v int, what string) []float64 { return all[key{variants[v].name, by, size, what}] }
		out = append(out, Cost{costEvidence, size, by.replicas, by.acks,
			more(with(usual, whatProduceCPU), with(unlike, whatProduceCPU)), more(with(usual, whatFetchCPU), with(unlike, whatFetchCPU))})
	}
	if len(o.library(size)) == 0 {
		return out
	}
	with := func(client string, what ...string) []float64 {
		var x []float64
		for _, w := range what {
			x = plus(x, all[key{variants[usual].name, through{client, "all", brokers}, size, w}])
		}
		return x
	}
	return append(out,
		Cost{"receipts, nodes", size, brokers, "all", more(with(clientLibrary, whatProduceCPU), with(clientTrusting, whatProduceCPU)),
			more(with(clientLibrary, whatFetchCPU), with(clientTrusting, whatFetchCPU))},
		Cost{"verifying, nodes and client", size, brokers, "all",
			more(with(clientLibrary, whatProduceCPU, whatProduceClient), with(clientTrusting, whatProduceCPU, whatProduceClient)),
			more(with(clientLibrary, whatFetchCPU, whatFetchClient), with(clientTrusting, whatFetchCPU, whatFetchClient))},
		Cost{costEncryption, size, brokers, "all",
			more(with(clientEncrypted, whatProduceCPU, whatProduceClient), with(clientLibrary, whatProduceCPU, whatProduceClient)),
			more(with(clientEncrypted, whatFetchCPU, whatFetchClient), with(clientLibrary, whatFetchCPU, whatFetchClient))})
}

// plus adds the figures of each round.
func plus(a, b []float64) []float64 {
	if a == nil {
		return b
	}
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] + b[i]
	}
	return out
}

// more is by how many per cent a exceeds b in each round.
func more(a, b []float64) figures.Spread {
	var out []float64
	for i := range min(len(a), len(b)) {
		if b[i] > 0 { // what a network uses at rest may hide a small load
			out = append(out, 100*(a[i]/b[i]-1))
		}
	}
	return figures.Of(out)
}

// Print writes the tables.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "machine: %s\n%d rounds, %d networks of %d brokers and the clients on it; median (min-max)\n\n", r.Machine, r.Rounds, len(variants), brokers)
	fmt.Fprintln(t, "record bytes\tclient\treplicas\tacks\tvariant\tproduced/s\tMB/s\tCPU us/record\tclient's\tfetched/s\tCPU us/record\tclient's\t")
	for _, x := range r.Loads {
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", x.Size, x.Client, x.Replicas, x.Acks, x.Variant, x.Produce,
			figures.Short(x.Produce.Median*float64(x.Size)/1e6), x.ProduceCPU, x.ProduceClient, x.Fetch, x.FetchCPU, x.FetchClient)
	}
	fmt.Fprint(t, "\nmore CPU per record, in per cent, round by round\n\n")
	fmt.Fprintln(t, "record bytes\tof\treplicas\tacks\tproduce\tfetch\t")
	for _, x := range r.Costs {
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\t\n", x.Size, x.What, x.Replicas, x.Acks, x.Produce, x.Fetch)
	}
	fmt.Fprintf(t, "\nat a fixed rate: %d bytes, %d replicas, acks all\n\n", delayBytes, brokers)
	fmt.Fprintln(t, "records/s\tvariant\tproducer to consumer p50 ms\tp99 ms\tCPU us/record\tmore than off, %\t")
	for _, x := range r.Delays {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t\n", x.Rate, x.Variant, x.P50, x.P99, x.CPU, x.More)
	}
	fmt.Fprint(t, "\na new client\n\n")
	fmt.Fprintln(t, "variant\tfirst answer ms\t")
	for _, x := range r.Logins {
		fmt.Fprintf(t, "%s\t%s\t\n", x.Variant, x.First)
	}
	fmt.Fprint(t, "\na decision of access\n\n")
	fmt.Fprintln(t, "entries\tcached us\tfirst us\t")
	for _, x := range r.Decisions {
		fmt.Fprintf(t, "%d\t%s\t%s\t\n", x.Entries, x.Cached, x.First)
	}
	fmt.Fprintf(t, "\nfrom a leader's death to the next acknowledgement, s (%d times): %s\n", r.Takeovers, r.Takeover)
	fmt.Fprintf(t, "\nagainst the aims; SHA-256 here, MB/s: %s\n\n", r.Hash)
	fmt.Fprintln(t, "figure\taim\tmeasured\t")
	for _, x := range r.Aims {
		fmt.Fprintf(t, "%s\t%s\t%s\t\n", x.What, x.Aim, x.Got)
	}
	return t.Flush()
}
