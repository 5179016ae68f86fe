package contracts

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
)

// ErrReturn is wrapped by every error about bytes that are not what a system contract returns.
var ErrReturn = errors.New("unexpected answer of a system contract")

// Seat is one seat of a schedule.
type Seat struct {
	Account common.Address
	Key     [48]byte // compressed BLS key
}

// Missed counts the empty turns of one seat of the current schedule in the epoch that ends.
type Missed struct {
	Seat  uint16
	Turns uint32
}

// EndEpochCall is the call data of Producers.endEpoch, made by SystemAddress at the end of the epoch's last block (see
// the package comment for when). Seats without empty turns may be left out.
func EndEpochCall(epoch uint64, missed []Missed) []byte {
	packed := make([]byte, 0, 6*len(missed))
	for _, m := range missed {
		packed = binary.BigEndian.AppendUint16(packed, m.Seat)
		packed = binary.BigEndian.AppendUint32(packed, m.Turns)
	}
	return NewProducers().PackEndEpoch(epoch, packed)
}

// ScheduleCall is the call data of Producers.schedule, which returns the schedule chosen last.
func ScheduleCall() []byte { return NewProducers().PackSchedule() }

// DecodeSchedule reads what endEpoch and schedule return. Errors wrap ErrReturn.
func DecodeSchedule(ret []byte) ([]Seat, error) {
	out, err := NewProducers().UnpackSchedule(ret)
	if err != nil {
		return nil, fmt.Errorf("%w: schedule: %w", ErrReturn, err)
	}
	n := len(out.Accounts)
	if n == 0 || n > MaxSeats || len(out.Keys) != n {
		return nil, fmt.Errorf("%w: a schedule of %d accounts and %d keys", ErrReturn, n, len(out.Keys))
	}
	seats := make([]Seat, n)
	for i := range seats {
		if len(out.Keys[i]) != 48 {
			return nil, fmt.Errorf("%w: key %d has %d bytes", ErrReturn, i, len(out.Keys[i]))
		}
		seats[i].Account = out.Accounts[i]
		copy(seats[i].Key[:], out.Keys[i])
	}
	return seats, nil
}

// Roles of a node, bit by bit.
const (
	RoleProducer uint8 = 1
	RoleObserver uint8 = 2
	RoleBroker   uint8 = 4
)

// MemberEntry is one node that may connect.
type MemberEntry struct {
	PeerID  string         // libp2p peer id, text form
	Account common.Address // the producer's account, or who answers for the node; may be zero
	Roles   uint8
}

// MembersCallData is the call data of Members.list.
func MembersCallData() []byte { return NewMembers().PackList() }

// DecodeMembers reads what Members.list returns. Errors wrap ErrReturn.
func DecodeMembers(ret []byte) ([]MemberEntry, error) {
	out, err := NewMembers().UnpackList(ret)
	if err != nil {
		return nil, fmt.Errorf("%w: list of members: %w", ErrReturn, err)
	}
	n := len(out.PeerIds)
	if n > MaxNodes || len(out.Accounts) != n || len(out.Roles) != n {
		return nil, fmt.Errorf("%w: %d peer ids, %d accounts and %d roles", ErrReturn, n, len(out.Accounts), len(out.Roles))
	}
	entries := make([]MemberEntry, n)
	for i := range entries {
		if len(out.PeerIds[i]) > MaxPeerIDBytes {
			return nil, fmt.Errorf("%w: peer id %d has %d bytes", ErrReturn, i, len(out.PeerIds[i]))
		}
		entries[i] = MemberEntry{string(out.PeerIds[i]), out.Accounts[i], out.Roles[i]}
	}
	return entries, nil
}

// AddMemberCall is the call data of Members.propose for a node: sent by the admin it takes effect at once, sent by a
// producer of the schedule it opens a proposal.
func AddMemberCall(peerID string, account common.Address, roles uint8) ([]byte, error) {
	if peerID == "" || len(peerID) > MaxPeerIDBytes {
		return nil, fmt.Errorf("a peer id has 1 to %d bytes, got %d", MaxPeerIDBytes, len(peerID))
	}
	return propose(ProposeSetNode, "bytes,address,uint8", []byte(peerID), account, roles)
}
