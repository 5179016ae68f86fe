package transport

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// HeaderBytes is the size of every frame's header.
const HeaderBytes = 32

// FrameVersion is the version of the frame format, the first byte of every header.
const FrameVersion = 1

// Flags of a frame.
const (
	FlagFirst    = 1 << 0 // first slice of a message
	FlagLast     = 1 << 1 // last slice of a message
	FlagControl  = 1 << 2 // not part of a lane: Type is a control kind, Sequence and Total are 0
	FlagChecksum = 1 << 3 // Checksum holds CRC-32C of header (with Checksum 0) and payload
	flagsKnown   = FlagFirst | FlagLast | FlagControl | FlagChecksum
)

// Control kinds, the Type of a control frame.
const (
	ControlHello uint8 = 1 // Hello: first frame of a connection, each way
	ControlAcks  uint8 = 2 // Acks of all lanes
	ControlPing  uint8 = 3 // Acks, then a uint64 the pong repeats
	ControlPong  uint8 = 4 // Acks, then the ping's uint64
	ControlClose uint8 = 5 // reason text: the link ends
)

// Header is a frame's header. Sequence, Received and Freed* are the low 32 bits of counters that only grow; windows
// are far below 2^31, so the full value follows from the last one known.
type Header struct {
	Lane     Lane
	Flags    uint8
	Type     uint8
	Length   uint32 // payload bytes of this frame
	Sequence uint32 // frames sent on the lane before this one
	Total    uint32 // payload bytes of the whole message
	Ack      Ack    // of the same lane in the other direction
	Checksum uint32
}

// Ack tells what one side has of a lane's frames.
type Ack struct {
	Received    uint32 // frames taken over by the link: need not be kept for a resend
	FreedFrames uint32 // frames whose room is free again: credit
	FreedBytes  uint32 // payload and header bytes of those frames
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// PutHeader encodes h into dst[:HeaderBytes], big-endian, as in docs/wire-transport.md.
func PutHeader(dst []byte, h *Header) {
	_ = dst[HeaderBytes-1]
	dst[0] = FrameVersion
	dst[1] = byte(h.Lane)
	dst[2] = h.Flags
	dst[3] = h.Type
	binary.BigEndian.PutUint32(dst[4:], h.Length)
	binary.BigEndian.PutUint32(dst[8:], h.Sequence)
	binary.BigEndian.PutUint32(dst[12:], h.Total)
	binary.BigEndian.PutUint32(dst[16:], h.Ack.Received)
	binary.BigEndian.PutUint32(dst[20:], h.Ack.FreedFrames)
	binary.BigEndian.PutUint32(dst[24:], h.Ack.FreedBytes)
	binary.BigEndian.PutUint32(dst[28:], h.Checksum)
}

// DecodeHeader reads and checks a header: version, lane, flags, and every length against its bound. What depends on
// the link's state (sequence, credits, acknowledgements) is checked by the link.
func DecodeHeader(b []byte) (Header, error) {
	if len(b) != HeaderBytes {
		return Header{}, fmt.Errorf("%w: frame header of %d bytes, want %d", ErrProtocol, len(b), HeaderBytes)
	}
	if b[0] != FrameVersion {
		return Header{}, fmt.Errorf("%w: frame version %d, want %d", ErrProtocol, b[0], FrameVersion)
	}
	h := Header{
		Lane:     Lane(b[1]),
		Flags:    b[2],
		Type:     b[3],
		Length:   binary.BigEndian.Uint32(b[4:]),
		Sequence: binary.BigEndian.Uint32(b[8:]),
		Total:    binary.BigEndian.Uint32(b[12:]),
		Ack: Ack{
			Received:    binary.BigEndian.Uint32(b[16:]),
			FreedFrames: binary.BigEndian.Uint32(b[20:]),
			FreedBytes:  binary.BigEndian.Uint32(b[24:]),
		},
		Checksum: binary.BigEndian.Uint32(b[28:]),
	}
	return h, h.check()
}

func (h *Header) check() error {
	if h.Flags&^flagsKnown != 0 {
		return fmt.Errorf("%w: frame flags %#x", ErrProtocol, h.Flags)
	}
	if h.Flags&FlagChecksum == 0 && h.Checksum != 0 {
		return fmt.Errorf("%w: checksum without its flag", ErrProtocol)
	}
	if h.Flags&FlagControl != 0 {
		if h.Flags&(FlagFirst|FlagLast) != 0 || h.Lane != 0 || h.Sequence != 0 || h.Total != 0 || h.Ack != (Ack{}) {
			return fmt.Errorf("%w: control frame with fields of a lane", ErrProtocol)
		}
		if h.Type < ControlHello || h.Type > ControlClose {
			return fmt.Errorf("%w: control kind %d", ErrProtocol, h.Type)
		}
		if h.Length > MaxControlBytes {
			return fmt.Errorf("%w: control frame of %d bytes, at most %d", ErrProtocol, h.Length, MaxControlBytes)
		}
		return nil
	}
	return h.checkData()
}

func (h *Header) checkData() error {
	if h.Lane >= Lanes {
		return fmt.Errorf("%w: lane %d", ErrProtocol, h.Lane)
	}
	if h.Length > MaxSliceBytes {
		return fmt.Errorf("%w: frame of %d bytes, at most %d", ErrProtocol, h.Length, MaxSliceBytes)
	}
	if h.Total > uint32(MaxMessageBytes(h.Lane)) {
		return fmt.Errorf("%w: message of %d bytes on lane %s, at most %d", ErrProtocol, h.Total, h.Lane, MaxMessageBytes(h.Lane))
	}
	if h.Length > h.Total {
		return fmt.Errorf("%w: slice of %d bytes in a message of %d", ErrProtocol, h.Length, h.Total)
	}
	whole := h.Flags&FlagFirst != 0 && h.Flags&FlagLast != 0
	if whole != (h.Length == h.Total) {
		return fmt.Errorf("%w: slice flags %#x with %d of %d bytes", ErrProtocol, h.Flags, h.Length, h.Total)
	}
	if !whole && h.Length == 0 {
		return fmt.Errorf("%w: empty slice", ErrProtocol)
	}
	return nil
}

// Seal sets the checksum of a frame that goes over a pipe without integrity check.
func (f *Frame) Seal() {
	f.Header.Flags |= FlagChecksum
	f.Header.Checksum = f.checksum()
}

// Verify checks the checksum if the frame has one; want tells that it must.
func (f *Frame) Verify(want bool) error {
	if f.Header.Flags&FlagChecksum == 0 {
		if want {
			return fmt.Errorf("%w: frame without checksum", ErrProtocol)
		}
		return nil
	}
	if f.checksum() != f.Header.Checksum {
		return fmt.Errorf("%w: checksum of frame %d on lane %s does not match", ErrProtocol, f.Header.Sequence, f.Header.Lane)
	}
	return nil
}

func (f *Frame) checksum() uint32 {
	var b [HeaderBytes]byte
	h := f.Header
	h.Checksum = 0
	PutHeader(b[:], &h)
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, f.Payload)
}
