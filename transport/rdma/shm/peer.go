//go:build linux

package shm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// areaAnswer is the peer's answer to OpenArea.
type areaAnswer struct {
	code byte
	fd   int // if code is ansOK
}

// read handles what the peer sends on the socket. It is the queue pair's goroutine and ends with the socket.
func (q *QP) read() {
	for {
		m, err := q.conn.receive()
		if err != nil {
			if errors.Is(err, fabric.ErrPeer) {
				q.fail(err, fabric.StatusOther)
			} else {
				q.fail(fmt.Errorf("%w: the peer has gone: %w", fabric.ErrBroken, err), fabric.StatusRetryExceeded)
			}
			return
		}
		c, err := parseControl(m.data)
		if err == nil {
			err = q.handle(c, m.files)
		} else {
			closeAll(m.files)
		}
		if err != nil {
			q.fail(err, fabric.StatusOther)
			return
		}
	}
}

// handle acts on a message and takes over its descriptors. An error breaks the queue pair.
func (q *QP) handle(c control, files []int) error {
	want := 0
	if c.kind == msgRegion || c.kind == msgAreaFile && c.code == ansOK {
		want = 1
	}
	if len(files) != want {
		closeAll(files)
		return fmt.Errorf("%w: message of kind %d with %d descriptors", fabric.ErrPeer, c.kind, len(files))
	}
	switch c.kind {
	case msgWake:
		q.dev.counters.wakes.Add(1)
		if !q.wanted() {
			return fmt.Errorf("%w: more wake-ups than asked for", fabric.ErrPeer)
		}
		q.cq.kick()
		return nil
	case msgRegion:
		return q.exposedBy(c, files[0])
	case msgRegionAck:
		return q.acked(c.id)
	case msgArea:
		return q.askedFor(c)
	}
	return q.answered(c, files)
}

// wanted tells whether a wake-up was asked for: there is one for each arming, and wakeSlack more.
func (q *QP) wanted() bool {
	now := q.cq.epoch.Load()
	q.wakes += uint64(now - q.arms)
	q.arms = now
	if q.wakes == 0 {
		return false
	}
	q.wakes--
	return true
}

func (q *QP) acked(key uint32) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	ch, ok := q.acks[key]
	if !ok {
		return fmt.Errorf("%w: answer about a region that was not exposed", fabric.ErrPeer)
	}
	delete(q.acks, key)
	close(ch)
	return nil
}

// askedFor starts to answer the peer's OpenArea. A peer asks for one at a time: the next may come before the worker is
// done with the last, which the peer has already, and waits for it then. So a peer that never reads what it asked for
// holds one worker and one file.
func (q *QP) askedFor(c control) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !q.serving:
		q.serving = true
		q.workers.Go(func() { q.serve(c) })
	case q.handing && q.ask == nil:
		q.ask = &c
	default:
		return fmt.Errorf("%w: asked for an area before the last one was answered", fabric.ErrPeer)
	}
	return nil
}

// serve opens areas and hands their descriptors over. It is a goroutine of its own, so that a slow disk does not keep
// wake-ups waiting.
func (q *QP) serve(c control) {
	for {
		if err := q.handOver(c); err != nil {
			q.fail(fmt.Errorf("%w: hand over an area: %w", fabric.ErrBroken, err), fabric.StatusRetryExceeded)
		}
		q.mu.Lock()
		next := q.ask
		q.ask, q.handing = nil, false
		q.serving = next != nil && q.state.Load() == stateReady
		more := q.serving
		q.mu.Unlock()
		if !more {
			return
		}
		c = *next
	}
}

// handOver answers one request.
func (q *QP) handOver(c control) error {
	f, code := q.dev.openArea(c.value)
	var files []*os.File
	if f != nil {
		defer f.Close()
		if code == ansOK {
			files = append(files, f)
		}
	}
	q.mu.Lock()
	q.handing = true
	q.mu.Unlock()
	return q.conn.send(control{kind: msgAreaFile, id: c.id, code: code}.append(nil), files...)
}

// openArea asks the source for the file of an area and checks that nothing but reading is possible with it.
func (d *Device) openArea(area uint32) (*os.File, byte) {
	src := d.source.Load()
	if src == nil {
		return nil, ansNoWindow
	}
	f, err := (*src).Open(area)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ansNoArea
	case err == nil:
		err = checkReadOnly(f)
	}
	if err != nil {
		d.log.Warn("an area cannot be handed to a peer", zap.Uint32("area", area), zap.Error(err))
		return f, ansRefused
	}
	return f, ansOK
}

// checkReadOnly verifies that a descriptor is of a regular file and opened for reading only.
func checkReadOnly(f *os.File) error {
	fd := int(f.Fd())
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags&unix.O_ACCMODE != unix.O_RDONLY {
		return fmt.Errorf("%s is open for writing", f.Name())
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is not a regular file", f.Name())
	}
	return nil
}

// answered passes the peer's answer on and lets the next OpenArea go.
func (q *QP) answered(c control, files []int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.asking || c.id != q.asked {
		closeAll(files)
		return fmt.Errorf("%w: answer about an area that was not asked for", fabric.ErrPeer)
	}
	q.asking = false
	<-q.turn
	if q.answer == nil { // nobody waits any more
		closeAll(files)
		return nil
	}
	a := areaAnswer{code: c.code}
	if len(files) != 0 {
		a.fd = files[0]
	}
	q.answer <- a
	q.answer = nil
	return nil
}

// OpenArea implements fabric.FileSharer. It gives up at the configured timeout, or at ctx's end if that is sooner; the
// next call then waits until the peer has answered the last. The error wraps fs.ErrNotExist for an area that the peer
// does not know.
func (q *QP) OpenArea(ctx context.Context, area uint32) (fabric.File, error) {
	ctx, cancel := context.WithTimeout(ctx, q.dev.cfg.Timeout)
	defer cancel()
	if q.state.Load() != stateReady {
		return nil, q.notReady()
	}
	select {
	case q.turn <- struct{}{}: // given back by answered
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-q.done:
		return nil, q.notReady()
	}
	answer := make(chan areaAnswer, 1)
	q.mu.Lock()
	q.asked++
	q.asking, q.answer = true, answer
	id, conn := q.asked, q.conn
	q.mu.Unlock()
	if err := conn.send(control{kind: msgArea, id: id, value: area}.append(nil)); err != nil {
		q.fail(fmt.Errorf("%w: ask for an area: %w", fabric.ErrBroken, err), fabric.StatusRetryExceeded)
	}
	select {
	case a := <-answer:
		return a.file(area)
	case <-q.done:
	case <-ctx.Done():
	}
	q.mu.Lock()
	waiting := q.answer == answer
	q.answer = nil
	q.mu.Unlock()
	switch {
	case !waiting: // it came just now
		a := <-answer
		return a.file(area)
	case q.state.Load() == stateBroken:
		return nil, q.notReady()
	}
	return nil, ctx.Err()
}

// file turns an answer into a file to read from.
func (a areaAnswer) file(area uint32) (fabric.File, error) {
	switch a.code {
	case ansOK:
	case ansNoWindow:
		return nil, fmt.Errorf("%w: the peer serves no window", fabric.ErrUnsupported)
	case ansNoArea:
		return nil, fmt.Errorf("shm: area %d of the peer: %w", area, fs.ErrNotExist)
	default:
		return nil, fmt.Errorf("shm: the peer could not open area %d", area)
	}
	if err := checkFile(a.fd); err != nil {
		_ = unix.Close(a.fd)
		return nil, err
	}
	return os.NewFile(uintptr(a.fd), fmt.Sprintf("area %d", area)), nil
}

// checkFile verifies that reading a peer's file cannot hang: it is regular, and on a file system of this host's kernel.
func checkFile(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%w: area: %v", fabric.ErrPeer, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%w: area is not a regular file", fabric.ErrPeer)
	}
	var at unix.Statfs_t
	if err := unix.Fstatfs(fd, &at); err != nil {
		return fmt.Errorf("%w: area: %v", fabric.ErrPeer, err)
	}
	switch uint32(at.Type) { //nolint:gosec // magic numbers have 32 bits
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, hugetlbMagic, zfsMagic, bcachefsMagic:
		return nil
	}
	return fmt.Errorf("%w: area on a file system of kind %#x", fabric.ErrUnsupported, at.Type)
}

// File systems that package unix does not name.
const (
	hugetlbMagic  = 0x958458f6
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
)
