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
	nudge   func(fd uintptr) // sends msgWake; made once, so that waking allocates nothing
	sending sync.Mutex
	in      []byte
	oob     []byte
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
	s := &socket{
		UnixConn: c, raw: raw, timeout: timeout,
		in: make([]byte, maxMessage+1), oob: make([]byte, unix.CmsgSpace(4*maxFiles)),
	}
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
	n, oobn, flags, _, err := s.ReadMsgUnix(s.in, s.oob)
	if err != nil {
		return message{}, err
	}
	m := message{data: s.in[:n]}
	if oobn != 0 {
		if m.files, err = parseFiles(s.oob[:oobn]); err != nil {
			return message{}, err
		}
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || n > maxMessage {
		closeAll(m.files)
		return message{}, fmt.Errorf("%w: message too long", fabric.ErrPeer)
	}
	if n == 0 {
		closeAll(m.files)
		return message{}, io.EOF
	}
	return m, nil
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
