package rdma

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

func TestRecordBytes(t *testing.T) {
	for n, want := range map[int]uint64{0: 64, 1: 64, 32: 64, 33: 128, 96: 128, 97: 192, transport.MaxSliceBytes: maxRecordBytes} {
		require.Equal(t, want, recordBytes(n), n)
	}
	require.LessOrEqual(t, 4*maxRecordBytes, 3*MinRingBytes, "the proof in flow needs it")
}

func TestRingOf(t *testing.T) {
	require.Equal(t, ringControl, ringOf(&transport.Header{Flags: transport.FlagControl}))
	require.Equal(t, ringControl, ringOf(&transport.Header{Lane: transport.LaneConsensus}))
	for lane := transport.LaneTransactions; lane < 250; lane++ {
		require.Equal(t, ringBulk, ringOf(&transport.Header{Lane: lane}))
	}
}

// TestPublish tries every distance around the edges, also where the value and where 64 bits of bytes wrap.
func TestPublish(t *testing.T) {
	const size = MinRingBytes
	const wrap = (valueMask + 1) * unit
	for _, consumed := range []uint64{0, 64, wrap - 64, wrap, 5*wrap - size/2, maxStart} {
		for _, unread := range []uint64{0, 64, size / 2, size - 64, size} {
			published := consumed + unread
			for _, ahead := range []uint64{0, 64, 128, size/2 - 64, size / 2, size - 64, size, size + 64, 2 * size, wrap - 64} {
				got, err := publish(published, consumed, size, uint32((published+ahead)/unit)&valueMask)
				if ahead == 0 || unread+ahead > size {
					require.ErrorIs(t, err, transport.ErrProtocol, "%d %d %d", consumed, unread, ahead)
					continue
				}
				require.NoError(t, err, "%d %d %d", consumed, unread, ahead)
				require.Equal(t, published+ahead, got)
			}
		}
	}
}

func TestOutRing(t *testing.T) {
	var o outRing
	o.init(1024, 640)
	require.EqualValues(t, 1024, o.room())
	o.written, o.posted = 1664, 1280
	require.Zero(t, o.room())
	for _, bad := range []uint64{0, 576, 1281, 1344, 1664, math.MaxUint64, 700} {
		require.ErrorIs(t, o.free(bad), transport.ErrProtocol, bad)
	}
	require.NoError(t, o.free(704))
	require.EqualValues(t, 64, o.room())
	require.ErrorIs(t, o.free(640), transport.ErrProtocol, "it goes back")
	require.NoError(t, o.free(1280))
	require.EqualValues(t, 640, o.room())
}

func TestPutGet(t *testing.T) {
	ring := make([]byte, 256)
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		pos, b := r.Uint64(), make([]byte, r.IntN(257))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		put(ring, pos, b)
		got := make([]byte, len(b))
		get(got, ring, pos)
		require.Equal(t, b, got)
		for i := range b {
			require.Equal(t, b[i], ring[(pos+uint64(i))%256])
		}
	}
}

// FuzzReader feeds a reader with a ring of any bytes and any published positions: every frame it gives fits what was
// published, all else is transport.ErrProtocol.
func FuzzReader(f *testing.F) {
	good := make([]byte, 192)
	a, b := testFrame(2, 0, 10), testFrame(2, 1, 90)
	transport.PutHeader(good, &a.Header)
	transport.PutHeader(good[64:], &b.Header)
	f.Add(good, uint32(1), uint32(3))
	f.Add(good, uint32(3), uint32(4))
	f.Add(good, uint32(2), uint32(3)) // cuts the second frame
	f.Add(bytes.Repeat([]byte{1}, 300), uint32(2048), uint32(0))
	f.Fuzz(func(t *testing.T, content []byte, first, second uint32) {
		own := side{control: MinRingBytes, bulk: MinRingBytes, entries: 4}
		var fl flow
		fl.init(own, own)
		mem := make([]byte, MinRingBytes)
		copy(mem, content)
		var r reader
		r.init(&fl, mem, mem, 0)
		var read uint64
		for _, value := range []uint32{first, second} {
			a, err := fl.arrive(immediate(classBulk, value))
			if err != nil {
				require.ErrorIs(t, err, transport.ErrProtocol)
				return
			}
			require.True(t, a.published)
			for r.has(ringBulk) {
				h, err := r.header(ringBulk)
				if err != nil {
					require.ErrorIs(t, err, transport.ErrProtocol)
					return
				}
				if h.Length > 0 {
					require.NoError(t, r.payload(make([]byte, h.Length)))
				}
				read += recordBytes(int(h.Length))
				require.LessOrEqual(t, read, fl.published[ringBulk].Load())
			}
			require.Equal(t, read, fl.consumed[ringBulk].Load())
		}
	})
}

// FuzzFlow feeds one end with any immediates and mailboxes: only transport.ErrProtocol comes of it, and its account
// stays in bounds.
func FuzzFlow(f *testing.F) {
	f.Add([]byte{1, 0, 0, 1, 2, 0, 0, 9, 3, 0, 0, 0, 4, 0, 0, 0})
	f.Add([]byte{9, 1, 2, 3, 4, 5, 6, 7, 8, 3, 0, 0, 0, 3, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		m := newModel(t, 1, modelSize{control: MinRingBytes, bulk: MinRingBytes, entries: 4, depth: minSendDepth})
		e := m.ends[0]
		e.want, e.sizes = [rings]int{1 << 20, 1 << 20}, [rings]func(int) int{func(int) int { return 100 }, func(int) int { return 9000 }}
		for len(script) >= 4 {
			var err error
			if script[0]%8 == 7 && len(script) >= 9 {
				e.mail.consumed[script[1]%2] += uint64(script[2]) << (script[3] % 40)
				e.mail.entries += uint64(int8(script[4]))
				e.write(ringKind(script[5] % 2))
				_, err = e.flow.pump(e)
				script = script[9:]
			} else {
				_, err = e.flow.arrive(uint32(script[0])<<28 | uint32(script[1])<<16 | uint32(script[2])<<8 | uint32(script[3]))
				script = script[4:]
			}
			if err != nil {
				require.ErrorIs(t, err, transport.ErrProtocol)
				return
			}
			for r := range rings {
				o := &e.flow.out[r]
				require.True(t, o.freed <= o.posted && o.posted <= o.written && o.written <= o.freed+o.size)
				require.LessOrEqual(t, e.flow.published[r].Load()-e.flow.consumed[r].Load(), e.flow.size[r])
			}
			require.LessOrEqual(t, e.flow.used-e.flow.returned, e.flow.granted)
			for e.carry() { // the queue never fills
			}
			for len(e.cq) > 0 && e.cq[0].send {
				e.flow.done(e.cq[0].number)
				e.cq = e.cq[1:]
			}
		}
	})
}

// TestSetUpVectors: golden vectors of docs/wire-rdma.md.
func TestSetUpVectors(t *testing.T) {
	local := encodeLocal(0x0102030405060708, []byte("info"), []byte("win"))
	require.Equal(t, "626f726e6f64652d72646d612f31"+"0102030405060708"+"0004"+"696e666f"+"0003"+"77696e"+"959e7cc0", hex.EncodeToString(local))
	epoch, info, window, err := decodeLocal(local)
	require.NoError(t, err)
	require.EqualValues(t, 0x0102030405060708, epoch)
	require.Equal(t, "info", string(info))
	require.Equal(t, "win", string(window))

	d := descriptor{
		from: 0x1111111111111111, to: 0x2222222222222222,
		remote: fabric.Remote{Addr: 0x7f0000001000, Key: 0xabcdef01, Len: 256<<10 + 1<<20 + 4096},
		side:   side{control: 256 << 10, bulk: 1 << 20, entries: 64, start: 128},
	}
	b := d.encode()
	require.Equal(t, "01000000"+"1111111111111111"+"2222222222222222"+"00007f0000001000"+"abcdef01"+"00141000"+
		"12140040"+"0000000000000080"+"0000000000000000"+"05c39c28", hex.EncodeToString(b))
	got, err := decodeDescriptor(b)
	require.NoError(t, err)
	require.Equal(t, d, got)

	require.EqualValues(t, 0x2fffffff, immediate(classBulk, 0xffffffff))
	w := words{consumed: [rings]uint64{0x100, 0x20000}, entries: 3}
	m := make([]byte, mailWords*8)
	putWords(m, &w)
	require.Equal(t, "0001000000000000"+"0000020000000000"+"0300000000000000", hex.EncodeToString(m))
	box := mailboxOf(append(m, make([]byte, 64)...))
	require.Equal(t, w, box.load())
	box.store(&words{entries: 9})
	require.EqualValues(t, 9, box.load().entries)
}

func FuzzLocal(f *testing.F) {
	f.Add(encodeLocal(1, []byte("x"), []byte("yz")))
	f.Fuzz(func(t *testing.T, b []byte) {
		epoch, info, window, err := decodeLocal(b)
		if err != nil {
			require.ErrorIs(t, err, transport.ErrProtocol)
			return
		}
		require.Equal(t, b, encodeLocal(epoch, info, window))
	})
}

func FuzzDescriptor(f *testing.F) {
	d := descriptor{side: side{control: MinRingBytes, bulk: MinRingBytes, entries: 4}}
	d.remote.Len = 2*MinRingBytes + mailboxBytes
	f.Add(d.encode(), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal && len(b) == descriptorBytes {
			b = sealDescriptor(append([]byte(nil), b...))
		}
		d, err := decodeDescriptor(b)
		if err != nil {
			require.ErrorIs(t, err, transport.ErrProtocol)
			return
		}
		require.Equal(t, b, d.encode())
	})
}
