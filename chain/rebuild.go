package chain

import "fmt"

// SetStateAside moves the state of a stopped node to a folder below its directory, where no start looks: the next start
// rebuilds the state from the blocks. It gives the folder.
func SetStateAside(cfg *Config) (to string, err error) {
	if to, err = setStateAside(cfg.Dir, "to-be-rebuilt"); err != nil {
		return "", fmt.Errorf("set the state in %s aside: %w", cfg.Dir, err)
	}
	return to, nil
}
