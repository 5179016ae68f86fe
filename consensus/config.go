package consensus

import (
	"errors"
	"fmt"

	"github.com/bornode/bornode/internal/vfs"
)

// Config are the settings of the driver.
type Config struct {
	Dir          string `mapstructure:"dir" comment:"directory of the vote log; a producer must never lose it"`
	NewKey       bool   `mapstructure:"new_key" comment:"the signing key was never used before: do not wait when the vote log is missing"`
	BuildPercent int    `mapstructure:"build_percent" comment:"share of a slot spent on filling a block with transactions, 1-80"`

	// FS replaces the operating system's files; nil in real use.
	FS vfs.FS `mapstructure:"-"`
}

// DefaultConfig are the settings the design gives.
func DefaultConfig() Config { return Config{Dir: "consensus", BuildPercent: 40} }

// Validate names the setting that is wrong.
func (c Config) Validate() error {
	if c.Dir == "" && c.FS == nil {
		return errors.New("consensus.dir is empty: name the directory of the vote log")
	}
	if c.BuildPercent < 1 || c.BuildPercent > 80 {
		return fmt.Errorf("consensus.build_percent is %d: use 1 to 80", c.BuildPercent)
	}
	return nil
}
