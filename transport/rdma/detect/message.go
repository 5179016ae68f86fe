package detect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bornode/bornode/transport"
)

// version of the messages, in every one of them.
const version = 1

// Kinds of messages.
const (
	kindOffers    = 1 // first message each way, and again when they change
	kindNone      = 2 // leader: nothing suits both, and why
	kindPropose   = 3 // leader: an attempt, with the leader's end of the channel
	kindAccept    = 4 // follower: its end
	kindReady     = 5 // follower: the probe came through
	kindSwitch    = 6 // leader: it came through here too; both attach
	kindBroken    = 7 // either: the attempt, or the path it made, has failed
	kindKeepalive = 8 // either, while a fast path carries the link
)

// headBytes: length of the body 2, version 1, kind 1.
const headBytes = 4

// errVersion: the peer speaks another version; that is no fault of its.
var errVersion = errors.New("detect: the peer's messages have another version")

// message is any message; which fields are used follows from the kind.
type message struct {
	kind    uint8
	attempt uint32  // kindPropose to kindBroken
	offers  []offer // kindOffers
	mine    uint8   // kindPropose: the leader's endpoint
	yours   uint8   // the follower's
	local   []byte  // kindPropose, kindAccept
	reason  string  // kindNone, kindBroken
}

// offerKind is what an endpoint is, as far as it matters who can reach whom.
type offerKind uint8

const (
	offerHost       offerKind = 1 // shared memory
	offerRoCE       offerKind = 2
	offerInfiniBand offerKind = 3
)

// offer is an endpoint as its peer sees it.
type offer struct {
	id         uint8 // of the sender's choice; names the endpoint in proposals
	kind       offerKind
	rendezvous []byte // offerHost
	matches    bool   // has the address of this connection, or was named by the operator
	port       uint8
	mtu        uint16
	gid        [16]byte
	name       string
}

// encode gives the bytes of a message, big-endian as in docs/wire-transport.md.
func (m *message) encode() []byte {
	b := []byte{0, 0, version, m.kind}
	if m.kind >= kindPropose && m.kind <= kindBroken {
		b = binary.BigEndian.AppendUint32(b, m.attempt)
	}
	switch m.kind {
	case kindOffers:
		b = append(b, byte(len(m.offers)))
		for i := range m.offers {
			b = m.offers[i].append(b)
		}
	case kindPropose:
		b = append(b, m.mine, m.yours)
		b = append(b, m.local...)
	case kindAccept:
		b = append(b, m.local...)
	case kindNone, kindBroken:
		b = append(b, clean(m.reason, maxReasonBytes)...)
	}
	binary.BigEndian.PutUint16(b, uint16(len(b)-headBytes))
	return b
}

func (o *offer) append(b []byte) []byte {
	b = append(b, o.id, byte(o.kind))
	if o.kind == offerHost {
		b = append(b, byte(len(o.rendezvous)))
		return append(b, o.rendezvous...)
	}
	matches := byte(0)
	if o.matches {
		matches = 1
	}
	b = append(b, matches, o.port)
	b = binary.BigEndian.AppendUint16(b, o.mtu)
	b = append(b, o.gid[:]...)
	name := clean(o.name, maxNameBytes)
	b = append(b, byte(len(name)))
	return append(b, name...)
}

// read reads the next message. Its error wraps transport.ErrProtocol when the peer's bytes are wrong, errVersion when
// they are of another version; any other is the stream's.
func read(r io.Reader) (*message, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if head[2] != version {
		return nil, fmt.Errorf("%w: %d, ours is %d", errVersion, head[2], version)
	}
	kind, n := head[3], int(binary.BigEndian.Uint16(head[:]))
	if kind < kindOffers || kind > kindKeepalive || n > maxBodyBytes {
		return nil, fmt.Errorf("%w: control message of kind %d with %d bytes, at most %d", transport.ErrProtocol, kind, n, maxBodyBytes)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	return decode(kind, body)
}

// decode checks and reads the body of a known kind.
func decode(kind uint8, b []byte) (*message, error) {
	m := &message{kind: kind}
	in := input{b: b}
	if kind >= kindPropose && kind <= kindBroken {
		m.attempt = in.uint32()
	}
	switch kind {
	case kindOffers:
		m.offers = in.offers()
	case kindPropose:
		m.mine, m.yours = in.uint8(), in.uint8()
		m.local = in.rest(1, maxLocalBytes)
	case kindAccept:
		m.local = in.rest(1, maxLocalBytes)
	case kindNone, kindBroken:
		m.reason = clean(string(in.rest(0, maxReasonBytes)), maxReasonBytes)
	}
	if in.bad || len(in.b) > 0 {
		return nil, fmt.Errorf("%w: control message %d of %d bytes cannot be read", transport.ErrProtocol, kind, len(b))
	}
	return m, nil
}

// input takes fields off the front of bytes; bad once they were too short or a value was out of bounds.
type input struct {
	b   []byte
	bad bool
}

func (in *input) take(n int) []byte {
	if n > len(in.b) {
		in.bad, in.b = true, nil
		return make([]byte, n)
	}
	out := in.b[:n]
	in.b = in.b[n:]
	return out
}

func (in *input) uint8() uint8   { return in.take(1)[0] }
func (in *input) uint16() uint16 { return binary.BigEndian.Uint16(in.take(2)) }
func (in *input) uint32() uint32 { return binary.BigEndian.Uint32(in.take(4)) }

// rest takes all that is left.
func (in *input) rest(low, high int) []byte {
	if len(in.b) < low || len(in.b) > high {
		in.bad = true
		return nil
	}
	return append([]byte(nil), in.take(len(in.b))...)
}

func (in *input) offers() []offer {
	n := int(in.uint8())
	if n > maxOffers {
		in.bad = true
		return nil
	}
	var out []offer
	seen := make(map[uint8]bool)
	for range n {
		o := in.offer()
		if in.bad || seen[o.id] {
			in.bad = true
			return nil
		}
		seen[o.id] = true
		out = append(out, o)
	}
	return out
}

func (in *input) offer() offer {
	o := offer{id: in.uint8(), kind: offerKind(in.uint8())}
	switch o.kind {
	case offerHost:
		n := int(in.uint8())
		in.bad = in.bad || n == 0 || n > maxRendezvousBytes
		o.rendezvous = append([]byte(nil), in.take(n)...)
		return o
	case offerRoCE, offerInfiniBand:
	default:
		in.bad = true
		return o
	}
	matches := in.uint8()
	o.matches = matches == 1
	o.port = in.uint8()
	o.mtu = in.uint16()
	o.gid = [16]byte(in.take(16))
	n := int(in.uint8())
	name := string(in.take(n))
	o.name = clean(name, maxNameBytes)
	in.bad = in.bad || matches > 1 || n > maxNameBytes || o.name != name
	return o
}

// clean makes a text fit to be logged and shown: valid, printable, at most n bytes.
func clean(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	for len(s) > n {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}
