package model

import (
	"os"
	"testing"
	"time"
)

func long() bool { return os.Getenv("BORNODE_LONG") != "" }

func TestTry(t *testing.T) {
	for _, o := range []Options{{AllRecords: true}, {Drop: Drop{SlotRule: true}, RisingPrecommits: true}, {Drop: Drop{LinkPrevote: true, LinkPrecommit: true}},
		{Change: Announcing, Replaced: 2}, {Change: Announcing, Replaced: 3}, {Change: Changing, Replaced: 2}} {
		at := time.Now()
		r, err := Search(o)
		t.Logf("%+v: %v trees %d states %d in %v", o, err, r.Trees, r.States, time.Since(at))
		for _, l := range r.Violation {
			t.Log("   ", l)
		}
	}
}
