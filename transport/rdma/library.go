package rdma

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"unsafe"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// library is the registered copy of what a device serves, for fabrics whose peers read by READ: chunks of areas in
// slots, of which the one that was not asked for longest is overwritten when another is wanted. One goroutine owns it
// and works when a peer wants a chunk that it was not told of before; the reading itself costs this process nothing.
//
// In front of the slots lie their version words. A slot's is odd while it is overwritten, and greater after: whoever
// read the slot finds out. Bytes that a growing area gets at its end go behind those that are there.
type library struct {
	d     *Device
	wants chan *windowPair // at most once each

	start  sync.Once
	region fabric.Region // made when the first peer asks
	slots  []slot
	data   int // where the first begins
	where  map[uint64]int
	clock  uint64
	source transport.Source // that the slots are of
	epoch  uint64
	stage  []byte

	loads      atomic.Uint64 // slots filled
	registered atomic.Uint64
	size       atomic.Int64
}

// slot holds a chunk.
type slot struct {
	key   uint64 // placeKey
	used  bool
	valid int
	last  uint64 // library.clock when it was asked for last
	word  *uint64
	mem   []byte // windowChunkBytes
	ver   uint64
}

func (l *library) init(d *Device) {
	l.d, l.wants = d, make(chan *windowPair, d.size.channels)
}

// ask queues a pair whose peer wants something. It is called under the poll lock.
func (l *library) ask(w *windowPair) {
	l.start.Do(func() { l.d.background(l.run) })
	select {
	case l.wants <- w:
	default: // cannot be: there are no more pairs
		w.d.background(func() { w.fault(errors.New("too many wants")) })
	}
}

// run answers wants until the device is closed.
func (l *library) run() {
	for {
		select {
		case <-l.d.stop:
			return
		case w := <-l.wants:
			w.mu.Lock()
			asked := w.asked
			w.mu.Unlock()
			h := l.answer(w, asked)
			w.reply(&h)
			if h.status == haveOK && h.valid == windowChunkBytes && asked.area != 0 && len(l.wants) == 0 {
				l.prefetch(asked)
			}
		}
	}
}

// prefetch fills a slot with what is likely to be wanted next.
func (l *library) prefetch(asked want) {
	asked.chunk++
	if _, ok := l.where[placeKey(asked.area, asked.chunk)]; !ok && asked.chunk != 0 && len(l.slots) > 2 {
		_, _ = l.load(asked) // told when it is asked for
	}
}

func (l *library) answer(w *windowPair, asked want) have {
	h := have{want: asked}
	s, err := l.obtain(asked)
	var remote fabric.Remote
	if err == nil {
		remote, err = l.expose(w)
	}
	switch {
	case err == nil:
		h.remote, h.valid, h.version = remote, uint32(l.slots[s].valid), l.slots[s].ver
		h.word, h.data = uint32(8*s), uint32(l.data+s*windowChunkBytes)
	case errors.Is(err, transport.ErrNoWindow):
		h.status = haveNothing
	case errors.Is(err, fs.ErrNotExist):
		h.status = haveGone
	case errors.Is(err, fabric.ErrBroken), errors.Is(err, fabric.ErrClosed):
		h.status = haveRefused // nobody hears it
	default:
		l.d.log.Warn("a peer cannot read this node's window", zap.String("peer", string(w.c.peer)), zap.Uint32("area", asked.area), zap.Error(err))
		h.status = haveRefused
	}
	return h
}

// expose lets the pair's peer read the copy.
func (l *library) expose(w *windowPair) (fabric.Remote, error) {
	if w.exposed.Len == 0 {
		l.registered.Add(1)
		r, err := w.qp.Expose(l.region, 0, len(l.region.Bytes()), fabric.RemoteRead)
		if err != nil {
			return r, err
		}
		w.exposed = r
	}
	return w.exposed, nil
}

// obtain finds or fills the slot of a chunk.
func (l *library) obtain(asked want) (int, error) {
	var src transport.Source
	if s := l.d.source.Load(); s != nil {
		src = s.source
	}
	if src != l.source {
		l.forget()
		l.source = src
	}
	if src == nil || l.d.cfg.WindowBytes == 0 {
		return 0, transport.ErrNoWindow
	}
	if err := l.make(); err != nil {
		return 0, err
	}
	return l.load(asked)
}

// make allocates the copy.
func (l *library) make() error {
	if l.region != nil {
		return nil
	}
	n := int(l.d.cfg.WindowBytes / windowChunkBytes)
	l.data = roundUp(8*n, pageBytes)
	l.registered.Add(1)
	region, err := l.d.fd.NewRegion(l.data + n*windowChunkBytes)
	if err != nil {
		return err
	}
	l.region = region
	l.size.Store(int64(len(region.Bytes())))
	mem := region.Bytes()
	l.slots, l.where, l.stage = make([]slot, n), make(map[uint64]int, n), make([]byte, windowChunkBytes)
	for i := range l.slots {
		l.slots[i].word = (*uint64)(unsafe.Pointer(unsafe.SliceData(mem[8*i:])))
		l.slots[i].mem = mem[l.data+i*windowChunkBytes:][:windowChunkBytes:windowChunkBytes]
	}
	return nil
}

// load brings a chunk into a slot, or what its area has got since. A chunk that is there in full is only read again if
// it is of area 0.
func (l *library) load(asked want) (int, error) {
	key := placeKey(asked.area, asked.chunk)
	l.clock++
	i, ok := l.where[key]
	if ok {
		l.slots[i].last = l.clock
		if asked.area != 0 && l.slots[i].valid == windowChunkBytes {
			return i, nil
		}
	}
	n, err := l.readChunk(asked)
	if err != nil {
		return 0, err
	}
	if asked.area == 0 {
		l.look(l.stage[:n])
		i, ok = l.where[key]
	}
	if !ok {
		i = l.oldest()
	}
	s := &l.slots[i]
	switch {
	case ok && n >= s.valid && bytes.Equal(s.mem[:s.valid], l.stage[:s.valid]):
		put := s.valid
		fillSlot(s.mem[put:n], l.stage[put:n])
	default:
		s.overwrite(l.stage[:n])
		delete(l.where, s.key)
		l.loads.Add(1)
	}
	s.key, s.used, s.valid, s.last = key, true, n, l.clock
	l.where[key] = i
	return i, nil
}

// overwrite replaces what is in a slot, so that whoever reads it meanwhile can tell.
func (s *slot) overwrite(b []byte) {
	storeWord(s.word, wire64(s.ver+1))
	fillSlot(s.mem[:len(b)], b)
	s.ver += 2
	storeWord(s.word, wire64(s.ver))
}

// readChunk reads a chunk from the source into stage.
func (l *library) readChunk(asked want) (int, error) {
	f, err := l.source.Open(asked.area)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.ReadAt(l.stage, int64(asked.chunk)*windowChunkBytes)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// look forgets everything if area 0 has another epoch than before.
func (l *library) look(page []byte) {
	if len(page) < transport.WindowEpochOffset+8 {
		return
	}
	if epoch := binary.BigEndian.Uint64(page[transport.WindowEpochOffset:]); epoch != l.epoch {
		l.forget()
		l.epoch = epoch
	}
}

// forget makes every slot void.
func (l *library) forget() {
	for i := range l.slots {
		if s := &l.slots[i]; s.used {
			s.overwrite(nil)
			s.used, s.valid = false, 0
		}
	}
	clear(l.where)
}

// oldest is the slot to use next.
func (l *library) oldest() int {
	best := 0
	for i := range l.slots {
		if s, b := &l.slots[i], &l.slots[best]; !s.used && b.used || s.used == b.used && s.last < b.last {
			best = i
		}
	}
	return best
}

// close frees the copy. No queue pair exposes it any more, and the goroutine has ended.
func (l *library) close() error {
	if l.region == nil {
		return nil
	}
	err := l.region.Close()
	l.region, l.slots = nil, nil
	l.size.Store(0)
	return err
}
