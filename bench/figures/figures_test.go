package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpread(t *testing.T) {
	require.Equal(t, Spread{Median: 2, Min: 1, Max: 9}, Of([]float64{9, 1, 2}))
	require.Equal(t, Spread{}, Of(nil))
	require.Equal(t, "-", Spread{}.String())
	require.Equal(t, "2.00 (1.00-9.00)", Of([]float64{9, 1, 2}).String())
	require.Equal(t, "4.00 (2.00-18.0)", Of([]float64{9, 1, 2}).Scale(2).String())
	for x, want := range map[float64]string{0: "0", 0.0123: "0.012", 0.123: "0.12", 9.99: "9.99", 9.999: "10.0", 99.94: "99.9", 99.96: "100", 12345: "12345"} {
		require.Equal(t, want, Short(x))
	}
	require.Equal(t, "4.50x", Ratio(Of([]float64{9}), Of([]float64{2})))
	require.Equal(t, "-", Ratio(Of([]float64{9}), Spread{}))
	require.Equal(t, "-50 %", Change(Of([]float64{1}), Of([]float64{2})))
	require.Equal(t, "-", Change(Spread{}, Of([]float64{2})))
}

func TestQuantile(t *testing.T) {
	d := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	require.EqualValues(t, 5, Quantile(d, 0.5))
	require.EqualValues(t, 10, Quantile(d, 0.99))
	require.EqualValues(t, 1, Quantile(d, 0))
	require.EqualValues(t, 10, Quantile(d, 1))
	require.Zero(t, Quantile(nil, 0.5))
}

func TestTicks(t *testing.T) {
	for _, high := range []float64{0, 0.003, 0.9, 1, 1.01, 7, 9.99, 100, 123456} {
		step, n := ticks(high)
		require.Positive(t, step, high)
		require.GreaterOrEqual(t, step*float64(n), high*0.999999, high)
		require.LessOrEqual(t, n, 7, high)
	}
}

// A page is well-formed whatever the names hold, shows every measured figure and none that is not.
func TestWriteSVG(t *testing.T) {
	bars := Bars{Title: "a < b & c", Unit: "us", Groups: []string{`x"`, "y"}, Series: []string{"one", "two"},
		Values: [][]Spread{{Of([]float64{1, 2, 3}), {}}, {Of([]float64{400}), Of([]float64{5})}}}
	logarithmic := bars
	logarithmic.Log = true
	empty := Bars{Title: "nothing", Groups: []string{"z"}, Series: []string{"one"}, Values: [][]Spread{{{}}}}
	lines := Lines{Title: "CPU", XUnit: "s", YUnit: "%", Lines: []Line{{Name: "joiner", X: []float64{0, 1}, Y: []float64{10, 120}}, {Name: "none"}}}
	var b bytes.Buffer
	require.NoError(t, WriteSVG(&b, "title", "<sub>", bars, logarithmic, empty, lines))
	text := b.String()
	d := xml.NewDecoder(&b)
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.Contains(t, text, "a &lt; b &amp; c")
	require.Equal(t, 2, strings.Count(text, "2.00 (1.00-3.00)"))
	require.Equal(t, 2, strings.Count(text, "<polyline"))
	require.NotContains(t, text, "NaN")
	require.NotContains(t, text, "Inf")
	require.NotContains(t, text, `width="-`)
}
