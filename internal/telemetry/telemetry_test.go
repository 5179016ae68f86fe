package telemetry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestLoggerRefusesUnknownSettings(t *testing.T) {
	_, err := NewLogger(LogConfig{Level: "loud", Format: "json"}, io.Discard)
	require.ErrorContains(t, err, `log.level is "loud"`)
	_, err = NewLogger(LogConfig{Level: "info", Format: "xml"}, io.Discard)
	require.ErrorContains(t, err, `log.format is "xml"`)
}

func TestLoggerFilters(t *testing.T) {
	var b bytes.Buffer
	log, err := NewLogger(LogConfig{Level: "warn", Format: "json"}, &b)
	require.NoError(t, err)
	log.Info("quiet")
	log.Warn("seen", zap.Uint64("height", 7))
	require.NotContains(t, b.String(), "quiet")
	require.Contains(t, b.String(), `"height":7`)
}

func TestServeShowsMetricsUntilTheContextEnds(t *testing.T) {
	reg := NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_test_events_total"})
	reg.MustRegister(c)
	c.Add(3)
	ctx, cancel := context.WithCancel(t.Context())
	addr, wait, err := Serve(ctx, MetricsConfig{Listen: "127.0.0.1:0"}, reg)
	require.NoError(t, err)
	res, err := http.Get("http://" + addr + "/metrics")
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Contains(t, string(body), "bornode_test_events_total 3")
	cancel()
	wait()
	_, err = http.Get("http://" + addr + "/metrics")
	require.Error(t, err)
}
