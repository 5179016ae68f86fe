package sim

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Sweep plays a scenario for each of count seeds from first on, on all cores, and gives the results in the order of
// seeds. It stops early at the first violation, which it also returns, or with ctx; what was not played is nil.
func Sweep(ctx context.Context, first, count uint64, scenario func(seed uint64) *Scenario) (results []*Result, bad *Result) {
	results = make([]*Result, count)
	var next atomic.Uint64
	var found atomic.Pointer[Result]
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for found.Load() == nil && ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= count {
					return
				}
				r := Run(scenario(first + i))
				results[i] = r
				if r.Violation != nil {
					found.CompareAndSwap(nil, r)
				}
			}
		})
	}
	wg.Wait()
	return results, found.Load()
}
