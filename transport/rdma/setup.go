package rdma

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

const (
	localMagic = "bornode-rdma/1"
	// descriptorBytes is the size of a descriptor, the one SEND of each side.
	descriptorBytes   = 60
	descriptorVersion = 1
	// maxStart keeps positions from ever passing 64 bits.
	maxStart = 1 << 62
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// setup is what happens between NewChannel and the first frame.
type setup struct {
	theirs uint64 // the peer's epoch
	peer   side

	// Filled by the poller: the peer's descriptor, and the values of its probes.
	described chan []byte
	probed    chan uint32
	seen      uint32 // bits of what came; under the poll lock
}

func newSetup() setup {
	return setup{described: make(chan []byte, 1), probed: make(chan uint32, 2)}
}

// encodeLocal gives what one end tells of itself before they are connected: the queue pair of the frames, and that of
// windows where there is one.
func encodeLocal(epoch uint64, info, window []byte) []byte {
	b := append([]byte(nil), localMagic...)
	b = binary.BigEndian.AppendUint64(b, epoch)
	b = binary.BigEndian.AppendUint16(b, uint16(len(info)))
	b = append(b, info...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(window)))
	b = append(b, window...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeLocal reads the same of the peer.
func decodeLocal(b []byte) (epoch uint64, info, window []byte, err error) {
	const head = len(localMagic) + 8
	if len(b) < head+2+2+4 || len(b) > MaxLocalBytes {
		return 0, nil, nil, fmt.Errorf("%w: channel of %d bytes", transport.ErrProtocol, len(b))
	}
	if string(b[:len(localMagic)]) != localMagic {
		return 0, nil, nil, fmt.Errorf("%w: the channel is no %s", transport.ErrProtocol, localMagic)
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(b[len(body):]) {
		return 0, nil, nil, fmt.Errorf("%w: checksum of the channel", transport.ErrProtocol)
	}
	epoch = binary.BigEndian.Uint64(b[len(localMagic):])
	info, rest, ok := cutInfo(body[head:])
	if ok {
		window, rest, ok = cutInfo(rest)
	}
	if !ok || len(rest) != 0 {
		return 0, nil, nil, fmt.Errorf("%w: channel with queue pairs of wrong lengths", transport.ErrProtocol)
	}
	return epoch, info, window, nil
}

// cutInfo takes the Info of a queue pair off b.
func cutInfo(b []byte) (info, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; n > len(b) || n > fabric.MaxInfoBytes {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

// descriptor is what each side sends first: where the other may write.
type descriptor struct {
	from   uint64 // epochs
	to     uint64
	remote fabric.Remote // the rings, control first, and the mailbox behind them
	side   side
}

func (d *descriptor) encode() []byte {
	b := make([]byte, 0, descriptorBytes)
	b = append(b, descriptorVersion, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, d.from)
	b = binary.BigEndian.AppendUint64(b, d.to)
	b = binary.BigEndian.AppendUint64(b, d.remote.Addr)
	b = binary.BigEndian.AppendUint32(b, d.remote.Key)
	b = binary.BigEndian.AppendUint32(b, d.remote.Len)
	b = append(b, byte(bits.Len64(d.side.control)-1), byte(bits.Len64(d.side.bulk)-1))
	b = binary.BigEndian.AppendUint16(b, uint16(d.side.entries))
	b = binary.BigEndian.AppendUint64(b, d.side.start)
	b = append(b, make([]byte, descriptorBytes-4-len(b))...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeDescriptor(b []byte) (d descriptor, err error) {
	fail := func(format string, args ...any) (descriptor, error) {
		return descriptor{}, fmt.Errorf("%w: descriptor: %s", transport.ErrProtocol, fmt.Sprintf(format, args...))
	}
	switch {
	case len(b) != descriptorBytes:
		return fail("%d bytes, want %d", len(b), descriptorBytes)
	case b[0] != descriptorVersion || b[1] != 0 || b[2] != 0 || b[3] != 0:
		return fail("version %x, want %d", b[:4], descriptorVersion)
	case crc32.Checksum(b[:descriptorBytes-4], castagnoli) != binary.BigEndian.Uint32(b[descriptorBytes-4:]):
		return fail("checksum")
	}
	d.from, d.to = binary.BigEndian.Uint64(b[4:]), binary.BigEndian.Uint64(b[12:])
	d.remote.Addr = binary.BigEndian.Uint64(b[20:])
	d.remote.Key, d.remote.Len = binary.BigEndian.Uint32(b[28:]), binary.BigEndian.Uint32(b[32:])
	if b[36] >= 32 || b[37] >= 32 {
		return fail("rings of 2^%d and 2^%d bytes", b[36], b[37])
	}
	d.side = side{
		control: 1 << b[36], bulk: 1 << b[37],
		entries: uint64(binary.BigEndian.Uint16(b[38:])), start: binary.BigEndian.Uint64(b[40:]),
	}
	for _, n := range []uint64{d.side.control, d.side.bulk} {
		if n < MinRingBytes || n > MaxRingBytes {
			return fail("ring of %d bytes", n)
		}
	}
	switch {
	case d.side.entries < 1 || d.side.entries > MaxEntries:
		return fail("%d entries", d.side.entries)
	case d.side.start%unit != 0 || d.side.start > maxStart:
		return fail("start %d", d.side.start)
	case uint64(d.remote.Len) != d.side.control+d.side.bulk+mailboxBytes:
		return fail("%d bytes exposed for rings of %d and %d", d.remote.Len, d.side.control, d.side.bulk)
	case d.remote.Addr+uint64(d.remote.Len) < d.remote.Addr:
		return fail("address %#x", d.remote.Addr)
	}
	for _, x := range b[48 : descriptorBytes-4] {
		if x != 0 {
			return fail("reserved bytes")
		}
	}
	return d, nil
}

// Local describes this end for the peer's Connect: at most MaxLocalBytes, told over an authenticated connection only.
func (c *Channel) Local() []byte { return encodeLocal(c.epoch, c.qp.Info(), c.pair.info()) }

// Connect connects with the peer's channel whose Local is remote; the peer does the same at about the same time, and
// exactly one of the two leads. It exchanges the memory regions and does not return before a write has arrived each
// way, or ctx has ended. transport.ErrProtocol when the peer's data is wrong. After an error only Close is left.
func (c *Channel) Connect(ctx context.Context, remote []byte, lead bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	c.making.Lock()
	err := c.Err()
	if err == nil {
		err = c.connect(ctx, remote, lead)
	}
	c.making.Unlock()
	if err == nil {
		return nil
	}
	if ended := c.Err(); ended != nil {
		return ended
	}
	err = fmt.Errorf("rdma: %s: connecting %s: %w", c.d.caps.Provider, c.peer, err)
	c.end(err, stateDead)
	return err
}

func (c *Channel) connect(ctx context.Context, remote []byte, lead bool) error {
	theirs, info, window, err := decodeLocal(remote)
	if err != nil {
		return err
	}
	c.setup.theirs = theirs
	if err := c.qp.Connect(ctx, info, lead); err != nil {
		return err
	}
	c.pair.connect(ctx, window, lead)
	c.d.registered.Add(1)
	exposed, err := c.qp.Expose(c.exposed.region, c.exposed.offset, c.exposed.n, fabric.RemoteWrite)
	if err != nil {
		return err
	}
	mine := descriptor{from: c.epoch, to: theirs, remote: exposed, side: c.own}
	note := c.scratch[len(c.scratch)-fabric.MaxSendBytes:][:descriptorBytes]
	copy(note, mine.encode())
	if err := c.postOne(fabric.SendWR{Op: fabric.OpSend, Local: note, Key: c.private.key()}); err != nil {
		return err
	}
	var theirDescriptor []byte
	select {
	case theirDescriptor = <-c.setup.described:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the peer's memory: %w", ctx.Err())
	}
	d, err := decodeDescriptor(theirDescriptor)
	if err != nil {
		return err
	}
	if d.from != theirs || d.to != c.epoch {
		return fmt.Errorf("%w: descriptor of another channel", transport.ErrProtocol)
	}
	if err := c.begin(ctx, &d); err != nil {
		return err
	}
	return c.probe(ctx)
}

// begin takes the peer's descriptor: from here on frames may come.
func (c *Channel) begin(ctx context.Context, d *descriptor) error {
	var mapped []byte
	if c.flow.mapped {
		var err error
		if mapped, err = c.qp.Map(ctx, d.remote); err != nil {
			return err
		}
		if len(mapped) != int(d.remote.Len) {
			return fmt.Errorf("%w: %d bytes mapped, exposed are %d", transport.ErrProtocol, len(mapped), d.remote.Len)
		}
	}
	own, peer := c.own, d.side
	own.control = min(own.control, peer.control) // of a larger ring a part stays unused
	own.bulk = min(own.bulk, peer.bulk)
	peer.control, peer.bulk = own.control, own.bulk

	c.tx.Lock()
	defer c.tx.Unlock()
	if c.closed {
		return c.Err()
	}
	c.setup.peer = peer
	c.flow.init(own, peer)
	c.remote = d.remote
	c.offset = [rings]uint64{0, d.side.control}
	c.mailAt = d.side.control + d.side.bulk
	from, bulkAt := c.private.bytes(), c.own.control
	if c.flow.mapped {
		from, bulkAt = mapped, d.side.control
		c.mailOut = mailboxOf(mapped[c.mailAt:])
	}
	c.mirror = [rings][]byte{from[:own.control], from[bulkAt : bulkAt+own.bulk]}
	mem := c.exposed.bytes()
	c.reader.init(&c.flow, mem[:own.control], mem[c.own.control:c.own.control+own.bulk], peer.start)
	c.limits.Store(limitsOf(own.bulk, c.flow.mapped))
	c.open.Store(true)
	return nil
}

// limitsOf gives the limits of a channel whose bulk rings have size bytes. In the worst case (empty messages) a record
// takes twice what the link counts for it, and of what the link knows to be received a sixteenth of the ring may not
// have been given back yet. A NIC works through what was posted in order, so there lane 0 also waits for what the
// wire has not taken: there the bound is tcp's.
func limitsOf(size uint64, mapped bool) *transport.ProviderLimits {
	n := int(size-size/16) / 2
	if !mapped {
		n = min(n, transport.UnacknowledgedBytes)
	}
	return &transport.ProviderLimits{SliceBytes: sliceBytes, UnacknowledgedBytes: n}
}

// postOne posts a request of the set-up. The send queue is empty then.
func (c *Channel) postOne(wr fabric.SendWR) error {
	c.tx.Lock()
	defer c.tx.Unlock()
	if c.closed {
		return c.Err()
	}
	c.flow.posted++
	wr.ID = c.tag | uint64(c.flow.posted)
	wr.Inline = len(wr.Local) > 0 && len(wr.Local) <= c.d.caps.MaxInline
	wrs := [1]fabric.SendWR{wr}
	if n, err := c.qp.Post(wrs[:]); n != 1 {
		return fmt.Errorf("posting: %w", err)
	}
	return nil
}

// Values of a PROBE.
const (
	probeAsk uint32 = iota
	probeAnswer
)

// sawDescriptor is a bit of setup.seen, beside those of the probes.
const sawDescriptor = 1 << 2

// probe writes the peer's epoch into its mailbox, and waits until the peer has done the same here and has seen ours.
func (c *Channel) probe(ctx context.Context) error {
	if err := c.sendProbe(); err != nil {
		return err
	}
	for range 2 {
		select {
		case v := <-c.setup.probed:
			if v == probeAnswer {
				continue
			}
			if err := c.checkProbe(); err != nil {
				return err
			}
			if err := c.postOne(fabric.SendWR{Op: fabric.OpWriteImm, Imm: immediate(classProbe, probeAnswer)}); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for the peer's probe: %w", ctx.Err())
		}
	}
	return nil
}

func (c *Channel) sendProbe() error {
	wr := fabric.SendWR{Op: fabric.OpWriteImm, Imm: immediate(classProbe, probeAsk)}
	c.tx.Lock()
	if c.mailOut != nil {
		c.mailOut.setProbe(c.setup.theirs)
	} else if c.scratch != nil {
		wr.Local = c.scratch[:8]
		binary.LittleEndian.PutUint64(wr.Local, c.setup.theirs)
		wr.Key, wr.RKey = c.private.key(), c.remote.Key
		wr.Remote = c.remote.Addr + c.mailAt + probeWord*8
	}
	c.tx.Unlock()
	return c.postOne(wr)
}

func (c *Channel) checkProbe() error {
	c.tx.Lock()
	defer c.tx.Unlock()
	if c.closed {
		return c.Err()
	}
	if got := c.mailIn.probe(); got != c.epoch {
		return fmt.Errorf("%w: the probe wrote %#x, want %#x", transport.ErrProtocol, got, c.epoch)
	}
	return nil
}

// describe takes the peer's SEND, under the poll lock. There is one.
func (c *Channel) describe(sent []byte) bool {
	if c.setup.seen&sawDescriptor != 0 {
		c.breach(fmt.Errorf("%w: second descriptor", transport.ErrProtocol))
		return false
	}
	c.setup.seen |= sawDescriptor
	c.setup.described <- append([]byte(nil), sent...)
	return false
}

// probedBy takes a probe of the peer, under the poll lock. Each value comes once.
func (c *Channel) probedBy(value uint32) bool {
	if value > probeAnswer || c.setup.seen&(1<<value) != 0 {
		c.breach(fmt.Errorf("%w: probe %d", transport.ErrProtocol, value))
		return false
	}
	c.setup.seen |= 1 << value
	c.setup.probed <- value // there is room for both
	return false
}
