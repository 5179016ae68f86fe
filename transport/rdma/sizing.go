package rdma

import (
	"fmt"
	"math/bits"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// sizes are the queues of a device, made so that the completion queue cannot overrun and the shared receive queue
// cannot run dry.
type sizes struct {
	channels int
	entries  int // granted to each peer
	send     int // send queue of a channel
	reads    int // send queue of a window's queue pair; 0: no reads
	batch    int // READs under way on it
	reserved int // receive entries of a channel beyond those granted
	receive  int // shared receive queue, always full
	cq       int
}

// chooseSizes fits what the configuration wants into what the device can do: first the send queues shrink, then the
// entries, then the number of channels.
func chooseSizes(cfg *Config, caps *fabric.Caps) (sizes, error) {
	s := sizes{channels: cfg.MaxChannels, entries: cfg.Entries, send: min(cfg.SendDepth, caps.MaxSend), reserved: reservedEntries}
	if caps.Reads {
		s.reads = min(windowReads, caps.MaxSend)
		s.batch = max(1, min(s.reads-4, caps.MaxReads)) // a want and a have may be there too, and not yet be polled
		s.reserved += windowEntries
	}
	for ; s.channels > 0; s.channels-- {
		perPeer := (caps.MaxRecv-repostBatch)/s.channels - s.reserved
		s.entries = min(cfg.Entries, perPeer)
		if s.entries < min(MinEntries, cfg.Entries) {
			continue
		}
		s.receive = s.channels*(s.entries+s.reserved) + repostBatch
		received := 2 * s.receive // hardware may make the receive queue larger than asked
		left := (caps.MaxCQ-received)/s.channels - s.reads
		s.send = min(cfg.SendDepth, caps.MaxSend, left)
		if s.send < minSendDepth {
			continue
		}
		s.cq = received + s.channels*(s.send+s.reads)
		return s, nil
	}
	return s, fmt.Errorf("%w: %s has queues too small for one channel: send %d, receive %d, completions %d",
		fabric.ErrUnavailable, caps.Device, caps.MaxSend, caps.MaxRecv, caps.MaxCQ)
}

// loadedRing is the size of a new channel's ring under load: most * (1 - rate/capacity) * (1 - used/total), rounded to
// a power of two, from MinRingBytes to most.
func loadedRing(most int, rate, capacity, used, total float64) int {
	share := max(0, 1-rate/capacity) * max(0, 1-used/total)
	n := int(float64(most)*share + 0.5)
	if n <= MinRingBytes {
		return min(MinRingBytes, most)
	}
	up := 1 << bits.Len(uint(n-1))
	if down := up / 2; n-down < up-n {
		return down
	}
	return min(up, most)
}
