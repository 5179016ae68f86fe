package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	gethlog "github.com/ethereum/go-ethereum/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Bounds of what a library may log: lines of one text in a minute, and bytes of one value. Some of its lines repeat with
// each request of a client.
const (
	libraryLines      = 5
	libraryLinesEvery = time.Minute
	libraryValueBytes = 512
)

// ethereumHandler writes what go-ethereum's packages log to zap.
type ethereumHandler struct {
	log      *zap.Logger
	fields   []zap.Field
	critical func(message string, cause error)
}

// CaptureEthereum sends what go-ethereum logs in this process to log: its errors and warnings as such, everything else
// as debug. critical is called for log.Crit, behind which go-ethereum exits with code 1 and without a word: it must end
// the process. Loggers that exist already keep their old target, so this comes before anything is opened.
func CaptureEthereum(log *zap.Logger, critical func(message string, cause error)) {
	gethlog.SetDefault(gethlog.NewLogger(newEthereumHandler(log, critical)))
}

func newEthereumHandler(log *zap.Logger, critical func(message string, cause error)) *ethereumHandler {
	bounded := log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, libraryLinesEvery, libraryLines, 0)
	}))
	return &ethereumHandler{log: bounded, critical: critical}
}

// levelOf is where a record of go-ethereum belongs.
func levelOf(level slog.Level, message string) zapcore.Level {
	switch {
	case strings.HasPrefix(message, "Served "), // the answer to a client is an error, which is no trouble of the node
		message == "Head block is not reachable": // of go-ethereum's own block store, which a node leaves empty
		return zapcore.DebugLevel
	case level >= slog.LevelError:
		return zapcore.ErrorLevel
	case level >= slog.LevelWarn:
		return zapcore.WarnLevel
	}
	return zapcore.DebugLevel
}

// Enabled leaves the trace level out: it tells of each message and each node of a trie.
func (h *ethereumHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= gethlog.LevelCrit || level >= slog.LevelDebug && h.log.Core().Enabled(levelOf(level, ""))
}

func (h *ethereumHandler) Handle(_ context.Context, r slog.Record) error {
	fields := append([]zap.Field(nil), h.fields...)
	var cause error
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			cause = err
		}
		fields = append(fields, fieldOf(a))
		return true
	})
	if r.Level >= gethlog.LevelCrit {
		if cause == nil {
			cause = errors.New(describeFields(fields))
		}
		h.critical(r.Message, cause)
	}
	if line := h.log.Check(levelOf(r.Level, r.Message), r.Message); line != nil {
		line.Write(fields...)
	}
	return nil
}

// describeFields puts fields into words.
func describeFields(fields []zap.Field) string {
	if len(fields) == 0 {
		return "no cause is given"
	}
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = f.Key + " " + f.String
	}
	return strings.Join(parts, ", ")
}

func (h *ethereumHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.fields = append([]zap.Field(nil), h.fields...)
	for _, a := range attrs {
		with.fields = append(with.fields, fieldOf(a))
	}
	return &with
}

// WithGroup ignores the group: go-ethereum makes none.
func (h *ethereumHandler) WithGroup(string) slog.Handler { return h }

// keyOf is the project's key for one of go-ethereum.
func keyOf(key string) string {
	switch key {
	case "err":
		return "error"
	case "number":
		return "height"
	case "database":
		return "file"
	}
	return key
}

// fieldOf makes a bounded text of a value.
func fieldOf(a slog.Attr) zap.Field {
	text := a.Value.String()
	switch v := a.Value.Any().(type) {
	case error:
		text = v.Error()
	case fmt.Stringer:
		text = v.String()
	}
	if len(text) > libraryValueBytes {
		text = text[:libraryValueBytes] + fmt.Sprintf("... (%d bytes)", len(text))
	}
	return zap.String(keyOf(a.Key), text)
}
