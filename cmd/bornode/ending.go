package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/telemetry"
)

// Files of a node's folder that tell how a run ended. crashFile is there while the node runs; an orderly end, and an
// end with an error, remove it.
const (
	crashFile         = "crash.log"
	previousCrashFile = "crash.previous.log"
)

// maxCrashLine bounds what is told of a crash's first line.
const maxCrashLine = 500

// errSignal is why a context ended.
type errSignal struct{ signal os.Signal }

func (e errSignal) Error() string {
	return "ended by " + strings.ToUpper(e.signal.String()) + " before it was done"
}

// untilSignal is a context that ends by SIGINT, SIGTERM, or SIGHUP (unless that was ignored when the program started, as
// nohup does). A write to a pipe that nobody reads is an error like any other from here on, and no silent end.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	received := make(chan os.Signal, 1)
	signal.Notify(received, ends...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		select {
		case s := <-received:
			cancel(errSignal{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// ender ends the process after a fatal line, with the exit code that the line carries, and leaves the sentence in the
// crash file.
type ender struct{ words atomic.Pointer[lastWords] }

// OnWrite is called by zap behind the line. It may be called from any goroutine, which does not go on.
func (e *ender) OnWrite(line *zapcore.CheckedEntry, fields []zapcore.Field) {
	code := exit.Failure
	for _, f := range fields {
		if f.Key == exit.CodeKey {
			code = int(f.Integer)
		}
	}
	if w := e.words.Load(); w != nil {
		w.write(line.Message)
	}
	os.Exit(code)
}

// newLogger makes the logger of a command on a node's folder. Its fatal lines end the process, and what go-ethereum logs
// goes there, too.
func newLogger(c *config.Config, w io.Writer) (*zap.Logger, *ender, error) {
	end := new(ender)
	log, err := telemetry.NewLogger(c.Log, w, zap.WithFatalHook(end))
	if err != nil {
		return nil, nil, err
	}
	telemetry.CaptureEthereum(log.Named("ethereum"), func(message string, cause error) {
		dir := c.Path(c.Chain.Dir)
		exit.Report(log, chain.EndByStateFault(dir, "", fmt.Errorf("%s: %w", message, cause)))
	})
	return log, end, nil
}

// lastWords is the crash file of a run: the Go runtime writes a crash there, as well as to standard error.
type lastWords struct {
	path string
	file *os.File
}

// openLastWords tells how the run before ended, if that was not in order, and opens the crash file of this run. A file
// that cannot be opened is told and does without: the disk may be full.
func openLastWords(dir string, log *zap.Logger) *lastWords {
	path := filepath.Join(dir, crashFile)
	tellLastCrash(path, log)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		err = debug.SetCrashOutput(f, debug.CrashOptions{})
	}
	if err != nil {
		log.Warn("a crash of this run would leave no trace in the node's folder", zap.String("file", path), zap.Error(err))
	}
	return &lastWords{path, f}
}

func tellLastCrash(path string, log *zap.Logger) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		log.Warn("how the last run ended cannot be read", zap.String("file", path), zap.Error(err))
		return
	}
	line, _ := bufio.NewReaderSize(f, maxCrashLine).ReadSlice('\n') // a longer line is cut
	_ = f.Close()
	if len(line) == 0 {
		log.Info("the last run was ended from outside: kill -9, the kernel when memory ran out, or a power cut", zap.String("file", path))
		return
	}
	kept := filepath.Join(filepath.Dir(path), previousCrashFile)
	if err := os.Rename(path, kept); err != nil {
		kept = path
	}
	log.Warn("the last run ended by a fault; if it happens again, report it with this file", zap.String("file", kept),
		zap.String("fault", strings.TrimSpace(string(line))))
}

func (w *lastWords) write(text string) {
	if w.file != nil {
		_, _ = fmt.Fprintln(w.file, text)
	}
}

// close is called when the program ends by itself: whoever reads its output knows why.
func (w *lastWords) close() {
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	if w.file != nil {
		_ = w.file.Close()
	}
	_ = os.Remove(w.path)
}
