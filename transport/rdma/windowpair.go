package rdma

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// windowPair is one end of the queue pair over which each side reads the other's window, beside that of the frames.
// Who breaks it, or its rules, loses the window and nothing else.
//
// Reading is one call at a time: whoever has turn asks for a chunk (want), waits for where it lies (have), READs it
// and then the chunk's version word, which says whether it was overwritten meanwhile. A call that gives up while it
// waits leaves its turn to complete, since the NIC may still be writing. Serving is one want at a time, by the
// device's library.
type windowPair struct {
	c   *Channel
	d   *Device
	qp  fabric.QP
	tag uint64 // in the ids of work requests

	turn chan struct{} // of readers; holds a token while somebody has it
	told chan told     // what the holder of turn waits for; it waits for one thing at a time

	// Of the holder of turn.
	land   *block // where READs put their bytes
	places map[uint64]place
	epoch  uint64 // of areas in places
	known  bool   // epoch is
	lastID uint32

	reads, bytes, wants, torn atomic.Uint64

	tx     sync.Mutex // posting; not held while waiting
	number uint32     // of the last work request
	notes  *block     // what is sent: a want and a have
	closed bool

	mu        sync.Mutex
	ready     bool      // connected
	err       error     // of the queue pair
	awaits    uint64    // id of the work request, or want, that the holder of turn waits for; 0: none
	abandoned bool      // he does not wait any more
	since     time.Time // when that began
	asked     want      // by the peer
	serving   bool      // and not answered

	exposed fabric.Remote // what the peer may read; the library's
}

// place is a chunk in the peer's copy.
type place struct{ have }

// told ends the wait of a reader.
type told struct {
	have have
	err  error
}

// wantBit marks what a reader waits for as an answer, not a completion.
const wantBit = 1 << 63

// errOverwritten: the chunk was overwritten while it was read.
var errOverwritten = errors.New("overwritten while it was read")

func newWindowPair(ctx context.Context, c *Channel) (w *windowPair, err error) {
	d := c.d
	w = &windowPair{
		c: c, d: d, tag: uint64(rand.Uint32()>>1|1) << 32, turn: make(chan struct{}, 1), told: make(chan told, 1),
		places: make(map[uint64]place),
	}
	if w.notes, err = d.pool.get(ctx, 2*windowNoteBytes, false); err != nil {
		return nil, err
	}
	w.qp, err = d.fd.NewQP(fabric.QPConfig{CQ: d.cq, SRQ: d.srq, SendDepth: d.size.reads, RNRRetry: d.cfg.RNRRetry})
	if err != nil {
		w.notes.close()
		return nil, fmt.Errorf("rdma: %s: making a queue pair for windows: %w", d.caps.Provider, err)
	}
	return w, nil
}

// info is what the peer's connect needs; nil without a pair.
func (w *windowPair) info() []byte {
	if w == nil {
		return nil
	}
	return w.qp.Info()
}

// connect connects with the peer's pair, if both have one. Its failure costs the window only.
func (w *windowPair) connect(ctx context.Context, info []byte, lead bool) {
	if w == nil || len(info) == 0 {
		return
	}
	if err := w.qp.Connect(ctx, info, lead); err != nil {
		w.fault(fmt.Errorf("connecting: %w", err))
		return
	}
	w.mu.Lock()
	w.ready = true
	w.mu.Unlock()
}

// fault implements consumer: it ends the window.
func (w *windowPair) fault(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	w.err = fmt.Errorf("%w: %s: %w", transport.ErrNoWindow, w.d.caps.Provider, err)
	w.resolve(told{err: w.err})
	w.d.log.Debug("window ended", zap.String("peer", string(w.c.peer)), zap.Error(err))
	w.d.background(w.qp.Break) // it uses no more receive entries
}

// settle implements consumer.
func (w *windowPair) settle() bool { return false }

// complete implements consumer.
func (w *windowPair) complete(done *fabric.Completion, sent []byte) bool {
	if done.ID&recvID == 0 && done.ID&^(1<<32-1) != w.tag {
		return false // of an older queue pair with the same number
	}
	switch {
	case done.Status != fabric.StatusOK:
		w.fault(statusError(w.d.caps.Provider, done.Status))
	case done.Op == fabric.OpRecv:
		if err := w.heard(sent[:min(int(done.Bytes), len(sent))]); err != nil {
			w.fault(err)
		}
	case done.Op == fabric.OpRecvImm:
		w.fault(fmt.Errorf("%w: window: an immediate", transport.ErrProtocol))
	default:
		w.mu.Lock()
		if w.awaits == done.ID {
			w.resolve(told{})
		}
		w.mu.Unlock()
	}
	return false
}

// heard takes a note of the peer.
func (w *windowPair) heard(b []byte) error {
	kind, h, err := decodeNote(b)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind == noteHave {
		if w.awaits != wantBit|uint64(h.id) {
			return fmt.Errorf("%w: window: an answer that nobody waits for", transport.ErrProtocol)
		}
		w.resolve(told{have: h})
		return nil
	}
	if w.serving {
		return fmt.Errorf("%w: window: asked before the last was answered", transport.ErrProtocol)
	}
	w.serving, w.asked = true, h.want
	w.d.library.ask(w)
	return nil
}

// resolve ends the wait of a reader. mu is held.
func (w *windowPair) resolve(t told) {
	if w.awaits == 0 {
		return
	}
	w.awaits = 0
	if w.abandoned {
		w.abandoned = false
		<-w.turn
		return
	}
	w.told <- t
}

// await posts requests and waits for what they bring: the completion of the last, or an answer. gone says that the call
// must leave without its turn.
func (w *windowPair) await(ctx context.Context, answer uint64, wrs []fabric.SendWR) (t told, gone bool) {
	if err := w.post(wrs, answer); err != nil {
		return told{err: err}, false
	}
	select {
	case t = <-w.told:
		return t, false
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.awaits == 0 { // it came just now
		return <-w.told, false
	}
	w.abandoned, w.since = true, time.Now()
	return told{err: ctx.Err()}, true
}

// post numbers and posts requests, of which the last asks for a completion. answer is what the caller will wait for;
// 0: that completion.
func (w *windowPair) post(wrs []fabric.SendWR, answer uint64) error {
	w.tx.Lock()
	defer w.tx.Unlock()
	if w.closed {
		return w.gone()
	}
	for i := range wrs {
		w.number++
		wrs[i].ID = w.tag | uint64(w.number)
	}
	last := &wrs[len(wrs)-1]
	last.Signaled = true
	if answer == 0 {
		answer = last.ID
	}
	w.mu.Lock()
	err := w.err
	if err == nil && !w.ready {
		err = transport.ErrNoWindow
	}
	if err == nil {
		w.awaits = answer
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	if n, err := w.qp.Post(wrs); n != len(wrs) {
		w.withdraw(answer)
		if n > 0 || !errors.Is(err, fabric.ErrFull) {
			w.fault(fmt.Errorf("posting: %w", err)) // what was posted would come at any time
		}
		return fmt.Errorf("rdma: %s: reading a window: %w", w.d.caps.Provider, err)
	}
	return nil
}

// withdraw takes a wait back whose request was not posted.
func (w *windowPair) withdraw(answer uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.awaits == answer {
		w.awaits = 0
	} else {
		<-w.told // it was resolved meanwhile: by a fault
	}
}

func (w *windowPair) gone() error {
	return fmt.Errorf("%w: the channel has ended", transport.ErrNoWindow)
}

// note makes the request that sends b. place is 0 for a want, 1 for a have: each is in use until it is answered, or the
// next want comes. tx is held, or the caller's turn keeps others away.
func (w *windowPair) note(place int, b []byte) fabric.SendWR {
	mem := w.notes.bytes()[place*windowNoteBytes:][:windowNoteBytes]
	copy(mem, b)
	return fabric.SendWR{Op: fabric.OpSend, Local: mem, Key: w.notes.key(), Inline: len(mem) <= w.d.caps.MaxInline}
}

// reply answers the peer's want.
func (w *windowPair) reply(h *have) {
	w.tx.Lock()
	defer w.tx.Unlock()
	if w.closed {
		return
	}
	w.mu.Lock()
	err := w.err
	w.serving = false // before the answer goes: the next want may come at once
	w.mu.Unlock()
	if err != nil {
		return
	}
	w.number++
	wr := [1]fabric.SendWR{w.note(1, h.note())}
	wr[0].ID, wr[0].Signaled = w.tag|uint64(w.number), true
	if n, err := w.qp.Post(wr[:]); n != 1 {
		w.fault(fmt.Errorf("answering: %w", err))
	}
}

// close ends everything. It waits for a reader that is under way; the channel has ended, so that one does not wait.
func (w *windowPair) close() {
	if w == nil {
		return
	}
	w.tx.Lock()
	w.closed = true
	w.tx.Unlock()
	if err := w.qp.Close(); err != nil {
		w.d.log.Debug("closing a queue pair of windows", zap.Error(err))
	}
	w.mu.Lock()
	if w.err == nil {
		w.err = w.gone()
	}
	w.resolve(told{err: w.err})
	w.mu.Unlock()
	w.turn <- struct{}{} // for good
	w.land.close()
	w.notes.close()
}

// read reads from an area; see Channel.ReadWindow.
func (w *windowPair) read(ctx context.Context, area uint32, offset int64, dst []byte) (n int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.c.ctx, cancel)()
	w.doubt()
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, w.ended(ctx)
	}
	r := windowRead{windowPair: w, ctx: ctx, area: area}
	n, err = r.fill(offset, dst)
	if !r.gone {
		<-w.turn
	}
	if err != nil && ctx.Err() != nil {
		err = w.ended(ctx)
	}
	w.bytes.Add(uint64(n))
	return n, err
}

// doubt ends a window whose peer owes something for too long: a queue pair may break without the one who waits
// for the other side ever learning of it.
func (w *windowPair) doubt() {
	w.mu.Lock()
	late := w.abandoned && time.Since(w.since) > answerPatience
	w.mu.Unlock()
	if late {
		w.fault(errors.New("the peer does not answer"))
	}
}

// ended tells why a call was given up.
func (w *windowPair) ended(ctx context.Context) error {
	if w.c.Err() != nil {
		return w.gone()
	}
	return ctx.Err()
}

// windowRead is a call of read that has the turn.
type windowRead struct {
	*windowPair
	ctx  context.Context
	area uint32
	gone bool // the turn was left behind
}

func (r *windowRead) fill(offset int64, dst []byte) (n int, err error) {
	if r.area == 0 && offset == 0 {
		defer func() { r.look(dst[:n]) }()
	}
	for tries := 0; n < len(dst); {
		at := offset + int64(n)
		chunk, in := at/windowChunkBytes, int(at%windowChunkBytes)
		if chunk > 1<<32-1 {
			return n, nil
		}
		wanted := min(len(dst)-n, windowChunkBytes-in, landBytes)
		p, err := r.place(uint32(chunk), in+wanted)
		if err != nil {
			return n, err
		}
		k := min(wanted, int(p.valid)-in)
		if k <= 0 {
			return n, nil
		}
		err = r.fetch(&p, in, dst[n:n+k])
		switch {
		case errors.Is(err, errOverwritten) && tries < windowTries:
			tries++
			r.torn.Add(1)
			delete(r.places, placeKey(r.area, uint32(chunk)))
			continue
		case err != nil:
			return n, err
		}
		if n += k; k < wanted {
			return n, nil
		}
	}
	return n, nil
}

func placeKey(area, chunk uint32) uint64 { return uint64(area)<<32 | uint64(chunk) }

// look takes the epoch out of a reading of area 0: another one than before makes all places void.
func (r *windowRead) look(page []byte) {
	if len(page) < transport.WindowEpochOffset+8 {
		return
	}
	epoch := binary.BigEndian.Uint64(page[transport.WindowEpochOffset:])
	if r.known && epoch != r.epoch {
		clear(r.places)
	}
	r.epoch, r.known = epoch, true
}

// place tells where a chunk lies of which need bytes are to be read. Area 0 changes in place, and what was known of an
// area's end may be old: the peer is asked again then.
func (r *windowRead) place(chunk uint32, need int) (place, error) {
	key := placeKey(r.area, chunk)
	if p, ok := r.places[key]; ok && r.area != 0 && int(p.valid) >= need {
		return p, nil
	}
	r.lastID++
	wanted := want{id: r.lastID, area: r.area, chunk: chunk}
	r.wants.Add(1)
	t, gone := r.await(r.ctx, wantBit|uint64(wanted.id), []fabric.SendWR{r.note(0, wanted.note())})
	r.gone = gone
	switch {
	case t.err != nil:
		return place{}, t.err
	case t.have.want != wanted:
		r.fault(fmt.Errorf("%w: window: another chunk than was asked for", transport.ErrProtocol))
		r.mu.Lock()
		defer r.mu.Unlock()
		return place{}, r.err
	}
	switch t.have.status {
	case haveNothing:
		return place{}, transport.ErrNoWindow
	case haveGone:
		return place{}, fmt.Errorf("rdma: area %d of %s: %w", r.area, r.c.peer, fs.ErrNotExist)
	case haveRefused:
		return place{}, fmt.Errorf("rdma: %s could not read area %d", r.c.peer, r.area)
	}
	if len(r.places) >= maxPlaces {
		clear(r.places)
	}
	r.places[key] = place{t.have}
	return place{t.have}, nil
}

// fetch READs bytes of a chunk, then its version.
func (r *windowRead) fetch(p *place, in int, dst []byte) (err error) {
	if r.land == nil {
		if r.land, err = r.d.pool.get(r.ctx, landBytes+8, false); err != nil {
			return err
		}
	}
	land, key := r.land.bytes(), r.land.key()
	from := p.remote.Addr + uint64(p.data) + uint64(in)
	piece := roundUp(max(minReadBytes, (len(dst)+r.d.size.batch-1)/r.d.size.batch), unit)
	var all [windowReads]fabric.SendWR
	wrs := all[:0]
	read := func(local []byte, at uint64) {
		wrs = append(wrs, fabric.SendWR{Op: fabric.OpRead, Local: local, Key: key, Remote: at, RKey: p.remote.Key})
	}
	for at := 0; at < len(dst); at += piece { // at most as many as may be under way
		end := min(at+piece, len(dst))
		read(land[at:end], from+uint64(at))
	}
	if err := r.flush(wrs); err != nil {
		return err
	}
	wrs = wrs[:0]
	word := land[landBytes:][:8]
	read(word, p.remote.Addr+uint64(p.word)) // by itself: hardware may read for several requests at once
	if err := r.flush(wrs); err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(word) != p.version {
		return errOverwritten
	}
	copy(dst, land)
	return nil
}

// flush posts READs and waits for the last.
func (r *windowRead) flush(wrs []fabric.SendWR) error {
	r.reads.Add(uint64(len(wrs)))
	t, gone := r.await(r.ctx, 0, wrs)
	r.gone = gone
	return t.err
}
