//go:build linux

package shm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Region is a memfd of its own, so that it can be exposed alone.
type Region struct {
	dev  *Device
	key  uint32
	size int
	mem  *mapping
	file *os.File
	once sync.Once
}

var _ fabric.Region = (*Region)(nil)

// newRegion makes the memory; the device gives it a key.
func newRegion(d *Device, size int) (*Region, error) {
	f, err := newMemfd(pageRound(size))
	if err != nil {
		return nil, err
	}
	m, err := mapFile(f, pageRound(size), true, d.cfg.HugePages)
	if err != nil {
		f.Close()
		return nil, err
	}
	if d.cfg.HugePages {
		m.collapse()
	}
	return &Region{dev: d, size: size, mem: m, file: f}, nil
}

// Bytes implements fabric.Region.
func (r *Region) Bytes() []byte { return r.mem.data[:r.size:r.size] }

// LocalKey implements fabric.Region.
func (r *Region) LocalKey() uint32 { return r.key }

// Close implements fabric.Region.
func (r *Region) Close() error {
	var err error
	r.once.Do(func() {
		r.dev.dropRegion(r)
		err = r.mem.close()
		if cerr := r.file.Close(); err == nil {
			err = cerr
		}
	})
	return err
}

// holds reports whether b lies in the region of the key.
func (d *Device) holds(key uint32, b []byte) bool {
	r := d.regions[key%MaxRegions].Load()
	if r == nil || r.key != key {
		return false
	}
	base, at := uintptr(unsafe.Pointer(unsafe.SliceData(r.mem.data))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at >= base && at-base <= uintptr(r.size) && uintptr(len(b)) <= uintptr(r.size)-(at-base)
}

// regionAddr is where the region of a key begins in the address space of its queue pair: keys never overlap there.
func regionAddr(key uint32) uint64 { return uint64(key) << 32 }

// Expose implements fabric.QP. It returns when the peer has mapped the region.
func (q *QP) Expose(r fabric.Region, offset, n int, access fabric.Access) (fabric.Remote, error) {
	reg, ok := r.(*Region)
	if !ok || reg.dev != q.dev {
		return fabric.Remote{}, fmt.Errorf("%w: region of another device", fabric.ErrUnsupported)
	}
	if offset != 0 || n != reg.size || access&fabric.RemoteWrite == 0 {
		return fabric.Remote{}, fmt.Errorf("%w: only whole regions are exposed, for writing", fabric.ErrUnsupported)
	}
	if q.state.Load() != stateReady {
		return fabric.Remote{}, q.notReady()
	}
	q.mu.Lock()
	if q.ours == fabric.MaxExposed {
		q.mu.Unlock()
		return fabric.Remote{}, fmt.Errorf("%w: %d regions are exposed", fabric.ErrFull, fabric.MaxExposed)
	}
	key := rand.Uint32()/fabric.MaxExposed*fabric.MaxExposed + uint32(q.ours)
	q.ours++
	acked := make(chan struct{})
	q.acks[key] = acked
	conn := q.conn
	q.mu.Unlock()
	if size := uint32(reg.size); size > q.exposed.Load() {
		q.exposed.Store(size)
	}
	err := conn.send(control{kind: msgRegion, id: key, value: uint32(reg.size), code: byte(access)}.append(nil), reg.file)
	if err != nil {
		q.fail(fmt.Errorf("%w: expose: %w", fabric.ErrBroken, err), fabric.StatusRetryExceeded)
		return fabric.Remote{}, q.notReady()
	}
	timer := time.NewTimer(q.dev.cfg.Timeout)
	defer timer.Stop()
	select {
	case <-acked:
		return fabric.Remote{Addr: regionAddr(key), Key: key, Len: uint32(reg.size)}, nil
	case <-q.done:
	case <-timer.C:
		q.fail(fmt.Errorf("%w: the peer did not map a region in time", fabric.ErrBroken), fabric.StatusRetryExceeded)
	}
	return fabric.Remote{}, q.notReady()
}

// exposedBy maps a region that the peer exposed.
func (q *QP) exposedBy(c control, fd int) error {
	if c.value == 0 || c.value > MaxRegionBytes || fabric.Access(c.code)&fabric.RemoteWrite == 0 {
		closeAll([]int{fd})
		return fmt.Errorf("%w: region of %d bytes for access %d", fabric.ErrPeer, c.value, c.code)
	}
	place := &q.theirs[c.id%fabric.MaxExposed]
	if place.Load() != nil {
		closeAll([]int{fd})
		return fmt.Errorf("%w: region with a key in use", fabric.ErrPeer)
	}
	m, err := mapPeer(fd, pageRound(int(c.value)), true, q.dev.cfg.HugePages)
	if err != nil {
		return err
	}
	m.data = m.data[:c.value:c.value]
	place.Store(&peerRegion{key: c.id, mem: m})
	q.mu.Lock()
	close(q.changed)
	q.changed = make(chan struct{})
	q.mu.Unlock()
	return q.conn.send(control{kind: msgRegionAck, id: c.id}.append(nil))
}

// Map implements fabric.QP.
func (q *QP) Map(ctx context.Context, r fabric.Remote) ([]byte, error) {
	for {
		q.mu.Lock()
		changed := q.changed
		q.mu.Unlock()
		if q.state.Load() == stateBroken {
			return nil, q.notReady()
		}
		if p := q.theirs[r.Key%fabric.MaxExposed].Load(); p != nil {
			if p.key != r.Key || r.Addr != regionAddr(p.key) || int(r.Len) != len(p.mem.data) {
				return nil, fmt.Errorf("%w: region %#x of %d bytes was not exposed", fabric.ErrPeer, r.Key, r.Len)
			}
			return p.mem.data, nil
		}
		select {
		case <-changed:
		case <-q.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
