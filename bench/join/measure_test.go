package join

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/bench/wire"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/node"
)

// TestMain makes the test binary the processes that a run starts.
func TestMain(m *testing.M) {
	if len(os.Args) != 4 || os.Args[2] != "--dir" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := fmt.Errorf("no such process: %s", os.Args[1])
	switch os.Args[1] {
	case "run":
		err = runNode(ctx, os.Args[3])
	case "transfer":
		err = Transfer(ctx, os.Args[3], os.Stdin, os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runNode(ctx context.Context, dir string) error {
	c, err := config.Load(filepath.Join(dir, config.FileName), nil, nil)
	if err != nil {
		return err
	}
	c.DataDir = dir
	log, err := telemetry.NewLogger(c.Log, os.Stderr)
	if err != nil {
		return err
	}
	n, err := node.New(ctx, c, log, telemetry.NewRegistry())
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

func testOptions(t *testing.T) Options {
	exe, err := os.Executable()
	require.NoError(t, err)
	return Options{Dir: t.TempDir(), Rounds: 1, Phases: []string{TransferOnly, WholeJoin}, Modes: []string{"certified", "full"}, Routes: Routes(),
		Program: []string{exe}, Transfer: []string{"transfer"}, Progress: func(string) {}}
}

// Every phase, mode and route of a small history: the joiner gets the right blocks over the right provider, what it
// cost is told, the history is made once, and nothing is left of a run.
func TestMeasure(t *testing.T) {
	o := testOptions(t)
	o.Histories = []string{forge.Payloads + ":2"}
	made := 0
	o.Progress = func(s string) {
		if strings.Contains(s, "making") {
			made++
		}
	}
	r, err := Measure(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, r.Err())
	require.Len(t, r.Results, 3*len(o.Routes))
	for _, x := range r.Results {
		require.Positive(t, x.Seconds.Median, x.title())
		require.Positive(t, x.JoinerCPU.Median, x.title())
		require.NotEmpty(t, x.Series.Seconds, x.title())
		require.GreaterOrEqual(t, x.Bytes, int64(1<<20))
		require.NotEmpty(t, x.Provider)
	}
	require.Len(t, r.groups(), 3)

	o.Phases = o.Phases[:1]
	again, err := Measure(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, again.Err())
	require.Equal(t, 1, made, "what is there is used again")
	left, err := filepath.Glob(filepath.Join(o.Dir, "run-*"))
	require.NoError(t, err)
	require.Empty(t, left)

	r.Links = &wire.Report{Paths: []wire.Path{{Provider: "tcp", Level: wire.LinkUp, Wait: wire.Slept}}}
	var table, page bytes.Buffer
	require.NoError(t, r.Print(&table))
	require.NoError(t, r.WriteSVG(&page))
	for _, x := range r.Results {
		require.Contains(t, table.String(), x.title())
		require.Contains(t, page.String(), x.title())
	}
	require.NoError(t, xml.Unmarshal(page.Bytes(), new(struct{})))
}

// A run that cannot work says why, with the end of the failed process's log, and leaves nothing.
func TestFailures(t *testing.T) {
	o := testOptions(t)
	o.Histories, o.Phases = []string{forge.Payloads + ":1"}, []string{"half"}
	_, err := Measure(t.Context(), o)
	require.ErrorContains(t, err, `phase "half"`)

	o.Phases = []string{TransferOnly}
	o.moveTime = time.Millisecond
	o.Routes = []Route{{Name: "pigeon", Provider: "pigeon", Settings: []string{"rdma.mode=off"}}}
	r, err := Measure(t.Context(), o)
	require.NoError(t, err)
	require.ErrorContains(t, r.Err(), `the link was on "tcp" at the end, not on "pigeon"`)

	o.Routes = []Route{{Name: "odd", Settings: []string{"sync.no_such=1"}}}
	r, err = Measure(t.Context(), o)
	require.NoError(t, err)
	require.ErrorContains(t, r.Err(), "no_such")

	o.Routes, o.Transfer = Routes(), []string{"neither"}
	r, err = Measure(t.Context(), o)
	require.NoError(t, err)
	require.ErrorContains(t, r.Err(), "no such process: neither")

	ctx, cancel := context.WithCancel(t.Context())
	o.Transfer = []string{"transfer"}
	o.Progress = func(string) { cancel() }
	_, err = Measure(ctx, o)
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
	left, err := filepath.Glob(filepath.Join(o.Dir, "run-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
