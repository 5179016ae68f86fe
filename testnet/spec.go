package testnet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bornode/bornode/genesis"
)

// Limits of a local network.
const (
	maxNodes     = 64
	portsPerNode = 5
	// DefaultBrokers lets the network choose how many of its nodes serve topics.
	DefaultBrokers = -1
	fundedCount    = 48 // accounts with money: the first few are shown, load takes the rest
	shownAccounts  = 3
	startTimeout   = 2 * time.Minute
	startSlots     = 60
	stopTimeout    = 30 * time.Second
)

// Spec says which network to make.
type Spec struct {
	Dir           string
	Binary        string // the bornode executable; empty: this process's own
	Producers     int
	Observers     int
	Brokers       int // the first nodes serve topics; DefaultBrokers: as many as there are, at most 3
	BasePort      int // 0: a free range is chosen
	Slot          time.Duration
	Turn          int // slots
	EpochBlocks   int
	MaxReversible int
	Fees          genesis.Fees
	Direct        bool                     // connect the nodes without the proxy: no partitions, less overhead
	SyncMode      string                   // full or certified
	MaxBlockBytes int                      // 0: the usual
	Settings      genesis.ProducerSettings // zero values: the usual ones
	MinProducers  uint64                   // leaving never shrinks the schedule below this; 0: the usual
	ProposalTime  time.Duration            // how long a proposal stays open; 0: the usual
	Set           []string                 // further settings of every node, key=value
	Members       []genesis.Member         // from the start, beside the network's own nodes
	NodeEnv       []string                 // environment of every node beside the caller's
}

// DefaultSpec is what `bornode testnet up` starts without flags.
func DefaultSpec() Spec {
	return Spec{Dir: ".testnet", Producers: 4, BasePort: 28500, Slot: 500 * time.Millisecond, Turn: 2,
		EpochBlocks: 1200, MaxReversible: 3600, SyncMode: "certified"}
}

func (s *Spec) prepare() error {
	switch {
	case s.Dir == "":
		return errors.New("testnet: no folder given (--dir)")
	case s.Producers < 1 || s.Producers+s.Observers > maxNodes:
		return fmt.Errorf("testnet: %d producers and %d observers; use 1 to %d nodes in all", s.Producers, s.Observers, maxNodes)
	case s.Brokers > s.Producers+s.Observers:
		return fmt.Errorf("testnet: %d brokers among %d nodes; use at most as many as there are nodes", s.Brokers, s.Producers+s.Observers)
	case s.Slot < 10*time.Millisecond || s.Slot > time.Minute || s.Slot%time.Millisecond != 0:
		return fmt.Errorf("testnet: slot %s; use 10ms to 1m in whole milliseconds", s.Slot)
	case s.Turn < 1:
		return fmt.Errorf("testnet: turn %d; use at least 1 slot", s.Turn)
	case s.SyncMode != "full" && s.SyncMode != "certified":
		return fmt.Errorf("testnet: sync mode %q; use full or certified", s.SyncMode)
	}
	if s.Brokers < 0 {
		s.Brokers = min(3, s.Producers+s.Observers)
	}
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return err
	}
	s.Dir = dir
	if _, err := os.Stat(filepath.Join(dir, stateFile)); err == nil {
		return fmt.Errorf("testnet: %s holds a network already; go on with it by `bornode testnet start --dir %s`, or delete it by `bornode testnet down --dir %s --delete`", dir, dir, dir)
	}
	if s.Binary == "" {
		if s.Binary, err = os.Executable(); err != nil {
			return err
		}
	}
	return nil
}
