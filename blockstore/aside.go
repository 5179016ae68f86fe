package blockstore

import (
	"errors"
	"fmt"
	"path"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
)

// Reasons for which a start sets files aside; they are part of the folder's name.
const (
	asideBeyond     = "beyond-lib"       // whole records behind the last irreversible block: a commit that did not end, or one that a damaged database has lost
	asideNoLIB      = "no-lib"           // segments of a store without a last irreversible block
	asideIndex      = "index-beyond-lib" // index files of heights above the last irreversible block
	asideMeta       = "meta-damaged"     // the primary database as it was before it was rebuilt from what could be read
	asideJournal    = "journal-torn"     // journals of the primary database that end in bytes that cannot be read
	asideDerived    = "derived-damaged"  // the database of derived data
	asideReversible = "unlinked-blocks"  // reversible blocks whose ancestors are missing
)

// asideFolder is the folder, below the store's directory, of what this start sets aside for a reason.
func (s *Store) asideFolder(reason string) (string, error) {
	s.told.Lock()
	defer s.told.Unlock()
	if dir := s.asides[reason]; dir != "" {
		return dir, nil
	}
	base := time.Now().UTC().Format("2006-01-02T150405Z") + "-" + reason
	for i := 1; i <= maxAsideTries; i++ {
		dir := asideDir + "/" + base
		if i > 1 {
			dir = fmt.Sprintf("%s-%d", dir, i)
		}
		names, err := s.fs.List(dir)
		if err != nil {
			return "", err
		}
		if len(names) > 0 {
			continue
		}
		if err := errors.Join(s.fs.Mkdir(asideDir), s.fs.Mkdir(dir)); err != nil {
			return "", err
		}
		if s.asides == nil {
			s.asides = make(map[string]string)
		}
		s.asides[reason] = dir
		return dir, nil
	}
	return "", fmt.Errorf("%s holds %d folders of %s: look at them and remove them", asideDir, maxAsideTries, base)
}

// setAside moves a file or a directory to the aside folder, where the next start does not look. why completes the
// sentence that tells of it.
func (s *Store) setAside(reason, name, why string) error {
	dir, err := s.asideFolder(reason)
	if err != nil {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	to, parent := dir+"/"+name, path.Dir(dir+"/"+name)
	if err := s.fs.Mkdir(parent); err != nil {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	if err := s.fs.Rename(name, to); err != nil {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	if err := errors.Join(s.fs.SyncDir(parent), s.fs.SyncDir(path.Dir(name))); err != nil {
		return fmt.Errorf("set %s aside: %w", name, err)
	}
	s.tellAside(name, to, why)
	return nil
}

// keepAside writes a copy of what is about to be cut to the aside folder, durably.
func (s *Store) keepAside(reason, name string, data []byte, why string) error {
	dir, err := s.asideFolder(reason)
	if err != nil {
		return fmt.Errorf("keep a copy of %s aside: %w", name, err)
	}
	to := dir + "/" + name
	if err = s.fs.Mkdir(path.Dir(to)); err == nil {
		err = vfs.ReplaceFile(s.fs, to, data) // on a full disk it leaves nothing: each start would leave more
	}
	if err != nil {
		return fmt.Errorf("keep a copy of %s aside: %w", name, err)
	}
	s.tellAside(name, to, why)
	return nil
}

func (s *Store) tellAside(name, to, why string) {
	s.told.Lock()
	defer s.told.Unlock()
	s.moved = append(s.moved, Aside{Name: name, To: to, Why: why})
	message := "set aside: " + why
	if s.looking {
		message = "a start sets aside: " + why
	}
	s.log.Warn(message, zap.String("file", name), zap.String("to", to))
}

// finding keeps what Open finds wrong for the report of Fsck, and logs it. An opened store has mended it.
func (s *Store) finding(kind string, height uint64, text string) {
	s.told.Lock()
	defer s.told.Unlock()
	s.findings = append(s.findings, Problem{Kind: kind, Height: height, Text: text, Repaired: !s.looking})
	s.log.Warn("the block store is damaged: "+text, zap.Uint64("height", height))
}
