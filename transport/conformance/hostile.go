package conformance

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

// raw is a peer that speaks frames by itself, past the hello.
type raw struct {
	id       transport.PeerID
	provider transport.Provider
	theirs   transport.Hello
}

// dialRaw connects as the peer number i and exchanges hellos.
func dialRaw(t testing.TB, h Harness, target transport.Host, i int, session transport.SessionID) *raw {
	t.Helper()
	id, pr := h.Raw(t, i, target)
	t.Cleanup(func() { _ = pr.Close() })
	r := &raw{id: id, provider: pr}
	if id < target.ID() {
		r.hello(t, session)
		r.read(t)
	} else {
		r.read(t)
		r.hello(t, session)
	}
	return r
}

func (r *raw) hello(t testing.TB, session transport.SessionID) {
	t.Helper()
	h := transport.Hello{Local: session}
	r.control(t, transport.ControlHello, h.Encode())
}

func (r *raw) read(t testing.TB) {
	t.Helper()
	h, err := r.provider.ReadHeader()
	require.NoError(t, err)
	b := make([]byte, h.Length)
	require.NoError(t, r.provider.ReadPayload(b))
	r.theirs, err = transport.DecodeHello(b)
	require.NoError(t, err)
}

func (r *raw) control(t testing.TB, kind uint8, b []byte) {
	t.Helper()
	r.frame(t, transport.Header{Flags: transport.FlagControl, Type: kind, Length: uint32(len(b))}, b)
}

// frame writes any frame; the other side may have hung up already.
func (r *raw) frame(_ testing.TB, h transport.Header, b []byte) {
	f := transport.Frame{Header: h, Payload: b}
	if r.provider.Limits().Checksum {
		f.Seal()
	}
	_ = r.provider.WriteFrames([]transport.Frame{f})
}

func (r *raw) data(t testing.TB, lane transport.Lane, seq uint32, b []byte) {
	t.Helper()
	r.frame(t, transport.Header{
		Lane: lane, Flags: transport.FlagFirst | transport.FlagLast, Sequence: seq, Length: uint32(len(b)), Total: uint32(len(b)),
	}, b)
}

// drain reads and drops what the victim sends, so that a full pipe never hides a reaction.
func (r *raw) drain() {
	go func() {
		for {
			h, err := r.provider.ReadHeader()
			if err == nil && h.Length > 0 {
				err = r.provider.ReadPayload(make([]byte, h.Length))
			}
			if err != nil {
				return
			}
		}
	}()
}

const whole = transport.FlagFirst | transport.FlagLast

// attacks each break the protocol once; the first frame on lane 1 has sequence 0.
func attacks() map[string]func(testing.TB, *raw) {
	one := func(h transport.Header) func(testing.TB, *raw) {
		return func(t testing.TB, r *raw) { r.frame(t, h, make([]byte, min(h.Length, transport.MaxSliceBytes))) }
	}
	acks := func(change func(*transport.Acks)) func(testing.TB, *raw) {
		return func(t testing.TB, r *raw) {
			var a transport.Acks
			change(&a)
			r.control(t, transport.ControlAcks, transport.AppendAcks(nil, &a))
		}
	}
	return map[string]func(testing.TB, *raw){
		"bad lane":           one(transport.Header{Lane: 4, Flags: whole, Length: 1, Total: 1}),
		"lane 255":           one(transport.Header{Lane: 255, Flags: whole, Length: 1, Total: 1}),
		"unknown flags":      one(transport.Header{Lane: 1, Flags: whole | 0x80, Length: 1, Total: 1}),
		"oversized frame":    one(transport.Header{Lane: 2, Flags: transport.FlagFirst, Length: transport.MaxSliceBytes + 1, Total: 1 << 20}),
		"huge frame":         one(transport.Header{Lane: 2, Flags: whole, Length: 1<<32 - 1, Total: 1<<32 - 1}),
		"oversized message":  one(transport.Header{Lane: 1, Flags: transport.FlagFirst, Length: 10, Total: transport.MaxTransactionsBytes + 1}),
		"slice beyond total": one(transport.Header{Lane: 1, Flags: whole, Length: 10, Total: 9}),
		"empty slice":        one(transport.Header{Lane: 1, Flags: transport.FlagFirst, Total: 9}),
		"sequence gap":       one(transport.Header{Lane: 1, Flags: whole, Length: 1, Total: 1, Sequence: 1}),
		"no first slice":     one(transport.Header{Lane: 1, Length: 1, Total: 3}),
		"first slice twice": func(t testing.TB, r *raw) {
			for seq := range uint32(2) {
				r.frame(t, transport.Header{Lane: 1, Flags: transport.FlagFirst, Length: 1, Total: 3, Sequence: seq}, []byte{1})
			}
		},
		"total changes": func(t testing.TB, r *raw) {
			r.frame(t, transport.Header{Lane: 1, Flags: transport.FlagFirst, Length: 1, Total: 3}, []byte{1})
			r.frame(t, transport.Header{Lane: 1, Flags: transport.FlagLast, Length: 1, Total: 2, Sequence: 1}, []byte{1})
		},
		"last too early": func(t testing.TB, r *raw) {
			r.frame(t, transport.Header{Lane: 1, Flags: transport.FlagFirst, Length: 1, Total: 3}, []byte{1})
			r.frame(t, transport.Header{Lane: 1, Flags: transport.FlagLast, Length: 1, Total: 3, Sequence: 1}, []byte{1})
		},
		"wrong checksum":    one(transport.Header{Lane: 1, Flags: whole | transport.FlagChecksum, Length: 1, Total: 1, Checksum: 1}),
		"ack on data":       one(transport.Header{Lane: 1, Flags: whole, Length: 1, Total: 1, Ack: transport.Ack{Received: 1}}),
		"acks beyond sent":  acks(func(a *transport.Acks) { a[2].Received = 5 }),
		"frees beyond sent": acks(func(a *transport.Acks) { a[0].FreedFrames = 1 }),
		"frees bytes":       acks(func(a *transport.Acks) { a[3].FreedBytes = 1 }),
		"short acks":        func(t testing.TB, r *raw) { r.control(t, transport.ControlAcks, make([]byte, 3)) },
		"short ping":        func(t testing.TB, r *raw) { r.control(t, transport.ControlPing, make([]byte, transport.AcksBytes)) },
		"unknown control":   func(t testing.TB, r *raw) { r.control(t, 99, nil) },
		"second hello":      func(t testing.TB, r *raw) { r.hello(t, transport.SessionID{9}) },
		"reason too long": func(t testing.TB, r *raw) {
			r.control(t, transport.ControlClose, make([]byte, transport.MaxReasonBytes+1))
		},
		"control with a lane": one(transport.Header{Lane: 1, Flags: transport.FlagControl, Type: transport.ControlAcks}),
	}
}

// testHostile: each broken frame ends the attacker's link, as a broken protocol, and touches nobody else.
func testHostile(t *testing.T, h Harness) {
	quick := Config()
	quick.CloseTimeout = time.Second // raw peers do not answer a close
	victim, friend := start(t, h, 0, quick), start(t, h, 1, Config())
	require.NoError(t, friend.Dial(patient(t), h.Addr(t, victim)))
	lf, lv := nextLink(t, friend), nextLink(t, victim)
	for name, attack := range attacks() {
		t.Run(name, func(t *testing.T) {
			r := dialRaw(t, h, victim, 9, transport.SessionID{1})
			l := nextLink(t, victim)
			require.Equal(t, r.id, l.Peer())
			r.drain()
			attack(t, r)
			require.ErrorIs(t, ended(t, l), transport.ErrProtocol)
			require.NoError(t, r.provider.Close())
		})
	}
	t.Run("truncated frame", func(t *testing.T) {
		r := dialRaw(t, h, victim, 9, transport.SessionID{1})
		l := nextLink(t, victim)
		r.data(t, transport.LaneConsensus, 0, []byte("whole"))
		_, err := l.Recv(patient(t))
		require.NoError(t, err)
		r.frame(t, transport.Header{Lane: 2, Flags: whole, Length: 1000, Total: 1000}, make([]byte, 10))
		require.NoError(t, r.provider.Close())
		// A cut connection is no crime: the link waits; the next session replaces it, and half a frame was never a message.
		dialRaw(t, h, victim, 9, transport.SessionID{2})
		require.ErrorIs(t, ended(t, l), transport.ErrSessionLost)
		require.Zero(t, l.Stats().Lanes[2].UnreadMessages)
		require.NoError(t, nextLink(t, victim).Close("next"))
	})
	t.Run("no hello", func(t *testing.T) {
		_, pr := h.Raw(t, 9, victim)
		f := transport.Frame{Header: transport.Header{Flags: transport.FlagControl, Type: transport.ControlAcks, Length: 4}, Payload: make([]byte, 4)}
		_ = pr.WriteFrames([]transport.Frame{f}) // the victim may hang up first
		for {
			hd, err := pr.ReadHeader()
			if err != nil {
				break // it hung up
			}
			_ = pr.ReadPayload(make([]byte, hd.Length))
		}
		require.Empty(t, victim.Links())
	})
	exchange(t, lf, lv, 0, 10, sizes)
}

// testFlood: sending beyond the credit ends the link, with a bounded amount held meanwhile; pings without end do not
// pile up; duplicates are dropped.
func testFlood(t *testing.T, h Harness) {
	victim := start(t, h, 0, Config())
	for lane := range transport.Lane(transport.Lanes) {
		r := dialRaw(t, h, victim, 9, transport.SessionID{1})
		l := nextLink(t, victim)
		r.drain()
		size := transport.MaxSliceBytes
		bound := transport.UnreadBytes(lane) + int(transport.LaneWindow(lane).Bytes) + 2*size
		for seq := 0; l.Err() == nil && seq*size < 4*bound; seq++ {
			r.data(t, lane, uint32(seq), make([]byte, size))
		}
		require.ErrorIs(t, ended(t, l), transport.ErrProtocol)
		require.LessOrEqual(t, l.Stats().Lanes[lane].UnreadBytes, bound)
		require.NoError(t, r.provider.Close())

		r = dialRaw(t, h, victim, 9, transport.SessionID{2})
		l = nextLink(t, victim)
		r.drain()
		for seq := 0; l.Err() == nil && seq < 1<<18; seq++ {
			r.data(t, lane, uint32(seq), nil)
		}
		require.ErrorIs(t, ended(t, l), transport.ErrProtocol, "empty messages count too")
		require.NoError(t, r.provider.Close())
	}
	r := dialRaw(t, h, victim, 9, transport.SessionID{3})
	l := nextLink(t, victim)
	r.drain()
	ping := binary.BigEndian.AppendUint64(transport.AppendAcks(nil, &transport.Acks{}), 42)
	for range 10_000 {
		r.control(t, transport.ControlPing, ping)
	}
	for range 1000 {
		r.data(t, transport.LaneConsensus, 0, []byte("again"))
	}
	r.data(t, transport.LaneConsensus, 1, []byte("next"))
	for _, want := range []string{"again", "next"} {
		m, err := l.Recv(patient(t))
		require.NoError(t, err)
		require.Equal(t, want, string(m.Payload))
	}
	require.EqualValues(t, 999, l.Stats().Duplicates)
	require.NoError(t, l.Err())
}
