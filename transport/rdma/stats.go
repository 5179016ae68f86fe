package rdma

// DeviceStats is a snapshot of a device's counters since Open.
type DeviceStats struct {
	Channels            int    // that exist now, those being set up or closed included
	Opened              uint64 // channels made
	Broken              uint64 // channels that ended by a failure, not by Close or the peer's
	Registrations       uint64 // memory regions registered; none while channels only carry frames
	WindowRegistrations uint64 // for windows: the copy, and each peer that reads it
	WindowBytes         int64  // registered copy of what peers read
	WindowLoads         uint64 // chunks brought into it
	PoolBytes           int64  // registered memory now
	PoolUsed            int64  // of that handed out
	PoolWaits           uint64 // times somebody waited for pool memory

	Polls          uint64 // polls of the completion queue that found something
	Completions    uint64
	Arms           uint64 // times an event was asked for
	Wakeups        uint64 // times the poller was woken by an event
	ReaderWakeups  uint64 // times a sleeping reader or writer of a channel was woken
	GuardTicks     uint64 // times the guard looked after an unarmed queue
	Rescued        uint64 // completions in an armed queue whose event never came; a backend's fault
	Stale          uint64 // completions of queue pairs that are gone
	RNR            uint64 // queue pairs that broke because the peer had no receive entry
	CQOverruns     uint64
	SRQLow         uint64 // events that said the shared receive queue runs low
	SRQLost        uint64 // receive entries that closed queue pairs swallowed, posted again
	ProtocolErrors uint64 // channels whose peer broke the protocol
}

// Stats is a snapshot of the counters.
func (d *Device) Stats() DeviceStats {
	var s DeviceStats
	s.PoolBytes, s.PoolUsed, s.PoolWaits = d.pool.usage()
	s.Registrations = d.registered.Load()
	l := &d.library
	s.WindowRegistrations, s.WindowBytes, s.WindowLoads = l.registered.Load(), l.size.Load(), l.loads.Load()
	p := &d.poller
	s.Wakeups, s.ReaderWakeups, s.GuardTicks = p.wakeups.Load(), p.others.Load(), p.ticks.Load()
	d.mu.Lock()
	s.Channels, s.Opened, s.Broken, s.ProtocolErrors = len(d.channels), d.opened, d.broken, d.illegal
	s.RNR, s.CQOverruns = d.rnr, d.overruns
	d.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Polls, s.Completions, s.Arms = p.stats.polls, p.stats.completions, p.stats.arms
	s.Rescued, s.Stale, s.SRQLow, s.SRQLost = p.stats.rescued, p.stats.stale, p.stats.low, p.stats.lost
	return s
}

// Counters implements transport.Counted. The keys are those of docs/wire-rdma.md.
func (c *Channel) Counters() map[string]uint64 {
	f := &c.flow
	c.tx.Lock()
	defer c.tx.Unlock()
	m := map[string]uint64{
		"posts":             c.sent.posts,
		"requests":          c.sent.requests,
		"frames_sent":       c.sent.frames,
		"mailbox_writes":    c.sent.mails,
		"room_waits":        c.sent.roomWaits,
		"immediates_sent":   f.used,
		"immediates":        f.arrived.Load(),
		"credits_sent":      uint64(f.creditsSent.Load()),
		"credits":           uint64(f.credits.Load()),
		"bytes":             c.received(),
		"sleeps":            c.readWait.sleeps.Load() + c.writeWait.sleeps.Load(),
		"control_ring":      f.out[ringControl].size,
		"bulk_ring":         f.out[ringBulk].size,
		"entries_granted":   f.granted,
		"entries_under_way": f.used - f.returned,
	}
	c.windowCounters(m)
	if c.open.Load() {
		m["bytes_sent"] = f.out[ringControl].posted + f.out[ringBulk].posted - 2*c.own.start
	}
	return m
}
