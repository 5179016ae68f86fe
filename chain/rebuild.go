package chain

import (
	"fmt"
	"os"
)

// SetStateAside moves the state of a stopped node to a folder below its directory, where no start looks: the next start
// rebuilds the state from the blocks. It gives the folder.
func SetStateAside(cfg *Config) (to string, err error) {
	if cfg.FS == nil {
		_, err = os.Stat(cfg.Dir) // an absent folder is an error; as a vfs.FS it is an empty one
	}
	if err == nil {
		to, err = setStateAside(cfg.files(), cfg.Dir, "to-be-rebuilt")
	}
	if err != nil {
		return "", fmt.Errorf("set the state in %s aside: %w", cfg.Dir, err)
	}
	return to, nil
}
