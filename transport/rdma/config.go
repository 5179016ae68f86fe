package rdma

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/bornode/bornode/transport"
)

// Config sets the channels of a device. The zero value is not valid; start from DefaultConfig.
type Config struct {
	ControlRingBytes int           `mapstructure:"control_ring_bytes" comment:"Receive ring of each peer for votes, new blocks and control frames; a power of two, at least 128 KiB."`
	BulkRingBytes    int           `mapstructure:"bulk_ring_bytes" comment:"Receive ring of each peer for transactions, history and topics; a power of two, at least 128 KiB. Under memory pressure or load new channels get less."`
	Entries          int           `mapstructure:"entries" comment:"Receive entries granted to each peer: posts it may have under way."`
	MaxChannels      int           `mapstructure:"max_channels" comment:"Channels of one device at once; further peers stay on tcp."`
	SendDepth        int           `mapstructure:"send_depth" comment:"Send queue of each channel, in work requests."`
	PoolBytes        int64         `mapstructure:"pool_bytes" comment:"Registered memory of one device at most: rings, their mirrors, landing buffers."`
	WindowBytes      int64         `mapstructure:"window_bytes" comment:"Registered memory, beside the pool, that holds what peers read of this node's history by RDMA READ; made when the first one does. 0: none, they ask by messages. Shared memory needs none."`
	LinkBytesPerSec  int64         `mapstructure:"link_bytes_per_sec" comment:"What the network carries, in bytes a second. Rings of new channels shrink as the device comes near it."`
	Spin             time.Duration `mapstructure:"spin" comment:"How long a reader polls for the next frame before it sleeps; 0: never. It shrinks by itself where that does not pay. Shorter than a round trip with sleeping readers (30us) it never helps them to stay awake."`

	RNRRetry bool `mapstructure:"rnr_retry" comment:"Let the hardware wait when the receive queue is empty. Credits keep that from ever happening, but for a peer that floods this node: without it the flood breaks the queue pairs of others."`

	// FirstPosition is where the ring positions of what this side sends begin, a multiple of 64. It is 0 but in tests
	// of the wrap-around of the 28 bits that carry them.
	FirstPosition uint64 `mapstructure:"-"`
}

// DefaultConfig returns the settings for a data-centre network.
func DefaultConfig() Config {
	return Config{
		ControlRingBytes: 256 << 10,
		BulkRingBytes:    1 << 20,
		Entries:          64,
		MaxChannels:      transport.MaxPeers,
		SendDepth:        256,
		PoolBytes:        1 << 30,
		WindowBytes:      64 << 20,
		LinkBytesPerSec:  12_500_000_000,
		Spin:             50 * time.Microsecond,
		RNRRetry:         true,
	}
}

// Validate reports the first setting that cannot work.
func (c *Config) Validate() error {
	for _, r := range []struct {
		key string
		n   int
	}{{"control_ring_bytes", c.ControlRingBytes}, {"bulk_ring_bytes", c.BulkRingBytes}} {
		if r.n < MinRingBytes || r.n > MaxRingBytes || bits.OnesCount(uint(r.n)) != 1 {
			return fmt.Errorf("rdma: %s is %d: it must be a power of two from %d to %d", r.key, r.n, MinRingBytes, MaxRingBytes)
		}
	}
	switch {
	case c.Entries < MinEntries || c.Entries > MaxEntries:
		return fmt.Errorf("rdma: entries is %d: it must be %d to %d", c.Entries, MinEntries, MaxEntries)
	case c.MaxChannels < 1 || c.MaxChannels > MaxChannelsLimit:
		return fmt.Errorf("rdma: max_channels is %d: it must be 1 to %d", c.MaxChannels, MaxChannelsLimit)
	case c.SendDepth < minSendDepth:
		return fmt.Errorf("rdma: send_depth is %d: it must be at least %d", c.SendDepth, minSendDepth)
	case c.PoolBytes < 4*int64(c.ControlRingBytes+c.BulkRingBytes):
		return fmt.Errorf("rdma: pool_bytes is %d: it must hold at least two channels, %d", c.PoolBytes, 4*(c.ControlRingBytes+c.BulkRingBytes))
	case c.WindowBytes != 0 && (c.WindowBytes < MinWindowBytes || c.WindowBytes > 1<<31):
		return fmt.Errorf("rdma: window_bytes is %d: it must be 0, or %d to %d", c.WindowBytes, MinWindowBytes, 1<<31)
	case c.LinkBytesPerSec <= 0:
		return fmt.Errorf("rdma: link_bytes_per_sec must be positive")
	case c.Spin < 0 || c.Spin > time.Second:
		return fmt.Errorf("rdma: spin is %v: it must be 0 to 1s", c.Spin)
	case c.FirstPosition%unit != 0:
		return fmt.Errorf("rdma: first position %d is no multiple of %d", c.FirstPosition, unit)
	}
	return nil
}
