//go:build rdmalab && linux && cgo

package verbs

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/fabrictest"
)

func TestFind(t *testing.T) {
	list, err := Find(DefaultConfig())
	require.NoError(t, err)
	require.NotEmpty(t, list)
	e := list[0]
	require.Equal(t, ProviderSoft, e.Provider)
	require.Equal(t, LinkEthernet, e.Link)
	require.True(t, e.Addr.Is4())
	require.Equal(t, 1, e.Port)
	require.Equal(t, 4096, e.MTU, "the interface's MTU of the lab is made for this")
	require.Zero(t, e.LID)
	require.Regexp(t, `^[0-9a-f]{4}(:[0-9a-f]{4}){3}$`, e.GUID)

	same, err := Find(with(func(c *Config) { c.Address = e.Addr.String() }))
	require.NoError(t, err)
	require.Equal(t, []Endpoint{e}, same)
	small, err := Find(with(func(c *Config) { c.MTU = 1024 }))
	require.NoError(t, err)
	require.Equal(t, 1024, small[0].MTU)
	_, err = Find(with(func(c *Config) { c.Address = "192.0.2.1" }))
	require.ErrorIs(t, err, fabric.ErrUnavailable)
	require.ErrorContains(t, err, "192.0.2.1")

	d := open(t, func(c *Config) { *c = c.At(e) })
	caps := d.Caps()
	require.Equal(t, ProviderSoft, caps.Provider)
	require.Contains(t, caps.Device, e.Addr.String())
	require.Contains(t, caps.Device, "memory windows")
	require.True(t, caps.Reads)
	require.Positive(t, caps.MaxReads)
	require.Equal(t, maxInline, caps.MaxInline)
	require.NotEqual(t, windowsNone, d.windows)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	_, err = d.NewRegion(4096)
	require.ErrorIs(t, err, fabric.ErrClosed)
}

// TestPortDown: the device tells that its port went, and Find says so, until it is back.
func TestPortDown(t *testing.T) {
	list, err := Find(DefaultConfig())
	require.NoError(t, err)
	netdev, addr := list[0].NetDev, list[0].Addr.String()
	d := open(t, nil)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	shell(t, "ip", "link", "set", netdev, "down")
	event := waitEvent(t, d, fabric.EventPortDown)
	require.NotEmpty(t, event.Text)
	_, err = Find(DefaultConfig())
	require.ErrorIs(t, err, fabric.ErrUnavailable)
	require.ErrorContains(t, err, "not active")
	shell(t, "ip", "link", "set", netdev, "up")
	require.Eventually(t, func() bool {
		list, err := Find(DefaultConfig())
		return err == nil && list[0].Addr.String() == addr
	}, fabrictest.Patience, 10*time.Millisecond)
	r := newRig(t, d)
	_, err = r.x.Post([]fabric.SendWR{r.write(1, 8, true)})
	require.NoError(t, err)
	require.Equal(t, fabric.StatusOK, take(t, r.cq[0], 1)[0].Status)
}

func waitEvent(t testing.TB, d *device, kind fabric.EventKind) fabric.Event {
	t.Helper()
	timer := time.NewTimer(fabrictest.Patience)
	defer timer.Stop()
	for {
		select {
		case e := <-d.Events():
			if e.Kind == kind {
				return e
			}
		case <-timer.C:
			require.FailNow(t, "no event came")
		}
	}
}

// TestAddressGone: a port that loses the address it was opened with is down.
func TestAddressGone(t *testing.T) {
	list, err := Find(DefaultConfig())
	require.NoError(t, err)
	netdev := list[0].NetDev
	shell(t, "ip", "addr", "add", "10.78.0.1/24", "dev", netdev)
	require.Eventually(t, func() bool {
		_, err := Find(with(func(c *Config) { c.Address = "10.78.0.1" }))
		return err == nil
	}, fabrictest.Patience, 10*time.Millisecond)
	stays := open(t, func(c *Config) { c.Address = list[0].Addr.String() })
	goes := open(t, func(c *Config) { c.Address = "10.78.0.1" })
	shell(t, "ip", "addr", "del", "10.78.0.1/24", "dev", netdev)
	require.Contains(t, waitEvent(t, goes, fabric.EventPortDown).Text, "address")
	shell(t, "ip", "link", "set", netdev, "down") // ends the port for both, and comes after the change of the address
	first := waitEvent(t, stays, fabric.EventPortDown)
	require.Contains(t, first.Text, "active", "another address of the port is no matter")
	shell(t, "ip", "link", "set", netdev, "up")
	require.Eventually(t, func() bool {
		_, err := Find(DefaultConfig())
		return err == nil
	}, fabrictest.Patience, 10*time.Millisecond)
	require.NoError(t, errors.Join(stays.Close(), goes.Close()))
}

// TestLockedMemory: a process that may lock too little is told so. The right to lock more is given up on this thread,
// which ends with the test.
func TestLockedMemory(t *testing.T) {
	d := open(t, nil)
	defer func() { require.NoError(t, d.Close()) }()
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: before.Max}))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before)) }()
	var setup, region, opening error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		if setup = giveUpLocking(); setup != nil {
			return
		}
		_, region = d.NewRegion(1 << 20)
		setup = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Max: before.Max})
		var other fabric.Device
		if other, opening = Open(DefaultConfig(), nil); other != nil {
			setup = errors.Join(setup, other.Close())
		}
	}()
	<-done
	require.NoError(t, setup)
	require.ErrorIs(t, region, fabric.ErrUnavailable)
	require.ErrorContains(t, region, "64 KiB")
	require.ErrorContains(t, region, "LimitMEMLOCK")
	require.ErrorIs(t, opening, fabric.ErrUnavailable)
	require.ErrorContains(t, opening, "LimitMEMLOCK")
}

// giveUpLocking takes from this thread the right to lock more memory than the limit.
func giveUpLocking() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	return unix.Capset(&header, &data[0])
}

// TestHugePages: regions are in huge pages while there are some, and in others afterwards.
func TestHugePages(t *testing.T) {
	d := open(t, nil)
	huge := func() int {
		text, err := os.ReadFile("/proc/self/smaps")
		require.NoError(t, err)
		return bytes.Count(text, []byte("KernelPageSize:     2048 kB"))
	}
	before := huge()
	var regions []fabric.Region
	for range 12 { // the lab has 8 pages
		r, err := d.NewRegion(hugePageBytes)
		require.NoError(t, err)
		r.Bytes()[hugePageBytes-1] = 1
		regions = append(regions, r)
	}
	require.Greater(t, huge(), before)
	for _, r := range regions {
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
	}
	require.Equal(t, before, huge())
	require.NoError(t, d.Close())
	d = open(t, func(c *Config) { c.HugePages = false })
	r, err := d.NewRegion(hugePageBytes)
	require.NoError(t, err)
	require.Equal(t, before, huge())
	require.NoError(t, errors.Join(r.Close(), d.Close()))
}

// TestOrderOfClosing: what is in use cannot be closed, and says so; the order of the verbs works.
func TestOrderOfClosing(t *testing.T) {
	d := open(t, nil)
	r := newRig(t, d)
	require.ErrorContains(t, d.Close(), "2 queue pairs, 2 completion queues, 2 receive queues, 2 regions")
	require.Error(t, r.cq[0].Close())
	require.Error(t, r.srq[0].Close())
	require.ErrorContains(t, r.target.Close(), "exposed")
	require.NoError(t, r.y.Close())
	require.NoError(t, r.target.Close())
	require.NoError(t, r.x.Close())
	require.Error(t, d.Close())
	r.close(t)
	require.NoError(t, d.Close())
	_, err := r.srq[0].Post([]fabric.RecvWR{{}})
	require.ErrorIs(t, err, fabric.ErrClosed)
	require.ErrorIs(t, r.srq[0].ArmLimit(1), fabric.ErrClosed)
}

// TestNothingIsLeft: opening and closing a device, or failing to, leaves nothing.
func TestNothingIsLeft(t *testing.T) {
	count := func() (int, int) {
		list, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return runtime.NumGoroutine(), len(list)
	}
	cycle := func() {
		require.NoError(t, openLogged(t, nil, nil).Close())
		_, err := Open(with(func(c *Config) { c.GIDIndex = 200 }), nil)
		require.ErrorIs(t, err, fabric.ErrUnavailable)
	}
	cycle()
	goroutines, descriptors := count()
	for range 20 {
		cycle()
	}
	tick, deadline := time.NewTicker(10*time.Millisecond), time.Now().Add(fabrictest.Patience)
	defer tick.Stop()
	for {
		g, f := count()
		if g <= goroutines && f <= descriptors {
			return
		}
		require.True(t, time.Now().Before(deadline), "%d goroutines, %d descriptors; before %d and %d", g, f, goroutines, descriptors)
		<-tick.C
	}
}

// TestManyQueues: receive queues are bounded and their places used again.
func TestManyQueues(t *testing.T) {
	d := open(t, nil)
	for range 3 {
		var list []fabric.SRQ
		for range maxSRQs {
			s, err := d.NewSRQ(8)
			require.NoError(t, err)
			list = append(list, s)
		}
		_, err := d.NewSRQ(8)
		require.Error(t, err)
		slices.Reverse(list)
		for _, s := range list {
			require.NoError(t, s.Close())
			require.NoError(t, s.Close())
		}
	}
	require.NoError(t, d.Close())
}
