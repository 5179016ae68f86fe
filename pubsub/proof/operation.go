package proof

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Role is in which capacity an operator acted.
type Role uint8

// Roles.
const (
	RoleNone     Role = 0 // none that the broker knows
	RoleProducer Role = 1
	RoleConsumer Role = 2
	RoleOwner    Role = 3 // of the tenant or topic
	RoleBroker   Role = 4
)

// Kind is what was done. The numbers are those of Kafka's ACL operations.
type Kind uint8

// Kinds of operations.
const (
	KindRead            Kind = 3
	KindWrite           Kind = 4
	KindCreate          Kind = 5
	KindDelete          Kind = 6
	KindAlter           Kind = 7
	KindDescribe        Kind = 8
	KindDescribeConfigs Kind = 10
	KindAlterConfigs    Kind = 11
)

// Operation is one entry of a topic's operations log: what one principal did, or was refused, once or several times.
type Operation struct {
	Operator  common.Address // account, or pseudonym
	Pseudonym bool
	Role      Role
	Kind      Kind
	Code      int16  // Kafka's error code of a refusal; 0: allowed
	Reason    string // of a refusal, at most MaxReason bytes
	Partition int32  // -1: several, or the topic as a whole
	First     int64  // offsets; -1: none
	Last      int64
	Count     uint32 // times
	Start     int64  // ms, of the first
	End       int64  // ms, of the last
	Host      netip.Addr
}

// Refused reports whether the operation was not allowed.
func (o *Operation) Refused() bool { return o.Code != 0 }

// operationFixed is the length of an encoded operation without its reason: flags, operator, role, kind, code, partition,
// first, last, count, start, end, host.
const operationFixed = 1 + 20 + 1 + 1 + 2 + 4 + 8 + 8 + 4 + 8 + 8 + 16

const (
	operationVersion = 1 << 4
	flagPseudonym    = 1
)

// CutReason shortens a text to what an Operation takes.
func CutReason(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= MaxReason {
		return s
	}
	n := MaxReason
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Append appends the encoding to b: one byte of length, then at most MaxOperationBytes.
func (o *Operation) Append(b []byte) []byte {
	reason := CutReason(o.Reason)
	flags := byte(operationVersion)
	if o.Pseudonym {
		flags |= flagPseudonym
	}
	host := [16]byte{}
	if o.Host.IsValid() {
		host = o.Host.WithZone("").As16()
	}
	e := binary.BigEndian
	b = append(b, byte(operationFixed+len(reason)), flags)
	b = append(b, o.Operator[:]...)
	b = append(b, byte(o.Role), byte(o.Kind))
	b = e.AppendUint16(b, uint16(o.Code))
	b = e.AppendUint32(b, uint32(o.Partition))
	b = e.AppendUint64(b, uint64(o.First))
	b = e.AppendUint64(b, uint64(o.Last))
	b = e.AppendUint32(b, o.Count)
	b = e.AppendUint64(b, uint64(o.Start))
	b = e.AppendUint64(b, uint64(o.End))
	b = append(b, host[:]...)
	return append(b, reason...)
}

// decodeOperation reads one operation and gives what follows it.
func decodeOperation(b []byte) (o Operation, rest []byte, err error) {
	if len(b) < 1 || int(b[0]) < operationFixed || int(b[0]) > MaxOperationBytes || len(b) < 1+int(b[0]) {
		return o, nil, fmt.Errorf("%w: operation of %d bytes", ErrDecode, len(b))
	}
	b, rest = b[1:1+int(b[0])], b[1+int(b[0]):]
	if b[0]&^flagPseudonym != operationVersion {
		return o, nil, fmt.Errorf("%w: operation with flags %#x", ErrDecode, b[0])
	}
	e := binary.BigEndian
	o.Pseudonym = b[0]&flagPseudonym != 0
	copy(o.Operator[:], b[1:])
	o.Role, o.Kind, o.Code = Role(b[21]), Kind(b[22]), int16(e.Uint16(b[23:]))
	o.Partition = int32(e.Uint32(b[25:]))
	o.First, o.Last = int64(e.Uint64(b[29:])), int64(e.Uint64(b[37:]))
	o.Count = e.Uint32(b[45:])
	o.Start, o.End = int64(e.Uint64(b[49:])), int64(e.Uint64(b[57:]))
	if host := netip.AddrFrom16([16]byte(b[65:])); host != netip.IPv6Unspecified() {
		o.Host = host.Unmap()
	}
	o.Reason = string(b[operationFixed:])
	if o.Count == 0 || o.Partition < -1 || o.First < -1 || o.Last < o.First || o.End < o.Start || !utf8.ValidString(o.Reason) {
		return o, nil, fmt.Errorf("%w: operation with %d times, partition %d, offsets %d to %d", ErrDecode, o.Count, o.Partition, o.First, o.Last)
	}
	return o, rest, nil
}

// EncodeOperations is a batch of operations as the contract gets it.
func EncodeOperations(list []Operation) []byte {
	var b []byte
	for i := range list {
		b = list[i].Append(b)
	}
	return b
}

// DecodeOperations reads a batch of this many operations.
func DecodeOperations(b []byte, count int) ([]Operation, error) {
	if count < 0 || count > MaxOperations {
		return nil, fmt.Errorf("%w: batch of %d operations, %d allowed", ErrDecode, count, MaxOperations)
	}
	list := make([]Operation, 0, min(count, len(b)/operationFixed))
	for range count {
		o, rest, err := decodeOperation(b)
		if err != nil {
			return nil, err
		}
		list, b = append(list, o), rest
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind %d operations", ErrDecode, len(b), count)
	}
	return list, nil
}

// Key says which operations may become one entry: those with equal keys. The principal is always part of it, so neither
// allowed nor refused operations of two principals ever fold.
type Key struct {
	Operator  common.Address
	Pseudonym bool
	Role      Role
	Kind      Kind
	Code      int16
	Reason    string
	Partition int32
	Host      netip.Addr
}

// Key is the operation's own. A coarse one leaves out partition and host of what was allowed.
func (o *Operation) Key(coarse bool) Key {
	k := Key{o.Operator, o.Pseudonym, o.Role, o.Kind, o.Code, o.Reason, o.Partition, o.Host}
	if coarse && !o.Refused() {
		k.Partition, k.Host = -1, netip.Addr{}
	}
	return k
}

// Fold adds a later operation of the same key. It reports false, and changes nothing, where the count would overflow.
func (o *Operation) Fold(p *Operation) bool {
	if uint64(o.Count)+uint64(p.Count) > 1<<32-1 {
		return false
	}
	o.Count += p.Count
	o.Start, o.End = min(o.Start, p.Start), max(o.End, p.End)
	if o.Host != p.Host {
		o.Host = netip.Addr{}
	}
	if o.Partition != p.Partition { // offsets of two partitions are no range
		o.Partition, o.First, o.Last = -1, -1, -1
		return true
	}
	if p.First >= 0 && (o.First < 0 || p.First < o.First) {
		o.First = p.First
	}
	o.Last = max(o.Last, p.Last)
	return true
}

// LogState is what the contract knows of a topic's operations.
type LogState struct {
	Count  uint64 // operations
	Root   common.Hash
	Height uint64 // of the block with the newest batch; 0: none
}

// Next is the state after a batch in the block of this height: keccak256(abi.encode(bytes32 root, uint64 lastHeight,
// bytes32 keccak256(entries), uint32 count)).
func (s LogState) Next(height uint64, entries []byte, count uint32) LogState {
	var b [128]byte
	copy(b[:], s.Root[:])
	binary.BigEndian.PutUint64(b[56:], s.Height)
	copy(b[64:], crypto.Keccak256(entries))
	binary.BigEndian.PutUint32(b[124:], count)
	return LogState{s.Count + uint64(count), crypto.Keccak256Hash(b[:]), height}
}

// OperationBatch is a batch of operations as it is on the chain.
type OperationBatch struct {
	Height  uint64 // of its block
	Broker  common.Address
	Count   uint32
	Entries []byte
}

// CheckOperations checks that the batches, oldest first, are all that lie between two states of a topic's log, and decodes
// them. from is the zero state for the whole log. A failure is ErrOperation with the number of the first operation that is
// not proved.
func CheckOperations(topic [32]byte, from, to LogState, batches []OperationBatch) ([]Operation, error) {
	s := from
	var out []Operation
	for i := range batches {
		x := &batches[i]
		if x.Height < s.Height || x.Height > to.Height {
			return nil, tamper(ErrOperation, topic, -1, int64(s.Count), "a batch of block %d lies outside blocks %d to %d", x.Height, s.Height, to.Height)
		}
		list, err := DecodeOperations(x.Entries, int(x.Count))
		if err != nil {
			return nil, tamper(ErrOperation, topic, -1, int64(s.Count), "batch of block %d: %v", x.Height, err)
		}
		out = append(out, list...)
		s = s.Next(x.Height, x.Entries, x.Count)
	}
	if s != to {
		return nil, tamper(ErrOperation, topic, -1, int64(from.Count), "the %d operations shown lead to root %s with %d operations, the contract has %s with %d",
			len(out), s.Root, s.Count, to.Root, to.Count)
	}
	return out, nil
}
