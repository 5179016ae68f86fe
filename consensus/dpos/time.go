package dpos

import (
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// Rule 12: time is an input that peers check. The driver reads it (package clock) and tells it by three events: Tick lets
// it pass, TimeSet sets it, Clocks says whether a quorum's clocks stand behind it.

// TimeWait says what keeps a machine from voting for reasons of time (rule 12). Its zero value means that nothing does.
type TimeWait struct {
	FewClocks bool   // fewer clocks than a quorum's are known: no vote is cast
	Ahead     uint64 // slot of the newest prevote in the log, or of the justified block, that is ahead of the time; 0: none is
}

// TimeWait says what keeps the machine from voting for reasons of time.
func (m *Machine) TimeWait() (w TimeWait) {
	if m.cfg.Self == (common.Address{}) || !m.timed {
		return w
	}
	w.FewClocks = m.fewClocks
	for _, slot := range []uint64{m.tree.just.Slot, newest(m.own.prevotes).Target.Slot} {
		if m.future(slot) {
			w.Ahead = slot
		}
	}
	return w
}

// slotAt is the slot of a time since genesis; 0 before genesis.
func (m *Machine) slotAt(now time.Duration) uint64 {
	if now <= 0 {
		return 0
	}
	return uint64(now / m.p.Slot())
}

// horizon is the highest slot that is not ahead of the time: that of the instant max_clock_error from now.
func (m *Machine) horizon() uint64 {
	if !m.timed {
		return ^uint64(0)
	}
	return m.slotAt(m.now + m.p.MaxClockError())
}

// future reports whether a slot begins further ahead of the time than max_clock_error: nothing of it is entered, voted,
// relayed or logged.
func (m *Machine) future(slot uint64) bool { return slot > m.horizon() }

// IsAhead reports whether a slot begins further ahead of the time than max_clock_error.
func (m *Machine) IsAhead(slot uint64) bool { return m.future(slot) }

// setTime takes a time that was set and did not just pass.
func (m *Machine) setTime(now time.Duration) {
	if !m.ticked && m.cfg.Self != (common.Address{}) {
		m.now, m.slot, m.timed = now, m.slotAt(now), true // the start is the first Tick: no line is drawn before
		m.lookAhead()
		return
	}
	if m.ticked && now < m.now {
		m.now, m.slot = now, m.slotAt(now)
		m.quietFrom = min(m.quietFrom, m.slot)
		m.first.setBack(&m.cfg, m.slot)
		m.own.followSetTime(m, false)
		m.toldAlarm, m.dirty = 0, true // the next slot begins earlier than was told
		m.lookAhead()
		return
	}
	slot, wasTicked := m.slotAt(now), m.ticked
	isFar := slot > m.slot+1
	if wasTicked && isFar && (!m.first.over || m.slot <= m.first.line) {
		m.first.setForward(&m.cfg, slot)
	}
	m.tick(now)
	if wasTicked {
		m.own.followSetTime(m, isFar)
	}
}

// lookAhead tells the tree which blocks the time has reached. Blocks further ahead are there only if they were stored, or
// entered, while the time was ahead of what it is now.
func (m *Machine) lookAhead() {
	if m.tree.limitTo(m.horizon()) {
		m.dirty = true
	}
}

// maySealNow reports whether the machine was not halted, and the clocks allow a block: a quorum's are known, or they were
// waited for long enough.
func (m *Machine) maySealNow() bool { return !m.halted && (!m.fewClocks || m.slot >= m.first.alone) }
