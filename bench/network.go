package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/bornode/bornode/testnet"
	"github.com/bornode/bornode/testnet/load"
)

// NetworkResult of one rate on one network of four producers.
type NetworkResult struct {
	Provider    string       `json:"provider"`
	SlotMillis  int64        `json:"slot_ms"`
	Rate        int          `json:"rate"`
	Load        *load.Result `json:"load"`
	CPUPerTx    float64      `json:"cpu_us_per_tx_and_node"`
	FinalityP50 float64      `json:"finality_after_production_p50_ms"` // upper bound of the histogram's bucket
	FinalityP99 float64      `json:"finality_after_production_p99_ms"`
}

// networkPlan is one measurement.
type networkPlan struct {
	slot time.Duration
	rate int
	size int
	kind load.Kind
}

// Network measures networks of four producers on loopback, each node checking everything.
func Network(ctx context.Context, binary string, seconds int, progress func(string)) ([]NetworkResult, error) {
	var out []NetworkResult
	for _, p := range []networkPlan{
		{slot: 50 * time.Millisecond, rate: 100, kind: load.Transfer},
		{slot: 50 * time.Millisecond, rate: 1000, kind: load.Transfer},
		{slot: 500 * time.Millisecond, rate: 1000, kind: load.Transfer},
		{slot: 500 * time.Millisecond, rate: 3000, kind: load.Transfer},
	} {
		progress(fmt.Sprintf("4 producers, slots of %s, %d tx/s offered for %d s", p.slot, p.rate, seconds))
		r, err := networkOnce(ctx, binary, p, time.Duration(seconds)*time.Second)
		if err != nil {
			return nil, fmt.Errorf("bench: network: %w", err)
		}
		out = append(out, *r)
	}
	return out, nil
}

func networkOnce(ctx context.Context, binary string, p networkPlan, d time.Duration) (r *NetworkResult, err error) {
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
	before := cpuOf(n)
	l, err := n.Load(ctx, testnet.LoadOptions{Kind: p.kind, Rate: p.rate, Duration: d, Size: p.size, Follow: -1})
	if err != nil {
		return nil, err
	}
	r = &NetworkResult{Provider: "tcp", SlotMillis: p.slot.Milliseconds(), Rate: p.rate, Load: l}
	if l.Final > 0 {
		r.CPUPerTx = float64((cpuOf(n) - before).Microseconds()) / float64(l.Final) / float64(len(n.Nodes))
	}
	h, err := histogram(ctx, n.Nodes[0].Metrics, finalityMetric)
	if err != nil {
		return nil, err
	}
	r.FinalityP50, r.FinalityP99 = 1000*quantile(h, 0.5), 1000*quantile(h, 0.99)
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

func histogram(ctx context.Context, addr, name string) (*dto.Histogram, error) {
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
	families, err := p.TextToMetricFamilies(res.Body)
	if err != nil {
		return nil, err
	}
	f := families[name]
	if f == nil || len(f.GetMetric()) == 0 || f.GetMetric()[0].GetHistogram() == nil {
		return nil, fmt.Errorf("the node shows no histogram %s", name)
	}
	return f.GetMetric()[0].GetHistogram(), nil
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
