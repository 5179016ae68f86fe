package rdma

// DeviceStats is a snapshot of a device's counters since Open.
type DeviceStats struct {
	Channels      int    // that exist now, those being set up or closed included
	Opened        uint64 // channels made
	Broken        uint64 // channels that ended by a failure, not by Close or the peer's
	Registrations uint64 // memory regions registered; none while channels only carry frames
	PoolBytes     int64  // registered memory now
	PoolUsed      int64  // of that handed out
	PoolWaits     uint64 // times somebody waited for pool memory

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
	SRQLost        uint64 // receive entries that broken queue pairs swallowed, replaced by spare ones
	ProtocolErrors uint64 // channels whose peer broke the protocol
}
