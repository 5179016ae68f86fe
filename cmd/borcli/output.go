package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
)

// show prints a result: v as JSON with --json, the table otherwise.
func (a *app) show(v any, table func(w io.Writer)) error {
	if a.JSON {
		return writeJSON(a.out, v)
	}
	var b strings.Builder
	table(&b)
	_, err := io.WriteString(a.out, b.String())
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// note tells people something beside the result, on standard error; with --json nothing.
func (a *app) note(format string, args ...any) {
	if !a.JSON {
		fmt.Fprintln(a.errOut, clean(fmt.Sprintf(format, args...)))
	}
}

// columns prints a table with a head line. Cells are made safe for a terminal.
func columns(w io.Writer, head []string, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, c := range r {
			cells[i] = clean(c)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush()
}

// pair is a line of a two-column table.
type pair struct{ name, value string }

// lines prints names and values; empty values are left out.
func lines(w io.Writer, pairs ...pair) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range pairs {
		if p.value != "" {
			fmt.Fprintf(t, "%s\t%s\n", p.name, clean(p.value))
		}
	}
	_ = t.Flush()
}

// clean replaces what could steer a terminal: texts of nodes and contracts are foreign.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && (!unicode.IsPrint(r) || unicode.Is(unicode.Cf, r)) {
			return '?'
		}
		return r
	}, s)
}

// progress is a line on the terminal that is written again and again; without a terminal it is silent.
type progress struct {
	w     io.Writer // nil: silent
	shown int
}

func (a *app) progress() *progress {
	if a.JSON || !a.errTTY {
		return &progress{}
	}
	return &progress{w: a.errOut}
}

func (p *progress) set(format string, args ...any) {
	if p.w == nil {
		return
	}
	text := clean(fmt.Sprintf(format, args...))
	fmt.Fprintf(p.w, "\r%-*s", p.shown, text)
	p.shown = len(text)
}

// end clears the line.
func (p *progress) end() {
	if p.w != nil && p.shown > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.shown, "")
		p.shown = 0
	}
}

// readFile reads a file of at most a size.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, most)
}

func readAll(f *os.File, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes", f.Name(), most)
	}
	return b, nil
}
