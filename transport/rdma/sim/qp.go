package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// QP is a queue pair: see fabric.QP.
type QP struct {
	dev      *Device
	net      *Network
	cq       *CQ
	srq      *SRQ
	depth    int
	rnrRetry bool
	num      uint32
	token    uint64

	// Guarded by net.mu. The three streams are independent: what the sender and what the receiver of one queue pair
	// see of each other's requests may come in any order.
	peer      *QP   // nil before Connect, and when the peer had gone by then
	callers   []*QP // who connected with this one
	lead      bool
	connected bool
	broken    bool
	closed    bool
	dead      bool // killed: shows nothing any more
	posted    uint64
	freed     uint64
	sends     fifo[request] // taken, not carried
	acks      fifo[ack]     // carried or failed, the sender not told
	arrivals  fifo[arrival] // landed, the receiver not told
	out       *stream
	back      *stream
	in        *stream
	carried   int           // requests
	giveUp    time.Duration // when the peer is given up; 0: it answers
	exposures []*exposure
	changed   broadcast
}

var _ fabric.QP = (*QP)(nil)

// exposure is memory that a queue pair lets its peer use.
type exposure struct {
	fabric.Remote
	region  *Region
	bytes   []byte
	access  fabric.Access
	visible bool // to Map
	showing *stream
}

// NewQP implements fabric.Device.
func (d *Device) NewQP(cfg fabric.QPConfig) (fabric.QP, error) {
	if cfg.SendDepth < 1 || cfg.SendDepth > MaxSend {
		return nil, fmt.Errorf("sim: a send queue of %d: want 1 to %d", cfg.SendDepth, MaxSend)
	}
	if cfg.CQ == nil || cfg.SRQ == nil {
		return nil, errors.New("sim: a queue pair needs a completion queue and a receive queue")
	}
	cq, okCQ := cfg.CQ.(*CQ)
	srq, okSRQ := cfg.SRQ.(*SRQ)
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if !okCQ || !okSRQ || cq.dev != d || srq.dev != d || cq.closed || srq.closed {
		return nil, d.net.misuse("a queue pair without open queues of its device")
	}
	if err := d.making(); err != nil {
		return nil, err
	}
	q := &QP{dev: d, net: d.net, cq: cq, srq: srq, depth: cfg.SendDepth, rnrRetry: cfg.RNRRetry, num: d.number(), token: d.net.rng.Uint64()}
	q.out, q.back, q.in = newStream(q.carry), newStream(q.acknowledge), newStream(q.arrive)
	cq.users++
	srq.users++
	d.qps = append(d.qps, q)
	return q, nil
}

func (d *Device) number() uint32 {
	if k := len(d.freed); k > 0 {
		num := d.freed[k-1]
		d.freed = d.freed[:k-1]
		return num
	}
	d.numbers++
	return d.numbers - 1
}

// Num implements fabric.QP.
func (q *QP) Num() uint32 { return q.num }

const (
	infoMagic = "simf"
	infoBytes = len(infoMagic) + 8 + 4 + 4 + 8 + 4
)

// Info implements fabric.QP.
func (q *QP) Info() []byte {
	b := make([]byte, 0, infoBytes)
	b = append(b, infoMagic...)
	b = binary.BigEndian.AppendUint64(b, q.net.id)
	b = binary.BigEndian.AppendUint32(b, uint32(q.dev.index))
	b = binary.BigEndian.AppendUint32(b, q.num)
	b = binary.BigEndian.AppendUint64(b, q.token)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// find gives the open queue pair that an Info names; nil: it has gone.
func (n *Network) find(info []byte) (*QP, error) {
	if len(info) != infoBytes || !bytes.HasPrefix(info, []byte(infoMagic)) {
		return nil, fmt.Errorf("%w: %d bytes that are no info of a simulated queue pair", fabric.ErrPeer, len(info))
	}
	body := info[:infoBytes-4]
	index := binary.BigEndian.Uint32(body[12:])
	if binary.BigEndian.Uint32(info[infoBytes-4:]) != crc32.ChecksumIEEE(body) || binary.BigEndian.Uint64(body[4:]) != n.id ||
		int(index) >= len(n.devices) {
		return nil, fmt.Errorf("%w: an info of another network, or a damaged one", fabric.ErrPeer)
	}
	token := binary.BigEndian.Uint64(body[20:])
	for _, p := range n.devices[index].qps {
		if p.token == token {
			return p, nil
		}
	}
	return nil, nil
}

// Connect implements fabric.QP. Without Faults.Handshake it asks nothing of the peer, as on verbs.
func (q *QP) Connect(ctx context.Context, remote []byte, lead bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n := q.net
	n.mu.Lock()
	err := q.attach(remote, lead)
	n.mu.Unlock()
	if err != nil || !n.faults.Handshake || n.faults.Manual {
		return err
	}
	err = n.wait(ctx, &q.changed, func() (bool, error) {
		err := q.state()
		if err == nil && q.peer.closed {
			err = fmt.Errorf("%w: its peer has gone", fabric.ErrBroken)
		}
		return q.peer.connected && q.peer.peer == q, err
	})
	if err != nil {
		q.Break()
	}
	return err
}

// attach takes the peer's side of a connection.
func (q *QP) attach(remote []byte, lead bool) error {
	n := q.net
	if err := q.state(); err != nil {
		return err
	}
	if q.connected {
		return n.misuse("queue pair %d is connected twice", q.num)
	}
	if err := q.dev.making(); err != nil {
		q.fail(breakNow, true)
		return err
	}
	p, err := n.find(remote)
	if err == nil && p == nil && n.faults.Handshake {
		err = fmt.Errorf("%w: its queue pair has gone", fabric.ErrPeer)
	}
	if err != nil {
		q.fail(breakNow, true)
		return err
	}
	q.peer, q.lead, q.connected = p, lead, true
	if p != nil {
		p.callers = append(p.callers, q)
		if p.peer == q && p.lead == lead {
			_ = n.misuse("both sides or neither lead") // counted; hardware does not mind
		}
	}
	q.rouse()
	return nil
}

// rouse lets all who may wait for this queue pair look again: calls here, and calls and requests of those who connected
// with it.
func (q *QP) rouse() {
	q.changed.notify()
	for _, p := range q.callers {
		p.changed.notify()
		p.resume()
	}
}

// state tells why nothing works any more, if so.
func (q *QP) state() error {
	switch {
	case q.closed:
		return fabric.ErrClosed
	case q.broken:
		return fabric.ErrBroken
	}
	return nil
}

// ready is state for calls that need a connection.
func (q *QP) ready() error {
	if err := q.state(); err != nil {
		return err
	}
	if !q.connected {
		return fmt.Errorf("%w: it was never connected", fabric.ErrBroken)
	}
	return nil
}

// Expose implements fabric.QP.
func (q *QP) Expose(r fabric.Region, offset, size int, access fabric.Access) (fabric.Remote, error) {
	n := q.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := q.ready(); err != nil {
		return fabric.Remote{}, err
	}
	if err := q.dev.making(); err != nil {
		return fabric.Remote{}, err
	}
	own, err := q.dev.ownRegion(r)
	if err != nil {
		return fabric.Remote{}, err
	}
	total := len(own.bytes)
	switch {
	case size < 1 || size > total || offset < 0 || offset > total-size || size > math.MaxUint32:
		return fabric.Remote{}, fmt.Errorf("sim: cannot expose %d bytes at %d of a region of %d", size, offset, total)
	case access == 0 || access&^(fabric.RemoteWrite|fabric.RemoteRead) != 0:
		return fabric.Remote{}, fmt.Errorf("sim: cannot expose with access %d", access)
	case len(q.exposures) == fabric.MaxExposed:
		return fabric.Remote{}, fmt.Errorf("%w: a queue pair exposes %d regions at most", fabric.ErrFull, fabric.MaxExposed)
	case n.faults.MapsRemote && size != total:
		return fabric.Remote{}, fmt.Errorf("%w: part of a region", fabric.ErrUnsupported)
	case own.mapped:
		return fabric.Remote{}, n.misuse("a region is exposed again that a peer may have mapped")
	}
	e := &exposure{region: own, bytes: own.bytes[offset : offset+size : offset+size], access: access}
	e.Remote = fabric.Remote{Addr: own.base + uint64(offset), Key: n.rng.Uint32(), Len: uint32(size)}
	for e.Key == 0 || q.exposure(e.Key) != nil {
		e.Key = n.rng.Uint32()
	}
	e.showing = newStream(func() {
		e.visible = true
		if q.peer != nil {
			q.peer.changed.notify()
		}
	})
	own.exposed++
	own.mapped = n.faults.MapsRemote
	q.exposures = append(q.exposures, e)
	if n.faults.MapsRemote {
		n.add(e.showing, n.later())
	}
	return e.Remote, nil
}

func (q *QP) exposure(key uint32) *exposure {
	for _, e := range q.exposures {
		if e.Key == key {
			return e
		}
	}
	return nil
}

// Map implements fabric.QP.
func (q *QP) Map(ctx context.Context, r fabric.Remote) ([]byte, error) {
	n := q.net
	if !n.faults.MapsRemote {
		return nil, fabric.ErrUnsupported
	}
	n.mu.Lock()
	planted := n.chance(n.faults.ControlErrors)
	n.mu.Unlock()
	if planted {
		return nil, errPlanted
	}
	var found []byte
	err := n.wait(ctx, &q.changed, func() (bool, error) {
		if err := q.ready(); err != nil {
			return false, err
		}
		if q.peer == nil || q.peer.closed {
			return false, fmt.Errorf("%w: its peer has gone", fabric.ErrBroken)
		}
		e := q.peer.exposure(r.Key)
		if e == nil || !e.visible || q.peer.peer != q {
			return false, nil
		}
		if e.Remote != r {
			return false, fmt.Errorf("%w: %d bytes were told, it has %d", fabric.ErrPeer, r.Len, e.Len)
		}
		found = e.bytes
		return true, nil
	})
	return found, err
}

// Break implements fabric.QP.
func (q *QP) Break() {
	q.net.mu.Lock()
	defer q.net.mu.Unlock()
	q.fail(breakNow, true)
}

// Close implements fabric.QP. What landed is shown in the completion queue, unless Faults.PurgeOnClose; how the
// requests under way ended, by chance.
func (q *QP) Close() error {
	n := q.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if q.closed {
		return nil
	}
	q.fail(breakNow, true)
	if n.faults.PurgeOnClose {
		q.cq.purge(q)
		n.counters.Purged += uint64(q.arrivals.len())
		q.drop(true)
		q.dev.freed = append(q.dev.freed, q.num)
	}
	for q.arrivals.len() > 0 {
		q.arrive()
	}
	if n.rng.IntN(2) == 0 {
		q.drop(false)
	}
	for q.acks.len() > 0 {
		q.acknowledge()
	}
	q.stop()
	for _, e := range q.exposures {
		e.region.exposed--
	}
	q.closed = true
	q.cq.users--
	q.srq.users--
	i := slices.Index(q.dev.qps, q)
	q.dev.qps = slices.Delete(q.dev.qps, i, i+1)
	q.rouse()
	q.callers = nil
	return nil
}

// drop forgets what the sender, and if all is set what the receiver, was not told.
func (q *QP) drop(all bool) {
	for q.acks.len() > 0 {
		q.release(q.acks.at(0))
		q.acks.pop()
	}
	if all {
		q.arrivals = fifo[arrival]{}
	}
}

// kill stops the queue pair without a word.
func (q *QP) kill() {
	q.fail(breakNow, true)
	q.dead = true
	q.drop(true)
	q.stop()
}

// stop takes everything of the queue pair off the agenda.
func (q *QP) stop() {
	for _, s := range []*stream{q.out, q.back, q.in} {
		q.net.cancel(s)
	}
	for _, e := range q.exposures {
		q.net.cancel(e.showing)
	}
}
