package transport

import (
	"encoding/binary"
	"fmt"
)

// SessionID names one side's end of a link; the pair of both sides' ids names the link. Random, never reused by
// another process.
type SessionID [16]byte

// helloMagic begins every hello; the digit is the version of the link protocol.
const helloMagic = "bornode-link/1"

// HelloBytes is the size of an encoded Hello.
const HelloBytes = len(helloMagic) + 16 + 16 + Lanes*16

// Hello is the first frame on a connection, each way. If both sides' ids match crosswise the connection continues the
// link they name, and each side sends again what the other has not received; otherwise a new link begins.
type Hello struct {
	Local  SessionID // of the sender of this hello
	Remote SessionID // what the sender knows of the other side; zero if it has no link to continue
	Lanes  [Lanes]HelloLane
}

// HelloLane is a lane's state at its receiver. In a hello that continues nothing, all values are the start values.
type HelloLane struct {
	Received uint64 // frames received so far (sequence number of the next one wanted)
	First    uint64 // sequence number of the first frame the sender of this hello sent, or will send, on the lane
}

// Encode gives the hello's bytes.
func (h *Hello) Encode() []byte {
	b := make([]byte, 0, HelloBytes)
	b = append(b, helloMagic...)
	b = append(b, h.Local[:]...)
	b = append(b, h.Remote[:]...)
	for _, l := range h.Lanes {
		b = binary.BigEndian.AppendUint64(b, l.Received)
		b = binary.BigEndian.AppendUint64(b, l.First)
	}
	return b
}

// DecodeHello reads a hello.
func DecodeHello(b []byte) (Hello, error) {
	var h Hello
	if len(b) != HelloBytes || string(b[:len(helloMagic)]) != helloMagic {
		return h, fmt.Errorf("%w: first frame is no hello of %s", ErrProtocol, helloMagic)
	}
	b = b[len(helloMagic):]
	b = b[copy(h.Local[:], b):]
	b = b[copy(h.Remote[:], b):]
	for i := range h.Lanes {
		h.Lanes[i].Received = binary.BigEndian.Uint64(b)
		h.Lanes[i].First = binary.BigEndian.Uint64(b[8:])
		b = b[16:]
	}
	if h.Local == (SessionID{}) {
		return Hello{}, fmt.Errorf("%w: hello without a session", ErrProtocol)
	}
	return h, nil
}

// Acks are the acknowledgements of all lanes.
type Acks [Lanes]Ack

// AcksBytes is the size of encoded Acks.
const AcksBytes = Lanes * 12

// AppendAcks encodes a.
func AppendAcks(b []byte, a *Acks) []byte {
	for _, l := range a {
		b = binary.BigEndian.AppendUint32(b, l.Received)
		b = binary.BigEndian.AppendUint32(b, l.FreedFrames)
		b = binary.BigEndian.AppendUint32(b, l.FreedBytes)
	}
	return b
}

// DecodeAcks reads the acknowledgements that begin the payload of ControlAcks, ControlPing and ControlPong, and the
// uint64 that ends the latter two (0 for ControlAcks).
func DecodeAcks(kind uint8, b []byte) (Acks, uint64, error) {
	var a Acks
	want := AcksBytes
	if kind != ControlAcks {
		want += 8
	}
	if len(b) != want {
		return a, 0, fmt.Errorf("%w: control frame %d of %d bytes, want %d", ErrProtocol, kind, len(b), want)
	}
	for i := range a {
		a[i].Received = binary.BigEndian.Uint32(b)
		a[i].FreedFrames = binary.BigEndian.Uint32(b[4:])
		a[i].FreedBytes = binary.BigEndian.Uint32(b[8:])
		b = b[12:]
	}
	if kind == ControlAcks {
		return a, 0, nil
	}
	return a, binary.BigEndian.Uint64(b), nil
}
