package detect

import (
	"bytes"
	"fmt"
	"time"

	"github.com/bornode/bornode/transport"
)

// handle takes one message of the peer.
func (r *run) handle(m *message) error {
	first := r.heard.IsZero()
	r.heard = time.Now()
	budget := &r.budget
	if m.kind == kindKeepalive {
		budget = &r.beats
	}
	if !budget.take(r.heard) {
		return fmt.Errorf("%w: too many control messages", transport.ErrProtocol)
	}
	if err := r.allowed(m, first); err != nil {
		return err
	}
	switch m.kind {
	case kindOffers:
		r.theirs, r.away, r.next = m.offers, nil, 0
		return r.reconsider()
	case kindNone:
		r.none(m.reason)
		return nil
	case kindPropose:
		return r.answer(m)
	case kindKeepalive:
		if r.phase == up && r.heard.Sub(r.alive) >= r.beat()/2 {
			return r.keepAlive()
		}
		return nil
	}
	if m.attempt != r.attempt || !r.told {
		return nil // of an attempt that was given up
	}
	return r.proceed(m)
}

// none notes why the leader found nothing that suits both, as it looks from here.
func (r *run) none(reason string) {
	if r.phase != idle {
		return
	}
	r.away = nil
	for _, o := range r.theirs {
		if o.kind == offerHost { // it would have been the first choice
			r.away = append(r.away, o.rendezvous)
		}
	}
	pairs, why := r.choose()
	if len(pairs) > 0 {
		why = "the peer says: " + reason
	}
	r.stay(why)
}

// allowed tells what only one side may say, or not at this time.
func (r *run) allowed(m *message, first bool) error {
	leaders := m.kind == kindNone || m.kind == kindPropose || m.kind == kindSwitch
	followers := m.kind == kindAccept || m.kind == kindReady
	switch {
	case first && m.kind != kindOffers:
		return fmt.Errorf("%w: first control message is of kind %d", transport.ErrProtocol, m.kind)
	case leaders && r.s.Leads || followers && !r.s.Leads:
		return fmt.Errorf("%w: control message of kind %d is the other side's", transport.ErrProtocol, m.kind)
	case m.kind == kindPropose && (m.attempt != r.attempt+1 || r.phase != idle):
		return fmt.Errorf("%w: attempt %d is proposed after %d", transport.ErrProtocol, m.attempt, r.attempt)
	case m.kind > kindPropose && m.kind <= kindBroken && m.attempt > r.attempt:
		return fmt.Errorf("%w: attempt %d has not begun", transport.ErrProtocol, m.attempt)
	}
	return nil
}

// answer takes or refuses the leader's attempt.
func (r *run) answer(m *message) error {
	r.attempt = m.attempt
	refuse := func(why string) error {
		return r.send(&message{kind: kindBroken, attempt: m.attempt, reason: why})
	}
	theirs, ok := find(r.theirs, m.mine)
	if !ok {
		return fmt.Errorf("%w: proposes endpoint %d that it does not offer", transport.ErrProtocol, m.mine)
	}
	mine, ok := find(r.mine, m.yours)
	if !ok {
		return refuse("the endpoint is gone")
	}
	if mine.kind != theirs.kind {
		return fmt.Errorf("%w: proposes endpoints of different kinds", transport.ErrProtocol)
	}
	now := time.Now()
	if now.Sub(r.proposal) < r.u.cfg.RetryMin/proposalPause {
		return refuse("too soon after the last attempt")
	}
	r.proposal = now
	r.pair = candidate{mine, theirs}
	r.remote, r.told = m.local, true
	r.open()
	return nil
}

func find(list []offer, id uint8) (offer, bool) {
	for _, o := range list {
		if o.id == id {
			return o, true
		}
	}
	return offer{}, false
}

// proceed takes a message of the attempt under way.
func (r *run) proceed(m *message) error {
	unexpected := func() error {
		return fmt.Errorf("%w: control message of kind %d in phase %d", transport.ErrProtocol, m.kind, r.phase)
	}
	switch m.kind {
	case kindBroken:
		r.give("the peer says: " + m.reason)
		return nil
	case kindAccept:
		if r.phase != proposed || bytes.Equal(m.local, r.channel.Local()) { // its own end is no peer
			return unexpected()
		}
		r.connect(m.local)
	case kindReady:
		if r.ready || r.phase != connecting && r.phase != connected {
			return unexpected()
		}
		r.ready = true
		return r.move()
	case kindSwitch:
		if r.phase != connected {
			return unexpected()
		}
		return r.attach()
	}
	return nil
}
