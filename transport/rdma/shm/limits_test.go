//go:build linux

package shm

import (
	"context"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// TestSendIntoSmallEntry: a SEND that is longer than its entry spills nothing and ends the queue pair on both sides.
func TestSendIntoSmallEntry(t *testing.T) {
	a, b := pair(t, 0, fabric.QPConfig{})
	mem := b.land.Bytes()
	_, err := b.srq.Post([]fabric.RecvWR{{ID: 7, Local: mem[:10], Key: b.land.LocalKey()}, {ID: 8}})
	require.NoError(t, err)
	a.post(fabric.SendWR{Op: fabric.OpSend, Local: []byte("0123456789"), Inline: true})
	require.Equal(t, fabric.Completion{ID: 7, QP: b.qp.num, Op: fabric.OpRecv, Bytes: 10}, b.await(1)[0])
	a.post(fabric.SendWR{Op: fabric.OpSend, Local: []byte("0"), Inline: true})
	require.Equal(t, fabric.Completion{ID: 8, QP: b.qp.num, Status: fabric.StatusLocal}, b.await(1)[0])
	requireBroken(t, b.qp, fabric.ErrBroken)
	requireBroken(t, a.qp, fabric.ErrBroken)
	require.Equal(t, "0123456789", string(mem[:10]))
	require.Zero(t, mem[10])
}

func TestEntryOutsideItsRegion(t *testing.T) {
	_, b := pair(t, 0, fabric.QPConfig{})
	other, err := b.dev.NewRegion(4096)
	require.NoError(t, err)
	defer other.Close()
	for _, wr := range []fabric.RecvWR{
		{Local: make([]byte, 8), Key: b.land.LocalKey()},
		{Local: b.land.Bytes()[:8], Key: other.LocalKey()},
		{Local: b.land.Bytes()[:8], Key: 0},
	} {
		n, err := b.srq.Post([]fabric.RecvWR{{}, wr})
		require.Error(t, err)
		require.Equal(t, 1, n)
	}
}

// TestLyingWhileOthersWait: a position that was never sent is found out when completions wait for it.
func TestLyingWhileOthersWait(t *testing.T) {
	a, b := pair(t, 0, fabric.QPConfig{RNRRetry: true})
	a.post(ping...)
	b.qp.rx.head.Store(math.MaxUint64)
	n, err := a.cq.Poll(make([]fabric.Completion, 4))
	require.NoError(t, err)
	require.Zero(t, n)
	requireBroken(t, a.qp, fabric.ErrPeer)
	require.Equal(t, fabric.StatusOther, a.await(1)[0].Status)
}

func TestReadsAreRefused(t *testing.T) {
	a, b := pair(t, 8, fabric.QPConfig{})
	n, err := a.qp.Post([]fabric.SendWR{{Op: fabric.OpWriteImm, Imm: 3}, {Op: fabric.OpRead}})
	require.ErrorIs(t, err, fabric.ErrUnsupported)
	require.Equal(t, 1, n)
	a.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: 4})
	got := b.await(2)
	require.Equal(t, uint32(4), got[1].Imm)
}

// TestExposeUnanswered: a peer that does not map in time, or goes, ends Expose.
func TestExposeUnanswered(t *testing.T) {
	b := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	reg, err := b.dev.NewRegion(4096)
	require.NoError(t, err)
	defer reg.Close()
	for _, leave := range []bool{true, false} {
		b.newQP(fabric.QPConfig{})
		v := newVillain(t, b)
		v.connected()
		if leave {
			require.NoError(t, v.conn.Close())
		} else {
			b.dev.cfg.Timeout = time.Millisecond
		}
		_, err = b.qp.Expose(reg, 0, 4096, fabric.RemoteWrite)
		require.ErrorIs(t, err, fabric.ErrBroken)
		requireBroken(t, b.qp, fabric.ErrBroken)
	}
}

// TestPeerDoesNotRead: whoever does not read its socket is not woken, costs no time, and cannot hold up a Post.
func TestPeerDoesNotRead(t *testing.T) {
	b := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{SendDepth: MaxSendDepth})
	v := newVillain(t, b)
	armed, err := unix.Mmap(int(v.status.Fd()), 0, pageRound(statusBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer unix.Munmap(armed)
	v.connected()
	m := &mapping{data: armed}
	statusWord(m, 0).Store(scarceEntries) // this line is its receive queue's, too
	for i := range uint32(MaxSendDepth) {
		statusWord(m, 0).Store(scarceEntries + i) // sleeps, and again, and again
		b.post(fabric.SendWR{Op: fabric.OpWriteImm})
	}
	n, err := b.qp.Post(ping)
	require.ErrorIs(t, err, fabric.ErrFull)
	require.Zero(t, n)
}

func TestQueuesAreBounded(t *testing.T) {
	d := openDevice(t, testConfig())
	var made []fabric.CQ
	for {
		cq, err := d.NewCQ(1)
		if err != nil {
			require.ErrorIs(t, err, fabric.ErrFull)
			break
		}
		made = append(made, cq)
	}
	require.Len(t, made, statusLines)
	_, err := d.NewSRQ(1)
	require.ErrorIs(t, err, fabric.ErrFull)
	require.NoError(t, made[3].Close())
	require.NoError(t, made[3].Close())
	srq, err := d.NewSRQ(1)
	require.NoError(t, err)
	require.NoError(t, srq.ArmLimit(1), "none is left: the event comes at once")
	require.Equal(t, fabric.EventSRQLimit, (<-d.Events()).Kind)
	require.Error(t, srq.ArmLimit(2))
	require.NoError(t, srq.Close())
	require.ErrorIs(t, srq.ArmLimit(1), fabric.ErrClosed)
}

func TestRegionsAreBounded(t *testing.T) {
	d := openDevice(t, testConfig())
	seen := make(map[uint32]bool)
	var all []fabric.Region
	for {
		r, err := d.NewRegion(1)
		if err != nil {
			require.ErrorIs(t, err, fabric.ErrFull)
			break
		}
		require.False(t, seen[r.LocalKey()])
		seen[r.LocalKey()] = true
		all = append(all, r)
	}
	require.Len(t, all, MaxRegions)
	for _, r := range all {
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
	}
	r, err := d.NewRegion(1)
	require.NoError(t, err)
	require.False(t, seen[r.LocalKey()], "a key is not used again soon")
	require.NoError(t, r.Close())
	require.EqualValues(t, MaxRegions+1, d.Stats().Registrations)
}

// TestOutOfDescriptors: a listener that cannot accept for want of descriptors serves its peers when it can again.
func TestOutOfDescriptors(t *testing.T) {
	b := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	few := unix.Rlimit{Cur: uint64(descriptors(t) + 16), Max: old.Max}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	var filler []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			break
		}
		filler = append(filler, f)
	}
	defer func() {
		for _, f := range filler {
			f.Close()
		}
	}()
	filler[0].Close()
	s := dialRaw(t, b.dev) // takes the last descriptor
	for range 100 {
		runtime.Gosched()
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	require.NoError(t, s.send([]byte("not a hello")))
	requireEnd(t, s)
	a := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	connect(t, a.qp, b.qp)
}

// TestBacklogFull: who dials waits while the other side's backlog is full, up to its context.
func TestBacklogFull(t *testing.T) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	place := rendezvous{name: name_()}
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + place.file()}))
	require.NoError(t, unix.Listen(fd, 0))
	waiting := 0
	for {
		c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		require.NoError(t, err)
		defer unix.Close(c)
		if err := unix.Connect(c, &unix.SockaddrUnix{Name: "@" + place.file()}); err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			break
		}
		waiting++
	}
	cfg := testConfig()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = cfg.dial(ctx, place)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	dialled := make(chan error, 1)
	go func() {
		c, err := cfg.dial(context.Background(), place)
		if err == nil {
			c.Close()
		}
		dialled <- err
	}()
	for range waiting + 1 { // room again
		got, _, err := unix.Accept(fd)
		require.NoError(t, err)
		unix.Close(got)
	}
	require.NoError(t, <-dialled)
}
