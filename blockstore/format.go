package blockstore

import folder "github.com/bornode/bornode/internal/format"

// lockFolder takes the store's lock. A folder of a format that this program does not know is refused before anything of it
// is touched.
func (s *Store) lockFolder() (err error) {
	if err := folder.Check(s.fs, s.cfg.Dir, folder.Blocks); err != nil {
		return err
	}
	if s.lock, err = s.fs.Lock(lockName); err != nil {
		return err
	}
	return folder.Stamp(s.fs, s.cfg.Dir, folder.Blocks)
}
