package blockstore

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
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
	asideSegment    = "segment-replaced" // a file that took the name of the active segment while the node ran
	asideReversible = "unlinked-blocks"  // reversible blocks whose ancestors are missing
)

// asideTime is the form of the time in a folder's name.
const asideTime = "2006-01-02T150405Z"

// asideFolder is the folder, below the store's directory, of what this start sets aside for a reason.
func (s *Store) asideFolder(reason string) (string, error) {
	s.told.Lock()
	defer s.told.Unlock()
	if dir := s.asides[reason]; dir != "" {
		return dir, nil
	}
	base := time.Now().UTC().Format(asideTime) + "-" + reason
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

// keepAside writes a copy of what is about to be cut to the aside folder, durably. Bytes that the newest folder of the reason holds
// already, as when a start is repeated, are not copied again.
func (s *Store) keepAside(reason, name string, data []byte, why string) error {
	if to, err := s.keptBefore(reason, name, data); err != nil {
		return fmt.Errorf("keep a copy of %s aside: %w", name, err)
	} else if to != "" {
		s.tellAside(name, to, why)
		return nil
	}
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

// keptBefore finds the copy of the same bytes in the newest folder of a reason that an earlier start made; empty: there is none.
func (s *Store) keptBefore(reason, name string, data []byte) (to string, err error) {
	names, err := s.fs.List(asideDir)
	if err != nil {
		return "", err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !isAsideOf(n, reason) })
	if len(names) == 0 {
		return "", nil
	}
	to = asideDir + "/" + slices.Max(names) + "/" + name // times sort as text
	kept, err := vfs.ReadFile(s.fs, to, int64(len(data)))
	if err != nil || !bytes.Equal(kept, data) { // it is absent, cannot be read, or is another
		return "", nil //nolint:nilerr // a new copy is made
	}
	return to, nil
}

// isAsideOf tells whether a folder was made for a reason: TIME-REASON, or TIME-REASON-N.
func isAsideOf(folder, reason string) bool {
	if len(folder) < len(asideTime) {
		return false
	}
	rest, ok := strings.CutPrefix(folder[len(asideTime):], "-"+reason)
	if !ok || rest == "" {
		return ok
	}
	_, err := strconv.ParseUint(strings.TrimPrefix(rest, "-"), 10, 16)
	return err == nil
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
