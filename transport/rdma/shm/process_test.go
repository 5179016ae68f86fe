//go:build linux

package shm

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// childEnv names the part that this test binary plays when it is started again as another process.
const childEnv = "BORNODE_SHM_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		if err := playChild(part); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is another process that plays the peer.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	text strings.Builder
}

func startChild(t testing.TB, part string) *child {
	c := &child{cmd: exec.Command("/proc/self/exe")}
	c.cmd.Env = append(os.Environ(), childEnv+"="+part)
	c.cmd.Stderr = &c.text
	var err error
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewScanner(out)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(c.kill)
	return c
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.in.Close()
	_ = c.cmd.Wait()
}

func (c *child) line(t testing.TB) []byte {
	require.True(t, c.out.Scan(), "the child said nothing: %s", c.text.String())
	b, err := hex.DecodeString(c.out.Text())
	require.NoError(t, err)
	return b
}

func (c *child) tell(b []byte) { fmt.Fprintln(c.in, hex.EncodeToString(b)) }

// join connects e with the child's queue pair; the child leads.
func (c *child) join(t testing.TB, e *end) {
	c.tell(e.qp.Info())
	require.NoError(t, e.qp.Connect(context.Background(), c.line(t), false), "child: %s", &c.text)
}

// swap exposes a region of size bytes to the child and maps one of its.
func (c *child) swap(t testing.TB, e *end, size int) (mapped []byte, own fabric.Region) {
	own, err := e.dev.NewRegion(size)
	require.NoError(t, err)
	r, err := e.qp.Expose(own, 0, size, fabric.RemoteWrite)
	require.NoError(t, err)
	c.tell(fmt.Appendf(nil, "%d %d %d", r.Addr, r.Key, r.Len))
	var theirs fabric.Remote
	_, err = fmt.Sscanf(string(c.line(t)), "%d %d %d", &theirs.Addr, &theirs.Key, &theirs.Len)
	require.NoError(t, err)
	mapped, err = e.qp.Map(context.Background(), theirs)
	require.NoError(t, err)
	return mapped, own
}

// playChild is the other process: a device, one queue pair, a region each way, then its part until the peer goes. It
// needs no testing.T: what fails is the exit status.
func playChild(part string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	in := bufio.NewScanner(os.Stdin)
	listen := func() []byte {
		if !in.Scan() {
			os.Exit(0)
		}
		b, err := hex.DecodeString(in.Text())
		must(err)
		return b
	}
	dev, err := Open(testConfig(), nil)
	must(err)
	e := &end{t: &testing.T{}, dev: dev}
	cq, err := dev.NewCQ(4096)
	must(err)
	srq, err := dev.NewSRQ(2048)
	must(err)
	e.cq, e.srq = cq.(*CQ), srq.(*SRQ)
	_, err = srq.Post(make([]fabric.RecvWR, 2048))
	must(err)
	qp, err := dev.NewQP(fabric.QPConfig{CQ: cq, SRQ: srq, SendDepth: 128})
	must(err)
	e.qp = qp.(*QP)
	fmt.Println(hex.EncodeToString(qp.Info()))
	must(qp.Connect(context.Background(), listen(), true))
	var theirs fabric.Remote
	_, err = fmt.Sscanf(string(listen()), "%d %d %d", &theirs.Addr, &theirs.Key, &theirs.Len)
	must(err)
	mapped, err := qp.Map(context.Background(), theirs)
	must(err)
	own, err := dev.NewRegion(len(mapped))
	must(err)
	r, err := qp.Expose(own, 0, len(mapped), fabric.RemoteWrite)
	must(err)
	fmt.Println(hex.EncodeToString(fmt.Appendf(nil, "%d %d %d", r.Addr, r.Key, r.Len)))
	go func() { // a sleeper is not woken by the end of a queue pair it has posted nothing to
		<-e.qp.done
		e.cq.kick()
	}()
	switch part {
	case "flood":
		e.flood(mapped)
	case "echo":
		e.echo(false)
	case "echo asleep":
		e.echo(true)
	case "sink":
		(&stream{end: e, ring: own.Bytes()}).consume()
	}
	return dev.Close()
}

// flood writes and tells until the queue pair breaks.
func (e *end) flood(mapped []byte) {
	out := make([]fabric.Completion, 64)
	for i := uint32(0); ; i++ {
		mapped[int(i)%len(mapped)] = byte(i)
		_, err := e.qp.Post([]fabric.SendWR{{Op: fabric.OpWriteImm, Imm: i, Signaled: true}})
		for {
			n, _ := e.cq.Poll(out)
			e.again(out[:n])
			if n == 0 {
				break
			}
		}
		if err != nil && e.qp.state.Load() == stateBroken {
			return
		}
	}
}

var emptyEntries [64]fabric.RecvWR

// again posts the receive entries of completions again, and counts them.
func (e *end) again(out []fabric.Completion) (n int) {
	for _, c := range out {
		if c.Status == fabric.StatusOK && (c.Op == fabric.OpRecvImm || c.Op == fabric.OpRecv) {
			n++
		}
	}
	e.srq.Post(emptyEntries[:n])
	return n
}

// TestTwoProcesses: what one process writes the other sees, in order, sleeping or not.
func TestTwoProcesses(t *testing.T) {
	for _, part := range []string{"echo", "echo asleep"} {
		c := startChild(t, part)
		e := newEnd(t, openDevice(t, testConfig()), 64, fabric.QPConfig{})
		c.join(t, e)
		mapped, own := c.swap(t, e, 4096)
		mapped[0] = 1
		for i := range uint32(2000) {
			e.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: i, Signaled: true})
			got, ok := e.hear(i%2 == 0)
			require.True(t, ok)
			require.Equal(t, i, got)
		}
		require.NoError(t, e.qp.Close())
		require.NoError(t, own.Close())
		require.NoError(t, c.in.Close())
		require.NoError(t, c.cmd.Wait(), "%s", &c.text)
	}
}

// TestPeerIsKilled: a peer killed at any moment breaks its queue pair here at once, and nothing else: no fault in
// shared memory, nothing left.
func TestPeerIsKilled(t *testing.T) {
	rounds := 8
	if long {
		rounds = 60
	}
	goroutines, files, maps := runtime.NumGoroutine(), descriptors(t), mappings(t)
	t.Run("rounds", func(t *testing.T) {
		e := newEnd(t, openDevice(t, testConfig()), 16, fabric.QPConfig{})
		check := bystander(t, e)
		srq, err := e.dev.NewSRQ(2048)
		require.NoError(t, err)
		first := e.srq
		e.srq = srq.(*SRQ)
		_, err = srq.Post(make([]fabric.RecvWR, 2048))
		require.NoError(t, err)
		for i := range rounds {
			e.qp = e.quickQP()
			e.killOne(t, rand.IntN(3000), i%3 == 0)
			e.srq, first = first, e.srq
			check()
			e.srq, first = first, e.srq
		}
		require.NoError(t, e.srq.Close())
		e.srq = first
	})
	requireSettled(t, goroutines, files, maps)
}

// killOne kills a peer that floods us, after it was heard of n times.
func (e *end) killOne(t *testing.T, n int, asleep bool) {
	c := startChild(t, "flood")
	c.join(t, e)
	mapped, own := c.swap(t, e, 256<<10)
	out := make([]fabric.Completion, 64)
	heard, killed := 0, false
	deadline := time.Now().Add(patience)
	for e.qp.state.Load() != stateBroken {
		require.True(t, time.Now().Before(deadline), "killed: %v, heard %d", killed, heard)
		if asleep {
			require.NoError(t, e.cq.Arm())
		}
		k, err := e.cq.Poll(out)
		require.NoError(t, err)
		heard += e.again(out[:k])
		for i := range 64 { // whether the other process lives or not
			mapped[rand.IntN(len(mapped))] = byte(i)
		}
		e.qp.Post([]fabric.SendWR{{Op: fabric.OpWriteImm, Signaled: true}})
		if k == 0 && asleep {
			require.NoError(t, e.cq.Wait())
		}
		if !killed && heard >= n {
			killed = true
			require.NoError(t, c.cmd.Process.Kill())
		}
	}
	sum := 0
	for _, b := range mapped {
		sum += int(b)
	}
	for _, b := range own.Bytes() {
		sum += int(b)
	}
	require.NotZero(t, sum)
	for { // what it published before it died, then nothing
		k, err := e.cq.Poll(out)
		require.NoError(t, err)
		if k == 0 {
			break
		}
		heard += e.again(out[:k])
	}
	require.GreaterOrEqual(t, heard, n)
	require.NoError(t, e.qp.Close())
	require.NoError(t, own.Close())
	c.kill()
}

// TestPeerDiesWhileConnecting: the leading side sees the end of the socket, the other its own time limit.
func TestPeerDiesWhileConnecting(t *testing.T) {
	c := startChild(t, "echo")
	e := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	theirs := c.line(t)
	result := make(chan error, 1)
	go func() { result <- e.qp.Connect(context.Background(), theirs, true) }()
	c.kill() // it waits for our info, and never connects
	require.Error(t, <-result)
	cfg := testConfig()
	cfg.Timeout = 10 * time.Millisecond
	e = newEnd(t, openDevice(t, cfg), 4, fabric.QPConfig{})
	require.ErrorIs(t, e.qp.Connect(context.Background(), theirs, false), context.DeadlineExceeded)
}
