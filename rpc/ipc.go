package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

const ipcCloseWait = time.Second // for the reason of a connection's end

// ipcStream is a connection of the Unix socket: JSON values one after another.
type ipcStream struct {
	conn net.Conn
	dec  *json.Decoder
	held *hold // of the message that is read
	came int64 // bytes read for it
	left int   // bytes that it may still read

	mu     sync.Mutex // one write at a time
	broken bool       // a message was written in part
}

func newIPCStream(c net.Conn) *ipcStream {
	s := &ipcStream{conn: c}
	s.dec = json.NewDecoder(s)
	return s
}

func (c *ipcStream) read(limit int, held *hold) ([]byte, error) {
	c.held, c.came, c.left = held, 0, limit+ipcReadStep
	var raw json.RawMessage
	err := c.dec.Decode(&raw)
	if err == nil && len(raw) > ipcBuffer {
		rest, _ := io.ReadAll(c.dec.Buffered()) // at most ipcReadStep
		c.dec = json.NewDecoder(io.MultiReader(bytes.NewReader(rest), c))
	}
	return raw, err
}

// Read gives the decoder what comes, a little at a time and reserved.
func (c *ipcStream) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errMessageSize
	}
	n, err := c.conn.Read(p[:min(len(p), c.left, ipcReadStep)])
	c.left -= n
	if c.came += int64(n); err == nil && messageCopies*c.came > c.held.size {
		err = c.held.grow(messageCopies * bodyStep)
	}
	return n, err
}

func (c *ipcStream) write(b []byte, deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(deadline)
	_, err := c.conn.Write(append(b, '\n'))
	c.broken = c.broken || err != nil
	return err
}

func (c *ipcStream) shut(reason string) {
	if reason != "" {
		_ = c.conn.SetWriteDeadline(time.Now().Add(ipcCloseWait)) // a write under way ends by then
		c.mu.Lock()
		if !c.broken { // else the client would not understand it
			_ = c.conn.SetWriteDeadline(time.Now().Add(ipcCloseWait))
			_, _ = c.conn.Write(append(closing(reason), '\n'))
		}
		c.mu.Unlock()
	}
	_ = c.conn.Close()
}

func (s *Server) serveIPC(path string) error {
	if err := removeStaleSocket(path); err != nil {
		return err
	}
	l, err := net.Listen("unix", path) // removes the socket when it is closed
	if err != nil {
		return fmt.Errorf("listen for JSON-RPC on %s: %w; set rpc.ipc_path", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return fmt.Errorf("protect the socket %s: %w", path, err)
	}
	l = newLimitListener(l, s.cfg.Connections, s.cfg.Connections, s.metrics, false)
	s.listeners = append(s.listeners, l)
	s.wg.Add(1)
	go func() { defer s.wg.Done(); s.acceptIPC(l) }()
	return nil
}

// removeStaleSocket removes the socket that a node left behind when it was killed, and nothing else.
func removeStaleSocket(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at rpc.ipc_path: %w", err)
	}
	if fi.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("rpc.ipc_path %s exists and is no socket; choose another path, or remove it", path)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return fmt.Errorf("rpc.ipc_path %s: another process answers there; choose another path, or stop it", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the old socket %s: %w", path, err)
	}
	return nil
}

// acceptIPC serves connections until the listener is closed. Other errors (no file descriptors left) pass.
func (s *Server) acceptIPC(l net.Listener) {
	wait := minAcceptWait
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			wait = minAcceptWait
			c := newWire(s.service, "ipc", local, newIPCStream(conn))
			go c.serve(s.local)
			continue
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, net.ErrClosed):
			s.log.Error("JSON-RPC socket ended", zap.String("addr", s.cfg.IPCPath), zap.Error(err))
			return
		}
		s.log.Warn("JSON-RPC socket cannot take a connection; it tries again", zap.String("addr", s.cfg.IPCPath), zap.Error(err))
		select {
		case <-time.After(wait):
			wait = min(2*wait, maxAcceptWait)
		case <-s.ctx.Done():
			return
		}
	}
}
