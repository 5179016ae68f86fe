package link

import (
	"errors"
	"time"

	"github.com/bornode/bornode/transport"
)

// Config sets the times of links and of dialling. The zero value is not valid; start from DefaultConfig.
type Config struct {
	Heartbeat     time.Duration `mapstructure:"heartbeat" comment:"A ping goes out this often; it also carries acknowledgements."`
	IdleTimeout   time.Duration `mapstructure:"idle_timeout" comment:"A connection on which nothing arrives for this long is closed."`
	ResumeTimeout time.Duration `mapstructure:"resume_timeout" comment:"A link without a connection ends after this time; before, a new connection continues it."`
	HelloTimeout  time.Duration `mapstructure:"hello_timeout" comment:"Bound on setting up a connection, from dialling to the peer's hello."`
	CloseTimeout  time.Duration `mapstructure:"close_timeout" comment:"How long a closing link waits for the peer to take its last messages."`
	BackoffMin    time.Duration `mapstructure:"backoff_min" comment:"First pause between attempts to reach a peer; it doubles, with jitter."`
	BackoffMax    time.Duration `mapstructure:"backoff_max" comment:"Longest pause between attempts to reach a peer."`
	MaxPeers      int           `mapstructure:"max_peers" comment:"Links kept at once."`

	// FirstSequence is where the sequence numbers and byte counters of what this side sends begin. It is 0 but in
	// tests of the wrap-around of their 32 bits on the wire.
	FirstSequence uint64 `mapstructure:"-"`
}

// DefaultConfig returns the settings for a data-centre network.
func DefaultConfig() Config {
	return Config{
		Heartbeat:     3 * time.Second,
		IdleTimeout:   10 * time.Second,
		ResumeTimeout: 10 * time.Second,
		HelloTimeout:  10 * time.Second,
		CloseTimeout:  time.Second,
		BackoffMin:    100 * time.Millisecond,
		BackoffMax:    10 * time.Second,
		MaxPeers:      transport.MaxPeers,
	}
}

// Validate reports the first setting that cannot work.
func (c *Config) Validate() error {
	switch {
	case c.Heartbeat <= 0:
		return errors.New("link: heartbeat must be positive")
	case c.IdleTimeout < 2*c.Heartbeat:
		return errors.New("link: idle_timeout must be at least two heartbeats, else a quiet connection looks dead")
	case c.ResumeTimeout <= 0:
		return errors.New("link: resume_timeout must be positive")
	case c.HelloTimeout <= 0:
		return errors.New("link: hello_timeout must be positive")
	case c.CloseTimeout <= 0:
		return errors.New("link: close_timeout must be positive")
	case c.BackoffMin <= 0 || c.BackoffMax < c.BackoffMin:
		return errors.New("link: backoff_min must be positive and backoff_max not below it")
	case c.MaxPeers < 1:
		return errors.New("link: max_peers must be at least 1")
	}
	return nil
}
