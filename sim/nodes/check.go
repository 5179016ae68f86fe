package nodes

import (
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/trie"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/bls"
)

// Violation says which checker found what, and when.
type Violation struct {
	Checker string
	At      time.Duration
	Text    string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s at %.3f s: %s", v.Checker, v.At.Seconds(), v.Text)
}

// checkers watch the nodes from outside: what is heard on the wire, what clients are answered, and what lies on disks
// whose machine has ended. They share no code with the parts that they watch but for encodings and hashes. Their methods
// may be called from any goroutine.
type checkers struct {
	began  time.Time
	domain block.Domain
	keys   map[common.Address]block.BLSKey
	ledger *ledger

	mu        sync.Mutex
	found     []*Violation
	blocks    map[common.Hash]*block.Block
	headers   map[common.Hash]*block.SealedHeader
	seals     map[signedSlot]seal
	prevotes  map[signedSlot]heard
	precommit map[signedSlot]heard
	final     map[uint64]common.Hash
	height    uint64 // the highest that anybody has called final
	answers   []answer
}

// signedSlot names what one producer signs of one slot.
type signedSlot struct {
	account common.Address
	slot    uint64
}

// seal is a block on the wire.
type seal struct {
	block common.Hash
	at    time.Time // when it was heard first
}

// heard is a vote on the wire.
type heard struct {
	block.Vote
	at time.Time // when it was heard first
}

func newCheckers(genesis *block.Block, keys map[common.Address]block.BLSKey, balances map[common.Address]*big.Int) *checkers {
	c := &checkers{
		began: time.Now(), domain: block.Domain{Genesis: genesis.Hash()}, keys: keys,
		blocks: map[common.Hash]*block.Block{genesis.Hash(): genesis}, headers: map[common.Hash]*block.SealedHeader{genesis.Hash(): genesis.SealedHeader},
		seals: make(map[signedSlot]seal), prevotes: make(map[signedSlot]heard), precommit: make(map[signedSlot]heard),
		final: map[uint64]common.Hash{0: genesis.Hash()},
	}
	c.ledger = newLedger(genesis, balances)
	return c
}

// violate notes what was found. The caller holds mu.
func (c *checkers) violate(checker, format string, args ...any) {
	if len(c.found) < maxViolations {
		c.found = append(c.found, &Violation{checker, time.Since(c.began), fmt.Sprintf(format, args...)})
	}
}

// report is violate for callers outside.
func (c *checkers) report(checker, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violate(checker, format, args...)
}

// hearHeader takes a sealed header from the wire: nobody seals two blocks of one slot.
func (c *checkers) hearHeader(h *block.SealedHeader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteHeader(h)
}

func (c *checkers) noteHeader(h *block.SealedHeader) {
	hash := h.Hash()
	if c.headers[hash] != nil || h.Number() == 0 {
		return
	}
	sealer, err := h.Signer(c.domain)
	if err != nil || sealer != h.Header.Coinbase {
		c.violate("wire", "block %d %s is sealed by %s, its coinbase is %s (%v)", h.Number(), hash, sealer, h.Header.Coinbase, err)
		return
	}
	c.headers[hash] = h
	key := signedSlot{sealer, h.Slot()}
	if was, ok := c.seals[key]; ok {
		c.violate("double sign", "%s sealed two blocks of slot %d: %s and %s", sealer, h.Slot(), was.block, hash)
		return
	}
	c.seals[key] = seal{hash, time.Now()}
}

// hearBlock takes a block from the wire whose body is the one that its header names.
func (c *checkers) hearBlock(b *block.Block) {
	if types.DeriveSha(b.Transactions, trie.NewStackTrie(nil)) != b.Header.TxHash {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteHeader(b.SealedHeader)
	if c.blocks[b.Hash()] == nil {
		c.blocks[b.Hash()] = b
		c.advanceLedger()
	}
}

// hearVotes takes votes from the wire: rule 6(a) at once, rule 6(b) at the end, when all headers were heard.
func (c *checkers) hearVotes(vs []block.Vote) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range vs {
		if c.keys[v.Voter] == (block.BLSKey{}) {
			continue
		}
		votes := c.prevotes
		if v.Kind == block.Precommit {
			votes = c.precommit
		}
		key := signedSlot{v.Voter, v.Target.Slot}
		was, ok := votes[key]
		if !ok {
			votes[key] = heard{v, time.Now()}
			continue
		}
		if was.Target != v.Target && c.isGenuine(was.Vote) && c.isGenuine(v) {
			c.violate("double sign", "%s signed two %ss of slot %d: %s and %s", v.Voter, v.Kind, v.Target.Slot, was.Target.Hash, v.Target.Hash)
		}
	}
}

func (c *checkers) isGenuine(v block.Vote) bool {
	d := c.domain.VoteDigest(v.Link)
	return bls.Verify(c.keys[v.Voter], d[:], v.Signature)
}

// tellFinal takes what a node says is final: all nodes agree, at all times.
func (c *checkers) tellFinal(who string, height uint64, hash common.Hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, ok := c.final[height]
	if ok && was != hash {
		c.violate("agreement", "%s calls block %d final as %s, another node as %s", who, height, hash, was)
	}
	if !ok {
		c.final[height] = hash
		c.advanceLedger()
	}
	c.height = max(c.height, height)
}

// finalHeight is the highest that anybody has called final.
func (c *checkers) finalHeight() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.height
}

// advanceLedger follows the final chain as far as its blocks were heard. The caller holds mu.
func (c *checkers) advanceLedger() {
	var newest uint64
	for h := range c.final {
		newest = max(newest, h)
	}
	if newest <= c.ledger.height {
		return
	}
	var path []*block.Block
	for hash := c.final[newest]; ; {
		b := c.blocks[hash]
		if b == nil {
			return // not heard yet: later
		}
		if b.Number() <= c.ledger.height {
			if hash != c.ledger.hashes[b.Number()] {
				c.violate("agreement", "block %d %s is below the final block %d, final was %s", b.Number(), hash, newest, c.ledger.hashes[b.Number()])
				return
			}
			break
		}
		path = append(path, b)
		hash = b.Parent()
	}
	slices.Reverse(path)
	for _, b := range path {
		if was, ok := c.final[b.Number()]; ok && was != b.Hash() {
			c.violate("agreement", "block %d is final as %s, and below the final block %d lies %s", b.Number(), was, newest, b.Hash())
			return
		}
		c.final[b.Number()] = b.Hash()
		c.ledger.add(b)
	}
}

// judgeLinks holds every precommit against every prevote of its voter: rule 6(b).
func (c *checkers) judgeLinks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.precommit {
		b := c.headers[p.Target.Hash]
		if b == nil {
			continue // nobody has shown it
		}
		for _, d := range c.prevotes {
			if d.Voter != p.Voter || d.Target.Slot <= p.Target.Slot || d.Source.Slot >= p.Target.Slot {
				continue
			}
			if h := c.headers[d.Target.Hash]; h != nil && c.conflicts(b, h) && c.isGenuine(p.Vote) && c.isGenuine(d.Vote) {
				c.violate("double sign", "%s precommitted slot %d and prevoted slot %d from source %d on another branch", p.Voter, p.Target.Slot, d.Target.Slot, d.Source.Slot)
			}
		}
	}
}

// conflicts reports whether the higher of two blocks does not descend from the lower one.
func (c *checkers) conflicts(low, high *block.SealedHeader) bool {
	if low.Number() > high.Number() {
		low, high = high, low
	}
	for high.Number() > low.Number() {
		if high = c.headers[high.Parent()]; high == nil {
			return false // not all of its branch was shown
		}
	}
	return high.Hash() != low.Hash()
}

// unwritten lists what a producer has shown others since a time, above a slot, and what is not among what its vote log
// holds: votes by kind and target, seals by slot.
func (c *checkers) unwritten(account common.Address, since time.Time, above uint64, log *voteLogContents) (missing []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for kind, votes := range map[block.VoteKind]map[signedSlot]heard{block.Prevote: c.prevotes, block.Precommit: c.precommit} {
		for key, v := range votes {
			if key.account == account && key.slot > above && v.at.After(since) && !log.votes[v.Link] {
				missing = append(missing, fmt.Sprintf("%s of slot %d", kind, key.slot))
			}
		}
	}
	for key, s := range c.seals {
		if key.account == account && key.slot > above && s.at.After(since) && !log.seals[key.slot] {
			missing = append(missing, fmt.Sprintf("seal of slot %d", key.slot))
		}
	}
	slices.Sort(missing)
	return missing
}
