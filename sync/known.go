package blocksync

// recent is a set of the last limit keys, with a value each; the oldest goes first. Not safe for concurrent use.
type recent[K, V comparable] struct {
	limit int
	m     map[K]V
	ring  []K
	at    int
}

func newRecent[K, V comparable](limit int) *recent[K, V] {
	return &recent[K, V]{limit: limit, m: make(map[K]V)}
}

// Add stores a key and reports whether it is new; a known key gets the value too.
func (r *recent[K, V]) Add(k K, v V) bool {
	_, known := r.m[k]
	r.m[k] = v
	if known {
		return false
	}
	if len(r.ring) < r.limit {
		r.ring = append(r.ring, k)
		return true
	}
	old := r.ring[r.at]
	r.ring[r.at] = k
	r.at = (r.at + 1) % r.limit
	if old != k { // k itself may have been deleted and come again
		delete(r.m, old)
	}
	return true
}

func (r *recent[K, V]) Get(k K) (V, bool) { v, ok := r.m[k]; return v, ok }

func (r *recent[K, V]) Has(k K) bool { _, ok := r.m[k]; return ok }

// Is reports whether a key is known with this value.
func (r *recent[K, V]) Is(k K, v V) bool { have, ok := r.m[k]; return ok && have == v }

// Update changes the value of a known key.
func (r *recent[K, V]) Update(k K, v V) {
	if _, ok := r.m[k]; ok {
		r.m[k] = v
	}
}

// Delete forgets a key.
func (r *recent[K, V]) Delete(k K) { delete(r.m, k) }

func (r *recent[K, V]) Len() int { return len(r.m) }
