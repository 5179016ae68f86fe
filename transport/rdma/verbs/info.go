package verbs

import (
	"encoding/binary"
	"fmt"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

const (
	infoVersion = 1
	infoBytes   = 52
	// numberMask: queue pair and packet numbers have 24 bits.
	numberMask = 1<<24 - 1
)

// info is what a peer needs to connect with a queue pair. Integers are little-endian on the wire:
// version 1, link 1, MTU code 1, reads 1, queue pair 4, packet 4, LID 2, zero 2, GID 16, meeting address 8, secret 8,
// meeting key 4.
type info struct {
	link   LinkLayer
	mtu    uint8 // code
	reads  uint8 // READs this side answers at once
	qp     uint32
	psn    uint32 // first packet this side sends
	lid    uint16
	gid    [16]byte
	meet   uint64 // where the leader writes the secret
	key    uint32
	secret uint64 // not 0
}

func (i *info) encode() []byte {
	b := make([]byte, 0, infoBytes)
	b = append(b, infoVersion, byte(i.link), i.mtu, i.reads)
	b = binary.LittleEndian.AppendUint32(b, i.qp)
	b = binary.LittleEndian.AppendUint32(b, i.psn)
	b = binary.LittleEndian.AppendUint16(b, i.lid)
	b = append(b, 0, 0)
	b = append(b, i.gid[:]...)
	b = binary.LittleEndian.AppendUint64(b, i.meet)
	b = binary.LittleEndian.AppendUint64(b, i.secret)
	return binary.LittleEndian.AppendUint32(b, i.key)
}

// decodeInfo checks everything that can be checked without knowing the local port. Errors wrap fabric.ErrPeer.
func decodeInfo(b []byte) (info, error) {
	if len(b) != infoBytes || b[0] != infoVersion {
		return info{}, fmt.Errorf("%w: info of %d bytes is not version %d", fabric.ErrPeer, len(b), infoVersion)
	}
	i := info{
		link: LinkLayer(b[1]), mtu: b[2], reads: b[3],
		qp:     binary.LittleEndian.Uint32(b[4:]),
		psn:    binary.LittleEndian.Uint32(b[8:]),
		lid:    binary.LittleEndian.Uint16(b[12:]),
		gid:    [16]byte(b[16:32]),
		meet:   binary.LittleEndian.Uint64(b[32:]),
		secret: binary.LittleEndian.Uint64(b[40:]),
		key:    binary.LittleEndian.Uint32(b[48:]),
	}
	switch {
	case i.link != LinkEthernet && i.link != LinkInfiniBand:
		return info{}, fmt.Errorf("%w: link layer %d", fabric.ErrPeer, b[1])
	case mtuBytes(i.mtu) == 0:
		return info{}, fmt.Errorf("%w: MTU code %d", fabric.ErrPeer, i.mtu)
	case i.qp < 2 || i.qp >= numberMask || i.psn > numberMask: // 0, 1 and the last have meanings of their own
		return info{}, fmt.Errorf("%w: queue pair %d, packet %d", fabric.ErrPeer, i.qp, i.psn)
	case b[14] != 0 || b[15] != 0 || i.secret == 0:
		return info{}, fmt.Errorf("%w: zero and other fields are mixed up", fabric.ErrPeer)
	case i.link == LinkEthernet && (i.gid == [16]byte{} || i.lid != 0):
		return info{}, fmt.Errorf("%w: an Ethernet port has a GID and no LID", fabric.ErrPeer)
	case i.link == LinkInfiniBand && i.lid == 0 && i.gid == [16]byte{}:
		return info{}, fmt.Errorf("%w: an InfiniBand port has an address", fabric.ErrPeer)
	}
	return i, nil
}
