package detect

import (
	"bytes"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

// vectors are every kind of message with its bytes, as in docs/wire-transport.md.
var vectors = []struct {
	name string
	m    message
	hex  string
}{
	{"offers, none", message{kind: kindOffers}, "0001 01 01 00"},
	{"offers", message{kind: kindOffers, offers: []offer{
		{id: 0, kind: offerHost, rendezvous: []byte{0xaa, 0xbb}},
		{id: 3, kind: offerRoCE, matches: true, port: 1, mtu: 4096, gid: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 7}, name: "mlx5_0"},
		{id: 4, kind: offerInfiniBand, port: 2, mtu: 2048, name: ""},
	}}, "003a 01 01 03" +
		"00 01 02 aabb" +
		"03 02 01 01 1000 00000000000000000000ffff0a000007 06 6d6c78355f30" +
		"04 03 00 02 0800 00000000000000000000000000000000 00"},
	{"none", message{kind: kindNone, reason: "no"}, "0002 01 02 6e6f"},
	{"propose", message{kind: kindPropose, attempt: 7, mine: 1, yours: 2, local: []byte{9}}, "0007 01 03 00000007 01 02 09"},
	{"accept", message{kind: kindAccept, attempt: 7, local: []byte{8, 9}}, "0006 01 04 00000007 0809"},
	{"ready", message{kind: kindReady, attempt: 7}, "0004 01 05 00000007"},
	{"switch", message{kind: kindSwitch, attempt: 7}, "0004 01 06 00000007"},
	{"broken", message{kind: kindBroken, attempt: 7, reason: "why"}, "0007 01 07 00000007 776879"},
	{"keepalive", message{kind: kindKeepalive}, "0000 01 08"},
}

func TestGoldenMessages(t *testing.T) {
	for _, v := range vectors {
		want, err := hex.DecodeString(strings.ReplaceAll(v.hex, " ", ""))
		require.NoError(t, err)
		require.Equal(t, want, v.m.encode(), v.name)
		got, err := read(bytes.NewReader(want))
		require.NoError(t, err, v.name)
		require.Equal(t, &v.m, got, v.name)
		for n := range want {
			_, err := read(bytes.NewReader(want[:n]))
			require.Error(t, err, "%s cut at %d", v.name, n)
		}
		longer := append(bytes.Clone(want), 0)
		longer[1]++
		if _, err := read(bytes.NewReader(longer)); v.m.local == nil && v.m.reason == "" {
			require.ErrorIs(t, err, transport.ErrProtocol, "%s with a byte more", v.name)
		}
	}
}

func TestBadMessages(t *testing.T) {
	for name, text := range map[string]string{
		"kind 0":              "0000 01 00",
		"kind 9":              "0000 01 09",
		"longest":             "1001 01 08",
		"too many offers":     "0001 01 01 09",
		"offers end early":    "0001 01 01 01",
		"unknown offer":       "0004 01 01 01 00 07 00",
		"empty rendezvous":    "0004 01 01 01 00 01 00",
		"one endpoint twice":  "0009 01 01 02 00 01 01 aa 00 01 01 bb",
		"matches neither":     "0018 01 01 01 03 02 02 01 1000 00000000000000000000ffff0a000007 00",
		"name unprintable":    "0019 01 01 01 03 02 01 01 1000 00000000000000000000ffff0a000007 01 07",
		"propose without end": "0006 01 03 00000007 01 02",
		"accept without end":  "0004 01 04 00000007",
		"short attempt":       "0003 01 05 000007",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		require.NoError(t, err)
		_, err = read(bytes.NewReader(b))
		require.ErrorIs(t, err, transport.ErrProtocol, name)
	}
	_, err := read(strings.NewReader("\x00\x00\x02\x08"))
	require.ErrorIs(t, err, errVersion)
	long := message{kind: kindAccept, attempt: 1, local: make([]byte, maxLocalBytes+1)}
	_, err = read(bytes.NewReader(long.encode()))
	require.ErrorIs(t, err, transport.ErrProtocol)
}

func TestClean(t *testing.T) {
	require.Equal(t, "a b?c", clean("a\nb\xffc", 10))
	require.Equal(t, "ab", clean("abé", 3), "no half characters")
	long := message{kind: kindBroken, reason: strings.Repeat("\x1b[31m", 1000)}
	m, err := read(bytes.NewReader(long.encode()))
	require.NoError(t, err)
	require.Len(t, m.reason, maxReasonBytes)
	require.NotContains(t, m.reason, "\x1b")
}

// FuzzMessage: any bytes give an error, or a message within bounds that is encoded to the same bytes again.
func FuzzMessage(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.m.encode())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		m, err := read(r)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(m.offers), maxOffers)
		require.LessOrEqual(t, len(m.local), maxLocalBytes)
		require.LessOrEqual(t, len(m.reason), maxReasonBytes)
		require.True(t, utf8.ValidString(m.reason))
		out := m.encode()
		again, err := read(bytes.NewReader(out))
		require.NoError(t, err)
		require.Equal(t, m, again)
		used, err := r.Seek(0, io.SeekCurrent)
		require.NoError(t, err)
		if m.kind != kindNone && m.kind != kindBroken { // reasons are cleaned
			require.Equal(t, in[:used], out)
		}
	})
}
