package figures

import (
	"fmt"
	"math"
)

// Bars is a chart of horizontal bars in groups. Values[g][s] is the figure of series s in group g; what was not
// measured has no bar. On a logarithmic scale lengths tell orders of magnitude, not shares.
type Bars struct {
	Title  string
	Unit   string
	Groups []string
	Series []string // one: the groups' names stand at the bars, no legend
	Values [][]Spread
	Log    bool
}

func (b Bars) rows() (n int) {
	for _, g := range b.Values {
		for _, v := range g {
			if v.Measured() {
				n++
			}
		}
	}
	return n
}

func (b Bars) legendHeight() float64 {
	if len(b.Series) < 2 {
		return 0
	}
	return legendRow
}

func (b Bars) height() float64 {
	return titleHeight + b.legendHeight() + float64(b.rows()*rowHeight+len(b.Groups)*groupGap)
}

// scale gives the length of a figure's bar as a share of the plot.
func (b Bars) scale() func(float64) float64 {
	low, high := math.Inf(1), 0.0
	for _, g := range b.Values {
		for _, v := range g {
			if v.Min > 0 {
				low = min(low, v.Min)
			}
			high = max(high, v.Max)
		}
	}
	if high <= 0 {
		return func(float64) float64 { return 0 }
	}
	if !b.Log {
		return func(x float64) float64 { return max(x, 0) / high }
	}
	from := math.Floor(math.Log10(low)) - 0.05
	span := math.Log10(high) - from
	return func(x float64) float64 {
		if x <= 0 {
			return 0
		}
		return max(0, (math.Log10(x)-from)/span)
	}
}

func (b Bars) draw(c *canvas, top float64) {
	unit := b.Unit
	if b.Log {
		unit += ", logarithmic"
	}
	c.text(margin, top+16, "start", `font-size="13" font-weight="bold"`, fmt.Sprintf("%s (%s)", b.Title, unit))
	y := top + titleHeight
	if len(b.Series) > 1 {
		c.legend(y-4, b.Series)
		y += legendRow
	}
	const left, width = margin + labelWidth, pageWidth - 2*margin - labelWidth - valueWidth
	scale := b.scale()
	for g, name := range b.Groups {
		first := true
		for s, v := range b.Values[g] {
			if !v.Measured() {
				continue
			}
			if first {
				c.text(left-8, y+barHeight-1, "end", "", name)
				first = false
			}
			fill := s
			if len(b.Series) < 2 {
				fill = 0
			}
			c.rect(left, y, width*scale(v.Median), barHeight, colour(fill))
			mid, from, to := y+barHeight/2, left+width*scale(v.Min), left+width*scale(v.Max)
			c.line(from, mid, to, mid, "#000")
			c.line(from, mid-3, from, mid+3, "#000")
			c.line(to, mid-3, to, mid+3, "#000")
			c.text(left+width+10, y+barHeight-1, "start", "", v.String())
			y += rowHeight
		}
		y += groupGap
	}
	c.line(left, top+titleHeight+b.legendHeight()-2, left, y-groupGap, "#999")
}
