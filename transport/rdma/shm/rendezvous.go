//go:build linux

package shm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

const network = "unixpacket" // SOCK_SEQPACKET: whole messages, each with its descriptors

// listener is where peers dial. pending are connections whose hello has not been accepted yet, oldest first.
type listener struct {
	*net.UnixListener
	done chan struct{}

	mu      sync.Mutex
	pending []*socket
	closed  bool
}

// address gives the socket's name in this process: a rendezvous in a folder means the folder of our own
// configuration, wherever the peer has it mounted.
func (c Config) address(r rendezvous) (*net.UnixAddr, error) {
	if r.kind == kindAbstract {
		return &net.UnixAddr{Net: network, Name: "@" + r.file()}, nil
	}
	if c.Folder == "" {
		return nil, fmt.Errorf("%w: the peer listens in a folder, and none is configured here", fabric.ErrUnavailable)
	}
	return &net.UnixAddr{Net: network, Name: filepath.Join(c.Folder, r.file())}, nil
}

// listen opens the rendezvous socket.
func (d *Device) listen() error {
	rand.Read(d.place.name[:]) // never fails
	if d.cfg.Folder != "" {
		d.place.kind = kindFolder
		if err := prepareFolder(d.cfg.Folder); err != nil {
			return err
		}
	}
	addr, err := d.cfg.address(d.place)
	if err != nil {
		return err
	}
	l, err := net.ListenUnix(network, addr)
	if err != nil {
		return fmt.Errorf("listen for peers: %w", err)
	}
	d.listener = &listener{UnixListener: l, done: make(chan struct{})}
	return nil
}

// prepareFolder makes the folder for sockets, or checks that nobody else may use it, and removes what killed processes
// left there.
func prepareFolder(folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("folder for sockets: %w", err)
	}
	st, err := os.Lstat(folder)
	if err != nil {
		return fmt.Errorf("folder for sockets: %w", err)
	}
	if owner := st.Sys().(*syscall.Stat_t).Uid; !st.IsDir() || st.Mode().Perm()&0o077 != 0 || int(owner) != os.Geteuid() {
		return fmt.Errorf("folder for sockets: %s must be a folder of mode 0700 that belongs to this user", folder)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("folder for sockets: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), socketPrefix) || e.Type() != os.ModeSocket {
			continue
		}
		path := filepath.Join(folder, e.Name())
		c, err := net.DialUnix(network, nil, &net.UnixAddr{Net: network, Name: path})
		if err == nil {
			c.Close()
		} else if errors.Is(err, unix.ECONNREFUSED) {
			os.Remove(path)
		}
	}
	return nil
}

func (l *listener) String() string { return l.Addr().String() }

// acceptLoop takes connections and gives each a goroutine, of which there is a bounded number. It is a goroutine of
// the device.
func (d *Device) acceptLoop() {
	l, failing := d.listener, false
	for {
		conn, err := l.AcceptUnix()
		if err == nil {
			var s *socket
			if s, err = newSocket(conn, d.cfg.Timeout); err == nil && l.admit(s) {
				d.workers.Go(func() { d.handshake(s) })
			}
			failing = false
			continue
		}
		select {
		case <-l.done:
			return
		case <-time.After(acceptPause): // out of descriptors, most likely: peers wait in the backlog meanwhile
		}
		if !failing {
			d.log.Warn("cannot accept shared-memory peers", zap.Error(err))
		}
		failing = true
	}
}

// admit lists a connection as pending. When there are too many the oldest is dropped: an honest peer sends its hello
// with the connection, so the oldest is a stranger's.
func (l *listener) admit(s *socket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		s.Close()
		return false
	}
	if len(l.pending) == maxHandshakes {
		l.pending[0].Close()
		l.pending = slices.Delete(l.pending, 0, 1)
	}
	l.pending = append(l.pending, s)
	return true
}

// settle takes a connection off the pending ones. It reports false if it had to make room before.
func (l *listener) settle(s *socket) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.pending, s)
	if i < 0 {
		return false
	}
	l.pending = slices.Delete(l.pending, i, i+1)
	return true
}

func (l *listener) close() {
	close(l.done)
	l.UnixListener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, s := range l.pending {
		s.Close()
	}
}

// handshake reads a hello and hands the connection to the queue pair whose token it shows.
func (d *Device) handshake(s *socket) {
	err := s.SetReadDeadline(time.Now().Add(d.cfg.Timeout))
	var m message
	if err == nil {
		m, err = s.receive()
	}
	var h hello
	if err == nil {
		h, err = parseHello(m.data)
	}
	if ok := d.listener.settle(s); err == nil && !ok {
		err = errors.New("too many handshakes at once")
	}
	if err == nil && !d.claim(offer{s, h, m.files}) {
		err = fmt.Errorf("%w: unknown or used token", fabric.ErrPeer)
	}
	if err == nil {
		return
	}
	d.counters.refused.Add(1)
	closeAll(m.files)
	s.Close()
	d.log.Debug("a shared-memory handshake was refused", zap.Int32("pid", s.cred.Pid), zap.Uint32("uid", s.cred.Uid), zap.Error(err))
}

// claim uses up the token of a hello.
func (d *Device) claim(o offer) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, ok := d.tokens[o.hello.token]
	if !ok {
		return false
	}
	delete(d.tokens, o.hello.token)
	q.offers <- o // has room: there is one token
	return true
}

// dial connects with a device of this host.
func (d *Device) dial(ctx context.Context, r rendezvous) (*socket, error) {
	conn, err := d.cfg.dial(ctx, r)
	if err != nil {
		return nil, err
	}
	return newSocket(conn, d.cfg.Timeout)
}

func (c Config) dial(ctx context.Context, r rendezvous) (*net.UnixConn, error) {
	addr, err := c.address(r)
	if err != nil {
		return nil, err
	}
	for {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr.Name)
		if err == nil {
			return conn.(*net.UnixConn), nil
		}
		if !errors.Is(err, unix.EAGAIN) { // the backlog is full
			return nil, fmt.Errorf("%w: %w", fabric.ErrUnavailable, err)
		}
		select {
		case <-time.After(dialPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Rendezvous says where the device listens, for Reachable of another process. It is no secret.
func (d *Device) Rendezvous() []byte { return d.place.append(nil) }

// Reachable reports whether another process's Rendezvous is on this host and can be reached: nil if so. It takes at
// most the configured timeout.
func (d *Device) Reachable(info []byte) error { return d.cfg.reachable(info) }

// Reachable is Device.Reachable for a process without a device. It knows no folder.
func Reachable(info []byte) error { return DefaultConfig().reachable(info) }

func (c Config) reachable(b []byte) error {
	r, err := parseRendezvous(b)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	conn, err := c.dial(ctx, r)
	if err != nil {
		return err
	}
	return conn.Close()
}
