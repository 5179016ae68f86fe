package blocksync

import (
	"fmt"
	"time"
)

// Config holds the sync manager's settings.
type Config struct {
	Mode             string        `mapstructure:"mode" comment:"How history is checked while catching up: \"certified\" (below a verified certificate the certified senders are taken) or \"full\" (everything is checked and recovered)."`
	Agent            string        `mapstructure:"agent" comment:"Name of the program as told to peers."`
	P2PAddress       string        `mapstructure:"p2p_address" comment:"Address told to peers; empty: the first listen address."`
	PushBytes        int           `mapstructure:"push_bytes" comment:"New blocks of at most this many bytes are sent to peers in full; larger ones are announced by header and pulled."`
	ChunkBytes       int           `mapstructure:"chunk_bytes" comment:"Size that one requested chunk of history aims at."`
	ChunkBlocks      uint64        `mapstructure:"chunk_blocks" comment:"Most blocks in one requested chunk of history."`
	Pull             bool          `mapstructure:"pull" comment:"Read history from a peer's window (one-sidedly, without its processor) where the link and the peer offer it; otherwise peers push it."`
	RunAheadBytes    int64         `mapstructure:"run_ahead_bytes" comment:"History requested or received but not applied yet may take this many bytes."`
	RunAheadBlocks   uint64        `mapstructure:"run_ahead_blocks" comment:"History requested or received but not applied yet may span this many blocks."`
	RequestTimeout   time.Duration `mapstructure:"request_timeout" comment:"A request that brings nothing for this long (at least four round trips) goes to another peer."`
	Heartbeat        time.Duration `mapstructure:"heartbeat" comment:"Time messages are sent this often."`
	HeartbeatTimeout time.Duration `mapstructure:"heartbeat_timeout" comment:"A peer that is silent for this long is disconnected."`
	HandshakeTimeout time.Duration `mapstructure:"handshake_timeout" comment:"A new link must bring a valid handshake within this time."`
	ServeBytesPerSec int64         `mapstructure:"serve_bytes_per_sec" comment:"Rate limit for serving history to all peers together, in bytes per second; 0: none. Live traffic is never limited. With a limit the node offers no window, since reads of it cannot be limited."`
	BanTime          time.Duration `mapstructure:"ban_time" comment:"A peer that sent something invalid is refused for this long."`
}

// DefaultConfig returns the settings of a node in one data centre.
func DefaultConfig() Config {
	return Config{
		Mode:             Certified.String(),
		Agent:            "bornode",
		PushBytes:        128 << 10,
		ChunkBytes:       4 << 20,
		ChunkBlocks:      2048,
		Pull:             true,
		RunAheadBytes:    128 << 20,
		RunAheadBlocks:   32768,
		RequestTimeout:   5 * time.Second,
		Heartbeat:        2 * time.Second,
		HeartbeatTimeout: 30 * time.Second,
		HandshakeTimeout: 15 * time.Second,
		ServeBytesPerSec: 0,
		BanTime:          5 * time.Minute,
	}
}

// Validate reports the first setting that cannot work.
func (c *Config) Validate() error {
	if _, err := ParseMode(c.Mode); err != nil {
		return err
	}
	type least struct {
		key      string
		have, at int64
	}
	for _, l := range []least{
		{"push_bytes", int64(c.PushBytes), 0},
		{"chunk_bytes", int64(c.ChunkBytes), 1},
		{"chunk_blocks", int64(c.ChunkBlocks), 1}, //nolint:gosec // compared as a small number
		{"run_ahead_bytes", c.RunAheadBytes, 1},
		{"run_ahead_blocks", int64(c.RunAheadBlocks), 1}, //nolint:gosec // as above
		{"serve_bytes_per_sec", c.ServeBytesPerSec, 0},
		{"request_timeout", int64(c.RequestTimeout), int64(10 * time.Millisecond)},
		{"heartbeat", int64(c.Heartbeat), int64(10 * time.Millisecond)},
		{"handshake_timeout", int64(c.HandshakeTimeout), int64(10 * time.Millisecond)},
		{"ban_time", int64(c.BanTime), 0},
	} {
		if l.have < l.at {
			return fmt.Errorf("sync.%s is %d, it must be at least %d", l.key, l.have, l.at)
		}
	}
	if c.HeartbeatTimeout < 2*c.Heartbeat {
		return fmt.Errorf("sync.heartbeat_timeout (%v) must be at least twice sync.heartbeat (%v)", c.HeartbeatTimeout, c.Heartbeat)
	}
	if c.Heartbeat > maxHeartbeat {
		return fmt.Errorf("sync.heartbeat is %v, it must be at most %v: peers' clocks are read with it, and a reading counts for a minute", c.Heartbeat, maxHeartbeat)
	}
	if c.ChunkBlocks > maxChunkBlocks {
		return fmt.Errorf("sync.chunk_blocks is %d, it must be at most %d", c.ChunkBlocks, maxChunkBlocks)
	}
	return nil
}

// ParseMode reads the name of a mode.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "full":
		return Full, nil
	case "certified":
		return Certified, nil
	}
	return 0, fmt.Errorf("sync.mode is %q, it must be \"full\" or \"certified\"", s)
}
