package detect

import (
	"errors"
	"fmt"
	"time"
)

// Mode says whether links may leave tcp.
type Mode string

// Modes.
const (
	Auto Mode = "auto" // what both sides have, else tcp
	On   Mode = "on"   // the same, but a node without a network device for it does not start
	Off  Mode = "off"
)

// Config sets an Upgrader. The zero value is not valid; start from DefaultConfig.
type Config struct {
	Mode         Mode          `mapstructure:"mode" comment:"auto: shared memory or RDMA with every peer that can, tcp with the others; on: the same, but a node without a usable network device does not start; off: tcp only"`
	SHM          bool          `mapstructure:"shared_memory" comment:"use shared memory with peers on this host"`
	ProbeTimeout time.Duration `mapstructure:"probe_timeout" comment:"bound on connecting a faster path, the probe each way included; the link stays on tcp meanwhile"`
	RetryMin     time.Duration `mapstructure:"retry_min" comment:"first pause after a faster path failed; it doubles, with jitter"`
	RetryMax     time.Duration `mapstructure:"retry_max" comment:"longest pause; a path that lasted longer starts anew at retry_min"`
}

// DefaultConfig uses what is there.
func DefaultConfig() Config {
	return Config{Mode: Auto, SHM: true, ProbeTimeout: 5 * time.Second, RetryMin: time.Second, RetryMax: time.Minute}
}

// Validate reports the first setting that cannot work.
func (c *Config) Validate() error {
	switch {
	case c.Mode != Auto && c.Mode != On && c.Mode != Off:
		return fmt.Errorf("mode is %q: use auto, on or off", c.Mode)
	case c.ProbeTimeout <= 0:
		return errors.New("probe_timeout must be positive")
	case c.RetryMin <= 0 || c.RetryMax < c.RetryMin || c.RetryMax > maxRetry:
		return fmt.Errorf("retry_min must be positive, retry_max not below it and at most %v", maxRetry)
	}
	return nil
}
