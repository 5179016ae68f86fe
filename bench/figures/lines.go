package figures

import (
	"fmt"
	"math"
	"strings"
)

// Lines is a chart of means over intervals of time, from 0 on both axes: each value holds since the one before.
type Lines struct {
	Title string
	XUnit string
	YUnit string
	Lines []Line
}

// Line is one series; X ascends and is where the intervals end. Series that belong together may share a colour.
type Line struct {
	Name   string
	X, Y   []float64
	Colour int
	Dashed bool
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
	var maxX, maxY float64
	for _, s := range l.Lines {
		for k := range s.X {
			maxX, maxY = max(maxX, s.X[k]), max(maxY, s.Y[k])
		}
	}
	l.legend(c, top+titleHeight-6)
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
	for _, s := range l.Lines {
		points := make([]string, 0, 2*len(s.X))
		from := 0.0
		for k := range s.X {
			points = append(points, fmt.Sprintf("%.1f,%.1f %.1f,%.1f", x(from), y(s.Y[k]), x(s.X[k]), y(s.Y[k])))
			from = s.X[k]
		}
		c.printf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"%s/>`, strings.Join(points, " "), colour(s.Colour), s.dash())
	}
}

func (s *Line) dash() string {
	if s.Dashed {
		return ` stroke-dasharray="4 3"`
	}
	return ""
}

func (l *Lines) legend(c *canvas, top float64) {
	at := float64(margin)
	for _, s := range l.Lines {
		c.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="2"%s/>`, at, top+9, at+18, top+9, colour(s.Colour), s.dash())
		c.text(at+22, top+13, "start", "", s.Name)
		at += 22 + nameWidth(s.Name)
	}
}
