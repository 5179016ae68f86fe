package replica

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

// simClients write to the partition: one idempotent producer that repeats until it is told that a batch is there, and
// others without an id that write each batch once, for a majority or for the leader's disk.
type simClients struct {
	open   []*simWrite
	writes int
	acked  map[string]bool // payloads that must be there
	sent   map[string]bool
	gone   map[string]bool  // retention took them, or passed their place
	bases  map[string]int64 // where those were that one broker acknowledged alone
	safe   map[string]bool  // known to be committed
	lost   map[string]bool  // were on one disk alone, maybe, and that was lost

	sequence  int32 // of the idempotent producer
	unsettled bool  // its present batch
	inFlight  bool
}

type simWrite struct {
	n       *simNode
	life    int
	payload string
	done    chan error
	mark    Mark // acks=1: acknowledged once durable
	base    int64
	ours    bool // of the idempotent producer
}

func (c *simClients) init() {
	c.acked, c.sent, c.gone, c.bases = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]int64{}
	c.safe, c.lost = map[string]bool{}, map[string]bool{}
}

// loseDisk notes what one broker acknowledged alone and had on the disk that it lost.
func (c *simClients) loseDisk(s *sim, disk *memStore) {
	note := func(raw []byte) {
		p := string(batch.Records(raw))
		if _, ok := c.bases[p]; ok && !c.safe[p] {
			c.lost[p] = true
		}
	}
	for id, l := range disk.logs {
		for _, b := range l.batches {
			if !Stash(id) {
				note(b.raw)
				continue
			}
			_, raw, _, _, err := unwrap(b.raw)
			require.NoError(s.t, err)
			note(raw)
		}
	}
}

func (c *simClients) satisfied() bool { return !c.unsettled }

func record(payload string, pid int64, seq int32) []byte {
	return batch.Encode(batch.Header{ProducerID: pid, ProducerEpoch: 0, FirstSequence: seq, Count: 1}, []byte(payload))
}

// act has some client write to a node.
func (c *simClients) act(s *sim, n *simNode) {
	if s.quiet && !c.unsettled || c.writes > 300 && !c.unsettled {
		return
	}
	w := &simWrite{n: n, life: n.life}
	which := s.r.IntN(3)
	if s.quiet {
		which = 0
	}
	var raw []byte
	switch which {
	case 0:
		if c.inFlight {
			return
		}
		w.ours = true
		w.payload = fmt.Sprintf("idempotent %d", c.sequence)
		raw = record(w.payload, 77, c.sequence)
	case 1:
		w.payload = fmt.Sprintf("majority %d", c.writes)
		raw = record(w.payload, -1, -1)
	default:
		w.payload = fmt.Sprintf("leader %d", c.writes)
		raw = record(w.payload, -1, -1)
	}
	a, done, err := n.core.append(raw, int64(s.steps), which != 2)
	if err != nil {
		if w.ours && n.core.ready {
			require.NoError(s.t, err, "an idempotent producer that waits for the majority is never out of order: %s", s.story())
		}
		return
	}
	c.writes++
	c.sent[w.payload] = true
	if which == 2 {
		c.bases[w.payload] = a.Base
	}
	w.done, w.mark, w.base = done, a.Mark, a.Base
	if w.ours {
		c.inFlight, c.unsettled = true, true
	}
	c.open = append(c.open, w)
}

// lose drops what waits for a node that dies.
func (c *simClients) lose(s *sim, n *simNode) {
	c.settle(s, func(w *simWrite) (bool, error) { return w.n == n, ErrNotLeader })
}

func (c *simClients) settle(s *sim, f func(*simWrite) (bool, error)) {
	rest := c.open[:0]
	for _, w := range c.open {
		over, err := f(w)
		if !over {
			rest = append(rest, w)
			continue
		}
		if err == nil && w.base >= s.kept {
			c.acked[w.payload] = true
		}
		if w.ours {
			c.inFlight = false
			if err == nil {
				c.sequence++
				c.unsettled = false
			}
		}
	}
	c.open = rest
}

// poll takes acknowledgements.
func (c *simClients) poll(s *sim) {
	c.settle(s, func(w *simWrite) (bool, error) {
		if w.done == nil {
			return w.n.store.durable >= w.mark, nil
		}
		select {
		case err := <-w.done:
			return true, err
		default:
			return false, nil
		}
	})
}

// check: all that was acknowledged is there once; nothing is there twice.
func (c *simClients) check(s *sim) {
	lead := s.nodes[s.number(s.chain[len(s.chain)-1].Leader)]
	seen := map[string]int{}
	next := int32(-1)
	err := lead.core.data.Batches(lead.core.data.Start(), lead.core.hw, func(h batch.Header, raw []byte) error {
		payload := string(batch.Records(raw))
		seen[payload]++
		if h.ProducerID == 77 && !c.gone[payload] { // what retention took before its producer was told comes again, as in Kafka
			if next < 0 {
				next = h.FirstSequence // of what is kept
			}
			require.Equal(s.t, next, h.FirstSequence, s.story())
			next++
		}
		return nil
	})
	require.NoError(s.t, err)
	for p := range c.acked {
		if seen[p] == 0 && (c.gone[p] || c.lost[p]) {
			continue
		}
		require.Equal(s.t, 1, seen[p], "%q was acknowledged: %s", p, s.story())
	}
	for p, n := range seen {
		if c.gone[p] {
			n = min(n, 1) // a copy that retention took while a replica still offered the first one comes again
		}
		require.Equal(s.t, 1, n, "%q is there %d times: %s", p, n, s.story())
		require.True(s.t, c.sent[p])
	}
	if next >= 0 {
		require.Equal(s.t, c.sequence, next, "batches of the idempotent producer")
	}
}

// A replica that claims the best log and sends something else has no say; the others are a majority.
func TestFalseState(t *testing.T) {
	s := newSim(t, 3, 3, 3)
	s.faults = 0
	for range 2000 {
		s.step()
	}
	require.Positive(t, s.high)
	s.client.writes = 1000 // no more
	s.nodes[1].claimNow()
	for s.nodes[1].learn() {
	}
	lead := s.nodes[1]
	for lead.sync() {
	}
	_, end := lead.core.data.Position()
	lead.core.receive("b2", &item{Kind: kindState, ID: simID, Epoch: 2, Accepted: 1, End: end + 9, Epochs: lead.core.data.Epochs()})
	require.Equal(t, fetching, lead.core.role)
	lead.core.receive("b2", &item{Kind: kindFetched, ID: simID, Epoch: 2, From: end, Data: record("nonsense", -1, -1)})
	require.Equal(t, fencing, lead.core.role)
	s.nodes[2].alive = false
	s.quiet = true
	for range 3000 {
		s.work(s.nodes[s.r.IntN(2)])
	}
	require.True(t, lead.core.ready)
	require.Equal(t, s.ledBy[2], lead)
}

func TestAgree(t *testing.T) {
	log := func(start, end int64, epochs ...EpochStart) *item {
		return &item{Start: start, End: end, Epochs: epochs}
	}
	at := func(e int32, s int64) EpochStart { return EpochStart{Epoch: e, Start: s} }
	for name, c := range map[string]struct {
		a, b    *item
		match   int64
		restart bool
	}{
		"both empty":                  {log(0, 0), log(0, 0), 0, false},
		"new replica":                 {log(0, 9, at(1, 0)), log(0, 0), 0, false},
		"behind":                      {log(0, 9, at(1, 0), at(2, 5)), log(0, 3, at(1, 0)), 3, false},
		"older epoch went on":         {log(0, 9, at(1, 0), at(2, 5)), log(0, 8, at(1, 0)), 5, false},
		"ahead in the newest":         {log(0, 9, at(1, 0), at(2, 5)), log(0, 12, at(1, 0), at(2, 5)), 9, false},
		"epoch of its own":            {log(0, 9, at(1, 0), at(3, 5)), log(0, 8, at(1, 0), at(2, 4)), 4, false},
		"an empty epoch":              {log(0, 9, at(1, 0), at(3, 9)), log(0, 12, at(1, 0), at(3, 9)), 9, false},
		"nothing in common":           {log(0, 9, at(2, 0)), log(0, 8, at(1, 0)), 0, false},
		"retention passed it":         {log(20, 30, at(3, 15)), log(0, 8, at(1, 0)), 20, true},
		"new, leader begins later":    {log(20, 30, at(3, 20)), log(0, 0), 20, true},
		"common epoch below start":    {log(20, 30, at(1, 0), at(3, 25)), log(0, 8, at(1, 0)), 20, true},
		"begins later than leader":    {log(0, 9, at(1, 0)), log(4, 6, at(1, 0)), 6, false},
		"began anew, empty":           {log(0, 35, at(1, 0)), log(8, 8), 8, false},
		"began anew, own epoch after": {log(0, 35, at(1, 0)), log(8, 9, at(2, 8)), 8, false},
	} {
		match, restart := agree(c.a, c.b)
		require.Equal(t, c.match, match, name)
		require.Equal(t, c.restart, restart, name)
	}
}
