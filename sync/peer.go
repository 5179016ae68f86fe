package blocksync

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
)

// peer is a link with what is known about the node behind it. The manager's goroutine owns it, but for the fields said
// to be shared.
type peer struct {
	id     transport.PeerID
	link   transport.Link
	ctx    context.Context // shared; ends with the peer
	cancel context.CancelFunc
	linked time.Time

	handshaken bool
	leaving    bool
	meeting    bool // the recoveries that it shows are being verified

	forked      error     // it holds another block as final: it is served, and not asked, until it is sent away
	forkedUntil time.Time // when that is
	hello       *Handshake
	pos         Position
	sentGen     uint64
	seenGen     uint64
	helloCount  int // handshakes taken in this heartbeat period

	account *voteAccount // shared; of the peer's votes, over all its links

	sessions        int // taken in this heartbeat period
	strangers       int // of those, of accounts without a seat
	answers         int // to sessions, taken in this heartbeat period
	strangerAnswers int // of those, of who has no seat
	questions       questions

	clock     clockFilter
	told      toldFilter
	takesTime bool      // it set TakesTime
	lastAsked uint64    // Xmt of our newest time question
	askedAt   time.Time // when it left
	nextBeat  time.Time
	lastSeen  atomic.Int64 // shared; Unix nanoseconds of the last message

	knownBlocks *recent[common.Hash, struct{}]
	knownVotes  *recent[uint64, struct{}]
	knownTxs    *recent[common.Hash, uint64] // value: the beat of offers from which it may be sent again, txShown or txWaiting

	txQueue      []queuedTx // waits for room in lane 1
	txQueueBytes int

	damped      Damp // what the peer does not want from us
	dampedUntil time.Time
	weDamp      Damp // what we told it not to send
	weDampUntil time.Time
	dupBlocks   int // useless pushes in a row
	dupVotes    int

	aheadSince time.Time
	notAsk     time.Time
	notRange   time.Time
	rangeFirst uint64 // first height it can serve by what it refused
	rangeEnd   uint64 // last height it can serve by what it refused
	rangeSaid  uint64 // its LIB then: rangeEnd counts until it claims more
	empty      int    // answers in a row that brought nothing
	unlinked   int    // unlinkable blocks without a useful one between
	orphans    int
	suspected  int

	windowQueue chan *windowJob       // to the goroutine that reads its window; nil until the first
	windowJobs  map[uint64]*windowJob // by ReqIndex, while they are read and not pushed
	windowAfter time.Time             // its window is not to be read before
	windowNone  string                // unless another provider carries the link than this one, which offered no reads; "": whatever carries it
	windowFails int                   // in a row

	ranges chan *serveJob       // history, under the rate limit
	serve  chan *serveJob       // all other requests: never behind history
	active map[uint64]*serveJob // by ReqIndex, until served

	counts peerCounts
}

// peerCounts count messages since the link came up.
type peerCounts struct {
	blocksIn, blocksOut, headersOut, votesIn, votesOut, txsIn, txsOut, duplicates, dropped, rangeBlocks uint64
	rangeBytes                                                                                          uint64
	pulledBlocks, pulledBytes                                                                           uint64        // of these, read from its window
	served, servedBytes                                                                                 atomic.Uint64 // shared with the server
}

func newPeer(parent context.Context, link transport.Link, account *voteAccount, now time.Time) *peer {
	ctx, cancel := context.WithCancel(parent)
	p := &peer{
		id: link.Peer(), link: link, ctx: ctx, cancel: cancel, linked: now, account: account,
		knownBlocks: newRecent[common.Hash, struct{}](maxKnownBlocks),
		knownVotes:  newRecent[uint64, struct{}](maxKnownVotes),
		knownTxs:    newRecent[common.Hash, uint64](maxKnownTxs),
		ranges:      make(chan *serveJob, maxServeQueue),
		serve:       make(chan *serveJob, maxServeQueue),
		active:      make(map[uint64]*serveJob),
		windowJobs:  make(map[uint64]*windowJob),
	}
	p.lastSeen.Store(now.UnixNano())
	return p
}

// send queues a message without waiting; a full queue drops it.
func (p *peer) send(lane transport.Lane, t MessageType, payload []byte) bool {
	if p.leaving {
		return false
	}
	ok := p.link.TrySend(transport.Message{Lane: lane, Type: uint8(t), Payload: payload})
	if !ok {
		p.counts.dropped++
	}
	return ok
}

// signsFor reports whether the peer proved in its handshake that it signs for the account.
func (p *peer) signsFor(a common.Address) bool {
	return p.hello != nil && a != (common.Address{}) && p.hello.Key == a
}

func (p *peer) latency() time.Duration { return p.clock.RTT() / 2 }

// wants reports whether the peer can use live traffic: one that is still fetching what is irreversible here cannot.
//
// liveLag is allowed for: what we know of its head is old by a heartbeat and a round trip.
func (p *peer) wants(lib Ref) bool {
	return p.handshaken && !p.leaving && p.forked == nil && p.pos.Head.Height+liveLag >= lib.Height
}

func (p *peer) dampedNow(d Damp, now time.Time) bool {
	return p.damped&d != 0 && now.Before(p.dampedUntil)
}

// read decodes what arrives on one lane until the link ends.
func (m *Manager) read(p *peer, lane transport.Lane) {
	defer m.wg.Done()
	for {
		msg, err := p.link.RecvLane(p.ctx, lane)
		if err != nil {
			m.post(func() { m.linkEnded(p, err) })
			return
		}
		now := time.Now()
		p.lastSeen.Store(now.UnixNano())
		if MessageType(msg.Type) == TypeVotes && !m.admitVotes(p, len(msg.Payload), now) {
			continue
		}
		apply, err := m.decode(p, msg, now)
		if err != nil {
			m.post(func() { m.punish(p, Validation, err) })
			continue
		}
		if apply != nil && !m.post(apply) {
			return
		}
	}
}

// decode turns a message into what the manager's goroutine is to do with it. Unknown types are ignored.
func (m *Manager) decode(p *peer, msg transport.Message, now time.Time) (func(), error) {
	switch MessageType(msg.Type) {
	case TypeHandshake:
		h, err := DecodeHandshake(msg.Payload)
		return func() { m.onHandshake(p, h) }, err
	case TypeGoAway:
		g, err := DecodeGoAway(msg.Payload)
		return func() { m.onGoAway(p, g) }, err
	case TypeTime:
		t, err := DecodeTime(msg.Payload)
		return func() { m.onTime(p, t, now) }, err
	case TypeNotice:
		n, err := DecodeNotice(msg.Payload)
		return func() { m.onNotice(p, n) }, err
	case TypeRequest:
		r, err := DecodeRequest(msg.Payload)
		return func() { m.onRequest(p, r) }, err
	case TypeSyncRequest:
		s, err := DecodeSyncRequest(msg.Payload)
		return func() { m.onSyncRequest(p, s) }, err
	case TypeSignedBlock:
		return m.decodeBlock(p, msg)
	case TypePackedTransactions:
		// Decoded by the transaction worker.
		return func() { m.onTransactions(p, msg.Payload) }, nil
	case TypeVotes:
		vs, err := DecodeVotes(msg.Payload)
		return func() { m.onVotes(p, vs) }, err
	case TypeBlockHeader:
		h, err := DecodeBlockHeader(msg.Payload)
		if err != nil {
			return nil, err
		}
		h.Sealed.Hash()
		return func() { m.onAnnouncement(p, h) }, nil
	case TypeSession:
		r, err := DecodeSessionRequest(msg.Payload)
		return func() { m.onSession(p, r, msg.Payload) }, err
	case TypeSessionAnswer:
		a, err := DecodeSessionAnswer(msg.Payload)
		return func() { m.onSessionAnswer(p, a, msg.Payload) }, err
	case TypeError:
		e, err := DecodeError(msg.Payload)
		return func() { m.onError(p, e) }, err
	case TypeReceiptsRequest:
		r, err := DecodeReceiptsRequest(msg.Payload)
		return func() { m.onReceiptsRequest(p, r) }, err
	case TypeReceipts:
		r, err := DecodeReceiptsPiece(msg.Payload)
		return func() { m.onReceiptsPiece(p, r) }, err
	}
	return nil, nil
}

func (m *Manager) decodeBlock(p *peer, msg transport.Message) (func(), error) {
	s, err := DecodeSignedBlock(msg.Payload)
	if err != nil {
		return nil, err
	}
	if s.ReqIndex != 0 {
		return func() { m.onAnswer(p, s) }, nil
	}
	h, err := s.Header()
	if err != nil {
		return nil, err
	}
	h.Hash()
	return func() { m.onPush(p, s, h, msg.Payload) }, nil
}
