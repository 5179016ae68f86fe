package detect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
)

// phase is how far the attempt under way is.
type phase uint8

const (
	idle       phase = iota
	opening          // NewChannel runs
	proposed         // leader: waits for kindAccept
	connecting       // Connect runs
	connected        // leader: waits for kindReady; follower: for kindSwitch
	attaching        // Attach runs
	up               // the channel carries the link
)

var (
	errSilent = errors.New("detect: nothing came over the connection for longer than its idle time-out")
	errAway   = errors.New("detect: the peer is not on this host")
	errSlow   = errors.New("the peer does not answer in time")
)

// run is one connection's upgrader at work. All fields belong to the goroutine of Run but those it shares by channels.
type run struct {
	u   *Upgrader
	s   link.Session
	log *zap.Logger
	ctx context.Context
	wg  sync.WaitGroup

	messages chan *message
	broken   chan error // why the reader ended
	results  chan result
	timer    *time.Timer // of the phase
	changed  <-chan struct{}

	ends   []*Endpoint // by id
	mine   []offer     // as told
	theirs []offer
	heard  time.Time // of the last message; zero: none yet
	alive  time.Time // of the last keep-alive sent
	beats  budget    // of keep-alives, which follow the peer's settings
	away   [][]byte  // rendezvous of theirs that were tried in vain
	budget budget

	phase    phase
	serial   uint64 // of the attempt, here
	attempt  uint32 // the last one that was proposed
	told     bool   // the peer knows of the attempt under way
	pair     candidate
	provider string
	channel  Channel
	cancel   context.CancelFunc // of the attempt
	remote   []byte             // follower: the leader's end
	ready    bool               // leader: the follower's probe came through
	next     int                // candidate of the next attempt
	pause    time.Duration      // before the next attempt
	since    time.Time          // of up
	proposal time.Time          // follower: of the last one that cost something
	refused  string             // leader: what kindNone said last
	unsaid   string             // why the link fell back; logged when the connection outlives that
}

// result is how a step of an attempt ended.
type result struct {
	serial  uint64
	phase   phase
	channel Channel
	err     error
}

// Run implements link.Upgrader.
func (u *Upgrader) Run(ctx context.Context, s link.Session) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &run{
		u: u, s: s, ctx: ctx, log: u.log.With(zap.String("peer", string(s.Peer))),
		messages: make(chan *message, queuedMessages), broken: make(chan error, 1), results: make(chan result),
		timer: time.NewTimer(time.Hour), cancel: func() {}, budget: newBudget(u.cfg.RetryMin / refillMessages), beats: newBudget(keepaliveRefill),
	}
	defer r.timer.Stop()
	stop := context.AfterFunc(ctx, func() { _ = s.Control.Close() }) // wakes reader and writer
	defer stop()
	r.wg.Go(r.read)
	err := r.loop()
	cancel()
	_ = s.Control.Close()
	r.drop()
	go func() { r.wg.Wait(); close(r.results) }()
	for res := range r.results {
		if res.channel != nil {
			_ = res.channel.Close() // nobody wants it any more
		}
	}
	return err
}

// read decodes what the peer sends.
func (r *run) read() {
	for {
		m, err := read(r.s.Control)
		if err != nil {
			r.broken <- err
			return
		}
		select {
		case r.messages <- m:
		case <-r.ctx.Done():
			return
		}
	}
}

// loop handles one thing after the other until the connection or the peer's upgrader ends.
func (r *run) loop() error {
	if err := r.tell(); err != nil {
		return r.ended(err)
	}
	for {
		var lost <-chan struct{}
		if r.phase == connected || r.phase == up {
			lost = r.channel.Done()
		}
		var err error
		select {
		case m := <-r.messages:
			err = r.handle(m)
		case res := <-r.results:
			err = r.step(res)
		case <-lost:
			err = r.fail(r.channel.Err())
		case <-r.timer.C:
			err = r.alarm()
		case <-r.changed:
			err = r.tell()
		case err = <-r.broken:
			err = r.drain(err)
		case <-r.ctx.Done():
			return nil
		}
		if err != nil {
			return r.ended(err)
		}
	}
}

// drain handles what had arrived before the stream broke.
func (r *run) drain(err error) error {
	for {
		select {
		case m := <-r.messages:
			if err := r.handle(m); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// ended says what an error means for the connection: only a faulty or silent peer costs it.
func (r *run) ended(err error) error {
	switch {
	case r.ctx.Err() != nil:
		return nil
	case errors.Is(err, transport.ErrProtocol), errors.Is(err, errSilent):
		return err
	case errors.Is(err, errVersion):
		r.stay("the peer's RDMA set-up has another version")
	case r.heard.IsZero():
		r.stay("the peer has RDMA switched off")
	default:
		r.log.Debug("control stream ended", zap.Error(err))
		r.stay("the peer ended the set-up of faster paths")
	}
	return nil
}

// send writes a message.
func (r *run) send(m *message) error {
	_, err := r.s.Control.Write(m.encode())
	return err
}

// tell offers what there is now.
func (r *run) tell() error {
	r.ends, r.changed = r.u.endpoints()
	r.mine = nil
	for id, e := range r.ends {
		if e != nil {
			r.mine = append(r.mine, e.offer(uint8(id), localAddr(r.s.Local)))
		}
	}
	if err := r.send(&message{kind: kindOffers, offers: r.mine}); err != nil {
		return err
	}
	return r.reconsider()
}

// reconsider begins an attempt after the offers changed, if none is under way; after a failure when its pause is over.
func (r *run) reconsider() error {
	switch {
	case r.phase != idle || r.heard.IsZero():
	case r.s.Leads && r.pause == 0:
		return r.begin()
	case r.s.Leads:
		r.timer.Reset(jitter(r.pause))
	default:
		if pairs, why := r.choose(); len(pairs) == 0 {
			r.stay(why)
		}
	}
	return nil
}

func (r *run) choose() ([]candidate, string) {
	return choose(r.mine, r.theirs, func(rendezvous []byte) bool {
		for _, a := range r.away {
			if bytes.Equal(a, rendezvous) {
				return true
			}
		}
		return false
	})
}

// begin starts the leader's next attempt.
func (r *run) begin() error {
	pairs, why := r.choose()
	if len(pairs) == 0 {
		r.stay(why)
		if why == r.refused {
			return nil
		}
		r.refused = why
		return r.send(&message{kind: kindNone, reason: why})
	}
	r.refused = ""
	r.pair = pairs[r.next%len(pairs)]
	r.open()
	return nil
}

// open makes this side's end of the channel.
func (r *run) open() {
	r.say()
	r.serial++
	e := r.ends[r.pair.mine.id]
	r.provider = e.Provider
	pair, leads := r.pair, r.s.Leads
	ctx, cancel := context.WithTimeout(r.ctx, r.u.cfg.ProbeTimeout)
	r.cancel = cancel
	r.work(opening, func() (Channel, error) {
		if e.Host != nil && leads {
			if err := e.Host.Reach(ctx, pair.theirs.rendezvous); err != nil {
				return nil, fmt.Errorf("%w: %w", errAway, err)
			}
		}
		return e.Device.NewChannel(ctx, r.s.Peer)
	})
}

// connect connects with the peer's end. The context is new: the peer took its part of the last one.
func (r *run) connect(remote []byte) {
	r.cancel()
	ctx, cancel := context.WithTimeout(r.ctx, r.u.cfg.ProbeTimeout)
	r.cancel = cancel
	c := r.channel
	r.work(connecting, func() (Channel, error) { return nil, c.Connect(ctx, remote, r.s.Leads) })
}

// attach puts the link on the channel, if that works still: a hello that had come over a dead one would take the link
// off the pipe that the leader has put it on since.
func (r *run) attach() error {
	if err := r.channel.Err(); err != nil {
		return r.fail(err)
	}
	r.cancel()
	ctx, cancel := context.WithCancel(r.ctx)
	r.cancel = cancel
	c := r.channel
	r.work(attaching, func() (Channel, error) { return nil, r.s.Attach(ctx, c) })
	return nil
}

// work does a step that takes time on a goroutine of its own.
func (r *run) work(p phase, f func() (Channel, error)) {
	r.phase = p
	r.timer.Stop()
	serial := r.serial
	r.wg.Go(func() {
		c, err := f()
		r.results <- result{serial: serial, phase: p, channel: c, err: err}
	})
}

// wait enters a phase in which the peer is to do something within d.
func (r *run) wait(p phase, d time.Duration) {
	r.phase = p
	r.timer.Reset(d)
}

// step goes on after a step ended.
func (r *run) step(res result) error {
	if res.serial != r.serial || res.phase != r.phase { // given up meanwhile
		if res.channel != nil {
			_ = res.channel.Close()
		}
		return nil
	}
	switch {
	case errors.Is(res.err, errAway):
		r.away = append(r.away, r.pair.theirs.rendezvous)
		r.drop()
		return r.begin()
	case res.err != nil:
		return r.fail(res.err)
	}
	switch r.phase {
	case opening:
		r.channel = res.channel
		if !r.s.Leads {
			r.connect(r.remote)
			return r.send(&message{kind: kindAccept, attempt: r.attempt, local: r.channel.Local()})
		}
		r.attempt++
		r.told = true
		r.wait(proposed, 2*r.u.cfg.ProbeTimeout)
		return r.send(&message{kind: kindPropose, attempt: r.attempt, mine: r.pair.mine.id, yours: r.pair.theirs.id, local: r.channel.Local()})
	case connecting:
		r.wait(connected, 2*r.u.cfg.ProbeTimeout)
		if !r.s.Leads {
			return r.send(&message{kind: kindReady, attempt: r.attempt})
		}
		return r.move()
	case attaching:
		r.arrived()
	}
	return nil
}

// move is the leader's switch, when both probes came through.
func (r *run) move() error {
	if r.phase != connected || !r.ready {
		return nil
	}
	if err := r.send(&message{kind: kindSwitch, attempt: r.attempt}); err != nil {
		return err
	}
	return r.attach()
}

// arrived notes that the link is on the channel.
func (r *run) arrived() {
	r.since, r.heard, r.alive = time.Now(), time.Now(), time.Now()
	r.next = 0
	r.wait(up, r.beat())
	why := r.pair.text()
	r.s.Reason(why)
	r.u.metrics.links.WithLabelValues(r.provider).Inc()
	r.u.metrics.moved.WithLabelValues(r.provider).Inc()
	if r.u.news(r.s.Peer, r.provider+why) {
		r.log.Info("link moved off tcp", zap.String("provider", r.provider), zap.String("reason", why))
	}
}

// alarm is the end of the phase's time.
func (r *run) alarm() error {
	switch r.phase {
	case idle:
		r.say()
		if r.s.Leads && !r.heard.IsZero() {
			return r.begin()
		}
	case proposed, connected:
		return r.fail(errSlow)
	case up:
		if time.Since(r.heard) >= r.s.IdleTimeout-r.s.IdleTimeout/keepalives {
			return errSilent // by the next beat it would be too late
		}
		return r.keepAlive()
	}
	return nil
}

// keepAlive says that the connection works. A keep-alive that comes is answered with the next one, so that an idle
// pair wakes up once per beat and not for each side's.
func (r *run) keepAlive() error {
	r.alive = time.Now()
	r.timer.Reset(r.beat())
	return r.send(&message{kind: kindKeepalive})
}

// beat is the time to the next keep-alive. The leader's comes first, and the follower answers it. It is the link's
// heartbeat: idle time-outs may differ from node to node.
func (r *run) beat() time.Duration {
	beat := r.s.IdleTimeout / keepalives
	if r.s.Heartbeat > 0 {
		beat = min(beat, r.s.Heartbeat)
	}
	if !r.s.Leads {
		beat += beat / 4
	}
	return beat
}

// fail gives the attempt or the path up, and tells the peer.
func (r *run) fail(err error) error {
	text := "it was closed"
	if err != nil {
		text = err.Error()
	}
	told := r.told
	r.give(text)
	if !told {
		return nil
	}
	return r.send(&message{kind: kindBroken, attempt: r.attempt, reason: text})
}

// give gives the attempt or the path up; the leader tries again after a pause.
func (r *run) give(why string) {
	why = clean(fmt.Sprintf("%s failed: %s", r.provider, why), maxReasonBytes)
	wasUp := r.phase == up
	if wasUp {
		if time.Since(r.since) >= r.u.cfg.RetryMax {
			r.pause = 0
		}
		r.u.metrics.fallback.WithLabelValues(r.provider).Inc()
	} else {
		r.u.metrics.failed.WithLabelValues(r.provider).Inc()
		r.next++
	}
	r.drop()
	pause := r.u.cfg.RetryMin
	if r.s.Leads {
		r.pause = r.u.cfg.next(r.pause)
		pause = r.pause
	}
	r.timer.Reset(jitter(pause))
	if wasUp { // a path ends with its link too, and then nothing fell back
		r.s.Reason(why)
		r.unsaid = why
	} else {
		r.stay(why)
	}
}

// drop ends the attempt or path, if there is one.
func (r *run) drop() {
	if r.phase == up {
		r.u.metrics.links.WithLabelValues(r.provider).Dec()
	}
	r.phase, r.ready, r.told = idle, false, false
	r.timer.Stop()
	r.cancel()
	if r.channel != nil {
		_ = r.channel.Close() // it has failed, or is not wanted
		r.channel = nil
	}
}

// stay notes why the link is on tcp, and logs what was not said before.
func (r *run) stay(why string) {
	why = clean(why, maxReasonBytes)
	r.s.Reason(why)
	r.unsaid = why
	r.say()
}

// say logs why the link is on tcp.
func (r *run) say() {
	if r.unsaid != "" && r.u.news(r.s.Peer, r.unsaid) {
		level := zap.InfoLevel
		if r.u.cfg.Mode == On {
			level = zap.WarnLevel
		}
		r.log.Log(level, "link is on tcp", zap.String("reason", r.unsaid))
	}
	r.unsaid = ""
}

// budget bounds how many messages a peer may send.
type budget struct {
	left  int
	at    time.Time
	every time.Duration // one more
}

func newBudget(every time.Duration) budget {
	return budget{left: burstMessages, at: time.Now(), every: max(every, 1)}
}

// take counts a message; false if it is one too many.
func (b *budget) take(now time.Time) bool {
	if more := now.Sub(b.at) / b.every; more > 0 {
		b.left = int(min(int64(b.left)+int64(more), burstMessages))
		b.at = now
	}
	b.left--
	return b.left >= 0
}
