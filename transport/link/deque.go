package link

// deque is a growing ring of values. Its owner bounds its length.
type deque[T any] struct {
	ring []T // length 0 or a power of two
	head int
	n    int
}

const dequeKeep = 256 // an empty ring larger than this is given back

func (d *deque[T]) len() int { return d.n }

func (d *deque[T]) push(v T) {
	if d.n == len(d.ring) {
		d.grow()
	}
	d.ring[(d.head+d.n)&(len(d.ring)-1)] = v
	d.n++
}

// at gives a pointer to the i-th value from the front, valid until the next push or pop.
func (d *deque[T]) at(i int) *T { return &d.ring[(d.head+i)&(len(d.ring)-1)] }

func (d *deque[T]) pop() T {
	var zero T
	v := d.ring[d.head]
	d.ring[d.head] = zero
	d.head = (d.head + 1) & (len(d.ring) - 1)
	d.n--
	if d.n == 0 {
		d.head = 0
		if len(d.ring) > dequeKeep {
			d.ring = nil
		}
	}
	return v
}

func (d *deque[T]) grow() {
	size := 2 * len(d.ring)
	if size == 0 {
		size = 8
	}
	ring := make([]T, size)
	n := copy(ring, d.ring[d.head:])
	copy(ring[n:], d.ring[:d.head])
	d.ring, d.head = ring, 0
}
