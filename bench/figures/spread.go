package figures

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// Spread is a figure over several runs. The zero value says that nothing was measured.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Of makes the spread of the runs' figures; of an even number the median is the upper of the two in the middle.
func Of(x []float64) Spread {
	if len(x) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(x))
	return Spread{Median: s[len(s)/2], Min: s[0], Max: s[len(s)-1]}
}

// Measured tells a figure from the lack of one.
func (s Spread) Measured() bool { return s != Spread{} }

// String is "median (min-max)" with three digits that count; "-" if nothing was measured.
func (s Spread) String() string {
	if !s.Measured() {
		return "-"
	}
	return fmt.Sprintf("%s (%s-%s)", Short(s.Median), Short(s.Min), Short(s.Max))
}

// Scale multiplies a figure, for another unit.
func (s Spread) Scale(by float64) Spread {
	return Spread{Median: s.Median * by, Min: s.Min * by, Max: s.Max * by}
}

// Short writes a figure with about three digits that count.
func Short(x float64) string {
	switch a := math.Abs(x); {
	case a == 0:
		return "0"
	case a >= 99.95:
		return fmt.Sprintf("%.0f", x)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", x)
	case a >= 0.0995:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

// Ratio of the medians, "-" where one of them was not measured.
func Ratio(a, b Spread) string {
	if !a.Measured() || !b.Measured() || b.Median == 0 {
		return "-"
	}
	return Short(a.Median/b.Median) + "x"
}

// Change is by how much the median differs from the base's in percent, "-" where one of them was not measured.
func Change(a, base Spread) string {
	if !a.Measured() || !base.Measured() || base.Median == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.0f %%", 100*(a.Median/base.Median-1))
}

// Quantile of durations in ascending order: the smallest value that a share q of all does not exceed.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Machine describes where something was measured.
func Machine() string {
	return fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}
