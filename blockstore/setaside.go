package blockstore

import (
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
)

const asideRebuilt = "to-be-rebuilt" // what an operator has rebuilt

// SetDerivedAside moves the database of derived data of a store that nobody uses aside: the next Open begins a new one
// and completes it from the segments. It gives the folder, below the store's.
func SetDerivedAside(cfg Config, log *zap.Logger) (to string, err error) {
	return setPartAside(cfg, log, derivedDir, "derived data, which are rebuilt from the blocks")
}

// SetIndexAside does the same with the height index: entries are found again by reading the segments, and written.
func SetIndexAside(cfg Config, log *zap.Logger) (to string, err error) {
	return setPartAside(cfg, log, indexDir, "the height index, which is rebuilt from the segments")
}

func setPartAside(cfg Config, log *zap.Logger, part, why string) (to string, err error) {
	s := &Store{cfg: cfg, fs: cfg.FS, log: log}
	if s.fs == nil {
		s.fs = vfs.OS(cfg.Dir, vfs.Public)
	}
	names, err := s.fs.List(part)
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", fmt.Errorf("%s/%s has nothing to rebuild: %w", cfg.Dir, part, os.ErrNotExist)
	}
	lock, err := s.fs.Lock(lockName)
	if err != nil {
		return "", err
	}
	err = s.setAside(asideRebuilt, part, why)
	return s.asides[asideRebuilt], errors.Join(err, lock.Close())
}
