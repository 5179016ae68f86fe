package model

import (
	"errors"
	"fmt"
)

const (
	producers = 4 // seats of a schedule
	faulty    = (producers - 1) / 3
	quorum    = producers - faulty

	maxBlocks = 5 // a producer's votes fit 10 bits
	maxHonest = 6 // and theirs 60
)

// Change says where the search starts in a change of schedule (rule 9).
type Change uint8

const (
	NoChange   Change = iota // one schedule for ever
	Announcing               // blocks of height 1 announce the new schedule
	Changing                 // the children of the root are the first blocks counted under both
)

// Drop leaves out rules.
type Drop struct {
	SlotRule      bool // rules 3 and 6: an honest producer prevotes several blocks of one slot
	LinkPrevote   bool // rule 6: a precommit does not bar a later prevote
	LinkPrecommit bool // rule 6: a prevote does not bar a later precommit
	OldQuorum     bool // rule 9: while both schedules count, the new one alone counts
	NewQuorum     bool // rule 9: while both schedules count, the old one alone counts
	OneVote       bool // rule 4: q - 1 votes are a quorum
}

// Options bound a search. The zero value of a field means what is said there.
type Options struct {
	Blocks    int // of a tree, besides the root, 1 to 5; 0: 4
	Byzantine int // 1 or 2; 0: 1
	Change    Change
	Replaced  int // seats that the new schedule gives to others, 1 to 3; 0: 1
	Drop      Drop

	// RisingPrecommits restricts precommits to rising slots, as package dpos does beyond the rules.
	RisingPrecommits bool

	// AllRecords keeps the records that the package comment says lose nothing when left out.
	AllRecords bool
}

// Validate reports the first setting out of bounds.
func (o Options) Validate() error {
	o = o.filled()
	switch {
	case o.Blocks < 1 || o.Blocks > maxBlocks:
		return fmt.Errorf("model: %d blocks, 1 to %d can be searched", o.Blocks, maxBlocks)
	case o.Byzantine < 1 || o.Byzantine > 2:
		return fmt.Errorf("model: %d Byzantine producers, 1 or 2 of %d can be searched", o.Byzantine, producers)
	case o.Change > Changing:
		return errors.New("model: unknown Change")
	case o.Replaced < 1 || o.Replaced > producers-o.Byzantine:
		return fmt.Errorf("model: %d seats replaced, 1 to %d can be", o.Replaced, producers-o.Byzantine)
	}
	return nil
}

func (o Options) filled() Options {
	if o.Blocks == 0 {
		o.Blocks = 4
	}
	if o.Byzantine == 0 {
		o.Byzantine = 1
	}
	if o.Replaced == 0 {
		o.Replaced = 1
	}
	return o
}

// Result is what a search found.
type Result struct {
	Trees     int      // searched
	States    int      // distinct, over all trees
	Violation []string // a shortest run, of a smallest tree, to two conflicting final blocks; nil: there is none

	tree  *tree
	steps []step
}

// Search explores every run within the bounds, smaller trees first, and stops at the first violation.
func Search(o Options) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	o = o.filled()
	s := newSearcher(o)
	var res Result
	for n := 2; n <= o.Blocks && res.tree == nil; n++ {
		o.trees(n, func(t *tree) bool {
			if !t.matters(o.Change) {
				return true
			}
			res.Trees++
			if bad := s.run(t); bad >= 0 {
				res.tree, res.steps = t.clone(), s.path(bad)
				res.Violation = s.explain(res.steps)
			}
			res.States += len(s.queue)
			return res.tree == nil
		})
	}
	return res, nil
}

// party is one honest producer.
type party struct {
	id       int
	old, new bool // schedules it sits in
}

// honest lists the honest producers, those that sit in the same schedules side by side.
func (o Options) honest() (out []party) {
	change := o.Change != NoChange
	for id := range producers - o.Byzantine {
		out = append(out, party{id, true, change && id >= o.Replaced})
	}
	if change {
		for id := range o.Replaced {
			out = append(out, party{producers + id, false, true})
		}
	}
	return out
}

// schedules gives the producers' ids by seat; the Byzantine ones have the last seats of both.
func (o Options) schedules() (before, after [producers]int) {
	for i := range producers {
		before[i], after[i] = i, i
		if i < o.Replaced {
			after[i] = producers + i
		}
	}
	return before, after
}

// need is how many honest votes of a schedule make a certificate together with the Byzantine ones.
func (o Options) need() int {
	if o.Drop.OneVote {
		return quorum - 1 - o.Byzantine
	}
	return quorum - o.Byzantine
}
