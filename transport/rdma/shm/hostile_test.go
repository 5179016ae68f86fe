//go:build linux

package shm

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// villain plays the peer of victim by hand: it has been told the victim's Info, and nothing keeps it to the rules.
type villain struct {
	t      testing.TB
	info   info // its own, as the victim was told
	victim *end
	conn   *socket
	hello  hello
	ring   *os.File
	status *os.File
	result chan error // of the victim's Connect
}

// newVillain starts the victim's Connect, which waits to be dialled, and makes a hello that would be accepted.
func newVillain(t testing.TB, victim *end) *villain {
	v := &villain{t: t, victim: victim, info: info{qp: 4711, token: newToken()}, result: make(chan error, 1)}
	told, err := parseInfo(victim.qp.Info())
	require.NoError(t, err)
	v.hello = hello{token: told.token, qp: 4711, peer: victim.qp.num, depth: minRingDepth}
	v.ring, err = newMemfd(ringBytes(minRingDepth))
	require.NoError(t, err)
	v.status, err = newMemfd(pageRound(statusBytes))
	require.NoError(t, err)
	t.Cleanup(func() { v.ring.Close(); v.status.Close() })
	go func() { v.result <- victim.qp.Connect(context.Background(), v.info.append(nil), false) }()
	return v
}

func dialRaw(t testing.TB, d *Device) *socket {
	s, err := d.dial(context.Background(), d.place)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func (v *villain) dial(files ...*os.File) {
	v.conn = dialRaw(v.t, v.victim.dev)
	require.NoError(v.t, v.conn.send(v.hello.append(nil), files...))
}

// connected does all as it should be, up to here.
func (v *villain) connected() {
	v.dial(v.ring, v.status)
	require.NoError(v.t, v.wait())
	m := v.receive()
	_, err := parseHello(m.data)
	require.NoError(v.t, err)
	closeAll(m.files)
}

func (v *villain) receive() message {
	require.NoError(v.t, v.conn.SetReadDeadline(time.Now().Add(patience)))
	m, err := v.conn.receive()
	require.NoError(v.t, err)
	return m
}

// wait gives the result of the victim's Connect.
func (v *villain) wait() error {
	select {
	case err := <-v.result:
		return err
	case <-time.After(patience):
		require.FailNow(v.t, "Connect hangs")
		return nil
	}
}

// requireEnd waits for the other side to hang up.
func requireEnd(t testing.TB, s *socket) {
	require.NoError(t, s.SetReadDeadline(time.Now().Add(patience)))
	for {
		m, err := s.receive()
		closeAll(m.files)
		if err != nil {
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "nobody hung up")
			return
		}
	}
}

// requireBroken waits until q is broken and checks why.
func requireBroken(t testing.TB, q *QP, why error) {
	select {
	case <-q.done:
	case <-time.After(patience):
		require.FailNow(t, "the queue pair lives on")
	}
	require.ErrorIs(t, q.notReady(), why)
	require.ErrorIs(t, q.notReady(), fabric.ErrBroken)
	_, err := q.Post([]fabric.SendWR{{Op: fabric.OpWriteImm}})
	require.ErrorIs(t, err, fabric.ErrBroken)
}

// bystander connects two queue pairs, one on the victim's device, and gives a check that they still talk.
func bystander(t testing.TB, victim *end) func() {
	x := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	y := newEnd(t, victim.dev, 4, fabric.QPConfig{})
	connect(t, x.qp, y.qp)
	return func() {
		x.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: 99})
		c := y.await(1)[0]
		require.Equal(t, uint32(99), c.Imm)
		y.give(int(c.ID), 1)
	}
}

func memfd(t testing.TB, size, seals, flags int) *os.File {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { f.Close() })
	require.NoError(t, f.Truncate(int64(size)))
	require.NoError(t, addSeals(f, seals))
	return f
}

func plainFile(t testing.TB, folder string, size int) *os.File {
	f, err := os.CreateTemp(folder, "shm")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close(); os.Remove(f.Name()) })
	require.NoError(t, f.Truncate(int64(size)))
	return f
}

// badMemory is what may not be mapped in place of a memory file of size bytes.
func badMemory(t testing.TB, size int) map[string]*os.File {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { read.Close(); write.Close() })
	unsealable, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	plain := os.NewFile(uintptr(unsealable), "test")
	t.Cleanup(func() { plain.Close() })
	require.NoError(t, plain.Truncate(int64(size)))
	return map[string]*os.File{
		"ordinary file":     plainFile(t, t.TempDir(), size),
		"file on tmpfs":     plainFile(t, "/dev/shm", size),
		"pipe":              read,
		"no seals":          memfd(t, size, 0, 0),
		"may shrink":        memfd(t, size, unix.F_SEAL_GROW|unix.F_SEAL_SEAL, 0),
		"may grow":          memfd(t, size, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL, 0),
		"more seals may":    memfd(t, size, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW, 0),
		"cannot be sealed":  plain,
		"too short":         memfd(t, size-os.Getpagesize(), sealed, 0),
		"too long":          memfd(t, size+os.Getpagesize(), sealed, 0),
		"empty":             memfd(t, 0, sealed, 0),
		"huge page file":    memfd(t, hugePage, sealed, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB),
		"nobody may write":  memfd(t, size, sealed|unix.F_SEAL_WRITE, 0),
		"we may not write":  memfd(t, size, sealed|unix.F_SEAL_FUTURE_WRITE, 0),
		"opened to be read": reopened(t, memfd(t, size, sealed, 0)),
	}
}

func reopened(t testing.TB, f *os.File) *os.File {
	r, err := os.Open(filepath.Join("/proc/self/fd", itoa(int(f.Fd()))))
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func TestBadMemoryIsNotMapped(t *testing.T) {
	victim := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	check := bystander(t, victim)
	for name, file := range badMemory(t, ringBytes(minRingDepth)) {
		t.Run("ring/"+name, func(t *testing.T) {
			v := newVillain(t, copyEnd(victim))
			v.dial(file, v.status)
			require.ErrorIs(t, v.wait(), fabric.ErrPeer)
			requireEnd(t, v.conn)
			victim.newQP(fabric.QPConfig{})
		})
	}
	for name, file := range badMemory(t, pageRound(statusBytes)) {
		if name == "nobody may write" || name == "we may not write" || name == "opened to be read" {
			continue // these pages are only read
		}
		t.Run("status/"+name, func(t *testing.T) {
			v := newVillain(t, copyEnd(victim))
			v.dial(v.ring, file)
			require.ErrorIs(t, v.wait(), fabric.ErrPeer)
			requireEnd(t, v.conn)
			victim.newQP(fabric.QPConfig{})
		})
	}
	const size = hugePage // so that the file of huge pages is of the right size
	for name, file := range badMemory(t, size) {
		if name == "huge page file" { // where none are free, mapping it fails anyway
			require.ErrorContains(t, checkMemfd(int(file.Fd()), size), "of kind")
		}
		t.Run("region/"+name, func(t *testing.T) {
			v := newVillain(t, copyEnd(victim))
			v.connected()
			require.NoError(t, v.conn.send(control{kind: msgRegion, id: 8, value: size, code: byte(fabric.RemoteWrite)}.append(nil), file))
			requireBroken(t, v.victim.qp, fabric.ErrPeer)
			victim.newQP(fabric.QPConfig{})
		})
	}
	check()
}

func TestBadHello(t *testing.T) {
	victim := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	for name, bad := range map[string]func(v *villain){
		"other queue pair":   func(v *villain) { v.hello.qp++ },
		"not for us":         func(v *villain) { v.hello.peer++ },
		"one descriptor":     func(v *villain) { v.status = nil },
		"descriptors change": func(v *villain) { v.ring, v.status = v.status, v.ring },
		"deeper than it is":  func(v *villain) { v.hello.depth *= 2 },
	} {
		t.Run(name, func(t *testing.T) {
			victim.newQP(fabric.QPConfig{})
			v := newVillain(t, copyEnd(victim))
			bad(v)
			if v.status == nil {
				v.dial(v.ring)
			} else {
				v.dial(v.ring, v.status)
			}
			require.ErrorIs(t, v.wait(), fabric.ErrPeer)
			requireEnd(t, v.conn)
		})
	}
	for name, bad := range map[string]func(v *villain){
		"depth of 0":     func(v *villain) { v.hello.depth = 0 },
		"odd depth":      func(v *villain) { v.hello.depth = 300 },
		"great depth":    func(v *villain) { v.hello.depth = 1 << 30 },
		"late start":     func(v *villain) { v.hello.start = minRingDepth },
		"queue outside":  func(v *villain) { v.hello.cqLine = statusLines },
		"queue far out":  func(v *villain) { v.hello.srqLine = 1 << 31 },
		"guessed token":  func(v *villain) { v.hello.token = newToken() },
		"token of zeros": func(v *villain) { v.hello.token = token{} },
	} {
		t.Run(name, func(t *testing.T) {
			victim.newQP(fabric.QPConfig{})
			v := newVillain(t, copyEnd(victim))
			good := v.hello
			bad(v)
			v.dial(v.ring, v.status)
			requireEnd(t, v.conn) // refused without using the token up
			v.hello = good
			v.connected()
		})
	}
}

func TestTokensWorkOnce(t *testing.T) {
	victim := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	v := newVillain(t, victim)
	v.connected()
	refused := victim.dev.Stats().Refused
	second := *v
	second.dial(v.ring, v.status)
	requireEnd(t, second.conn)
	require.Equal(t, refused+1, victim.dev.Stats().Refused)
	// The token of a queue pair that leads, is broken or closed is worth nothing, and the first is not disturbed.
	x, y := newEnd(t, victim.dev, 4, fabric.QPConfig{}), newEnd(t, victim.dev, 4, fabric.QPConfig{})
	connect(t, x.qp, y.qp)
	unused := newEnd(t, victim.dev, 4, fabric.QPConfig{})
	unused.qp.Break()
	for _, q := range []*QP{x.qp, y.qp, unused.qp} {
		second.hello.token = q.info.token
		second.dial(v.ring, v.status)
		requireEnd(t, second.conn)
	}
	require.Empty(t, victim.dev.tokens)
	require.NoError(t, v.conn.send([]byte{msgWake}))
	victim.post(fabric.SendWR{Op: fabric.OpWrite})
}

// TestBadAnswer: the side that dials finds somebody else, or somebody who was not told its token.
func TestBadAnswer(t *testing.T) {
	for name, bad := range map[string]func(h *hello){
		"token":      func(h *hello) { h.token = newToken() },
		"queue pair": func(h *hello) { h.qp++ },
		"not for us": func(h *hello) { h.peer++ },
		"depth":      func(h *hello) { h.depth = 7 },
		"":           func(*hello) {},
	} {
		t.Run(name, func(t *testing.T) {
			x := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
			place := rendezvous{name: name_()}
			addr, err := testConfig().address(place)
			require.NoError(t, err)
			l, err := net.ListenUnix(network, addr)
			require.NoError(t, err)
			defer l.Close()
			v := &villain{t: t, victim: x}
			peer := info{rendezvous: place, qp: 77, token: newToken()}
			result := make(chan error, 1)
			go func() { result <- x.qp.Connect(context.Background(), peer.append(nil), true) }()
			c, err := l.AcceptUnix()
			require.NoError(t, err)
			v.conn, err = newSocket(c, patience)
			require.NoError(t, err)
			defer v.conn.Close()
			m := v.receive()
			closeAll(m.files)
			told, err := parseHello(m.data)
			require.NoError(t, err)
			require.Equal(t, peer.token, told.token)
			h := hello{token: x.qp.info.token, qp: 77, peer: x.qp.num, depth: minRingDepth}
			bad(&h)
			require.NoError(t, v.conn.send(h.append(nil), memfd(t, ringBytes(minRingDepth), sealed, 0), memfd(t, pageRound(statusBytes), sealed, 0)))
			err = <-result
			if name == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, fabric.ErrPeer)
			requireEnd(t, v.conn)
		})
	}
}

func name_() (n name) {
	t := newToken()
	copy(n[:], t[:])
	return n
}

func TestBadMessages(t *testing.T) {
	victim := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	check := bystander(t, victim)
	good := func(size int) *os.File { return memfd(t, pageRound(size), sealed, 0) }
	region := func(id, size uint32, access fabric.Access) []byte {
		return control{kind: msgRegion, id: id, value: size, code: byte(access)}.append(nil)
	}
	for name, send := range map[string]func(s *socket) error{
		"unknown kind":        func(s *socket) error { return s.send([]byte{200, 1, 2}) },
		"hello again":         func(s *socket) error { return s.send(hello{depth: minRingDepth}.append(nil)) },
		"too long":            func(s *socket) error { return s.send(make([]byte, maxMessage+50)) },
		"short region":        func(s *socket) error { return s.send([]byte{msgRegion, 1}) },
		"region without file": func(s *socket) error { return s.send(region(0, 4096, fabric.RemoteWrite)) },
		"region with two files": func(s *socket) error {
			return s.send(region(0, 4096, fabric.RemoteWrite), good(4096), good(4096))
		},
		"region of nothing":   func(s *socket) error { return s.send(region(0, 0, fabric.RemoteWrite), good(0)) },
		"region for reading":  func(s *socket) error { return s.send(region(0, 4096, fabric.RemoteRead), good(4096)) },
		"region of 4 GiB":     func(s *socket) error { return s.send(region(0, 1<<32-1, fabric.RemoteWrite), good(4096)) },
		"region twice":        func(s *socket) error { return twice(s, region(0, 4096, fabric.RemoteWrite), good(4096)) },
		"files with a wake":   func(s *socket) error { return s.send([]byte{msgWake}, good(4096)) },
		"answer unasked":      func(s *socket) error { return s.send(control{kind: msgRegionAck, id: 3}.append(nil)) },
		"area unasked":        func(s *socket) error { return s.send(control{kind: msgAreaFile, id: 1}.append(nil), good(4096)) },
		"area refused":        func(s *socket) error { return s.send(control{kind: msgAreaFile, id: 0, code: 1}.append(nil)) },
		"area without a file": func(s *socket) error { return s.send(control{kind: msgAreaFile, id: 1}.append(nil)) },
		"nothing":             func(s *socket) error { _, err := s.Write(nil); return err },
		"wakes": func(s *socket) error {
			for range wakeSlack + 1 {
				if err := s.send([]byte{msgWake}); err != nil {
					return nil // hung up on us already
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			victim.newQP(fabric.QPConfig{})
			v := newVillain(t, copyEnd(victim))
			v.connected()
			require.NoError(t, send(v.conn))
			if name == "nothing" { // it is the end of the socket that an empty message looks like
				requireBroken(t, v.victim.qp, io.EOF)
			} else {
				requireBroken(t, v.victim.qp, fabric.ErrPeer)
			}
			requireEnd(t, v.conn)
		})
	}
	check()
}

func twice(s *socket, b []byte, f *os.File) error {
	return errors.Join(s.send(b, f), s.send(b, f))
}

// TestManyFiles: descriptors beyond what a message may carry are closed, not kept.
func TestManyFiles(t *testing.T) {
	victim := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	v := newVillain(t, victim)
	v.connected()
	before := descriptors(t)
	var files []*os.File
	for range 40 {
		files = append(files, v.ring)
	}
	require.NoError(t, v.conn.send([]byte{msgWake}, files...))
	requireBroken(t, victim.qp, fabric.ErrPeer)
	victim.qp.workers.Wait()
	require.LessOrEqual(t, descriptors(t), before)
}

// TestHandshakeFlood: connections that say nothing do not keep an honest peer out, and are not kept for ever.
func TestHandshakeFlood(t *testing.T) {
	cfg := testConfig()
	cfg.Timeout = 10 * patience
	b := newEnd(t, openDevice(t, cfg), 4, fabric.QPConfig{})
	var silent []*socket
	for range 3 * maxHandshakes {
		silent = append(silent, dialRaw(t, b.dev))
	}
	a := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	connect(t, a.qp, b.qp)
	for range 2 * maxHandshakes {
		silent = append(silent, dialRaw(t, b.dev))
	}
	a.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: 5})
	require.Equal(t, uint32(5), b.await(1)[0].Imm)
	for _, s := range silent[:4*maxHandshakes] { // what came later pushed these out
		requireEnd(t, s)
	}
	l := b.dev.listener
	l.mu.Lock()
	require.LessOrEqual(t, len(l.pending), maxHandshakes)
	l.mu.Unlock()
	// A handshake has a deadline, too.
	cfg.Timeout = time.Millisecond
	quick := openDevice(t, cfg)
	requireEnd(t, dialRaw(t, quick))
}
