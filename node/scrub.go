package node

import (
	"context"
	"fmt"
	"strconv"

	"github.com/bornode/bornode/internal/scrub"
	"github.com/bornode/bornode/pubsub/store"
	"github.com/bornode/bornode/rpc"
)

// scrubKey is the name of the scrub's progress in the block store.
const scrubKey = "scrub"

// openScrub prepares the background reading of what this node keeps. The state is not among its areas: Pebble reads and
// checks a table when something asks for it, and ends the node at damage, which must not happen for data that nobody uses.
func (n *Node) openScrub() {
	areas := []scrub.Area{{Name: "blocks", Read: n.scrubBlocks}}
	if n.brokers != nil {
		areas = append(areas, scrub.Area{Name: "topics", Read: n.scrubTopics})
	}
	n.scrub = scrub.New(n.cfg.Scrub, areas, scrubProgress{n}, n.log.Named("scrub"), n.reg)
}

// scrubProgress keeps the progress in the block store. It is not synced: a power cut costs a minute of reading.
type scrubProgress struct{ n *Node }

func (p scrubProgress) Load() ([]byte, error)   { return p.n.store.Meta(scrubKey) }
func (p scrubProgress) Store(data []byte) error { return p.n.store.PutMeta(scrubKey, data, false) }

func (n *Node) scrubBlocks(ctx context.Context, from string, most int64) (scrub.Step, error) {
	height, err := strconv.ParseUint(from, 10, 64)
	if err != nil { // the start
		height = 0
	}
	r, err := n.store.Scrub(ctx, height, most, n.chain.Receipts)
	step := scrub.Step{Bytes: r.Bytes, Problems: r.Problems}
	if !r.End {
		step.Next = strconv.FormatUint(r.Next, 10)
	}
	return step, err
}

func (n *Node) scrubTopics(ctx context.Context, from string, most int64) (scrub.Step, error) {
	var at store.ScrubPosition
	if _, err := fmt.Sscanf(from, "%d/%d", &at.Partition, &at.Offset); err != nil { // the start
		at = store.ScrubPosition{}
	}
	r, err := n.brokers.store.Scrub(ctx, at, int(most))
	step := scrub.Step{Bytes: r.Bytes}
	for range r.Problems {
		step.Problems = append(step.Problems, "batch")
	}
	if !r.End {
		step.Next = fmt.Sprintf("%d/%d", r.Next.Partition, r.Next.Offset)
	}
	return step, err
}

// rpcScrub is the background reading as JSON-RPC shows it.
type rpcScrub struct{ n *Node }

func (s rpcScrub) ScrubStatus() rpc.ScrubStatus {
	p := s.n.scrub.Progress()
	return rpc.ScrubStatus{On: s.n.scrub.On(), Damaged: len(s.n.store.Damaged()), Area: p.Area, Round: scrubRound(p.Now), LastRound: scrubRound(p.Last)}
}

func scrubRound(r scrub.Round) *rpc.ScrubRound {
	if r.Began == 0 {
		return nil
	}
	return &rpc.ScrubRound{Began: r.Began / 1000, Ended: r.Ended / 1000, Bytes: r.Bytes, Problems: r.Problems, Failures: r.Failures}
}
