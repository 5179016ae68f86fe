package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/vfs"
)

// Inspect opens the store in cfg.Dir over a layer that keeps every change in memory, as a start would recover it, and
// reads every record of every segment. Not one byte of the folder changes. A missing folder is an empty store. The error
// says why it could not finish; what is wrong is in the findings. It must not run beside a process that uses the store.
func Inspect(ctx context.Context, cfg Config, log *zap.Logger) (findings []exit.Finding, err error) {
	info, err := os.Stat(cfg.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", cfg.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open the topic store: %w", err)
	}
	var mu sync.Mutex // the store's goroutines tell, too
	started := false  // what a start reads is read
	told := make(map[string]bool)
	tell := func(file string, pos int64, cause error) {
		mu.Lock()
		defer mu.Unlock()
		if key := fmt.Sprintf("%s %d", file, pos); told[key] || len(findings) == maxInspectFindings {
			return
		} else {
			told[key] = true
		}
		findings = append(findings, exit.Finding{Part: "topics", File: filepath.Join(cfg.Dir, file), Problem: fmt.Sprintf("damaged at byte %d: %v", pos, cause), Remedy: inspectRemedy(file, started)})
	}
	s, err := openStore(cfg, vfs.NewOverlay(vfs.OS(cfg.Dir, vfs.Public)), log, nil, tell)
	if err != nil {
		return nil, fmt.Errorf("open the topic store in %s: %w", cfg.Dir, err)
	}
	mu.Lock()
	started = true
	mu.Unlock()
	err = s.readSegments(ctx)
	err = errors.Join(err, s.Close()) // ends the goroutines before findings is read
	return findings, err
}

// inspectRemedy is what becomes of damage in a file. A start does not read full segments that its snapshot covers: damage
// there (old) waits for a reader, or for the scrub.
func inspectRemedy(file string, old bool) string {
	const copied = "keeps the file and copies the partitions with records there again from other replicas; one without another replica waits until its owner lets it go on with what is left"
	switch {
	case strings.HasSuffix(file, logSuffix) && old:
		return "the broker starts with it; when a client or the background scrub (scrub.megabytes_per_second above 0) reads the place, it " + copied
	case strings.HasSuffix(file, logSuffix):
		return "the next start " + copied
	}
	return "the broker rebuilds it from the log, at its start or when it is read"
}

// readSegments reads the full segments once more: a start takes their index files' word for them.
func (s *Store) readSegments(ctx context.Context) error {
	s.wal.mu.Lock()
	segs := slices.Sorted(maps.Keys(s.segs))
	s.wal.mu.Unlock()
	for _, seg := range segs {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.wal.mu.Lock()
		g := s.segs[seg]
		sealed := g != nil && g.sealed
		s.wal.mu.Unlock()
		if !sealed {
			continue
		}
		if _, err := s.scanRuns(seg); err != nil {
			return fmt.Errorf("read %s of the topic store: %w", logName(seg), err)
		}
	}
	return nil
}
