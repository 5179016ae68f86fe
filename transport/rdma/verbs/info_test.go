package verbs

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

func anInfo(change func(*info)) info {
	i := info{
		link: LinkEthernet, mtu: 5, reads: 16, qp: 0x123456, psn: 0xabcdef, gid: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1},
		meet: 0x7fff12345000, key: 0xdeadbeef, secret: 0x0102030405060709,
	}
	if change != nil {
		change(&i)
	}
	return i
}

func TestInfo(t *testing.T) {
	for _, change := range []func(*info){
		nil,
		func(i *info) { i.qp, i.psn, i.reads = 2, 0, 0 },
		func(i *info) { i.qp, i.psn = numberMask-1, numberMask },
		func(i *info) { i.link, i.lid = LinkInfiniBand, 0xbfff },
		func(i *info) { i.link, i.lid, i.gid = LinkInfiniBand, 1, [16]byte{} },
	} {
		want := anInfo(change)
		b := want.encode()
		require.Len(t, b, infoBytes)
		require.LessOrEqual(t, len(b), fabric.MaxInfoBytes)
		got, err := decodeInfo(b)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestBadInfoIsThePeersFault(t *testing.T) {
	for name, change := range map[string]func(*info){
		"link":             func(i *info) { i.link = 3 },
		"no link":          func(i *info) { i.link = 0 },
		"MTU":              func(i *info) { i.mtu = 6 },
		"no MTU":           func(i *info) { i.mtu = 0 },
		"queue pair 0":     func(i *info) { i.qp = 0 },
		"queue pair 1":     func(i *info) { i.qp = 1 },
		"multicast":        func(i *info) { i.qp = numberMask },
		"long queue pair":  func(i *info) { i.qp = 1 << 24 },
		"long packet":      func(i *info) { i.psn = 1 << 24 },
		"no secret":        func(i *info) { i.secret = 0 },
		"no GID":           func(i *info) { i.gid = [16]byte{} },
		"RoCE with LID":    func(i *info) { i.lid = 1 },
		"IB without place": func(i *info) { i.link, i.gid = LinkInfiniBand, [16]byte{} },
	} {
		i := anInfo(change)
		_, err := decodeInfo(i.encode())
		require.ErrorIs(t, err, fabric.ErrPeer, name)
	}
	i := anInfo(nil)
	good := i.encode()
	for _, b := range [][]byte{nil, good[:infoBytes-1], append(bytes.Clone(good), 0)} {
		_, err := decodeInfo(b)
		require.ErrorIs(t, err, fabric.ErrPeer)
	}
	for _, at := range []int{0, 14, 15} {
		b := bytes.Clone(good)
		b[at] ^= 1
		_, err := decodeInfo(b)
		require.ErrorIs(t, err, fabric.ErrPeer, "byte %d", at)
	}
}

func FuzzInfo(f *testing.F) {
	i := anInfo(nil)
	f.Add(i.encode())
	ib := anInfo(func(i *info) { i.link, i.lid = LinkInfiniBand, 7 })
	f.Add(ib.encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := decodeInfo(b)
		if err != nil {
			require.ErrorIs(t, err, fabric.ErrPeer)
			return
		}
		require.Equal(t, b, i.encode())
		require.NotZero(t, mtuBytes(i.mtu))
		require.LessOrEqual(t, i.psn, uint32(numberMask))
		require.Less(t, i.qp, uint32(numberMask))
	})
}

func TestRequestNumbers(t *testing.T) {
	for _, kind := range []uint8{kindSend, kindControl} {
		for _, index := range []int{0, 1, maxQPs - 1} {
			for _, generation := range []uint16{0, 1, 0xffff} {
				for _, position := range []uint32{0, 1, 0xffffffff} {
					k, i, g, p := splitID(sendID(kind, index, generation, position))
					require.Equal(t, []any{kind, index, generation, position}, []any{k, i, g, p})
				}
			}
		}
	}
	k, i, _, p := splitID(recvID(maxSRQs-1, 0xffffffff))
	require.Equal(t, []any{uint8(kindRecv), maxSRQs - 1, uint32(0xffffffff)}, []any{k, i, p})
}
