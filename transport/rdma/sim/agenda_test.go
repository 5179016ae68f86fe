package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAgenda: what was put in any order, and partly taken out again, comes out in order.
func TestAgenda(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var a agenda
		var in []*stream
		for i := range 50 {
			s := newStream(nil)
			s.at, s.tie, s.number = time.Duration(r.IntN(10)), uint32(r.IntN(3)), uint64(i)
			a.insert(s)
			in = append(in, s)
			if r.IntN(3) == 0 {
				k := r.IntN(len(in))
				a.remove(in[k])
				a.remove(in[k]) // is out already
				in = slices.Delete(in, k, k+1)
			}
		}
		slices.SortFunc(in, func(x, y *stream) int {
			if (agenda{x, y}).less(0, 1) {
				return -1
			}
			return 1
		})
		for _, want := range in {
			require.Same(t, want, a.first())
			a.remove(want)
		}
		require.Nil(t, a.first())
	}
}

// TestFIFO holds the ring against a slice.
func TestFIFO(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var f fifo[int]
	var model []int
	for i := range 10_000 {
		switch k := r.IntN(20); {
		case k < 10:
			*f.push() = i
			model = append(model, i)
		case k < 19 && len(model) > 0:
			f.pop()
			model = model[1:]
		default:
			odd := func(x *int) bool { return *x%7 != i%7 }
			f.keep(odd)
			model = slices.DeleteFunc(model, func(x int) bool { return !odd(&x) })
		}
		require.Equal(t, len(model), f.len())
		for k := range model {
			require.Equal(t, model[k], *f.at(k))
		}
	}
}
