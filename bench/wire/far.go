package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/transport"
)

// Operations that the near process asks for.
const (
	opOpen = "open" // make the ends and offer them
	opJoin = "join" // with the near side's answer
	opRun  = "run"  // one measurement's far half
)

// Far halves of measurements.
const (
	runEcho   = "echo"   // send back every message of the lane
	runSink   = "sink"   // take every message of the lane
	runSource = "source" // send on all ends for a time
	runBusy   = "busy"   // echo on lane 0, sink on lane 2
)

// request is a line from the near process, reply the line that answers it; opRun is answered twice: when the far half
// is about to begin, and when it has ended.
type request struct {
	Op     string   `json:"op"`
	Path   Path     `json:"path,omitzero"`
	Peers  int      `json:"peers,omitempty"`
	Answer [][]byte `json:"answer,omitempty"`
	Job    job      `json:"job,omitzero"`
}

type job struct {
	Run   string         `json:"run"`
	Lane  transport.Lane `json:"lane"`
	Size  int            `json:"size"`
	Batch int            `json:"batch"`
	Time  time.Duration  `json:"time"`
}

type reply struct {
	Error string   `json:"error,omitempty"`
	Offer [][]byte `json:"offer,omitempty"`
	Done  done     `json:"done,omitzero"`
}

// done is what the far half of a measurement counted.
type done struct {
	Messages int64         `json:"messages"`
	CPU      time.Duration `json:"cpu"` // of the whole process meanwhile
}

// ballastBytes is heap that both processes hold and never touch. A node's heap has hundreds of MiB; with the few of a
// process that only measures, the garbage collector would run after every fourth message of 1 MiB.
const ballastBytes = 128 << 20

// Far is the far process: it does what it is told on in until that ends or ctx does.
func Far(ctx context.Context, in io.Reader, out io.Writer) error {
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := &far{out: json.NewEncoder(out)}
	requests := make(chan request)
	var g errgroup.Group
	g.Go(func() error { // the near process's death must end a measurement too
		defer stop()
		d := json.NewDecoder(in)
		for {
			var r request
			if err := d.Decode(&r); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return nil
			}
		}
	})
	g.Go(func() error {
		defer stop()
		return f.serve(ctx, requests)
	})
	<-ctx.Done()
	if c, ok := in.(io.Closer); ok {
		_ = c.Close() // wakes the decoder
	}
	return g.Wait()
}

type far struct {
	out     *json.Encoder
	carrier carrier
	ends    []end
}

func (f *far) serve(ctx context.Context, requests <-chan request) error {
	for {
		select {
		case <-ctx.Done():
			return f.close()
		case r := <-requests:
			if r.Op == opOpen && f.carrier == nil {
				var err error
				if f.carrier, err = newCarrier(r.Path); err != nil {
					return errors.Join(err, f.out.Encode(reply{Error: err.Error()}))
				}
				unhook := context.AfterFunc(ctx, func() { _ = f.carrier.close() }) // wakes a measurement
				defer unhook()
			}
			a, err := f.do(ctx, &r)
			if err != nil {
				a.Error = err.Error()
			}
			if err := errors.Join(err, f.out.Encode(a)); err != nil {
				return errors.Join(err, f.close())
			}
		}
	}
}

func (f *far) close() error {
	if f.carrier == nil {
		return nil
	}
	_ = f.carrier.close() // for the second time, perhaps: nothing is lost by now
	return nil
}

func (f *far) do(ctx context.Context, r *request) (a reply, err error) {
	if f.carrier == nil {
		return a, errors.New("nothing is open yet")
	}
	switch r.Op {
	case opOpen:
		a.Offer, err = f.carrier.offer(ctx, r.Peers)
	case opJoin:
		f.ends, err = f.carrier.join(ctx, r.Answer)
	case opRun:
		before := cpuTime()
		if err = f.out.Encode(reply{}); err == nil {
			a.Done.Messages, err = f.run(&r.Job)
		}
		a.Done.CPU = cpuTime() - before
	default:
		err = fmt.Errorf("unknown operation %q", r.Op)
	}
	return a, err
}

func (f *far) run(j *job) (int64, error) {
	switch j.Run {
	case runEcho:
		return echo(f.ends[0], j.Lane, j.Size)
	case runSink:
		return sink(f.ends[0], j.Lane, j.Size)
	case runSource:
		return sources(f.ends, j)
	case runBusy:
		var g errgroup.Group
		g.Go(func() error {
			_, err := echo(f.ends[0], transport.LaneConsensus, pingBytes)
			return err
		})
		n, err := sink(f.ends[0], j.Lane, j.Size)
		return n, errors.Join(err, g.Wait())
	}
	return 0, fmt.Errorf("unknown measurement %q", j.Run)
}

// last marks a measurement's last message, in its first byte.
const last = 1

// payloads are a message and the one that ends a measurement.
func payloads(size int) (usual, ending []byte) {
	usual, ending = make([]byte, size), make([]byte, size)
	for i := range usual {
		usual[i], ending[i] = byte(i*7), byte(i*7)
	}
	usual[0], ending[0] = 0, last
	return usual, ending
}

func echo(e end, lane transport.Lane, size int) (n int64, err error) {
	usual, ending := payloads(size)
	for mark := byte(0); mark != last; n++ {
		if mark, err = e.receive(lane, size); err != nil {
			return n, err
		}
		answer := usual
		if mark == last {
			answer = ending
		}
		if err := e.send(lane, answer, 1); err != nil {
			return n, err
		}
	}
	return n, nil
}

func sink(e end, lane transport.Lane, size int) (n int64, err error) {
	for mark := byte(0); mark != last; n++ {
		if mark, err = e.receive(lane, size); err != nil {
			return n, err
		}
	}
	return n, nil
}

// source sends for the job's time and returns how many messages.
func source(e end, j *job) (n int64, err error) {
	usual, ending := payloads(j.Size)
	const bytesPerLook = 64 << 10 // between two looks at the clock
	looks := max(1, bytesPerLook/(j.Batch*j.Size))
	for until := time.Now().Add(j.Time); time.Now().Before(until); {
		for range looks {
			if err := e.send(j.Lane, usual, j.Batch); err != nil {
				return n, err
			}
			n += int64(j.Batch)
		}
	}
	return n + 1, e.send(j.Lane, ending, 1)
}

// sources sends on all ends at the same time.
func sources(ends []end, j *job) (int64, error) {
	var g errgroup.Group
	counts := make([]int64, len(ends))
	for i, e := range ends {
		g.Go(func() (err error) {
			counts[i], err = source(e, j)
			return err
		})
	}
	err := g.Wait()
	var n int64
	for _, c := range counts {
		n += c
	}
	return n, err
}

// cpuTime is what this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
