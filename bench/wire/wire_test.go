package wire

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// farArgument makes the test binary the far process.
const farArgument = "far-process"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == farArgument {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := Far(ctx, os.Stdin, os.Stdout)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func testOptions(t *testing.T) Options {
	exe, err := os.Executable()
	require.NoError(t, err)
	return Options{Rounds: 1, Time: 10 * time.Millisecond, MaxPeers: 4, Far: []string{exe, farArgument}, Stderr: os.Stderr, Progress: func(string) {}}
}

// Every path that this machine has does every measurement (those that poll all the time only two: they take the cores
// from each other); the report shows each path, and the page is well-formed.
func TestMeasure(t *testing.T) {
	o := testOptions(t)
	all, _ := Paths()
	polled := slices.DeleteFunc(slices.Clone(all), func(p Path) bool { return p.Wait != Polled })
	o.Paths = slices.DeleteFunc(slices.Clone(all), func(p Path) bool { return p.Wait == Polled })
	r, err := Measure(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, r.Err())
	o.Paths, o.Steps = polled, []string{"round trip", "1MiB"}
	some, err := Measure(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, some.Err())
	r.Paths, r.Figures = append(r.Paths, polled...), append(r.Figures, some.Figures...)
	for _, p := range all {
		require.Positive(t, r.Get(p, RoundTripP50).Median, p)
		require.Positive(t, r.Get(p, Bandwidth("1MiB")).Median, p)
		require.Positive(t, r.Get(p, CPUPerGB("1MiB")).Median, p)
		require.Equal(t, p.Wait != Polled, r.Get(p, PeerCost(4)).Measured(), p)
		require.Equal(t, p.Level == LinkUp && p.Wait != Polled, r.Get(p, BusyP99).Measured(), p)
	}
	var table, page bytes.Buffer
	require.NoError(t, r.Print(&table))
	require.NoError(t, r.WriteSVG(&page))
	for _, p := range all {
		require.Contains(t, table.String(), p.String())
		require.Contains(t, page.String(), p.String())
	}
	require.NoError(t, xml.Unmarshal(page.Bytes(), new(struct{})))
}

func TestParsePath(t *testing.T) {
	p, err := ParsePath("raw-tcp/socket/slept")
	require.NoError(t, err)
	require.Equal(t, Path{rawTCP, Socket, Slept}, p)
	_, err = ParsePath("raw-tcp/socket")
	require.ErrorContains(t, err, "provider/level/wait")
	_, err = newCarrier(Path{"pigeon", Socket, Slept})
	require.ErrorContains(t, err, "there is no path pigeon socket, slept")
}

// What fails in the far process is told, and nothing stays.
func TestFailures(t *testing.T) {
	o := testOptions(t)
	o.Paths = []Path{{rawTCP, Socket, Slept}}
	o.Steps = []string{"no such"}
	_, err := Measure(t.Context(), o)
	require.ErrorContains(t, err, `there is no measurement "no such"`)

	o.Steps = nil
	o.Far = []string{"/bin/false"}
	r, err := Measure(t.Context(), o)
	require.NoError(t, err, "the others could go on")
	require.ErrorContains(t, r.Err(), "far process")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Measure(ctx, o)
	require.ErrorIs(t, err, context.Canceled)

	s, err := openSession(t.Context(), &Options{Far: testOptions(t).Far, Stderr: io.Discard}, o.Paths[0], 1)
	require.NoError(t, err)
	_, err = s.run(job{Run: "nothing"}, func() error { return nil })
	require.ErrorContains(t, err, `unknown measurement "nothing"`)
	require.NoError(t, s.close())

	// A far process that dies in the middle of a measurement ends it, whoever waits for what.
	for _, p := range []Path{{rawTCP, Socket, Polled}, {rawTCP, Socket, Slept}, {libp2pTCP, LinkUp, Slept}} {
		s, err = openSession(t.Context(), &Options{Far: testOptions(t).Far, Stderr: io.Discard}, p, 1)
		require.NoError(t, err)
		_, err = s.run(job{Run: runSink, Size: pingBytes}, func() error {
			require.NoError(t, s.cmd.Process.Kill())
			_, err := s.ends[0].receive(0, pingBytes) // nothing ever comes
			return err
		})
		require.Error(t, err)
		require.NoError(t, s.close())
	}
}

// The far process ends with what it is told on.
func TestFarEndsWithItsInput(t *testing.T) {
	in, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Far(t.Context(), in, io.Discard) }()
	require.NoError(t, w.Close())
	require.NoError(t, <-ended)

	in, _ = io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- Far(ctx, in, io.Discard) }()
	cancel()
	<-ended
}
