package figures

import (
	"fmt"
	"math"
	"strings"
)

// Lines is a chart of figures over something, from 0 on both axes.
type Lines struct {
	Title string
	XUnit string
	YUnit string
	Lines []Line
}

// Line is one series; X ascends.
type Line struct {
	Name string
	X, Y []float64
}

func (l Lines) height() float64 { return titleHeight + legendRow + plotHeight + axisHeight }

// ticks divides 0..high into 3 to 7 steps of a round width.
func ticks(high float64) (step float64, n int) {
	if high <= 0 || math.IsInf(high, 0) || math.IsNaN(high) {
		return 1, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(high)))
	for _, f := range []float64{0.2, 0.5, 1} {
		if n := int(math.Ceil(high / (step * f))); n <= 7 {
			return step * f, n
		}
	}
	return step * 2, int(math.Ceil(high / (step * 2)))
}

func (l Lines) draw(c *canvas, top float64) {
	c.text(margin, top+16, "start", `font-size="13" font-weight="bold"`, fmt.Sprintf("%s (%s)", l.Title, l.YUnit))
	names := make([]string, len(l.Lines))
	var maxX, maxY float64
	for i, s := range l.Lines {
		names[i] = s.Name
		for k := range s.X {
			maxX, maxY = max(maxX, s.X[k]), max(maxY, s.Y[k])
		}
	}
	c.legend(top+titleHeight-6, names)
	const left, width = margin + 48, pageWidth - 2*margin - 48
	upper, lower := top+titleHeight+legendRow, top+titleHeight+legendRow+plotHeight
	stepX, nx := ticks(maxX)
	stepY, ny := ticks(maxY)
	x := func(v float64) float64 { return left + width*v/(stepX*float64(nx)) }
	y := func(v float64) float64 { return lower - (lower-upper)*v/(stepY*float64(ny)) }
	for i := range ny + 1 {
		v := stepY * float64(i)
		c.line(left, y(v), left+width, y(v), "#ddd")
		c.text(left-6, y(v)+4, "end", `fill="#555"`, Short(v))
	}
	for i := range nx + 1 {
		v := stepX * float64(i)
		c.line(x(v), lower, x(v), lower+4, "#999")
		c.text(x(v), lower+16, "middle", `fill="#555"`, Short(v))
	}
	c.text(left+width, lower+30, "end", `fill="#555"`, l.XUnit)
	for i, s := range l.Lines {
		points := make([]string, len(s.X))
		for k := range s.X {
			points[k] = fmt.Sprintf("%.1f,%.1f", x(s.X[k]), y(s.Y[k]))
		}
		c.printf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, strings.Join(points, " "), colour(i))
	}
}
