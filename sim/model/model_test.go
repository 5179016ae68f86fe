package model

import (
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	for _, o := range []Options{{Blocks: 3}, {Blocks: 4},
		{Drop: Drop{SlotRule: true}}, {Drop: Drop{LinkPrevote: true}}, {Drop: Drop{LinkPrecommit: true}},
		{Drop: Drop{OneVote: true}}, {Byzantine: 2},
		{Change: Announcing, Drop: Drop{OldQuorum: true}}, {Change: Changing, Drop: Drop{NewQuorum: true}},
		{Change: Announcing}, {Change: Changing},
	} {
		at := time.Now()
		r, err := Search(o)
		t.Logf("%+v: %v trees %d states %d in %v", o, err, r.Trees, r.States, time.Since(at))
		for _, l := range r.Violation {
			t.Log("   ", l)
		}
	}
}
