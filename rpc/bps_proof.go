package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	gethrpc "github.com/ethereum/go-ethereum/rpc"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/proof"
)

// Bounds of proofs.
const (
	maxProofRecords = 1 << 16  // offsets in one proof
	maxProofBytes   = 32 << 20 // of an encoded proof, which is twice as long in the answer
	maxEpochRuns    = 1024     // runs in one answer of bps_epochs
)

// trustedJSON is a block that the asker trusts.
type trustedJSON struct {
	Number hexutil.Uint64 `json:"number"`
	Hash   common.Hash    `json:"hash"`
	// Followed says that he came there from genesis by proofs like this one, and needs what follows alone: otherwise the
	// schedule in force there is shown by one more end of an epoch.
	Followed bool `json:"followed"`
}

type topicProofJSON struct {
	Topic     common.Hash    `json:"topic"`
	Partition int32          `json:"partition"`
	From      int64          `json:"from"` // offsets [from, to) are proved
	To        int64          `json:"to"`
	Seq       hexutil.Uint64 `json:"seq"` // of the checkpoint
	Number    hexutil.Uint64 `json:"number"`
	Batches   bool           `json:"batches"` // the batches are in it, not only their digests
	Proof     hexutil.Bytes  `json:"proof"`   // the file (docs/wire-topics.md)
}

// Proof is a file that proves what a partition holds from an offset on (default: the batch of that offset, at most 65,536
// records), to be checked offline with the genesis file, or with a trusted block that the asker names. A broker of the
// topic answers it, once a checkpoint that covers the offset is final. Digests are for everybody; the batches are in it
// for one who shows a token of who may read the topic, or asks on the node's own socket, unless withBatches is false or
// retention took them.
func (a *bpsAPI) Proof(ctx context.Context, topic string, partition hexutil.Uint64, offset hexutil.Uint64, count *hexutil.Uint64, withBatches *bool, trusted *trustedJSON, token *string) (*topicProofJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if a.back.Broker == nil || a.back.Trust == nil {
		return nil, notOffered("a proof of topics: it is no broker; ask a broker of the topic, a proof")
	}
	n := uint64(1)
	if count != nil {
		n = uint64(*count)
	}
	switch {
	case n == 0 || n > maxProofRecords:
		return nil, limitExceeded("%d records asked for, 1 to %d are proved at once", n, maxProofRecords)
	case partition > proof.MaxPartitions || offset > 1<<62:
		return nil, invalidParams("partition %d or offset %d is beyond all bounds", uint64(partition), uint64(offset))
	}
	id, err := a.topicOf(ctx, a.back.Chain.FinalHeader(), topic)
	if err != nil {
		return nil, err
	}
	batches, err := a.mayHaveBatches(ctx, id, withBatches, token)
	if err != nil {
		return nil, err
	}
	p, err := a.back.Broker.Prove(evidence.ID{Topic: id, Partition: int32(partition)}, int64(offset), int64(uint64(offset)+n), batches) //nolint:gosec // bounded above
	if errors.Is(err, evidence.ErrNotProved) || errors.Is(err, evidence.ErrUnknown) {
		return nil, &Error{Code: codeServer, Message: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	b, err := a.bundle(ctx, id, p, trusted)
	if err != nil {
		return nil, err
	}
	return a.proofAnswer(ctx, b, p.Seq)
}

// mayHaveBatches tells whether the asker gets the batches themselves: records are for those who may read the topic, here
// as with Kafka. One who does not say what he wants gets what he may have.
func (a *bpsAPI) mayHaveBatches(ctx context.Context, topic common.Hash, wanted *bool, token *string) (bool, error) {
	switch {
	case wanted != nil && !*wanted:
		return false, nil
	case a.local:
		return true, nil
	case token != nil && a.back.Readers != nil:
		err := a.back.Readers.MayRead(*token, addressOf(ctx), topic)
		if err != nil {
			err = &Error{Code: codeServer, Message: err.Error()}
		}
		return err == nil, err
	case wanted != nil:
		return false, invalidParams("the batches of a topic are given to who may read it: show a token (borcli topic token), ask for the digests alone, or ask on the node's Unix socket")
	}
	return false, nil
}

// addressOf is the caller's address without the port, as rules of access name hosts.
func addressOf(ctx context.Context) string {
	remote := gethrpc.PeerInfoFromContext(ctx).RemoteAddr
	if ap, err := netip.ParseAddrPort(remote); err == nil {
		return ap.Addr().Unmap().WithZone("").String()
	}
	return remote
}

func (a *bpsAPI) proofAnswer(ctx context.Context, b *proof.Bundle, seq uint64) (*topicProofJSON, error) {
	file, err := b.Encode()
	if err != nil {
		return nil, err
	}
	if len(file) > maxProofBytes {
		return nil, limitExceeded("the proof has %d bytes, %d are given at once; name a trusted block nearer to block %d, or fewer records", len(file), maxProofBytes, b.Height)
	}
	held := a.hold(a.host(ctx))
	defer held.give()
	if err := held.gather(answerCopies * 2 * len(file)); err != nil {
		return nil, err
	}
	return &topicProofJSON{
		Topic: b.Head.Topic, Partition: b.Head.Partition, From: b.Leaves[0].Base, To: b.Leaves[len(b.Leaves)-1].Next(),
		Seq: hexutil.Uint64(seq), Number: hexutil.Uint64(b.Height), Batches: len(b.Batches) > 0, Proof: file,
	}, nil
}

// bundle adds to a broker's part of a proof what the chain has.
func (a *bpsAPI) bundle(ctx context.Context, id common.Hash, p *evidence.Proven, trusted *trustedJSON) (*proof.Bundle, error) {
	trust, err := a.trust(trusted)
	if err != nil {
		return nil, err
	}
	ev, err := a.checkpointEvent(id, p.Height, p.Seq)
	if err != nil {
		return nil, err
	}
	c, src := a.back.Chain, &finalSource{back: &a.back}
	var runs []proof.Run
	if head := c.CurrentHeader().Number.Uint64(); trusted != nil && trusted.Followed {
		runs, err = a.follower().Collect(ctx, src, uint64(trusted.Number), p.Height, head)
	} else {
		runs, err = proof.Collect(ctx, trust, src, p.Height, head)
	}
	if src.failed != nil {
		return nil, src.failed
	}
	if err != nil {
		return nil, &Error{Code: codeServer, Message: err.Error()}
	}
	return &proof.Bundle{
		Genesis: trust.Genesis, Runs: runs, Height: p.Height, Event: *ev, Partitions: p.Partitions, Head: p.Head, HeadPath: p.HeadPath,
		First: p.First, Leaves: p.Leaves, Path: p.Path, Batches: p.Batches,
	}, nil
}

// follower remembers the ends of epochs for those who followed the chain.
func (a *bpsAPI) follower() *proof.Follower {
	if f := a.epochs.Load(); f != nil {
		return f
	}
	a.epochs.CompareAndSwap(nil, proof.NewFollower(a.back.Trust))
	return a.epochs.Load()
}

// trust is where a proof begins.
func (a *bpsAPI) trust(trusted *trustedJSON) (*proof.Trust, error) {
	if a.back.Trust == nil {
		return nil, notOffered("a proof of topics")
	}
	t := *a.back.Trust
	if trusted == nil {
		return &t, nil
	}
	c, n := a.back.Chain, uint64(trusted.Number)
	canonical, err := c.CanonicalHash(n)
	if err != nil {
		return nil, unreadable(fmt.Sprintf("block %d", n), err)
	}
	if n > c.FinalHeader().Number.Uint64() || canonical != trusted.Hash {
		return nil, invalidParams("block %d %s is not a final block of this node's chain", n, trusted.Hash)
	}
	t.Checkpoint = &proof.Checkpoint{Height: n, Hash: trusted.Hash}
	return &t, nil
}

// checkpointEvent proves the event of a checkpoint from the receipts of its block.
func (a *bpsAPI) checkpointEvent(id common.Hash, height, seq uint64) (*proof.Event, error) {
	c := a.back.Chain
	hash, err := c.CanonicalHash(height)
	var receipts types.Receipts
	if err == nil {
		receipts, err = c.Receipts(hash)
	}
	if err != nil {
		return nil, unreadable(fmt.Sprintf("receipts of block %d", height), err)
	}
	for i, r := range receipts {
		for j, l := range r.Logs {
			if x, err := proof.DecodeCheckpointed(contracts.TopicsAddress, l); err == nil && x.Topic == id && x.Seq == seq {
				return proof.ProveEvent(receipts, uint64(i), uint64(j))
			}
		}
	}
	return nil, &Error{Code: codeServer, Message: fmt.Sprintf("block %d has no checkpoint %d of topic %s; the receipts are not kept, or the broker's evidence is of another chain", height, seq, id)}
}

type operationsProofJSON struct {
	Topic  common.Hash    `json:"topic"`
	Number hexutil.Uint64 `json:"number"` // of the final block whose state is shown
	Hash   common.Hash    `json:"hash"`
	Proof  hexutil.Bytes  `json:"proof"` // an audit file without operations (docs/wire-topics.md)
}

// OperationsProof shows where a topic's log of operations stands at the newest block that can be shown to be final, from the
// genesis file or a trusted block on: what an audit begins with that does not trust the node.
func (a *bpsAPI) OperationsProof(ctx context.Context, topic string, trusted *trustedJSON) (*operationsProofJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	trust, err := a.trust(trusted)
	if err != nil {
		return nil, err
	}
	c := a.back.Chain
	id, err := a.topicOf(ctx, c.FinalHeader(), topic)
	if err != nil {
		return nil, err
	}
	out := &proof.Audit{Genesis: trust.Genesis, Topic: id}
	head := c.CurrentHeader().Number.Uint64()
	src := &finalSource{back: &a.back}
	if out.Height, err = proof.Newest(ctx, src, head); err == nil {
		out.Runs, err = proof.Collect(ctx, trust, src, out.Height, head)
	}
	if src.failed != nil {
		return nil, src.failed
	}
	if err != nil {
		return nil, &Error{Code: codeServer, Message: err.Error()}
	}
	if err := a.operationsState(out); err != nil {
		return nil, err
	}
	file, err := out.Encode()
	if err != nil {
		return nil, err
	}
	if len(file) > maxProofBytes {
		return nil, limitExceeded("the proof has %d bytes, %d are given at once; name a trusted block nearer to block %d", len(file), maxProofBytes, out.Height)
	}
	held := a.hold(a.host(ctx))
	defer held.give()
	if err := held.gather(answerCopies * 2 * len(file)); err != nil {
		return nil, err
	}
	hash, err := c.CanonicalHash(out.Height)
	if err != nil {
		return nil, unreadable(fmt.Sprintf("block %d", out.Height), err)
	}
	return &operationsProofJSON{Topic: id, Number: hexutil.Uint64(out.Height), Hash: hash, Proof: file}, nil
}

// operationsState adds what the state of the block holds.
func (a *bpsAPI) operationsState(out *proof.Audit) error {
	h, err := a.back.sealedAt(out.Height)
	if err != nil {
		return err
	}
	if h == nil {
		return &Error{Code: codeServer, Message: fmt.Sprintf("block %d is gone; ask again", out.Height)}
	}
	s, err := a.back.Chain.StateAt(h.Header)
	if err != nil {
		return fmt.Errorf("state of block %d is not available: %w", out.Height, err)
	}
	accounts, err := s.Database().OpenTrie(h.Header.Root)
	if err != nil {
		return &Error{Code: codeServer, Message: fmt.Sprintf("the state of block %d cannot be proved: %v; ask again", out.Height, err)}
	}
	var storage proof.Prover
	root := s.GetStorageRoot(contracts.TopicsAddress)
	if root != (common.Hash{}) && root != types.EmptyRootHash {
		if storage, err = s.Database().OpenStorageTrie(h.Header.Root, contracts.TopicsAddress, root, nil); err != nil {
			return err
		}
	}
	at := proof.Place{Contract: contracts.TopicsAddress}
	at.Counts, at.Root = contracts.OperationsSlots(out.Topic)
	p, err := proof.ProveState(accounts, storage, at)
	if err != nil {
		return err
	}
	out.State = *p
	to, err := p.Verify(h.Header.Root, at)
	out.From = to
	return err
}

type epochsJSON struct {
	First hexutil.Uint64  `json:"first"` // height of the first header
	Last  hexutil.Uint64  `json:"last"`
	Runs  []hexutil.Bytes `json:"runs"` // RLP, as in a proof file
	More  bool            `json:"more"` // there are runs behind last
}

var errEnough = errors.New("enough")

// Epochs are the runs of headers that prove the ends of all epochs from genesis on, from the first one above a height:
// at most 1024. What an auditor keeps to check later proofs against.
func (a *bpsAPI) Epochs(ctx context.Context, above *hexutil.Uint64, count *hexutil.Uint64) (*epochsJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	n, from := uint64(maxEpochRuns), uint64(0)
	if count != nil {
		n = uint64(*count)
	}
	if above != nil {
		from = uint64(*above)
	}
	if n == 0 || n > maxEpochRuns {
		return nil, limitExceeded("%d runs asked for, 1 to %d are given at once", n, maxEpochRuns)
	}
	trust, err := a.trust(nil)
	if err != nil {
		return nil, err
	}
	held := a.hold(a.host(ctx))
	defer held.give()
	out := &epochsJSON{Runs: []hexutil.Bytes{}}
	c := a.back.Chain
	src := &finalSource{back: &a.back}
	err = proof.Epochs(ctx, trust, src, c.CurrentHeader().Number.Uint64(), func(r proof.Run) error {
		first := r.Headers[0].Number()
		if first <= from {
			return nil
		}
		if uint64(len(out.Runs)) == n {
			out.More = true
			return errEnough
		}
		b, err := rlp.EncodeToBytes(&r)
		if err != nil {
			return err
		}
		if len(out.Runs) == 0 {
			out.First = hexutil.Uint64(first)
		}
		out.Runs, out.Last = append(out.Runs, b), hexutil.Uint64(r.Headers[len(r.Headers)-1].Number())
		return held.gather(answerCopies * 2 * len(b))
	})
	if src.failed != nil {
		return nil, src.failed
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, &Error{Code: codeServer, Message: err.Error()}
	}
	return out, nil
}
