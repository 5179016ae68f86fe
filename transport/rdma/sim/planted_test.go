package sim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/fabrictest"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// A backend with a bug, for each case of fabrictest at least one: the case must fail on it. The cases run in processes
// of their own, since failing is what is wanted, and in bubbles, where the suite's patience costs nothing.

// bug changes what a backend does. Hooks that are nil leave it as it is.
type bug struct {
	name   string
	fails  string // the case of the suite
	faults sim.Faults

	caps    func(*fabric.Caps)
	region  func(d fabric.Device, size int) (fabric.Region, error)
	newCQ   func(depth int) int
	newSRQ  func(depth int) int
	config  func(*fabric.QPConfig)
	made    func(q *badQP)
	connect func(q *badQP, ctx context.Context, remote []byte, lead bool) error
	expose  func(q *badQP, r fabric.Region, offset, n int, a fabric.Access) (fabric.Remote, error)
	mapping func(q *badQP, ctx context.Context, r fabric.Remote) ([]byte, error)
	post    func(q *badQP, wrs []fabric.SendWR) (int, error)
	poll    func(c *badCQ, out []fabric.Completion) (int, error)
	arm     func(c *badCQ) error
	wait    func(c *badCQ) error
	limit   func(s fabric.SRQ, n int) error
}

type badDevice struct {
	fabric.Device
	bug *bug
	all *[]*badQP
}

type badCQ struct {
	fabric.CQ
	bug   *bug
	count int
}

type badSRQ struct {
	fabric.SRQ
	bug *bug
}

type badQP struct {
	fabric.QP
	bug   *bug
	dev   *badDevice
	count int
}

func (d *badDevice) Caps() fabric.Caps {
	c := d.Device.Caps()
	if d.bug.caps != nil {
		d.bug.caps(&c)
	}
	return c
}

func (d *badDevice) NewRegion(size int) (fabric.Region, error) {
	if d.bug.region != nil {
		return d.bug.region(d.Device, size)
	}
	return d.Device.NewRegion(size)
}

func (d *badDevice) NewCQ(depth int) (fabric.CQ, error) {
	if d.bug.newCQ != nil {
		depth = d.bug.newCQ(depth)
	}
	c, err := d.Device.NewCQ(depth)
	return &badCQ{CQ: c, bug: d.bug}, err
}

func (d *badDevice) NewSRQ(depth int) (fabric.SRQ, error) {
	if d.bug.newSRQ != nil {
		depth = d.bug.newSRQ(depth)
	}
	s, err := d.Device.NewSRQ(depth)
	return &badSRQ{s, d.bug}, err
}

func (d *badDevice) NewQP(cfg fabric.QPConfig) (fabric.QP, error) {
	if c, ok := cfg.CQ.(*badCQ); ok {
		cfg.CQ = c.CQ
	}
	if s, ok := cfg.SRQ.(*badSRQ); ok {
		cfg.SRQ = s.SRQ
	}
	if d.bug.config != nil {
		d.bug.config(&cfg)
	}
	q, err := d.Device.NewQP(cfg)
	if err != nil {
		return nil, err
	}
	b := &badQP{QP: q, bug: d.bug, dev: d}
	*d.all = append(*d.all, b)
	if d.bug.made != nil {
		d.bug.made(b)
	}
	return b, nil
}

func (c *badCQ) Poll(out []fabric.Completion) (int, error) {
	if c.bug.poll != nil {
		return c.bug.poll(c, out)
	}
	return c.CQ.Poll(out)
}

func (c *badCQ) Arm() error {
	if c.bug.arm != nil {
		return c.bug.arm(c)
	}
	return c.CQ.Arm()
}

func (c *badCQ) Wait() error {
	if c.bug.wait != nil {
		return c.bug.wait(c)
	}
	return c.CQ.Wait()
}

func (s *badSRQ) ArmLimit(n int) error {
	if s.bug.limit != nil {
		return s.bug.limit(s.SRQ, n)
	}
	return s.SRQ.ArmLimit(n)
}

func (q *badQP) Connect(ctx context.Context, remote []byte, lead bool) error {
	if q.bug.connect != nil {
		return q.bug.connect(q, ctx, remote, lead)
	}
	return q.QP.Connect(ctx, remote, lead)
}

func (q *badQP) Expose(r fabric.Region, offset, n int, a fabric.Access) (fabric.Remote, error) {
	if q.bug.expose != nil {
		return q.bug.expose(q, r, offset, n, a)
	}
	return q.QP.Expose(r, offset, n, a)
}

func (q *badQP) Map(ctx context.Context, r fabric.Remote) ([]byte, error) {
	if q.bug.mapping != nil {
		return q.bug.mapping(q, ctx, r)
	}
	return q.QP.Map(ctx, r)
}

func (q *badQP) Post(wrs []fabric.SendWR) (int, error) {
	if q.bug.post != nil {
		return q.bug.post(q, wrs)
	}
	return q.QP.Post(wrs)
}

// each changes a copy of the requests before they are posted.
func each(change func(*fabric.SendWR)) func(*badQP, []fabric.SendWR) (int, error) {
	return func(q *badQP, wrs []fabric.SendWR) (int, error) {
		wrs = slices.Clone(wrs)
		for i := range wrs {
			change(&wrs[i])
		}
		return q.QP.Post(wrs)
	}
}

// polled changes completions, and drops those for which change says false.
func polled(change func(*badCQ, *fabric.Completion) bool) func(*badCQ, []fabric.Completion) (int, error) {
	return func(c *badCQ, out []fabric.Completion) (int, error) {
		n, err := c.CQ.Poll(out)
		kept := 0
		for i := range n {
			if change(c, &out[i]) {
				out[kept] = out[i]
				kept++
			}
		}
		return kept, err
	}
}

type oddRegion struct {
	fabric.Region
	from, to int
}

func (r oddRegion) Bytes() []byte { return r.Region.Bytes()[r.from : len(r.Region.Bytes())-r.to] }

var errOdd = errors.New("an error of no kind")

var mapped = sim.Faults{MapsRemote: true, Handshake: true}

var bugs = []bug{
	{name: "small queues", fails: "Caps", caps: func(c *fabric.Caps) { c.MaxRecv = 100 }},
	{name: "dirty memory", fails: "Regions", region: func(d fabric.Device, size int) (fabric.Region, error) {
		r, err := d.NewRegion(size)
		if err == nil {
			r.Bytes()[size-1] = 1
		}
		return r, err
	}},
	{name: "crooked memory", fails: "Regions", region: func(d fabric.Device, size int) (fabric.Region, error) {
		r, err := d.NewRegion(size + 8)
		return oddRegion{r, 8, 0}, err
	}},
	{name: "negative depth is taken", fails: "Limits", newCQ: func(depth int) int { return max(depth, 1) }},
	{name: "one side connects nothing", fails: "Connect", connect: func(q *badQP, ctx context.Context, remote []byte, lead bool) error {
		if !lead {
			return nil
		}
		return q.QP.Connect(ctx, remote, lead)
	}},
	{name: "any info is taken", fails: "BadInfo", connect: func(q *badQP, ctx context.Context, remote []byte, lead bool) error {
		if err := q.QP.Connect(ctx, remote, lead); !errors.Is(err, fabric.ErrPeer) {
			return err
		}
		return nil
	}},
	{name: "Connect has no context", fails: "ConnectContext", faults: mapped, connect: func(q *badQP, _ context.Context, remote []byte, lead bool) error {
		return q.QP.Connect(context.Background(), remote, lead)
	}},
	{name: "a byte is lost", fails: "Send", post: each(func(wr *fabric.SendWR) { wr.Local = wr.Local[:max(0, len(wr.Local)-1)] })},
	{name: "immediate in host order", fails: "Immediate", post: each(func(wr *fabric.SendWR) { wr.Imm = bits.ReverseBytes32(wr.Imm) })},
	{name: "immediate overtakes", fails: "WriteOrder", faults: sim.Faults{Delay: time.Millisecond}, post: func(q *badQP, wrs []fabric.SendWR) (int, error) {
		return q.QP.Post(append(slices.Clone(wrs[len(wrs)-1:]), wrs[:len(wrs)-1]...))
	}},
	{name: "writes without their last byte", fails: "WriteOrder", post: each(func(wr *fabric.SendWR) {
		if wr.Op == fabric.OpWrite {
			wr.Local = wr.Local[:len(wr.Local)-1]
		}
	})},
	{name: "inline is late", fails: "Inline", post: func(q *badQP, wrs []fabric.SendWR) (int, error) {
		if wrs[0].Inline {
			wrs = slices.Clone(wrs)
			wrs[0].Local = make([]byte, len(wrs[0].Local)) // as it will be then
		}
		return q.QP.Post(wrs)
	}},
	{name: "reads from beside", fails: "Read", post: each(func(wr *fabric.SendWR) {
		if wr.Op == fabric.OpRead {
			wr.Remote++
		}
	})},
	{name: "a mapping that is a copy", fails: "Map", faults: mapped, mapping: func(q *badQP, ctx context.Context, r fabric.Remote) ([]byte, error) {
		b, err := q.QP.Map(ctx, r)
		return slices.Clone(b), err
	}},
	{name: "Map believes lengths", fails: "Map", faults: mapped, mapping: func(q *badQP, ctx context.Context, r fabric.Remote) ([]byte, error) {
		b, err := q.QP.Map(ctx, r)
		if errors.Is(err, fabric.ErrPeer) {
			return nil, nil
		}
		return b, err
	}},
	{name: "Map has no context", fails: "MapContext", faults: mapped, mapping: func(q *badQP, _ context.Context, r fabric.Remote) ([]byte, error) {
		return q.QP.Map(context.Background(), r)
	}},
	{name: "all completes", fails: "Signals", post: each(func(wr *fabric.SendWR) { wr.Signaled = true })},
	{name: "completions backwards", fails: "Signals", poll: func(c *badCQ, out []fabric.Completion) (int, error) {
		n, err := c.CQ.Poll(out)
		slices.Reverse(out[:n])
		return n, err
	}},
	{name: "partial without error", fails: "SendQueueFull", post: func(q *badQP, wrs []fabric.SendWR) (int, error) {
		n, err := q.QP.Post(wrs)
		if errors.Is(err, fabric.ErrFull) {
			err = nil
		}
		return n, err
	}},
	{name: "endless send queue", fails: "SendQueueFull", config: func(c *fabric.QPConfig) { c.SendDepth = min(c.SendDepth*16, sim.MaxSend) }},
	{name: "short send queue", fails: "SendQueueFull", config: func(c *fabric.QPConfig) { c.SendDepth = (c.SendDepth + 1) / 2 }},
	{name: "short receive queue", fails: "ReceiveQueueFull", newSRQ: func(depth int) int { return (depth + 1) / 2 }},
	{name: "all is the first queue pair's", fails: "SharedReceiveQueue", poll: polled(func(_ *badCQ, c *fabric.Completion) bool {
		c.QP = 17
		return true
	})},
	{name: "waits for entries", fails: "RNR", config: func(c *fabric.QPConfig) { c.RNRRetry = true }},
	{name: "waits for no entries", fails: "RNRRetry", config: func(c *fabric.QPConfig) { c.RNRRetry = false }},
	{name: "no limit event", fails: "LimitEvent", limit: func(fabric.SRQ, int) error { return nil }},
	{name: "limit stays armed", fails: "LimitEvent", limit: func(s fabric.SRQ, n int) error {
		armed = s
		return s.ArmLimit(n)
	}, poll: polled(func(*badCQ, *fabric.Completion) bool {
		if armed != nil {
			_ = armed.ArmLimit(32)
		}
		return true
	})},
	{name: "arming is lost at times", fails: "PingPong", arm: func(c *badCQ) error {
		if c.count++; c.count%1000 == 0 {
			return nil
		}
		return c.CQ.Arm()
	}},
	{name: "a completion is lost at times", fails: "ManySenders", poll: polled(func(q *badCQ, c *fabric.Completion) bool {
		q.count++
		return q.count%1000 != 0
	})},
	{name: "waits for no entries of busy peers", fails: "BothWays", config: func(c *fabric.QPConfig) { c.RNRRetry = false }},
	{name: "entries forget who they are", fails: "ConcurrentEntries", poll: polled(func(_ *badCQ, c *fabric.Completion) bool {
		c.ID &^= 1
		return true
	})},
	{name: "arming is lost while another polls", fails: "PollWhileWaiting", faults: sim.Faults{Delay: time.Millisecond}, arm: func(c *badCQ) error {
		if c.count++; c.count%10 == 0 {
			return nil
		}
		return c.CQ.Arm()
	}},
	{name: "the whole region is open", fails: "Access", expose: func(q *badQP, r fabric.Region, offset, n int, a fabric.Access) (fabric.Remote, error) {
		m, err := q.QP.Expose(r, 0, len(r.Bytes()), a)
		m.Addr, m.Len = m.Addr+uint64(offset), uint32(n)
		return m, err
	}},
	{name: "any access", fails: "Access", expose: func(q *badQP, r fabric.Region, offset, n int, _ fabric.Access) (fabric.Remote, error) {
		return q.QP.Expose(r, offset, n, fabric.RemoteRead|fabric.RemoteWrite)
	}},
	{name: "keys are everybody's", fails: "Access", expose: func(q *badQP, r fabric.Region, offset, n int, a fabric.Access) (fabric.Remote, error) {
		m, err := q.QP.Expose(r, offset, n, a)
		for _, x := range *q.dev.all {
			sim.Leak(x.QP, q.QP)
		}
		return m, err
	}},
	{name: "keys live on", fails: "StaleKey", expose: func(q *badQP, r fabric.Region, offset, n int, a fabric.Access) (fabric.Remote, error) {
		for _, x := range *q.dev.all {
			sim.Leak(x.QP, q.QP)
		}
		return q.QP.Expose(r, offset, n, a)
	}},
	{name: "nothing cannot be exposed", fails: "Expose", expose: func(q *badQP, r fabric.Region, offset, n int, a fabric.Access) (fabric.Remote, error) {
		m, err := q.QP.Expose(r, offset, n, a)
		if err != nil && !errors.Is(err, fabric.ErrBroken) && !errors.Is(err, fabric.ErrFull) {
			err = nil
		}
		return m, err
	}},
	{name: "exposures have no bound", fails: "Expose", expose: func(q *badQP, r fabric.Region, offset, n int, a fabric.Access) (fabric.Remote, error) {
		m, err := q.QP.Expose(r, offset, n, a)
		if errors.Is(err, fabric.ErrFull) {
			err = nil
		}
		return m, err
	}},
	{name: "local keys mean nothing", fails: "LocalKey", post: func(q *badQP, wrs []fabric.SendWR) (int, error) {
		wrs = slices.Clone(wrs)
		wrs[0].Local, wrs[0].Inline = wrs[0].Local[:min(len(wrs[0].Local), sim.MaxInline)], true
		return q.QP.Post(wrs)
	}},
	{name: "a SEND is cut", fails: "OversizedSend", post: each(func(wr *fabric.SendWR) { wr.Local = wr.Local[:min(len(wr.Local), fabric.MaxSendBytes)] })},
	{name: "unsignalled requests are not flushed", fails: "Break", poll: polled(func(_ *badCQ, c *fabric.Completion) bool {
		return c.Status != fabric.StatusFlushed || c.ID%2 == 0
	})},
	{name: "a broken queue pair takes requests", fails: "Break", post: func(q *badQP, wrs []fabric.SendWR) (int, error) {
		n, err := q.QP.Post(wrs)
		if errors.Is(err, fabric.ErrBroken) {
			return len(wrs), nil
		}
		return n, err
	}},
	{name: "failures do not complete", fails: "BreakIsSeen", poll: polled(func(_ *badCQ, c *fabric.Completion) bool { return c.Status == fabric.StatusOK })},
	{name: "posting works unconnected", fails: "Unconnected", post: func(q *badQP, wrs []fabric.SendWR) (int, error) {
		n, err := q.QP.Post(wrs)
		if errors.Is(err, fabric.ErrBroken) {
			return len(wrs), nil
		}
		return n, err
	}},
	{name: "Close wakes nobody", fails: "CloseWhileWaiting", wait: func(c *badCQ) error {
		if err := c.CQ.Wait(); err == nil {
			return nil
		}
		select {}
	}},
	{name: "Map survives Close", fails: "CloseWhileMapping", faults: mapped, mapping: func(q *badQP, ctx context.Context, r fabric.Remote) ([]byte, error) {
		if b, err := q.QP.Map(ctx, r); err == nil {
			return b, nil
		}
		select {}
	}},
	{name: "Connect survives Close", fails: "CloseWhileConnecting", faults: mapped, connect: func(q *badQP, ctx context.Context, remote []byte, lead bool) error {
		if err := q.QP.Connect(ctx, remote, lead); err == nil {
			return nil
		}
		select {}
	}},
	{name: "an odd error after Close", fails: "CloseUnderLoad", post: func(q *badQP, wrs []fabric.SendWR) (int, error) {
		n, err := q.QP.Post(wrs)
		if err != nil && !errors.Is(err, fabric.ErrFull) {
			err = errOdd
		}
		return n, err
	}},
	{name: "requests are doubled", fails: "CloseUnderLoad", post: func(q *badQP, wrs []fabric.SendWR) (int, error) {
		if q.count++; q.count == 10 {
			_, _ = q.QP.Post(wrs)
		}
		return q.QP.Post(wrs)
	}},
	{name: "a descriptor is left", fails: "Leaks", made: func(q *badQP) {
		if len(*q.dev.all)%100 == 0 {
			f, _ := os.Open(os.DevNull)
			leaked = append(leaked, f)
		}
	}},
	{name: "a goroutine is left", fails: "Leaks", made: func(*badQP) { go func() { select {} }() }},
}

var (
	leaked []*os.File
	armed  fabric.SRQ
)

const bugVariable = "BORNODE_PLANTED_BUG"

// TestPlantedBugs: each case of the suite fails on a backend that has the bug it is there for.
func TestPlantedBugs(t *testing.T) {
	if name := os.Getenv(bugVariable); name != "" {
		i := slices.IndexFunc(bugs, func(b bug) bool { return b.name == name })
		runBug(t, bugs[i])
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	covered := make(map[string]bool)
	for _, b := range bugs {
		covered[b.fails] = true
		cmd := exec.Command(self, "-test.run=^TestPlantedBugs$", "-test.v")
		cmd.Env = append(os.Environ(), bugVariable+"="+b.name)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "%s: the case %s passes on it", b.name, b.fails)
		if !bytes.Contains(out, []byte("Error Trace")) || !bytes.Contains(out, []byte("fabrictest/")) {
			require.Fail(t, "it is not the suite that fails", "%s: %s", b.name, out)
		}
	}
	for _, c := range fabrictest.Cases() {
		require.True(t, covered[c.Name], "no bug for the case %s", c.Name)
	}
	runBug(t, bug{fails: "Signals"}) // the wrapper alone does no harm
}

func runBug(t *testing.T, b bug) {
	for _, c := range fabrictest.Cases() {
		if c.Name != b.fails {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			c.Run(t, fabrictest.Harness{NewPair: func(testing.TB) (fabric.Device, fabric.Device) {
				n := sim.NewNetwork(1, b.faults)
				all := new([]*badQP)
				return &badDevice{n.NewDevice("a"), &b, all}, &badDevice{n.NewDevice("b"), &b, all}
			}})
		})
		return
	}
	panic(fmt.Sprintf("no case %q", b.fails))
}
