//go:build linux

package shm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// What queue pairs tell each other: Info over the authenticated connection above, messages over the Unix socket. One
// host, one byte order, but big-endian all the same, as everywhere on the wire.
const (
	wireVersion = 1

	kindAbstract = 0 // name of an abstract socket
	kindFolder   = 1 // name within the configured folder

	nameBytes       = 16
	tokenBytes      = 16
	rendezvousBytes = 2 + nameBytes
	infoBytes       = rendezvousBytes + 4 + tokenBytes

	socketPrefix = "bornode-shm-"
)

type (
	name  [nameBytes]byte
	token [tokenBytes]byte
)

// rendezvous says where a device listens. Only the random part of the name is told: a peer cannot make us dial
// anything but a socket of another node.
type rendezvous struct {
	kind byte
	name name
}

func (r rendezvous) append(b []byte) []byte {
	b = append(b, wireVersion, r.kind)
	return append(b, r.name[:]...)
}

func (r rendezvous) file() string { return socketPrefix + hex.EncodeToString(r.name[:]) }

func parseRendezvous(b []byte) (rendezvous, error) {
	var r rendezvous
	if len(b) != rendezvousBytes {
		return r, fmt.Errorf("%w: rendezvous of %d bytes", fabric.ErrPeer, len(b))
	}
	if b[0] != wireVersion {
		return r, fmt.Errorf("%w: shared memory of version %d, ours is %d", fabric.ErrPeer, b[0], wireVersion)
	}
	if b[1] > kindFolder {
		return r, fmt.Errorf("%w: rendezvous of kind %d", fabric.ErrPeer, b[1])
	}
	r.kind = b[1]
	copy(r.name[:], b[2:])
	return r, nil
}

// info is QP.Info: where to dial, whom to ask for, and the proof of having been told.
type info struct {
	rendezvous
	qp    uint32
	token token
}

func (i info) append(b []byte) []byte {
	b = i.rendezvous.append(b)
	b = binary.BigEndian.AppendUint32(b, i.qp)
	return append(b, i.token[:]...)
}

func parseInfo(b []byte) (info, error) {
	var i info
	if len(b) != infoBytes {
		return i, fmt.Errorf("%w: info of %d bytes", fabric.ErrPeer, len(b))
	}
	var err error
	if i.rendezvous, err = parseRendezvous(b[:rendezvousBytes]); err != nil {
		return i, err
	}
	i.qp = binary.BigEndian.Uint32(b[rendezvousBytes:])
	copy(i.token[:], b[rendezvousBytes+4:])
	return i, nil
}

// Messages on the socket, by their first byte.
const (
	msgHello     = 1 // first in each direction, with two descriptors: completion ring, status pages
	msgWake      = 2 // completions came while your queue was armed
	msgRegion    = 3 // with one descriptor
	msgRegionAck = 4
	msgArea      = 5
	msgAreaFile  = 6 // with one descriptor if the status is 0
)

// Statuses in msgRegionAck and msgAreaFile.
const (
	ansOK       = 0
	ansRefused  = 1
	ansNoWindow = 2
	ansNoArea   = 3
)

var helloMagic = []byte("bornode-shm\x01")

const (
	helloBytes     = 1 + 12 + tokenBytes + 6*4 + 1
	regionBytes    = 1 + 4 + 4 + 1
	regionAckBytes = 1 + 4 + 1
	areaBytes      = 1 + 4 + 4
	areaFileBytes  = 1 + 4 + 1
)

// hello is what each side tells of its half when the socket is there.
type hello struct {
	token    token  // of the side it is sent to
	qp       uint32 // of the sender
	peer     uint32 // queue pair it is sent to
	depth    uint32 // slots of the ring the sender made for what it will send
	start    uint32 // position at which the receiver of this hello starts its own ring
	cqLine   uint32 // of the sender's status pages
	srqLine  uint32
	rnrRetry bool // the sender's requests wait for receive entries
}

func (h hello) append(b []byte) []byte {
	b = append(b, msgHello)
	b = append(b, helloMagic...)
	b = append(b, h.token[:]...)
	for _, v := range [...]uint32{h.qp, h.peer, h.depth, h.start, h.cqLine, h.srqLine} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	if h.rnrRetry {
		return append(b, 1)
	}
	return append(b, 0)
}

func parseHello(b []byte) (hello, error) {
	var h hello
	if len(b) != helloBytes || b[0] != msgHello || !bytes.Equal(b[1:13], helloMagic) {
		return h, fmt.Errorf("%w: not a hello", fabric.ErrPeer)
	}
	copy(h.token[:], b[13:])
	rest := b[13+tokenBytes:]
	for _, v := range []*uint32{&h.qp, &h.peer, &h.depth, &h.start, &h.cqLine, &h.srqLine} {
		*v = binary.BigEndian.Uint32(rest)
		rest = rest[4:]
	}
	h.rnrRetry = rest[0] == 1
	switch {
	case h.depth < minRingDepth || h.depth > maxRingDepth || h.depth&(h.depth-1) != 0:
		return h, fmt.Errorf("%w: completion ring of %d slots", fabric.ErrPeer, h.depth)
	case h.start >= minRingDepth:
		return h, fmt.Errorf("%w: completion ring from slot %d", fabric.ErrPeer, h.start)
	case h.cqLine >= statusLines || h.srqLine >= statusLines:
		return h, fmt.Errorf("%w: status lines %d and %d", fabric.ErrPeer, h.cqLine, h.srqLine)
	case rest[0] > 1:
		return h, fmt.Errorf("%w: retry flag %d", fabric.ErrPeer, rest[0])
	}
	return h, nil
}

// control is any later message: a number (key or id), a value (size, area) and a small code (access, status).
type control struct {
	kind  byte
	id    uint32
	value uint32
	code  byte
}

func (c control) append(b []byte) []byte {
	b = append(b, c.kind)
	if c.kind == msgWake {
		return b
	}
	b = binary.BigEndian.AppendUint32(b, c.id)
	if c.kind == msgRegion || c.kind == msgArea {
		b = binary.BigEndian.AppendUint32(b, c.value)
	}
	if c.kind != msgArea {
		b = append(b, c.code)
	}
	return b
}

func parseControl(b []byte) (control, error) {
	var c control
	if len(b) == 0 {
		return c, fmt.Errorf("%w: empty message", fabric.ErrPeer)
	}
	c.kind = b[0]
	want := 0
	switch c.kind {
	case msgWake:
		want = 1
	case msgRegion:
		want = regionBytes
	case msgRegionAck:
		want = regionAckBytes
	case msgArea:
		want = areaBytes
	case msgAreaFile:
		want = areaFileBytes
	}
	if len(b) != want {
		return c, fmt.Errorf("%w: message of kind %d with %d bytes", fabric.ErrPeer, c.kind, len(b))
	}
	if c.kind == msgWake {
		return c, nil
	}
	c.id = binary.BigEndian.Uint32(b[1:])
	rest := b[5:]
	if c.kind == msgRegion || c.kind == msgArea {
		c.value = binary.BigEndian.Uint32(rest)
		rest = rest[4:]
	}
	if c.kind != msgArea {
		c.code = rest[0]
	}
	return c, nil
}
