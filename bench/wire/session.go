package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// Bounds of one session.
const (
	sessionTime = 2 * time.Minute // beyond the measurement itself
	farPatience = 5 * time.Second // for the far process to end by itself
)

// session is the near side of one path with its far process.
type session struct {
	path    Path
	ctx     context.Context
	stop    context.CancelFunc
	cmd     *exec.Cmd
	input   io.Closer
	to      *json.Encoder
	from    *json.Decoder
	carrier carrier
	ends    []end
	once    sync.Once
}

// openSession starts the far process and connects so many ends with it.
func openSession(ctx context.Context, o *Options, p Path, peers int) (s *session, err error) {
	s = &session{path: p}
	s.ctx, s.stop = context.WithTimeout(ctx, sessionTime+o.Time)
	if err := s.open(o, peers); err != nil {
		return nil, fmt.Errorf("%s: %w", p, errors.Join(err, s.close()))
	}
	return s, nil
}

func (s *session) open(o *Options, peers int) (err error) {
	if s.carrier, err = newCarrier(s.path); err != nil {
		return err
	}
	s.cmd = exec.CommandContext(s.ctx, o.Far[0], o.Far[1:]...) //nolint:gosec // our own program
	s.cmd.Stderr = o.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	s.input, s.to, s.from = in, json.NewEncoder(in), json.NewDecoder(out)
	context.AfterFunc(s.ctx, func() { _ = s.carrier.close() }) // wakes a measurement
	a, err := s.ask(&request{Op: opOpen, Path: s.path, Peers: peers})
	if err != nil {
		return err
	}
	answer, err := s.carrier.answer(s.ctx, a.Offer)
	if err != nil {
		return err
	}
	joined := make(chan error, 1)
	go func() {
		_, err := s.ask(&request{Op: opJoin, Answer: answer})
		if err != nil {
			s.stop()
		}
		joined <- err
	}()
	s.ends, err = s.carrier.join(s.ctx, answer)
	if err != nil {
		s.stop()
	}
	if err = errors.Join(<-joined, err); err == nil && len(s.ends) != peers {
		err = fmt.Errorf("%d ends of %d", len(s.ends), peers)
	}
	return err
}

func (s *session) ask(r *request) (*reply, error) {
	if err := s.to.Encode(r); err != nil {
		return nil, fmt.Errorf("far process: %w", err)
	}
	return s.await()
}

func (s *session) await() (*reply, error) {
	a := new(reply)
	if err := s.from.Decode(a); err != nil {
		s.stop()
		return nil, fmt.Errorf("far process: %w", err)
	}
	if a.Error != "" {
		s.stop()
		return nil, fmt.Errorf("far process: %s", a.Error)
	}
	return a, nil
}

// measured is one measurement as both processes saw it.
type measured struct {
	far  done
	wall time.Duration
	cpu  time.Duration // of both processes
}

// run does one measurement: the near half while the far process does its own.
func (s *session) run(j job, near func() error) (m measured, err error) {
	if _, err := s.ask(&request{Op: opRun, Job: j}); err != nil {
		return m, err
	}
	runtime.GC() // of what was before
	before, begun := cpuTime(), time.Now()
	failed := make(chan error, 1)
	go func() { failed <- near() }()
	a, err := s.await() // a failure of the far side closes the ends and so wakes the near half
	nerr := <-failed
	m.wall, m.cpu = time.Since(begun), cpuTime()-before
	if err = errors.Join(err, nerr); err != nil {
		return m, err
	}
	m.far = a.Done
	m.cpu += m.far.CPU
	return m, nil
}

// close ends the session and its far process.
func (s *session) close() (err error) {
	s.once.Do(func() {
		if s.cmd != nil {
			_ = s.input.Close() // tells it to end; it may have ended
			kill := time.AfterFunc(farPatience, s.stop)
			_ = s.cmd.Wait() // what counts was said before
			kill.Stop()
		}
		s.stop()
		if s.carrier != nil {
			err = s.carrier.close()
		}
	})
	return err
}
