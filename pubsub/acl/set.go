package acl

import (
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Set is the entries of one tenant. It never changes; the zero Set allows owners alone.
type Set struct {
	entries []Entry
	dropped int

	once    sync.Once
	words   map[place]words
	lengths [Cluster + 1][]int // of the prefixes, by resource, longest first
	allowed map[string]bool    // principals that an entry allows something
}

// place is everything of an entry but what it says.
type place struct {
	resource, pattern     uint8
	name, principal, host string
}

// words are bits, 1<<operation, of what is said at one place.
type words struct{ allow, deny uint32 }

// Question asks whether a principal may do something. Owner is the answer to whether the principal owns the tenant or
// the topic.
type Question struct {
	Principal string
	Host      string
	Operation uint8
	Resource  uint8
	Name      string
	Owner     bool
}

// Decision is the answer. By is the entry that decided, in its Normal form; the zero
// Entry if none did.
type Decision struct {
	Allowed bool
	Reason  string
	By      Entry
}

// New makes a set; of equal entries one stays.
func New(entries []Entry) *Set { return (*Set)(nil).With(entries, nil) }

// With is the set without the entries of revoke and then with those of grant. Entries are kept as they were written,
// since that is how they are taken away again; those that cannot be bear on nothing.
func (s *Set) With(grant, revoke []Entry) *Set {
	n := &Set{}
	gone := make(map[Entry]bool, len(revoke))
	for _, e := range revoke {
		gone[e] = true
	}
	var old []Entry
	if s != nil {
		n.dropped, old = s.dropped, s.entries
	}
	n.entries = make([]Entry, 0, len(old)+len(grant))
	fresh := make(map[Entry]bool, len(grant))
	for _, e := range grant {
		fresh[e] = true
	}
	for _, e := range old {
		if !gone[e] {
			n.entries = append(n.entries, e)
			delete(fresh, e)
		}
	}
	for _, e := range grant { // in the order given
		switch {
		case !fresh[e]:
		case len(n.entries) == MaxEntries:
			n.dropped++
		default:
			n.entries = append(n.entries, e)
		}
		delete(fresh, e)
	}
	return n
}

// Entries are the entries in the order of their coming, read only.
func (s *Set) Entries() []Entry {
	if s == nil {
		return nil
	}
	return s.entries
}

// Dropped counts entries that had no room.
func (s *Set) Dropped() int {
	if s == nil {
		return 0
	}
	return s.dropped
}

// index is made when the first question comes: blocks may change a set many times before anybody asks.
func (s *Set) index() {
	s.words, s.allowed = make(map[place]words, len(s.entries)), make(map[string]bool)
	for _, e := range s.entries {
		e, err := e.Normal()
		if err != nil {
			continue
		}
		p := place{e.Resource, e.Pattern, e.Name, e.Principal, e.Host}
		w := s.words[p]
		if e.Permission == Allow {
			w.allow |= 1 << e.Operation
			s.allowed[e.Principal] = true
		} else {
			w.deny |= 1 << e.Operation
		}
		s.words[p] = w
		if e.Pattern == Prefixed {
			s.lengths[e.Resource] = append(s.lengths[e.Resource], len(e.Name))
		}
	}
	for r := range s.lengths {
		l := s.lengths[r]
		slices.SortFunc(l, func(a, b int) int { return b - a })
		s.lengths[r] = slices.Compact(l)
	}
}

// Names tells whether an entry allows something to this very principal; User:* names nobody.
func (s *Set) Names(principal string) bool {
	if s == nil || len(s.entries) == 0 || principal == Everybody {
		return false
	}
	s.once.Do(s.index)
	return s.allowed[principal]
}

// granted are the operations an ALLOW of which allows op.
func granted(op uint8) uint32 {
	m := uint32(1)<<op | 1<<All
	switch op {
	case Describe:
		m |= 1<<Read | 1<<Write | 1<<Delete | 1<<Alter
	case DescribeConfigs:
		m |= 1 << AlterConfigs
	}
	return m
}

// Check answers the question. It costs a few lookups per length of prefix in use, whatever the count of entries.
func (s *Set) Check(q Question) Decision {
	if q.Operation <= All || q.Operation > IdempotentWrite || q.Resource < Topic || q.Resource > Cluster {
		return Decision{Reason: fmt.Sprintf("operation %d on resource %d is no question an access control list answers", q.Operation, q.Resource)}
	}
	if q.Owner {
		return Decision{Allowed: true, Reason: fmt.Sprintf("%s may %s: %s is its own", q.Principal, OperationName(q.Operation), q.what())}
	}
	if s == nil || len(s.entries) == 0 {
		return q.nothing()
	}
	s.once.Do(s.index)
	host, err := Host(q.Host)
	if err != nil || host == Any {
		host = "" // matched by * alone
	}
	var best Entry
	look := func(pattern uint8, name string) bool {
		for _, who := range [...]string{q.Principal, Everybody} {
			for _, from := range [...]string{host, Any} {
				w, ok := s.words[place{q.Resource, pattern, name, who, from}]
				if !ok {
					continue
				}
				e := Entry{q.Resource, pattern, name, who, from, 0, Deny}
				if m := w.deny & (1<<q.Operation | 1<<All); m != 0 {
					e.Operation = pick(m, q.Operation)
					best = e
					return true
				}
				if m := w.allow & granted(q.Operation); m != 0 && best.Permission == 0 {
					e.Operation, e.Permission = pick(m, q.Operation), Allow
					best = e
				}
			}
		}
		return false
	}
	denied := look(Literal, q.Name) || q.Name != Any && look(Literal, Any)
	for _, n := range s.lengths[q.Resource] {
		if denied {
			break
		}
		denied = n <= len(q.Name) && look(Prefixed, q.Name[:n])
	}
	if best.Permission == 0 {
		return q.nothing()
	}
	verb := "may not"
	if !denied {
		verb = "may"
	}
	return Decision{Allowed: !denied, By: best, Reason: fmt.Sprintf("%s %s %s %s: %s", q.Principal, verb, OperationName(q.Operation), q.what(), best)}
}

// pick is the operation of m that the reason names: the one asked for, else the lowest.
func pick(m uint32, op uint8) uint8 {
	if m&(1<<op) != 0 {
		return op
	}
	for i := All; i < IdempotentWrite; i++ {
		if m&(1<<i) != 0 {
			return i
		}
	}
	return IdempotentWrite
}

func (q Question) what() string {
	return fmt.Sprintf("%s:%.260s", kmsg.ACLResourceType(int8(q.Resource)), q.Name)
}

func (q Question) nothing() Decision {
	return Decision{Reason: fmt.Sprintf("%s may not %s %s from %.60s: no entry allows it; its owner or the tenant's grants it",
		q.Principal, OperationName(q.Operation), q.what(), q.Host)}
}
