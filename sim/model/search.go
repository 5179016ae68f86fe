package model

// state is all that the honest producers voted: 2n bits each, prevotes below precommits.
type state = uint64

// step is one honest vote.
type step struct {
	by        int // producer id
	precommit bool
	block     int
}

// entry is a state reached, and how.
type entry struct {
	state  state
	parent int32
	by     uint8 // place in parties
	vote   uint8 // bit of the producer's votes
}

// searcher searches one tree after another.
type searcher struct {
	o       Options
	parties []party
	t       *tree
	votes   [1 << (2 * maxBlocks)]mask // allowed next votes by votes cast, as far as only the producer's own matter
	spread  [1 << (2 * maxBlocks)]uint64
	sits    [maxHonest]mask // votes the producer may cast
	old     mask            // votes that need the old schedule's quorum
	new     mask
	seen    set
	queue   []entry
}

func newSearcher(o Options) *searcher {
	s := &searcher{o: o, parties: o.honest()}
	for i := range s.spread {
		for b := range 2 * maxBlocks {
			s.spread[i] |= uint64(i>>b&1) << (4 * b)
		}
	}
	return s
}

func (s *searcher) prepare(t *tree) {
	s.t = t
	n := t.n
	twice := func(m mask) mask { return m | m<<n }
	for i := range 1 << (2 * n) {
		c := ballot{mask(i) & (1<<n - 1), mask(i) >> n}
		var m mask
		for b := 1; b <= n; b++ {
			if s.o.mayPrevote(t, c, b) {
				m |= bit(b)
			}
			if s.o.mayPrecommit(t, c, b) {
				m |= bit(b) << n
			}
		}
		s.votes[i] = m
	}
	s.old, s.new = 0, 0
	for b := 1; b <= n; b++ {
		old, new := s.o.counting(t, b)
		if old {
			s.old |= twice(bit(b))
		}
		if new {
			s.new |= twice(bit(b))
		}
	}
	for i, p := range s.parties {
		s.sits[i] = 0
		for b := 1; b <= n; b++ {
			if p.sits(t, b) {
				s.sits[i] |= twice(bit(b))
			}
		}
	}
}

// certified are the certificates that exist: QCs, then FCs n bits higher.
func (s *searcher) certified(votes *[maxHonest]mask) mask {
	var old, new uint64 // honest votes, 4 bits for each kind and block
	for i, p := range s.parties {
		x := s.spread[votes[i]]
		if p.old {
			old += x
		}
		if p.new {
			new += x
		}
	}
	need := uint64(s.o.need())
	var m mask
	for b := range 2 * s.t.n {
		ok := (s.old>>b&1 == 0 || old>>(4*b)&15 >= need) && (s.new>>b&1 == 0 || new>>(4*b)&15 >= need)
		if ok {
			m |= 1 << b
		}
	}
	return m & (m<<s.t.n | (1<<s.t.n - 1)) // rule 7: an FC is worth something only beside its QC
}

func (s *searcher) unpack(x state) (votes [maxHonest]mask) {
	w := 2 * s.t.n
	for i := range s.parties {
		votes[i] = mask(x>>(w*i)) & (1<<w - 1)
	}
	return votes
}

// sameKind reports whether the producers at two places are interchangeable.
func (s *searcher) sameKind(i, j int) bool {
	return s.parties[i].old == s.parties[j].old && s.parties[i].new == s.parties[j].new
}

// pack gives the state with interchangeable producers in order of their votes. The one at place i, whose votes grew,
// moves to the place it returns.
func (s *searcher) pack(votes [maxHonest]mask, i int) (state, int) {
	for ; i+1 < len(s.parties) && s.sameKind(i, i+1) && votes[i] > votes[i+1]; i++ {
		votes[i], votes[i+1] = votes[i+1], votes[i]
	}
	var x state
	for j := range s.parties {
		x |= state(votes[j]) << (2 * s.t.n * j)
	}
	return x, i
}

// next calls f with every vote that some producer may cast; of interchangeable producers with equal votes only the last
// is asked, so that pack need not move others.
func (s *searcher) next(votes *[maxHonest]mask, certs mask, f func(place, vote int)) {
	n := s.t.n
	low := mask(1<<n - 1)
	can := s.t.existing(certs&low, certs>>n) | certs<<n&^low
	for i := range s.parties {
		if i+1 < len(s.parties) && s.sameKind(i, i+1) && votes[i] == votes[i+1] {
			continue
		}
		m := s.votes[votes[i]] & s.sits[i] & can
		for b := 0; m != 0; b, m = b+1, m>>1 {
			if m&1 != 0 {
				f(i, b)
			}
		}
	}
}

// disagree gives two conflicting final blocks, or 0, 0.
func (s *searcher) disagree(certs mask) (int, int) {
	final := certs >> s.t.n
	for b := 1; b <= s.t.n; b++ {
		if final&bit(b) == 0 {
			continue
		}
		for d := b + 1; d <= s.t.n; d++ {
			if final&s.t.v[b].conflicts&bit(d) != 0 {
				return b, d
			}
		}
	}
	return 0, 0
}

// run explores all states of the tree, breadth first, and gives the place in the queue of a violation, or -1.
func (s *searcher) run(t *tree) int {
	s.prepare(t)
	s.seen.clear()
	s.seen.add(0)
	s.queue = append(s.queue[:0], entry{parent: -1})
	for head := 0; head < len(s.queue); head++ {
		votes := s.unpack(s.queue[head].state)
		certs := s.certified(&votes)
		if b, _ := s.disagree(certs); b != 0 {
			return head
		}
		s.next(&votes, certs, func(i, b int) {
			w := votes
			w[i] |= 1 << b
			if x, _ := s.pack(w, i); s.seen.add(x) {
				s.queue = append(s.queue, entry{x, int32(head), uint8(i), uint8(b)})
			}
		})
	}
	return -1
}

// path gives the votes that lead to a state of the queue, by producers' ids.
func (s *searcher) path(at int) (out []step) {
	var chain []entry
	for e := s.queue[at]; e.parent >= 0; e = s.queue[e.parent] {
		chain = append(chain, e)
	}
	ids := make([]int, len(s.parties)) // who is at a place
	for i, p := range s.parties {
		ids[i] = p.id
	}
	var votes [maxHonest]mask
	for k := len(chain) - 1; k >= 0; k-- {
		e := chain[k]
		i, b := int(e.by), int(e.vote)
		out = append(out, step{ids[i], b >= s.t.n, b%s.t.n + 1})
		votes[i] |= 1 << b
		x, j := s.pack(votes, i)
		for ; i < j; i++ {
			ids[i], ids[i+1] = ids[i+1], ids[i]
		}
		votes = s.unpack(x)
	}
	return out
}

// set is a hash set of states, for no other reason than speed.
type set struct {
	slots []uint64 // state + 1; 0: free
	used  int
}

func (h *set) clear() {
	if h.slots == nil || h.used*64 < len(h.slots) {
		h.slots = make([]uint64, 1<<10)
	} else {
		clear(h.slots)
	}
	h.used = 0
}

// add reports whether the state was not in the set.
func (h *set) add(x state) bool {
	if h.used*2 >= len(h.slots) {
		old := h.slots
		h.slots = make([]uint64, 4*len(old))
		h.used = 0
		for _, y := range old {
			if y != 0 {
				h.add(y - 1)
			}
		}
	}
	last := uint64(len(h.slots) - 1)
	i := x * 0x9e3779b97f4a7c15
	i ^= i >> 29
	for i &= last; h.slots[i] != 0; i = (i + 1) & last {
		if h.slots[i] == x+1 {
			return false
		}
	}
	h.slots[i] = x + 1
	h.used++
	return true
}
