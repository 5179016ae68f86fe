package join

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopPatience is how long a process may take to end in order.
const stopPatience = 30 * time.Second

// process is one that a run started.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string // file with what it wrote to standard error
	in     io.WriteCloser
	out    io.ReadCloser
	ended  chan struct{}
	reason error // once ended
}

// start runs our program with arguments; what it says on standard error goes to a file.
func start(name string, program []string, log string) (*process, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &process{name: name, log: log, ended: make(chan struct{}), cmd: exec.Command(program[0], program[1:]...)} //nolint:gosec // our own program
	p.cmd.Stderr = f
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is ours to pass on
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe() // not StdoutPipe: Wait must not close what is still to be read
	if err != nil {
		return nil, err
	}
	p.out, p.cmd.Stdout = r, w
	err = p.cmd.Start()
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.reason = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// failure says why a process that should run has ended, with the end of its log.
func (p *process) failure() error {
	text, _ := os.ReadFile(p.log) // what there is
	if len(text) > 2000 {
		text = text[len(text)-2000:]
	}
	return fmt.Errorf("%s ended: %w; its log ends with:\n%s", p.name, errors.Join(p.reason, errors.New("too early")), bytes.TrimSpace(text))
}

// cpu is the processor time that the process has used, user and system.
func (p *process) cpu() (time.Duration, error) {
	const schedClock = 2                               // CPUCLOCK_SCHED: precise, not in ticks
	clock := int32(^p.cmd.Process.Pid)<<3 | schedClock //nolint:gosec // a process id
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("processor time of %s: %w", p.name, err)
	}
	return time.Duration(t.Nano()), nil
}

// stop ends the process in order, and by force if it takes too long.
func (p *process) stop() error {
	_ = p.in.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	defer p.out.Close()
	t := time.NewTimer(stopPatience)
	defer t.Stop()
	select {
	case <-p.ended:
		return nil
	case <-t.C:
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end within %v", p.name, stopPatience)
	}
}

// await calls done every few milliseconds until it is true or fails, the process ends, or ctx does.
func (p *process) await(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return p.failure()
		case <-t.C:
		}
	}
}
