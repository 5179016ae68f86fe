package ledger

// table is a map of which a changed copy costs little: the copy shares all shards that were not written to.
type table[K comparable, V any] struct {
	slot   func(K) uint8
	shards [256]map[K]V
	n      int
}

func newTable[K comparable, V any](slot func(K) uint8) *table[K, V] { return &table[K, V]{slot: slot} }

func (t *table[K, V]) get(k K) (V, bool) {
	v, ok := t.shards[t.slot(k)][k]
	return v, ok
}

// each calls f for everything, in no order.
func (t *table[K, V]) each(f func(K, V)) {
	for _, s := range t.shards {
		for k, v := range s {
			f(k, v)
		}
	}
}

// draft is a copy that is being changed; the table it was made of stays as it is.
type draft[K comparable, V any] struct {
	t   *table[K, V]
	own [256]bool
}

func (t *table[K, V]) draft() *draft[K, V] {
	c := *t
	return &draft[K, V]{t: &c}
}

func (d *draft[K, V]) shard(k K) map[K]V {
	i := d.t.slot(k)
	if !d.own[i] {
		c := make(map[K]V, len(d.t.shards[i])+1)
		for k, v := range d.t.shards[i] {
			c[k] = v
		}
		d.t.shards[i], d.own[i] = c, true
	}
	return d.t.shards[i]
}

func (d *draft[K, V]) put(k K, v V) {
	s := d.shard(k)
	before := len(s)
	s[k] = v
	d.t.n += len(s) - before
}

func (d *draft[K, V]) drop(k K) {
	s := d.shard(k)
	before := len(s)
	delete(s, k)
	d.t.n += len(s) - before
}
