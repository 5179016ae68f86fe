package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/testnet"
	"github.com/bornode/bornode/testnet/load"
)

// NetworkResult of one rate on networks of four producers, one network a run.
type NetworkResult struct {
	Provider    string         `json:"provider"`
	SlotMillis  int64          `json:"slot_ms"`
	Rate        int            `json:"rate"`
	Runs        int            `json:"runs"`
	Final       figures.Spread `json:"final_per_s"`
	Missing     int            `json:"missing"` // of all runs: accepted and never final
	Refused     int            `json:"refused"` // of all runs
	IncludedP50 figures.Spread `json:"included_p50_ms"`
	IncludedP99 figures.Spread `json:"included_p99_ms"`
	FinalP50    figures.Spread `json:"final_p50_ms"`
	FinalP99    figures.Spread `json:"final_p99_ms"`
	ProducedP50 figures.Spread `json:"finality_after_production_p50_ms"` // upper bound of the histogram's bucket
	ProducedP99 figures.Spread `json:"finality_after_production_p99_ms"`
	CPUPerTx    figures.Spread `json:"cpu_us_per_tx_and_node"`
	LoaderCPU   figures.Spread `json:"loader_cpu_us_per_tx"`
	Loads       []*load.Result `json:"loads"`
}

// networkPlan is one measurement.
type networkPlan struct {
	slot time.Duration
	rate int
	size int
	kind load.Kind
}

// networkRun is what one network showed.
type networkRun struct {
	load                     *load.Result
	provider                 string  // of the first node's links
	cpuPerTx                 float64 // microseconds, of all nodes, divided by their number
	producedP50, producedP99 float64 // milliseconds
}

// Network measures networks of four producers on loopback, each node checking everything. The rates take turns, and
// each run has a network of its own.
func Network(ctx context.Context, binary string, seconds, runs int, progress func(string)) ([]NetworkResult, error) {
	plans := []networkPlan{
		{slot: 50 * time.Millisecond, rate: 100, kind: load.Transfer},
		{slot: 50 * time.Millisecond, rate: 1000, kind: load.Transfer},
		{slot: 500 * time.Millisecond, rate: 1000, kind: load.Transfer},
		{slot: 500 * time.Millisecond, rate: 3000, kind: load.Transfer},
		{slot: 500 * time.Millisecond, rate: 5000, kind: load.Transfer},
	}
	all := make([][]networkRun, len(plans))
	for run := range runs {
		for i, p := range plans {
			progress(fmt.Sprintf("4 producers, slots of %s, %d tx/s offered for %d s, run %d of %d", p.slot, p.rate, seconds, run+1, runs))
			r, err := measureNetwork(ctx, binary, p, time.Duration(seconds)*time.Second)
			if err != nil {
				return nil, fmt.Errorf("bench: network: %w", err)
			}
			all[i] = append(all[i], *r)
		}
	}
	var out []NetworkResult
	for i, p := range plans {
		out = append(out, summarizeNetworks(p, all[i]))
	}
	return out, nil
}

func summarizeNetworks(p networkPlan, runs []networkRun) NetworkResult {
	spreadOf := func(figure func(*networkRun) float64) figures.Spread {
		var f []float64
		for i := range runs {
			f = append(f, figure(&runs[i]))
		}
		return figures.Of(f)
	}
	r := NetworkResult{
		Provider: runs[0].provider, SlotMillis: p.slot.Milliseconds(), Rate: p.rate, Runs: len(runs),
		Final:       spreadOf(func(x *networkRun) float64 { return x.load.FinalTPS }),
		IncludedP50: spreadOf(func(x *networkRun) float64 { return x.load.Inclusion.P50 }),
		IncludedP99: spreadOf(func(x *networkRun) float64 { return x.load.Inclusion.P99 }),
		FinalP50:    spreadOf(func(x *networkRun) float64 { return x.load.Finality.P50 }),
		FinalP99:    spreadOf(func(x *networkRun) float64 { return x.load.Finality.P99 }),
		ProducedP50: spreadOf(func(x *networkRun) float64 { return x.producedP50 }),
		ProducedP99: spreadOf(func(x *networkRun) float64 { return x.producedP99 }),
		CPUPerTx:    spreadOf(func(x *networkRun) float64 { return x.cpuPerTx }),
		LoaderCPU:   spreadOf(func(x *networkRun) float64 { return x.load.LoaderCPU }),
	}
	for _, x := range runs {
		r.Missing, r.Refused, r.Loads = r.Missing+x.load.Missing, r.Refused+x.load.Refused, append(r.Loads, x.load)
	}
	return r
}

// measureNetwork brings a network up and loads it once. It holds the histogram of finality after the load against the
// one before it, so that the blocks of the network's start do not count.
func measureNetwork(ctx context.Context, binary string, p networkPlan, d time.Duration) (r *networkRun, err error) {
	dir, err := os.MkdirTemp("", "bornode-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s := testnet.DefaultSpec()
	s.Dir, s.Binary, s.BasePort, s.Slot, s.Direct = filepath.Join(dir, "net"), binary, 0, p.slot, true
	s.Turn = max(1, int(500*time.Millisecond/p.slot))
	s.Set = []string{"log.level=warn"}
	n, err := testnet.Up(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Down(context.WithoutCancel(ctx))) }()
	calm, err := histogram(ctx, n.Nodes[0].Metrics, finalityMetric)
	if err != nil {
		return nil, err
	}
	before := cpuOf(n)
	l, err := n.Load(ctx, testnet.LoadOptions{Kind: p.kind, Rate: p.rate, Duration: d, Size: p.size, Follow: -1})
	if err != nil {
		return nil, err
	}
	r = &networkRun{load: l}
	if l.Final > 0 {
		r.cpuPerTx = float64((cpuOf(n) - before).Microseconds()) / float64(l.Final) / float64(len(n.Nodes))
	}
	loaded, err := histogram(ctx, n.Nodes[0].Metrics, finalityMetric)
	if err != nil {
		return nil, err
	}
	if r.provider, err = providerOf(ctx, n.Nodes[0]); err != nil {
		return nil, err
	}
	h := subtractHistogram(loaded, calm)
	r.producedP50, r.producedP99 = 1000*quantile(h, 0.5), 1000*quantile(h, 0.99)
	return r, nil
}

func cpuOf(n *testnet.Network) (sum time.Duration) {
	for _, x := range n.Nodes {
		sum += x.Process.CPU()
	}
	return sum
}

// finalityMetric is the driver's histogram of the time from the start of a block's slot until it is final there.
const finalityMetric = "bornode_consensus_finality_latency_seconds"

// linksMetric counts the links that shared memory or RDMA carries, by provider.
const linksMetric = "bornode_rdma_links"

// providerOf names what carries a node's links: "tcp", or the faster providers that carry some of them.
func providerOf(ctx context.Context, x *testnet.Node) (string, error) {
	families, err := readMetrics(ctx, x.Metrics)
	if err != nil {
		return "", err
	}
	var names []string
	for _, m := range families[linksMetric].GetMetric() {
		if m.GetGauge().GetValue() > 0 {
			names = append(names, m.GetLabel()[0].GetValue())
		}
	}
	if len(names) == 0 {
		return "tcp", nil
	}
	slices.Sort(names)
	return strings.Join(names, "+"), nil
}

func readMetrics(ctx context.Context, addr string) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	p := expfmt.NewTextParser(model.UTF8Validation)
	return p.TextToMetricFamilies(res.Body)
}

func histogram(ctx context.Context, addr, name string) (*dto.Histogram, error) {
	families, err := readMetrics(ctx, addr)
	if err != nil {
		return nil, err
	}
	f := families[name]
	if f == nil || len(f.GetMetric()) == 0 || f.GetMetric()[0].GetHistogram() == nil {
		return nil, fmt.Errorf("the node shows no histogram %s", name)
	}
	return f.GetMetric()[0].GetHistogram(), nil
}

// subtractHistogram is what a histogram gained since an earlier reading of it.
func subtractHistogram(now, before *dto.Histogram) *dto.Histogram {
	count := now.GetSampleCount() - before.GetSampleCount()
	gained := &dto.Histogram{SampleCount: &count}
	for i, b := range now.GetBucket() {
		n := b.GetCumulativeCount() - before.GetBucket()[i].GetCumulativeCount() // the same buckets: it is one metric
		gained.Bucket = append(gained.Bucket, &dto.Bucket{UpperBound: b.UpperBound, CumulativeCount: &n})
	}
	return gained
}

// quantile is the upper bound of the bucket that holds it, in the histogram's unit.
func quantile(h *dto.Histogram, q float64) float64 {
	want := q * float64(h.GetSampleCount())
	for _, b := range h.GetBucket() {
		if float64(b.GetCumulativeCount()) >= want {
			return b.GetUpperBound()
		}
	}
	return 0
}
