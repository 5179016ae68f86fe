package shm

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Config sets a device. The zero value is not valid; start from DefaultConfig.
type Config struct {
	Folder    string        `mapstructure:"folder" comment:"Folder of mode 0700 for the rendezvous sockets, for containers of one host that share it but no network namespace. Empty: abstract sockets."`
	HugePages bool          `mapstructure:"huge_pages" comment:"Put regions of 2 MiB and more into transparent huge pages where the kernel grants them."`
	Timeout   time.Duration `mapstructure:"timeout" comment:"Bound on connecting a queue pair and on each answer of a peer."`
	MaxQPs    int           `mapstructure:"max_queue_pairs" comment:"Queue pairs open at once."`
}

// DefaultConfig returns the settings for processes that share a network namespace.
func DefaultConfig() Config {
	return Config{HugePages: true, Timeout: DefaultTimeout, MaxQPs: 1024}
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	if c.Timeout <= 0 {
		return errors.New("timeout must be positive")
	}
	if c.MaxQPs < 1 {
		return errors.New("max_queue_pairs must be at least 1")
	}
	if c.Folder != "" && !filepath.IsAbs(c.Folder) {
		return errors.New("folder must be an absolute path")
	}
	return nil
}

// Source opens what peers may read over a queue pair.
type Source = fabric.FileSource
