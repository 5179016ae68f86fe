package replica

import (
	"fmt"

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
	cuts    uint64
	ours    bool // of the idempotent producer
}

func (c *simClients) init() {
	c.acked, c.sent = map[string]bool{}, map[string]bool{}
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
	w.done, w.mark = done, a.Mark
	if w.ours {
		c.inFlight, c.unsettled = true, true
	}
	c.open = append(c.open, w)
}

// lose drops what waits for a node that dies.
func (c *simClients) lose(n *simNode) {
	c.settle(func(w *simWrite) (bool, error) { return w.n == n, ErrNotLeader })
}

func (c *simClients) settle(f func(*simWrite) (bool, error)) {
	rest := c.open[:0]
	for _, w := range c.open {
		over, err := f(w)
		if !over {
			rest = append(rest, w)
			continue
		}
		if err == nil {
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
func (c *simClients) poll() {
	c.settle(func(w *simWrite) (bool, error) {
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
	next := int32(0)
	err := lead.core.data.Batches(0, lead.core.hw, func(h batch.Header, raw []byte) error {
		payload := string(batch.Records(raw))
		seen[payload]++
		if h.ProducerID == 77 {
			require.Equal(s.t, next, h.FirstSequence, s.story())
			next++
		}
		return nil
	})
	require.NoError(s.t, err)
	for p := range c.acked {
		require.Equal(s.t, 1, seen[p], "%q was acknowledged: %s", p, s.story())
	}
	for p, n := range seen {
		require.Equal(s.t, 1, n, "%q is there %d times: %s", p, n, s.story())
		require.True(s.t, c.sent[p])
	}
	require.Equal(s.t, c.sequence, next, "batches of the idempotent producer")
}
