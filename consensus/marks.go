package consensus

import (
	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// markVotes keeps verified votes of others, to be told to them after a start (rule 11). They reach the disk with the next
// record of our own, or with the next slot.
func (c *core) markVotes(votes []dpos.VerifiedVote) {
	for i := range votes {
		v := &votes[i].Vote
		if v.Voter != c.d.self && c.marks.AddVote(*v, c.machine.Sits) {
			c.unsaved = append(c.unsaved, encodeMarkedVote(v))
		}
	}
}

// openDomain takes the marks that the log holds, if they are bound to the domain in force. Others are over: their signatures are
// none in this domain, and what they tell binds nobody in it.
func (c *core) openDomain(held *logContents) error {
	c.marks = held.marks
	if r := c.d.verify.domain.Recovery; held.domain != r {
		c.marks = dpos.NewMarks()
		return c.log.append([][]byte{encodeDomain(r)})
	}
	return nil
}

// appendLog makes payloads durable, and the marks of others with them.
func (c *core) appendLog(payloads [][]byte) error {
	err := c.log.append(append(payloads, c.unsaved...))
	c.unsaved = nil
	return err
}

// writeMarks writes what no record of our own took along, once a slot: a node that signs nothing keeps marks too, and
// a power cut takes no more of them than the system has not written yet.
func (c *core) writeMarks() error {
	slot := c.d.slotNow()
	if len(c.unsaved) == 0 || slot == c.marksWritten && len(c.unsaved) < maxUnsavedMarks {
		return nil
	}
	c.marksWritten = slot
	err := c.log.writeEntries(c.unsaved)
	c.unsaved = nil
	if err == nil && c.stored == c.machine.LIB().Height {
		err = c.compact()
	}
	return err
}

// markPayloads are all marks, for a log that is written anew.
func (c *core) markPayloads() (out [][]byte) {
	if r := c.d.verify.domain.Recovery; r != (common.Hash{}) {
		out = append(out, encodeDomain(r))
	}
	for _, a := range c.marks.Accounts() {
		for _, s := range c.marks.Sessions(a, block.Session{}) {
			out = append(out, encodeMarkedSession(&s))
		}
		votes := c.marks.Votes(a)
		for i := len(votes) - 1; i >= 0; i-- { // the oldest first
			out = append(out, encodeMarkedVote(&votes[i]))
		}
	}
	return out
}
