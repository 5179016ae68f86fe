package rdma

import (
	"fmt"
	"sync/atomic"

	"github.com/bornode/bornode/transport"
)

// Classes of an immediate, its upper 4 bits.
const (
	classControl uint32 = iota + 1 // value: published position of the control ring in units
	classBulk                      // the same of the bulk ring
	classCredit                    // look into the mailbox, and answer with an ACK
	classAck                       // of a CREDIT
	classProbe                     // set-up only; value 0 asks, 1 answers
	classBye                       // the peer closed its end
)

func immediate(class, value uint32) uint32 { return class<<valueBits | value&valueMask }

// words are what one side writes into the other's mailbox: how much it has consumed of each of its rings, and of its
// receive entries. Each grows, and is true by itself.
type words struct {
	consumed [rings]uint64 // positions
	entries  uint64        // used by immediates of frames and posted again
}

// opKind is the kind of an op.
type opKind uint8

const (
	opMail  opKind = iota // WRITE of the mailbox
	opWrite               // WRITE of [from, to) of a ring, up to its end
	opImm                 // WRITE WITH IMMEDIATE of [from, to), which may be empty
)

// op is a work request to be made.
type op struct {
	kind   opKind
	signal bool
	ring   ringKind
	imm    uint32
	from   uint64 // positions
	to     uint64
	mail   words
}

// flow is the account of one end of a channel: credits for ring bytes and receive entries, in both directions, and
// the send queue. It does no I/O and knows no time. Its parts belong to different goroutines, see the fields; what
// crosses has one writer each and is atomic.
//
// Why nothing gets stuck. A record fits three quarters of a ring, and the reader announces at the latest when a
// quarter is free and untold, so a writer finds room once the reader has read. An immediate of frames takes one of the
// peer's granted entries; the peer's poller, not its reader, uses up and posts entries again, and announces at the
// latest when half of them are untold, so a writer finds an entry once the peer polls. An announcement rides on an
// immediate of frames, or goes as CREDIT. A CREDIT needs no granted entry: the peer keeps one for it, which is free
// again, since the next CREDIT waits for the ACK of this one; the ACK has an entry of its own for the same reason:
// only one CREDIT is unanswered, so only one ACK is under way. The poller that sees a CREDIT sends the ACK without
// anybody's credit. So with both sides out of entries at once, both CREDITs go out and both are answered. What a full
// send queue delays goes out when a request completes, and a full queue always has a signalled request in it.
type flow struct {
	// The writer's account; guarded by the channel's tx lock.
	out      [rings]outRing
	granted  uint64 // entries of the peer
	used     uint64 // immediates of frames posted
	returned uint64 // of those the peer's entries are free again
	depth    uint32 // send queue
	posted   uint32 // work requests so far, modulo 2^32
	mapped   bool   // the peer's memory is mapped: mailbox and rings take no work request
	told     words  // what the peer was woken to look at
	wanted   uint64 // bytes of room that a blocked writer waits for; 0: none waits
	wantRing ringKind
	owing    bool // plan had no slot for an announcement
	ops      [maxChain]op

	_ [unit]byte
	// Arrivals; written under the device's poll lock only.
	published [rings]atomic.Uint64 // positions the peer told of
	arrived   atomic.Uint64        // immediates of frames
	credits   atomic.Uint32        // CREDITs
	acks      atomic.Uint32        // ACKs
	completed atomic.Uint32        // work requests known to be done, modulo 2^32

	_ [unit]byte
	// The reader's.
	consumed [rings]atomic.Uint64 // positions before which nothing is needed any more

	_ [unit]byte
	// Written under the tx lock, looked at by arrivals and reader.
	shownEntries atomic.Uint64 // in the peer's mailbox, or about to be
	toldEntries  atomic.Uint64 // told.entries
	toldBytes    [rings]atomic.Uint64
	creditsSent  atomic.Uint32
	acksSent     atomic.Uint32
	// blocked: something waits that an arrival or a completion may set free, so whoever sees one pumps.
	blocked atomic.Bool

	// Constant.
	size     [rings]uint64 // of this side's rings
	grant    uint64        // entries of this side
	announce words         // what, free and untold, is worth a message of its own
	mention  words         // what is worth a WRITE before an immediate that goes out anyway
}

// side is what one end tells the other of itself.
type side struct {
	control uint64 // ring sizes
	bulk    uint64
	entries uint64
	start   uint64 // where the positions of what it sends begin
}

// init starts the account; own describes this end, peer the other. depth and mapped are set before, and posted goes on.
func (f *flow) init(own, peer side) {
	f.out[ringControl].init(peer.control, own.start)
	f.out[ringBulk].init(peer.bulk, own.start)
	f.granted, f.grant = peer.entries, own.entries
	f.size = [rings]uint64{own.control, own.bulk}
	f.announce, f.mention = own.share(4), own.share(16)
	for r := range rings {
		f.published[r].Store(peer.start)
		f.consumed[r].Store(peer.start)
		f.toldBytes[r].Store(peer.start)
		f.told.consumed[r] = peer.start
	}
}

// start gives the words that a mailbox holds before anything was told.
func (s *side) words() words { return words{consumed: [rings]uint64{s.start, s.start}} }

// have gives what could be told now.
func (f *flow) have() (w words) {
	for r := range rings {
		w.consumed[r] = f.consumed[r].Load()
	}
	w.entries = f.arrived.Load()
	return w
}

// share is a part-th of each ring and twice that of the entries.
func (s *side) share(part uint64) words {
	return words{consumed: [rings]uint64{s.control / part, s.bulk / part}, entries: max(1, 2*s.entries/part)}
}

// untold tells whether as much as least of a ring or of the entries is free and the peer was not told.
func (f *flow) untold(have, least *words) bool {
	for r := range rings {
		if have.consumed[r]-f.told.consumed[r] >= least.consumed[r] {
			return true
		}
	}
	return have.entries-f.told.entries >= least.entries
}

// readerOwes tells the reader that what it consumed of the ring is worth an announcement.
func (f *flow) readerOwes(r ringKind, consumed uint64) bool {
	return consumed-f.toldBytes[r].Load() >= f.announce.consumed[r]
}

// slots is the room in the send queue.
func (f *flow) slots() int { return int(f.depth - (f.posted - f.completed.Load())) }

// plan gives the work requests that should go out now, as one chain for one post, and counts those that the peer may
// answer before the post returns. commit must follow.
func (f *flow) plan() []op {
	have := f.have()
	ops := append(f.ops[:0], op{kind: opMail})
	free := f.slots()
	mail := f.untold(&have, &f.mention)
	if mail {
		free -= f.mailSlots()
	}
	frames := false
	for r := range rings {
		if o := &f.out[r]; o.written != o.posted && f.used-f.returned+f.inChain(ops) < f.granted {
			n := len(ops)
			ops = f.planFrames(ops, r)
			if len(ops)-n > free {
				ops = ops[:n]
				break
			}
			free -= len(ops) - n
			frames = true
		}
	}
	if f.credits.Load() != f.acksSent.Load() && free >= 1 {
		ops = append(ops, op{kind: opImm, imm: immediate(classAck, 0)})
		free--
		f.acksSent.Add(1)
	}
	f.owing = false
	if mail && !frames && f.creditDue(&have) {
		if f.owing = free < 1; !f.owing {
			ops = append(ops, op{kind: opImm, imm: immediate(classCredit, 0)})
			f.creditsSent.Add(1)
		}
	}
	if len(ops) == 1 || free < 0 {
		return ops[:0]
	}
	if mail {
		f.shownEntries.Store(have.entries)
		ops[0].mail = have
	} else {
		ops = ops[1:]
	}
	f.sign(ops)
	return ops
}

// creditDue tells that an announcement is due and may go as CREDIT.
func (f *flow) creditDue(have *words) bool {
	return f.creditsSent.Load() == f.acks.Load() && f.untold(have, &f.announce)
}

// mailSlots is what a WRITE of the mailbox takes of the send queue.
func (f *flow) mailSlots() int {
	if f.mapped {
		return 0
	}
	return 1
}

// inChain counts the granted entries that a chain takes.
func (f *flow) inChain(ops []op) (n uint64) {
	for i := range ops {
		if ops[i].takesEntry() {
			n++
		}
	}
	return n
}

// takesEntry tells that the op uses a granted entry of the peer.
func (o *op) takesEntry() bool {
	class := o.imm >> valueBits
	return o.kind == opImm && (class == classControl || class == classBulk)
}

// planFrames adds what is written and not posted of a ring: one immediate, and a WRITE before it where the ring's end
// lies between.
func (f *flow) planFrames(ops []op, r ringKind) []op {
	o := &f.out[r]
	from := o.posted
	if end := (from/o.size + 1) * o.size; o.written > end && !f.mapped {
		ops = append(ops, op{kind: opWrite, ring: r, from: from, to: end})
		from = end
	}
	return append(ops, op{
		kind: opImm, ring: r, from: from, to: o.written,
		imm: immediate(classControl+uint32(r), uint32(o.written/unit)),
	})
}

// sign asks for completions, one in signalEvery.
func (f *flow) sign(ops []op) {
	at := f.posted
	for i := range ops {
		if ops[i].kind == opMail && f.mapped {
			continue
		}
		at++
		ops[i].signal = at%signalEvery == 0
	}
}

// commit notes that of the planned ops the first taken were posted. What was not comes again with the next plan.
func (f *flow) commit(ops []op, taken int) {
	var mail *words
	for i := range ops {
		o := &ops[i]
		if i >= taken {
			f.revoke(o)
			continue
		}
		if o.kind == opMail {
			mail = &o.mail
			f.posted += uint32(f.mailSlots())
			continue
		}
		f.posted++
		if o.kind != opImm {
			continue
		}
		if o.takesEntry() {
			f.used++
			f.out[o.ring].posted = o.to
		}
		if mail != nil {
			f.tell(mail)
			mail = nil
		}
	}
}

// tell notes that the peer has the words and was woken.
func (f *flow) tell(w *words) {
	f.told = *w
	f.toldEntries.Store(w.entries)
	for r := range rings {
		f.toldBytes[r].Store(w.consumed[r])
	}
}

func (f *flow) revoke(o *op) {
	switch {
	case o.kind == opImm && o.imm>>valueBits == classAck:
		f.acksSent.Add(^uint32(0))
	case o.kind == opImm && o.imm>>valueBits == classCredit:
		f.creditsSent.Add(^uint32(0))
		f.owing = true
	}
}

// stuck tells that something waits which a message of the peer or a completion may set free.
func (f *flow) stuck() bool {
	if f.wanted > 0 || f.owing || f.credits.Load() != f.acksSent.Load() {
		return true
	}
	for r := range rings {
		if f.out[r].written != f.out[r].posted {
			return true
		}
	}
	return false
}

// wire is what pump posts to.
type wire interface {
	// post hands over a chain and returns how many requests were taken. An error means the channel is broken.
	post(ops []op) (int, error)
	// mailbox reads what the peer wrote.
	mailbox() words
}

// pump posts whatever can go out. What cannot is left with blocked set. roomy tells that the writer that waited for
// room has it.
func (f *flow) pump(w wire) (roomy bool, err error) {
	for looked := false; ; looked = true {
		taken := 0
		if ops := f.plan(); len(ops) > 0 {
			taken, err = w.post(ops)
			f.commit(ops, taken)
			if err != nil {
				return roomy, err
			}
		}
		if !f.stuck() {
			if f.blocked.Load() {
				f.blocked.Store(false)
			}
			return roomy, nil
		}
		if looked && taken == 0 {
			return roomy, nil
		}
		// In this order: what the peer writes after the look finds blocked set when it arrives.
		f.blocked.Store(true)
		mail := w.mailbox()
		if err := f.learn(&mail); err != nil {
			return roomy, err
		}
		if f.wanted > 0 && f.out[f.wantRing].room() >= f.wanted {
			f.wanted, roomy = 0, true
		}
	}
}

// learn applies the words of this side's mailbox.
func (f *flow) learn(w *words) error {
	for r := range rings {
		if err := f.out[r].free(w.consumed[r]); err != nil {
			return fmt.Errorf("mailbox, %s ring: %w", r, err)
		}
	}
	if w.entries < f.returned || w.entries > f.used {
		return fmt.Errorf("%w: mailbox gives back %d entries, possible are %d to %d",
			transport.ErrProtocol, w.entries, f.returned, f.used)
	}
	f.returned = w.entries
	return nil
}

// done notes that the work request with this number, and all before it, are done.
func (f *flow) done(number uint32) { f.completed.Store(number) }

// arrival says what an immediate asks for.
type arrival struct {
	published bool // frames are there
	owes      bool // something should be sent: look at plan
}

// arrive checks and applies an immediate of the peer.
func (f *flow) arrive(imm uint32) (a arrival, err error) {
	switch class := imm >> valueBits; class {
	case classControl, classBulk:
		r := ringKind(class - classControl)
		pos, err := publish(f.published[r].Load(), f.consumed[r].Load(), f.size[r], imm&valueMask)
		if err != nil {
			return a, fmt.Errorf("%s ring: %w", r, err)
		}
		n := f.arrived.Load() + 1
		if n-f.shownEntries.Load() > f.grant {
			return a, fmt.Errorf("%w: %d receive entries taken, granted are %d", transport.ErrProtocol, n-f.shownEntries.Load(), f.grant)
		}
		f.arrived.Store(n)
		f.published[r].Store(pos)
		return arrival{published: true, owes: n-f.toldEntries.Load() >= f.announce.entries}, nil
	case classCredit:
		n := f.credits.Load()
		if n != f.acksSent.Load() {
			return a, fmt.Errorf("%w: CREDIT before the last one was answered", transport.ErrProtocol)
		}
		f.credits.Store(n + 1)
		return arrival{owes: true}, nil
	case classAck:
		n := f.acks.Load()
		if n == f.creditsSent.Load() {
			return a, fmt.Errorf("%w: ACK without a CREDIT", transport.ErrProtocol)
		}
		f.acks.Store(n + 1)
		return arrival{owes: true}, nil
	}
	return a, fmt.Errorf("%w: immediate %#x", transport.ErrProtocol, imm)
}
