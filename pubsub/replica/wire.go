package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errMessage is wrapped by every error about a peer's message that cannot be read.
var errMessage = errors.New("replica: invalid message")

const wireVersion = 1

// Types of messages on lane 3.
const (
	typeItems     uint8 = 1
	typeHeartbeat uint8 = 2
	typeAsk       uint8 = 3
	typeAnswer    uint8 = 4
)

type kind uint8

// Kinds of items. Every item is about one partition and one epoch.
const (
	kindFence    kind = 1 // leader: promise the epoch and tell your state
	kindState    kind = 2 // replica: promised; this is my log
	kindFetch    kind = 3 // new leader: send me what I lack
	kindFetched  kind = 4 // replica: batches for the new leader
	kindAppend   kind = 5 // leader: batches, and how far they are committed
	kindAck      kind = 6 // replica: on my disk up to here
	kindSalvage  kind = 7 // replica: batches that the leader's log lacks
	kindSalvaged kind = 8 // leader: these are committed
	kindRetired  kind = 9 // leader of the lease: I cannot lead this epoch any more
)

var kindNames = [...]string{"", "fence", "state", "fetch", "fetched", "append", "ack", "salvage", "salvaged", "retired"}

func (k kind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return "other"
}

// item is one item, whatever its kind; the comments say who uses a field.
type item struct {
	Kind  kind
	ID    ID
	Epoch int32

	// State
	Accepted int32
	Start    int64 // append: start of the leader's log
	End      int64
	More     bool // the log has older epochs than Epochs tells
	Epochs   []EpochStart

	// Fetch, fetched, append: Data holds whole batches that follow From. Fetch: up to UpTo.
	From int64
	UpTo int64
	Data []byte

	// Append
	First   bool  // first of a stream: the replica's log agrees with the leader's up to Match
	Restart bool  // with First: the replica's log is to begin anew at From
	Match   int64 // all after it is to be cut off
	InitEnd int64 // end of the leader's log when its epoch began
	Commit  int64 // high watermark

	// Ack: End, and Accepted. Salvaged: End is the offset in the sender's stash up to which all is safe.

	// Salvage: Data holds batches of a stash, whole; From their place in it.

	// Of the sender alone.
	stream uint64
	max    int
	pieces [][]byte // instead of Data: whole batches as they lie in the log, which are copied into the message alone
}

// bytes is how much the item has of the log.
func (it *item) bytes() int {
	n := len(it.Data)
	for _, b := range it.pieces {
		n += len(b)
	}
	return n
}

// appendData appends what the item has of the log.
func (it *item) appendData(b []byte) []byte {
	b = append(b, it.Data...)
	for _, p := range it.pieces {
		b = append(b, p...)
	}
	return b
}

const itemHead = 1 + 4 + 32 + 4 + 4

const (
	flagMore    = 1
	flagFirst   = 2
	flagRestart = 4
)

// room is the most that an item takes in a message.
func (it *item) room() int { return itemHead + 64 + it.bytes() + 12*len(it.Epochs) }

// appendItem encodes an item at the end of b.
func appendItem(b []byte, it *item) []byte {
	e := binary.BigEndian
	at := len(b)
	b = append(b, byte(it.Kind), 0, 0, 0, 0)
	b = append(b, it.ID.Topic[:]...)
	b = e.AppendUint32(b, uint32(it.ID.Partition))
	b = e.AppendUint32(b, uint32(it.Epoch))
	i64 := func(vs ...int64) {
		for _, v := range vs {
			b = e.AppendUint64(b, uint64(v))
		}
	}
	var flags byte
	for _, f := range []struct {
		on  bool
		bit byte
	}{{it.More, flagMore}, {it.First, flagFirst}, {it.Restart, flagRestart}} {
		if f.on {
			flags |= f.bit
		}
	}
	switch it.Kind {
	case kindState:
		b = e.AppendUint32(b, uint32(it.Accepted))
		i64(it.Start, it.End)
		b = append(b, flags)
		b = e.AppendUint16(b, uint16(len(it.Epochs)))
		for _, s := range it.Epochs {
			b = e.AppendUint32(b, uint32(s.Epoch))
			i64(s.Start)
		}
	case kindFetch:
		i64(it.From, it.UpTo)
	case kindFetched, kindSalvage:
		i64(it.From)
		b = it.appendData(b)
	case kindAppend:
		b = append(b, flags)
		i64(it.From, it.Match, it.InitEnd, it.Commit, it.Start)
		b = it.appendData(b)
	case kindAck:
		b = e.AppendUint32(b, uint32(it.Accepted))
		i64(it.End)
	case kindSalvaged:
		i64(it.End)
	}
	e.PutUint32(b[at+1:], uint32(len(b)-at-5))
	return b
}

// reader takes fields from bytes; after a field that is not there, bad is set and all fields are zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) u8() byte    { return r.take(1)[0] }
func (r *reader) u16() int    { return int(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// count is a 32-bit number that must not be negative.
func (r *reader) count() int32 {
	v := int32(binary.BigEndian.Uint32(r.take(4)))
	if v < 0 {
		r.bad = true
	}
	return v
}

// offset is a place in a log.
func (r *reader) offset() int64 {
	v := int64(r.u64())
	if v < 0 || v > 1<<62 {
		r.bad = true
	}
	return v
}

// decodeItems gives the items of a message. Data refers to payload. Items of unknown kinds are left out. Errors wrap
// errMessage.
func decodeItems(payload []byte) ([]item, error) {
	if len(payload) == 0 || payload[0] != wireVersion {
		return nil, fmt.Errorf("%w: no message of version %d", errMessage, wireVersion)
	}
	r := reader{b: payload[1:]}
	var items []item
	for n := 0; len(r.b) > 0; n++ {
		if n == maxItems {
			return nil, fmt.Errorf("%w: more than %d items", errMessage, maxItems)
		}
		k := kind(r.u8())
		size := int(r.count())
		if r.bad || size > len(r.b) {
			return nil, fmt.Errorf("%w: item %d is cut off", errMessage, n)
		}
		it, err := decodeItem(k, r.take(size))
		if err != nil {
			return nil, fmt.Errorf("%w: item %d, %s", err, n, k)
		}
		if it.Kind != 0 {
			items = append(items, it)
		}
	}
	return items, nil
}

func decodeItem(k kind, b []byte) (item, error) {
	r := reader{b: b}
	it := item{Kind: k}
	copy(it.ID.Topic[:], r.take(32))
	it.ID.Partition = r.count()
	it.Epoch = r.count()
	flags := byte(0)
	switch k {
	case kindFence, kindRetired:
	case kindState:
		it.Accepted, it.Start, it.End = r.epoch(), r.offset(), r.offset()
		flags = r.u8()
		it.Epochs = r.epochs(it.Start, it.End)
	case kindFetch:
		it.From, it.UpTo = r.offset(), r.offset()
	case kindFetched, kindSalvage:
		it.From = r.offset()
		it.Data = r.take(len(r.b))
	case kindAppend:
		flags = r.u8()
		it.From, it.Match, it.InitEnd, it.Commit, it.Start = r.offset(), r.offset(), r.offset(), r.offset(), r.offset()
		it.Data = r.take(len(r.b))
	case kindAck:
		it.Accepted, it.End = r.epoch(), r.offset()
	case kindSalvaged:
		it.End = r.offset()
	default:
		return item{}, nil // of a later version
	}
	if r.bad || len(r.b) > 0 {
		return item{}, fmt.Errorf("%w: wrong length or number", errMessage)
	}
	it.More, it.First, it.Restart = flags&flagMore != 0, flags&flagFirst != 0, flags&flagRestart != 0
	return it, nil
}

// epoch is an epoch, or -1 for none.
func (r *reader) epoch() int32 {
	v := int32(binary.BigEndian.Uint32(r.take(4)))
	if v < -1 {
		r.bad = true
	}
	return v
}

// epochs are the epochs of a log from start to end: ascending, and within it.
func (r *reader) epochs(start, end int64) []EpochStart {
	n := r.u16()
	if n > maxEpochs || len(r.b) < n*12 || end < start {
		r.bad = true
		return nil
	}
	list := make([]EpochStart, n)
	for i := range list {
		list[i] = EpochStart{Epoch: r.count(), Start: r.offset()}
		if list[i].Start > end || i > 0 && (list[i].Epoch <= list[i-1].Epoch || list[i].Start < list[i-1].Start) {
			r.bad = true
		}
	}
	return list
}

// ask is a question of another part of the broker, and answer what comes back.
type ask struct {
	Number  uint64
	Kind    uint8 // of an answer: 0 good, 1 an error in words
	Payload []byte
}

func (a *ask) encode() []byte {
	b := append(make([]byte, 0, 10+len(a.Payload)), wireVersion)
	b = binary.BigEndian.AppendUint64(b, a.Number)
	return append(append(b, a.Kind), a.Payload...)
}

func decodeAsk(payload []byte) (ask, error) {
	if len(payload) < 10 || payload[0] != wireVersion || len(payload)-10 > MaxAskBytes {
		return ask{}, fmt.Errorf("%w: question or answer of %d bytes", errMessage, len(payload))
	}
	r := reader{b: payload[1:]}
	return ask{Number: r.u64(), Kind: r.u8(), Payload: r.b}, nil
}
