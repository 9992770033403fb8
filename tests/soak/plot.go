package main

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"time"
)

// Sizes of a plot, in pixels.
const (
	plotWidth   = 420 // of a panel
	plotHeight  = 110
	plotMargin  = 40
	plotColumns = 2
)

// plot draws one panel for each quantity: a line for the samples under load, dots for the quiet points, and a dashed line
// for their limit.
func (s *series) plot(title string, j *judge) []byte {
	rows := (int(quantities) + plotColumns - 1) / plotColumns
	width := plotMargin + plotColumns*(plotWidth+plotMargin)
	height := plotMargin + rows*(plotHeight+plotMargin) + plotMargin/2
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`, width, height)
	fmt.Fprintf(&b, "\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" y=\"20\" font-size=\"14\">%s</text>\n",
		plotMargin, html.EscapeString(title))
	for q := range quantities {
		p := panel{quantity: q, samples: s.samples, quiet: j.points,
			x: plotMargin + int(q)%plotColumns*(plotWidth+plotMargin), y: plotMargin + 10 + int(q)/plotColumns*(plotHeight+plotMargin)}
		p.limit, p.judged = j.limit(q)
		p.draw(&b)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// panel is the plot of one quantity.
type panel struct {
	quantity
	samples, quiet []sample
	limit          int64
	judged         bool
	x, y           int
}

func (p panel) draw(b *bytes.Buffer) {
	fact := facts[p.quantity]
	var low, high int64
	from, to := time.Duration(0), time.Second
	for i, one := range slices.Concat(p.samples, p.quiet) {
		v := one.values[p.quantity]
		if i == 0 {
			low, high, from = v, v, one.at
		}
		low, high, from, to = min(low, v), max(high, v), min(from, one.at), max(to, one.at)
	}
	if p.judged {
		high = max(high, p.limit)
	}
	across := func(at time.Duration) float64 {
		return float64(p.x) + float64(plotWidth)*float64(at-from)/float64(max(to-from, 1))
	}
	up := func(v int64) float64 {
		return float64(p.y+plotHeight) - float64(plotHeight)*float64(v-low)/float64(max(high-low, 1))
	}
	fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#bbb\"/>\n", p.x, p.y, plotWidth, plotHeight)
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s: %s to %s</text>\n", p.x, p.y-4, html.EscapeString(fact.name), fact.unit.show(low), fact.unit.show(high))
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" fill=\"#888\">%v</text>\n<text x=\"%d\" y=\"%d\" fill=\"#888\" text-anchor=\"end\">%v</text>\n",
		p.x, p.y+plotHeight+12, from.Round(time.Second), p.x+plotWidth, p.y+plotHeight+12, to.Round(time.Second))
	if p.judged {
		fmt.Fprintf(b, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#c33\" stroke-dasharray=\"4\"/>\n",
			p.x, p.x+plotWidth, up(p.limit), up(p.limit))
	}
	b.WriteString(`<polyline fill="none" stroke="#36c" points="`)
	for _, one := range p.samples {
		if p.quantity != settling {
			fmt.Fprintf(b, "%.1f,%.1f ", across(one.at), up(one.values[p.quantity]))
		}
	}
	b.WriteString("\"/>\n")
	for _, one := range p.quiet {
		fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#2a2\"/>\n", across(one.at), up(one.values[p.quantity]))
	}
}
