package node

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/evidence"
	topics "github.com/bornode/bornode/pubsub/ledger"
	topicproof "github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// evidenceFolder is the database of evidence, in the broker's folder.
const evidenceFolder = "evidence"

// finalFile keeps, in the folder of evidence, the height up to which checkpoints were handed over.
const finalFile = "final"

// finalSaved is how often that height is written while blocks come.
const finalSaved = 10 * time.Second

// finalAgain is when a block is tried again whose checkpoints could not be handed over.
const finalAgain = 2 * time.Second

// evidenceLog is the broker's log as evidence reads it.
type evidenceLog struct {
	store   *store.Store
	manager *replica.Manager
}

func (l evidenceLog) Batches(id evidence.ID, from, upTo int64, f func(h batch.Header, raw []byte) error) error {
	p := l.store.Partition(store.ID(id))
	if p == nil {
		return evidence.ErrUnknown
	}
	return p.Scan(from, upTo, f)
}

func (l evidenceLog) Bounds(id evidence.ID) (start, committed int64, ok bool) {
	p := l.store.Partition(store.ID(id))
	if p == nil {
		return 0, 0, false
	}
	return p.Start(), max(p.Start(), l.manager.HighWatermark(replica.ID(id))), true
}

// evidenceLedger is the final state as evidence reads it.
type evidenceLedger struct {
	mirror *topics.Mirror
	chain  *chain.Chain
}

func (l evidenceLedger) Topics() []evidence.Topic {
	v := l.mirror.View()
	if v == nil {
		return nil
	}
	list := v.Topics("")
	out := make([]evidence.Topic, len(list))
	for i, t := range list {
		out[i] = evidenceTopic(v, t)
	}
	return out
}

func (l evidenceLedger) Topic(id [32]byte) (evidence.Topic, bool) {
	v := l.mirror.View()
	if v == nil {
		return evidence.Topic{}, false
	}
	t := v.TopicByID(id)
	if t == nil {
		return evidence.Topic{}, false
	}
	return evidenceTopic(v, t), true
}

func evidenceTopic(v *topics.View, t *topics.Topic) evidence.Topic {
	peer := func(a common.Address) string {
		if b := v.BrokerByAccount(a); b != nil {
			return b.PeerID
		}
		return ""
	}
	out := evidence.Topic{ID: t.ID, Partitions: make([]evidence.Partition, len(t.Partitions))}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		out.Partitions[i] = evidence.Partition{Leader: peer(p.Leader), Account: p.Leader}
		for _, a := range p.Replicas {
			out.Partitions[i].Replicas = append(out.Partitions[i].Replicas, peer(a))
		}
	}
	return out
}

func (l evidenceLedger) Mark(ctx context.Context, topic [32]byte) (evidence.Mark, error) {
	ret, err := l.chain.Call(ctx, l.chain.FinalHeader(), contracts.TopicsAddress, contracts.CheckpointCall(topic))
	if err != nil {
		return evidence.Mark{}, err
	}
	c, err := contracts.DecodeCheckpoint(ret)
	return evidence.Mark{Seq: c.Seq, Leaves: c.Leaves, Root: topicproof.Hash(c.Root)}, err
}

func (l evidenceLedger) Commits(ctx context.Context, broker common.Address) (uint64, error) {
	ret, err := l.chain.Call(ctx, l.chain.FinalHeader(), contracts.TopicsAddress, contracts.CommitsCall(broker))
	if err != nil {
		return 0, err
	}
	return contracts.DecodeCommits(ret)
}

// openEvidence opens what proves the broker's logs.
func (n *Node) openEvidence(b *brokers, cfg evidence.Config, dir string, s brokerSigner) (err error) {
	b.evidenceDir = dir
	b.evidence, err = evidence.Open(cfg, evidence.Deps{
		Dir: dir, Self: string(n.host.ID()), Account: s.Account(), Chain: n.chain.Genesis().Hash(),
		Log: evidenceLog{b.store, b.manager}, Peers: b.manager, Ledger: evidenceLedger{b.mirror, n.chain}, Submit: b.submit.Submit,
		Sign: func(h common.Hash) ([]byte, error) {
			sig, err := s.SignSeal(h)
			return sig[:], err
		},
		Logger: b.log.Named("evidence"), Registry: n.reg, Now: time.Now,
	})
	if err != nil {
		return err
	}
	for _, kind := range []uint8{evidence.AskHeads, evidence.AskLeaves, evidence.AskCheckpoint} {
		b.manager.Answer(kind, func(ctx context.Context, _ string, q []byte) ([]byte, error) { return b.evidence.Answer(ctx, kind, q) })
	}
	return nil
}

// watchCheckpoints hands the checkpoints of every final block to evidence, in order, from where the last run ended.
func (n *Node) watchCheckpoints(ctx context.Context) error {
	b, source := n.brokers, topicsSource{c: n.chain, repairs: repairs{n}}
	finals := make(chan chain.FinalEvent, eventBuffer)
	sub := n.chain.SubscribeFinal(finals)
	defer sub.Unsubscribe()
	done, saved := b.loadFinal(n.chain.FinalHeader().Number.Uint64()), time.Now()
	n.keepUnread(done)
	defer func() { b.saveFinal(done) }()
	for {
		for done < n.chain.FinalHeader().Number.Uint64() {
			err := b.checkpointsOf(ctx, source, done+1)
			if err == nil {
				done++
				n.keepUnread(done)
				continue
			}
			if first := n.chain.FirstHeight(); errors.Is(err, block.ErrPruned) && first > done+1 {
				b.log.Warn("checkpoints in blocks that were pruned while this broker did not run are not compared with its logs",
					zap.Uint64("from", done+1), zap.Uint64("to", first-1))
				done = first - 1
				continue
			}
			if ctx.Err() == nil { // topics are served all the same
				b.log.Error("the checkpoints of a block are not compared yet; it is tried again", zap.Uint64("block", done+1), zap.Error(err))
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(finalAgain):
			}
		}
		if time.Since(saved) > finalSaved {
			b.saveFinal(done)
			saved = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-finals:
			for len(finals) > 0 {
				<-finals
			}
		}
	}
}

// keepUnread keeps the blocks above a height from being pruned: the broker has read those up to it.
func (n *Node) keepUnread(height uint64) {
	if n.pruner != nil {
		n.pruner.readUpTo.Store(height)
	}
}

func (b *brokers) checkpointsOf(ctx context.Context, source topicsSource, height uint64) error {
	logs, err := source.Logs(ctx, height, height)
	if err != nil {
		return err
	}
	var list []topicproof.Checkpointed
	for _, l := range logs {
		if c, err := topicproof.DecodeCheckpointed(contracts.TopicsAddress, l); err == nil {
			list = append(list, c)
		}
	}
	return b.evidence.Final(height, list)
}

// loadFinal is the height saved last; without one nothing before now is looked at.
func (b *brokers) loadFinal(now uint64) uint64 {
	raw, err := os.ReadFile(filepath.Join(b.evidenceDir, "..", finalFile))
	if err == nil && len(raw) == 8 {
		return binary.BigEndian.Uint64(raw) // above now while the chain is synced anew: what is below was compared
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.log.Warn("checkpoints made while this broker was down are not compared", zap.Error(err))
	}
	return now
}

// saveFinal keeps the height; what a crash loses is looked at again.
func (b *brokers) saveFinal(height uint64) {
	file := filepath.Join(b.evidenceDir, "..", finalFile)
	if err := vfs.ReplaceFileAt(file, binary.BigEndian.AppendUint64(nil, height)); err != nil {
		b.log.Warn("the height of the checkpoints compared is not kept over a restart", zap.String("file", file), zap.Error(err))
	}
}
