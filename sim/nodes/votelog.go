package nodes

import (
	"encoding/binary"
	"hash/crc32"
	"os"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// voteLogContents is what a vote log on a disk says, read by the form in docs/storage.md and by none of the program's code.
type voteLogContents struct {
	votes map[block.Link]bool
	seals map[uint64]bool // slots
	bytes int
}

// readVoteLog reads the vote log of a disk whose machine has ended. ok is false if there is none.
func readVoteLog(d *faultfs.Disk) (c *voteLogContents, ok bool) {
	const header = 8 + common.AddressLength + common.HashLength + 4
	f, err := d.Open(consensusDir+"/votes.log", os.O_RDONLY)
	if err != nil {
		return nil, false
	}
	size, err := f.Size()
	raw := make([]byte, size)
	if n, _ := f.ReadAt(raw, 0); err != nil || n < header {
		return nil, false
	}
	c = &voteLogContents{votes: make(map[block.Link]bool), seals: make(map[uint64]bool), bytes: len(raw)}
	table := crc32.MakeTable(crc32.Castagnoli)
	const frame = 16 // length, checksum, bytes that were durable
	for at := header; at+frame <= len(raw); {
		n := int(binary.BigEndian.Uint32(raw[at:]))
		if n == 0 || at+frame+n > len(raw) || binary.BigEndian.Uint32(raw[at+4:]) != crc32.Update(crc32.Checksum(raw[at:at+4], table), table, raw[at+8:at+frame+n]) {
			at++ // the end, or damage: what lies behind counts
			continue
		}
		c.take(raw[at+frame : at+frame+n])
		at += frame + n
	}
	return c, true
}

func (c *voteLogContents) take(payload []byte) {
	var r struct {
		Kind uint8
		Slot uint64
		Link struct {
			Kind           uint8
			Source, Target struct {
				Slot uint64
				Hash common.Hash
			}
		}
		Rest []rlp.RawValue `rlp:"tail"` // what the machine keeps beside what it signed
	}
	if payload[0] != 1 || rlp.DecodeBytes(payload[1:], &r) != nil {
		return
	}
	switch r.Kind {
	case 1:
		c.seals[r.Slot] = true
	case 2, 3:
		c.votes[block.Link{
			Kind:   block.VoteKind(r.Link.Kind),
			Source: block.Point{Slot: r.Link.Source.Slot, Hash: r.Link.Source.Hash},
			Target: block.Point{Slot: r.Link.Target.Slot, Hash: r.Link.Target.Hash},
		}] = true
	}
}
