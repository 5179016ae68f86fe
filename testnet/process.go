package testnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a process we started. Started guards against another process that got the same id later.
type Process struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks since boot, from /proc/PID/stat
}

// clockTicks is USER_HZ, which Linux fixes at 100 for what /proc shows.
const clockTicks = 100

// start runs a program detached from the terminal, its output appended to a log file.
func start(binary string, args, env []string, logFile string) (Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Process{}, err
	}
	defer log.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Process{}, fmt.Errorf("start %s: %w", binary, err)
	}
	s, err := readStat(cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return Process{}, err
	}
	go func() { _ = cmd.Wait() }() // no zombie while we live
	return Process{PID: cmd.Process.Pid, Started: s.started}, nil
}

type stat struct {
	state   byte
	ticks   uint64 // user + system
	started uint64
	threads uint64 // the first one counts until its parent asks
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, err
	}
	text := string(b)
	i := strings.LastIndexByte(text, ')')
	if i < 0 {
		return stat{}, fmt.Errorf("/proc/%d/stat has no name", pid)
	}
	f := strings.Fields(text[i+1:]) // f[0] is field 3, the state
	if len(f) < 20 {
		return stat{}, fmt.Errorf("/proc/%d/stat is short", pid)
	}
	user, _ := strconv.ParseUint(f[11], 10, 64)
	system, _ := strconv.ParseUint(f[12], 10, 64)
	started, _ := strconv.ParseUint(f[19], 10, 64)
	threads, _ := strconv.ParseUint(f[17], 10, 64)
	return stat{state: f[0][0], ticks: user + system, started: started, threads: threads}, nil
}

// Alive reports whether the process we started still runs. A killed one counts until its last thread is gone: only
// then its files are closed and its locks free.
func (p Process) Alive() bool {
	if p.PID == 0 {
		return false
	}
	s, err := readStat(p.PID)
	if err != nil || s.started != p.Started {
		return false
	}
	// The list of threads is no measure: it is read while they end, and may leave out some that still live.
	return s.state != 'Z' && s.state != 'X' || s.threads > 1
}

// CPU is the processor time it has used, user and system; 0 if it is gone.
func (p Process) CPU() time.Duration {
	s, err := readStat(p.PID)
	if err != nil || s.started != p.Started {
		return 0
	}
	return time.Duration(s.ticks) * time.Second / clockTicks
}

func (p Process) signal(sig syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// await returns when the process is gone.
func (p Process) await(ctx context.Context) error {
	return poll(ctx, func() (bool, error) { return !p.Alive(), nil })
}

// stop asks the process to end, and kills it if it has not after stopTimeout.
func (p Process) stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if p.await(patience) == nil {
		return nil
	}
	return p.kill(ctx)
}

func (p Process) kill(ctx context.Context) error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	return p.await(ctx)
}

const pollEvery = 20 * time.Millisecond

// poll calls done until it is true, fails, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}
