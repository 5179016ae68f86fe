package figures

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
)

// Geometry of a page, in SVG units.
const (
	pageWidth   = 960
	margin      = 24
	labelWidth  = 290 // names left of the bars
	valueWidth  = 150 // figures right of the bars
	rowHeight   = 18
	barHeight   = 12
	groupGap    = 8
	titleHeight = 30
	plotHeight  = 180 // of lines
	axisHeight  = 34
	legendRow   = 18
)

// palette holds colours that people who see few colours can tell apart (Okabe and Ito).
var palette = []string{"#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#555555"}

func colour(i int) string { return palette[i%len(palette)] }

// Panel is one chart of a page.
type Panel interface {
	height() float64
	draw(c *canvas, top float64)
}

// WriteSVG writes a page of charts, one below the other.
func WriteSVG(w io.Writer, title, subtitle string, panels ...Panel) error {
	const head = 64
	total := float64(head)
	for _, p := range panels {
		total += p.height() + margin
	}
	c := new(canvas)
	c.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f" font-family="Helvetica,Arial,sans-serif" font-size="11">`,
		pageWidth, total, pageWidth, total)
	c.printf(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	c.text(margin, 30, "start", `font-size="18" font-weight="bold"`, title)
	c.text(margin, 48, "start", `fill="#555"`, subtitle)
	top := float64(head)
	for _, p := range panels {
		p.draw(c, top)
		top += p.height() + margin
	}
	c.printf(`</svg>`)
	_, err := w.Write(c.Bytes())
	return err
}

type canvas struct{ bytes.Buffer }

func (c *canvas) printf(format string, args ...any) {
	fmt.Fprintf(c, format, args...)
	c.WriteByte('\n')
}

func (c *canvas) text(x, y float64, anchor, attributes, s string) {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	c.printf(`<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`, x, y, anchor, attributes, b.String())
}

func (c *canvas) rect(x, y, w, h float64, fill string) {
	c.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x, y, max(w, 0), h, fill)
}

func (c *canvas) line(x1, y1, x2, y2 float64, stroke string) {
	c.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`, x1, y1, x2, y2, stroke)
}

// legend draws the names of the series and returns how high it is.
func (c *canvas) legend(top float64, names []string) {
	x := float64(margin)
	for i, n := range names {
		c.rect(x, top+4, 10, 10, colour(i))
		c.text(x+14, top+13, "start", "", n)
		x += 14 + nameWidth(n)
	}
}

// nameWidth is about what a name in a legend takes, with the gap to the next one.
func nameWidth(name string) float64 { return 6.2*float64(len(name)) + 18 }
