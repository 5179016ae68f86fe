//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// socket is a Unix socket of whole messages (SOCK_SEQPACKET) with descriptors. One goroutine receives; sends may be
// concurrent.
type socket struct {
	*net.UnixConn
	raw     syscall.RawConn
	cred    unix.Ucred // of the peer, for the log
	timeout time.Duration
	sending sync.Mutex

	// Made once, so that waking and being woken allocates nothing.
	nudge func(fd uintptr)      // sends msgWake
	take  func(fd uintptr) bool // receives into the fields below
	hdr   unix.Msghdr
	iov   unix.Iovec
	oob   [64]byte // aligned as its headers; room for maxFiles descriptors, and more to find out about
	in    [maxMessage + 1]byte
	n     int
	err   error
}

// message is what was received. data is valid until the next receive; files belong to the caller.
type message struct {
	data  []byte
	files []int
}

var wakeMessage = []byte{msgWake}

func newSocket(c *net.UnixConn, timeout time.Duration) (*socket, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		return nil, err
	}
	s := &socket{UnixConn: c, raw: raw, timeout: timeout}
	s.iov.Base = &s.in[0]
	s.iov.SetLen(len(s.in))
	s.take = s.recvmsg
	s.nudge = func(fd uintptr) {
		// A full buffer holds a wake-up already, or the peer does not read: either way there is nothing to do.
		_ = unix.Send(int(fd), wakeMessage, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); cerr != nil || err != nil {
		c.Close()
		return nil, errors.Join(cerr, err)
	}
	s.cred = *cred
	return s, nil
}

// wake tells the peer that there are completions. It never blocks.
func (s *socket) wake() { _ = s.raw.Control(s.nudge) }

// send writes a message with the descriptors of files. It waits at most the timeout for a peer that does not read.
func (s *socket) send(b []byte, files ...*os.File) error {
	fds := make([]int, 0, maxFiles)
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	var oob []byte
	if len(fds) != 0 {
		oob = unix.UnixRights(fds...)
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	if err := s.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	_, _, err := s.WriteMsgUnix(b, oob, nil)
	runtime.KeepAlive(files)
	return err
}

// receive waits for the next message. io.EOF says that the peer has gone.
func (s *socket) receive() (message, error) {
	if err := s.raw.Read(s.take); err != nil {
		return message{}, err
	}
	if s.err != nil {
		return message{}, s.err
	}
	m := message{data: s.in[:s.n]}
	if s.hdr.Controllen != 0 {
		var err error
		if m.files, err = parseFiles(s.oob[:s.hdr.Controllen]); err != nil {
			return message{}, err
		}
	}
	if s.hdr.Flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || s.n > maxMessage || len(m.files) > maxFiles {
		closeAll(m.files)
		return message{}, fmt.Errorf("%w: message too long", fabric.ErrPeer)
	}
	if s.n == 0 {
		closeAll(m.files)
		return message{}, io.EOF
	}
	return m, nil
}

// recvmsg takes a message if there is one. net.UnixConn's own way allocates.
func (s *socket) recvmsg(fd uintptr) bool {
	for {
		s.hdr = unix.Msghdr{Iov: &s.iov, Iovlen: 1, Control: &s.oob[0]}
		s.hdr.SetControllen(len(s.oob))
		n, _, errno := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.hdr)), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch errno {
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		case 0:
			s.n, s.err = int(n), nil
			return true
		default:
			s.n, s.err = 0, os.NewSyscallError("recvmsg", errno)
			return true
		}
	}
}

// parseFiles gives the descriptors of a message's control data.
func parseFiles(oob []byte) ([]int, error) {
	parts, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: control data: %v", fabric.ErrPeer, err)
	}
	var files []int
	for i := range parts {
		fds, err := unix.ParseUnixRights(&parts[i])
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("%w: control data: %v", fabric.ErrPeer, err)
		}
		files = append(files, fds...)
	}
	return files, nil
}

// endWith ends what waits on the socket when ctx ends. The function it returns stops that and reports ctx's error if
// it came too late.
func (s *socket) endWith(ctx context.Context) (stop func() error) {
	cancel := context.AfterFunc(ctx, func() { _ = s.SetReadDeadline(time.Unix(1, 0)) })
	return func() error {
		if !cancel() {
			return ctx.Err()
		}
		return s.SetReadDeadline(time.Time{})
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// wake tells the peer that there are completions.
func (q *QP) wake() { q.conn.wake() }
