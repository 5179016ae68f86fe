package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LogConfig says what is logged and in which form.
type LogConfig struct {
	Level  string `mapstructure:"level" comment:"debug, info, warn or error"`
	Format string `mapstructure:"format" comment:"console (for people) or json (for log collectors)"`
}

// DefaultLogConfig logs from info upward for people.
func DefaultLogConfig() LogConfig { return LogConfig{Level: "info", Format: "console"} }

// Validate names the key and the values that are allowed.
func (c LogConfig) Validate() error {
	if _, err := zapcore.ParseLevel(c.Level); err != nil {
		return fmt.Errorf("log.level is %q: use debug, info, warn or error", c.Level)
	}
	if c.Format != "console" && c.Format != "json" {
		return fmt.Errorf("log.format is %q: use console or json", c.Format)
	}
	return nil
}

// NewLogger writes to w; the configuration must be valid. An option may say how a fatal line ends the process; without
// one it is exit code 1.
func NewLogger(c LogConfig, w io.Writer, options ...zap.Option) (*zap.Logger, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	level, _ := zapcore.ParseLevel(c.Level)
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if c.Format == "console" {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02 15:04:05.000")
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level), options...), nil
}

// NewRegistry holds the metrics of one process, Go's and the process's own among them.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// MetricsConfig says where metrics are shown.
type MetricsConfig struct {
	Listen  string `mapstructure:"listen" comment:"address of /metrics and /debug/pprof, e.g. 127.0.0.1:9100; empty: off"`
	Profile bool   `mapstructure:"profile" comment:"also serve /debug/pprof there"`
}

// Serve shows the registry at c.Listen until ctx ends. It returns the address it listens on and a function that waits
// for the end.
func Serve(ctx context.Context, c MetricsConfig, reg *prometheus.Registry) (addr string, wait func(), err error) {
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return "", nil, fmt.Errorf("metrics.listen %s: %w", c.Listen, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	if c.Profile {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	go func() {
		defer close(done)
		defer stop()
		if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			_ = l.Close()
		}
	}()
	return l.Addr().String(), func() { <-done }, nil
}
