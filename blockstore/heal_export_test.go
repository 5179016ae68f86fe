package blockstore

// AwaitCompletion waits until the goroutines that complete the database of derived data have ended.
func (s *Store) AwaitCompletion() { s.wg.Wait() }

// PutHashesAtOnce sets how many hashes of blocks a new database of derived data gets at a time. Before anything is damaged.
func (s *Store) PutHashesAtOnce(n uint64) { s.derived.atOnce = n }

// ReplacedDerived is how often a damaged database of derived data was replaced since the store was opened.
func (s *Store) ReplacedDerived() int {
	s.derived.mu.RLock()
	defer s.derived.mu.RUnlock()
	return s.derived.replaced
}
