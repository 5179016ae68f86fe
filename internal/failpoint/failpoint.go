package failpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Variable is the environment variable that arms fail points in a process: "name:n[,name:n]".
const Variable = "BORNODE_FAILPOINT"

// HoldVariable is the environment variable that stops a process at a place, "name:n:PIPE": the n-th hit waits until
// somebody opens the named pipe for writing, and the process goes on.
const HoldVariable = "BORNODE_FAILPOINT_HOLD"

const (
	unread uint32 = iota // the variable was not looked at yet
	idle                 // nothing is armed
	armed
)

type point struct {
	left   int
	action func()
}

// registry is the state of one process. It is a type of its own so that tests need not share the process's.
type registry struct {
	state atomic.Uint32

	mu     sync.Mutex
	points map[string]*point
}

var process registry // one per process: what is armed kills the process

// Hit marks a place. It does nothing unless the place is armed and this is the hit asked for. The action runs on the
// caller's goroutine; a kill does not return.
func Hit(name string) {
	if process.state.Load() == idle {
		return
	}
	process.hit(name, os.Getenv, kill)
}

// Arm makes the n-th hit of name from now on (n >= 1) run action, once. Arming a name again replaces what it had.
// The returned function disarms it. For tests.
func Arm(name string, n int, action func()) (disarm func()) {
	return process.arm(name, n, action)
}

func (r *registry) arm(name string, n int, action func()) func() {
	p := &point{left: n, action: action}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.points == nil {
		r.points = make(map[string]*point)
	}
	r.points[name] = p
	if r.state.Load() == idle {
		r.state.Store(armed)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.points[name] == p {
			r.remove(name)
		}
	}
}

func (r *registry) remove(name string) {
	delete(r.points, name)
	if len(r.points) == 0 && r.state.Load() == armed {
		r.state.Store(idle)
	}
}

func (r *registry) hit(name string, getenv func(string) string, kill func()) {
	if action := r.due(name, getenv, kill); action != nil {
		action()
	}
}

// due counts one hit of name and returns the action it triggers.
func (r *registry) due(name string, getenv func(string) string, kill func()) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Load() == unread {
		r.read(getenv(Variable), getenv(HoldVariable), kill)
	}
	p := r.points[name]
	if p == nil {
		return nil
	}
	if p.left--; p.left > 0 {
		return nil
	}
	r.remove(name)
	return p.action
}

func (r *registry) read(value, hold string, kill func()) {
	counts, err := Parse(value)
	name, held, holdErr := parseHold(hold)
	if err = errors.Join(err, holdErr); err != nil {
		panic("failpoint: " + err.Error()) // a crash test that silently never crashes would prove nothing
	}
	if r.points == nil {
		r.points = make(map[string]*point)
	}
	for name, n := range counts {
		if r.points[name] == nil {
			r.points[name] = &point{left: n, action: kill}
		}
	}
	if held != nil && r.points[name] == nil {
		r.points[name] = held
	}
	if len(r.points) == 0 {
		r.state.Store(idle)
	} else {
		r.state.Store(armed)
	}
}

// parseHold reads the value of HoldVariable; nil: nothing is held.
func parseHold(value string) (name string, held *point, err error) {
	if value == "" {
		return "", nil, nil
	}
	parts := strings.SplitN(value, ":", 3)
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
		return "", nil, fmt.Errorf("%s is %q; write name:n:PIPE", HoldVariable, value)
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n < 1 {
		return "", nil, fmt.Errorf("%s is %q; write name:n:PIPE with n >= 1", HoldVariable, value)
	}
	return parts[0], &point{left: n, action: func() {
		f, err := os.Open(parts[2]) // returns when the other end is opened
		if err != nil {
			panic("failpoint: " + err.Error())
		}
		_ = f.Close()
	}}, nil
}

// Parse reads the value of the environment variable: for each name the hit that kills, counted from 1. An empty value
// arms nothing.
func Parse(value string) (map[string]int, error) {
	out := make(map[string]int)
	if strings.TrimSpace(value) == "" {
		return out, nil
	}
	for _, item := range strings.Split(value, ",") {
		name, count, ok := strings.Cut(strings.TrimSpace(item), ":")
		n, err := strconv.Atoi(count)
		if !ok || name == "" || err != nil || n < 1 {
			return nil, fmt.Errorf("%s has %q; write name:n with n >= 1, several separated by commas", Variable, item)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s names %q twice", Variable, name)
		}
		out[name] = n
	}
	return out, nil
}

// kill ends the process as SIGKILL does: no deferred call, no flush. It never returns.
func kill() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // the signal is on its way
}
