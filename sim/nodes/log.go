package nodes

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// lineLog keeps the newest lines of a node's log, and ends a life at its fatal line.
type lineLog struct {
	began time.Time

	mu    sync.Mutex
	lines []string
}

// logger is the log of one life. A fatal line ends it at once, without closing anything: the process is gone.
func (g *lineLog) logger(l *life) *zap.Logger {
	return zap.New(&lineCore{g: g, prefix: fmt.Sprintf("life %d ", l.number)}, zap.WithFatalHook(fatalHook{l}))
}

type fatalHook struct{ l *life }

// OnWrite implements zapcore.CheckWriteHook. The goroutine goes on: its disk and its links are gone.
func (h fatalHook) OnWrite(e *zapcore.CheckedEntry, _ []zapcore.Field) {
	h.l.die(errors.New(e.Message), h.l.killed)
}

func (g *lineLog) add(line string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lines) >= maxLinesKept {
		g.lines = append(g.lines[:0], g.lines[maxLinesKept/2:]...)
	}
	g.lines = append(g.lines, fmt.Sprintf("%9.3f %s", time.Since(g.began).Seconds(), line))
}

func (g *lineLog) tail(n int) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.lines[max(0, len(g.lines)-n):]...)
}

type lineCore struct {
	g      *lineLog
	prefix string
	fields []zapcore.Field
}

func (c *lineCore) Enabled(level zapcore.Level) bool { return level >= zapcore.InfoLevel }

func (c *lineCore) With(fields []zapcore.Field) zapcore.Core {
	with := *c
	with.fields = append(append([]zapcore.Field(nil), c.fields...), fields...)
	return &with
}

func (c *lineCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *lineCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	var text strings.Builder
	for _, f := range append(append([]zapcore.Field(nil), c.fields...), fields...) {
		f.AddTo(enc)
		fmt.Fprintf(&text, " %s=%v", f.Key, enc.Fields[f.Key])
	}
	c.g.add(fmt.Sprintf("%s%s %s: %s%s", c.prefix, e.Level, e.LoggerName, e.Message, text.String()))
	return nil
}

func (c *lineCore) Sync() error { return nil }
