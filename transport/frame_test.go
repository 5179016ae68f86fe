package transport

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimits(t *testing.T) {
	for lane := range Lane(Lanes) {
		w := LaneWindow(lane)
		require.Less(t, uint64(w.Bytes), uint64(1)<<30, "counters on the wire have 32 bits")
		require.GreaterOrEqual(t, w.Bytes, uint32(4*(MaxSliceBytes+HeaderBytes)), "a quarter of the window must hold a slice, else credit could be owed for ever")
		require.Positive(t, SendQueue(lane).Messages)
		require.Positive(t, UnreadBytes(lane))
	}
	require.Zero(t, MaxMessageBytes(Lanes))
}

func TestGoldenHeader(t *testing.T) {
	h := Header{
		Lane: LaneCatchUp, Flags: FlagFirst, Type: 7, Length: 65475, Sequence: 0xfffffffe, Total: 1 << 20,
		Ack: Ack{Received: 0x01020304, FreedFrames: 0x05060708, FreedBytes: 0x090a0b0c},
	}
	var b [HeaderBytes]byte
	PutHeader(b[:], &h)
	require.Equal(t, "01020107"+"0000ffc3"+"fffffffe"+"00100000"+"01020304"+"05060708"+"090a0b0c"+"00000000", hex.EncodeToString(b[:]))
	got, err := DecodeHeader(b[:])
	require.NoError(t, err)
	require.Equal(t, h, got)
}

func TestGoldenControl(t *testing.T) {
	h := Hello{Local: SessionID{1, 2}, Remote: SessionID{3}}
	for i := range h.Lanes {
		h.Lanes[i] = HelloLane{Received: uint64(i), First: 1<<32 + uint64(i)}
	}
	require.Equal(t, "626f726e6f64652d6c696e6b2f31"+
		"01020000000000000000000000000000"+"03000000000000000000000000000000"+
		"0000000000000000"+"0000000100000000"+"0000000000000001"+"0000000100000001"+
		"0000000000000002"+"0000000100000002"+"0000000000000003"+"0000000100000003",
		hex.EncodeToString(h.Encode()))
	got, err := DecodeHello(h.Encode())
	require.NoError(t, err)
	require.Equal(t, h, got)

	a := Acks{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}}
	b := AppendAcks(nil, &a)
	require.Equal(t, "000000010000000200000003"+"000000040000000500000006"+"000000070000000800000009"+"0000000a0000000b0000000c", hex.EncodeToString(b))
	back, _, err := DecodeAcks(ControlAcks, b)
	require.NoError(t, err)
	require.Equal(t, a, back)
	back, token, err := DecodeAcks(ControlPong, append(b, 0, 0, 0, 0, 0, 0, 1, 2))
	require.NoError(t, err)
	require.Equal(t, a, back)
	require.EqualValues(t, 258, token)
}

func TestChecksum(t *testing.T) {
	f := Frame{Header: Header{Lane: 1, Flags: FlagFirst | FlagLast, Length: 5, Total: 5}, Payload: []byte("hello")}
	require.NoError(t, f.Verify(false))
	require.ErrorIs(t, f.Verify(true), ErrProtocol)
	f.Seal()
	require.Equal(t, uint32(0x70aef978), f.Header.Checksum)
	require.NoError(t, f.Verify(true))
	f.Payload = []byte("hellO")
	require.ErrorIs(t, f.Verify(true), ErrProtocol)
	f.Payload = []byte("hello")
	f.Header.Sequence++
	require.ErrorIs(t, f.Verify(false), ErrProtocol)
}

func TestHeaderRefused(t *testing.T) {
	good := Header{Lane: 1, Flags: FlagFirst | FlagLast, Length: 3, Total: 3}
	for name, change := range map[string]func(*Header){
		"lane":            func(h *Header) { h.Lane = Lanes },
		"flags":           func(h *Header) { h.Flags |= 0x10 },
		"checksum":        func(h *Header) { h.Checksum = 1 },
		"length":          func(h *Header) { h.Length, h.Total = MaxSliceBytes+1, MaxSliceBytes+1 },
		"total":           func(h *Header) { h.Flags, h.Total = FlagFirst, MaxTransactionsBytes+1 },
		"length of total": func(h *Header) { h.Total = 2 },
		"not whole":       func(h *Header) { h.Total = 4 },
		"whole":           func(h *Header) { h.Flags = FlagLast },
		"empty slice":     func(h *Header) { h.Flags, h.Length = FlagFirst, 0 },
		"control lane":    func(h *Header) { *h = Header{Flags: FlagControl, Type: ControlAcks, Lane: 1} },
		"control ack":     func(h *Header) { *h = Header{Flags: FlagControl, Type: ControlAcks, Ack: Ack{Received: 1}} },
		"control kind":    func(h *Header) { *h = Header{Flags: FlagControl} },
		"control length":  func(h *Header) { *h = Header{Flags: FlagControl, Type: ControlAcks, Length: MaxControlBytes + 1} },
	} {
		h := good
		change(&h)
		var b [HeaderBytes]byte
		PutHeader(b[:], &h)
		_, err := DecodeHeader(b[:])
		require.ErrorIs(t, err, ErrProtocol, name)
	}
	var b [HeaderBytes]byte
	PutHeader(b[:], &good)
	_, err := DecodeHeader(b[:])
	require.NoError(t, err)
	b[0] = 2
	_, err = DecodeHeader(b[:])
	require.ErrorIs(t, err, ErrProtocol)
	_, err = DecodeHeader(b[:31])
	require.ErrorIs(t, err, ErrProtocol)
	_, err = DecodeHello(make([]byte, HelloBytes))
	require.ErrorIs(t, err, ErrProtocol)
	_, err = DecodeHello((&Hello{}).Encode())
	require.ErrorIs(t, err, ErrProtocol, "no session")
}

func FuzzDecodeHeader(f *testing.F) {
	for _, h := range []Header{
		{Lane: 1, Flags: FlagFirst | FlagLast, Length: 3, Total: 3},
		{Lane: 2, Flags: FlagFirst, Length: MaxSliceBytes, Total: 1 << 20, Sequence: 9},
		{Flags: FlagControl, Type: ControlPing, Length: AcksBytes + 8},
	} {
		var b [HeaderBytes]byte
		PutHeader(b[:], &h)
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := DecodeHeader(in)
		if err != nil {
			require.ErrorIs(t, err, ErrProtocol)
			return
		}
		var b [HeaderBytes]byte
		PutHeader(b[:], &h)
		require.Equal(t, in, b[:], "one header, one encoding")
		if h.Flags&FlagControl != 0 {
			require.LessOrEqual(t, h.Length, uint32(MaxControlBytes))
			return
		}
		require.LessOrEqual(t, h.Length, uint32(MaxSliceBytes))
		require.LessOrEqual(t, int(h.Total), MaxMessageBytes(h.Lane))
	})
}

func FuzzDecodeHello(f *testing.F) {
	f.Add((&Hello{Local: SessionID{1}}).Encode())
	f.Add([]byte(helloMagic))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := DecodeHello(in)
		if err != nil {
			require.ErrorIs(t, err, ErrProtocol)
			return
		}
		require.Equal(t, in, h.Encode())
	})
}

func FuzzDecodeAcks(f *testing.F) {
	f.Add(ControlAcks, AppendAcks(nil, &Acks{}))
	f.Add(ControlPing, make([]byte, AcksBytes+8))
	f.Fuzz(func(t *testing.T, kind uint8, in []byte) {
		a, _, err := DecodeAcks(kind, in)
		if err != nil {
			require.ErrorIs(t, err, ErrProtocol)
			return
		}
		require.Equal(t, in[:AcksBytes], AppendAcks(nil, &a))
	})
}
