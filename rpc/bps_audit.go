package rpc

import (
	"context"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/proof"
)

// maxAuditBatches is the largest count of batches of operations in one answer.
const maxAuditBatches = 64

type logStateJSON struct {
	Count  hexutil.Uint64 `json:"count"` // operations ever
	Root   common.Hash    `json:"root"`
	Number hexutil.Uint64 `json:"number"` // of the block with the newest; 0: none
}

func (s *logStateJSON) state() proof.LogState {
	return proof.LogState{Count: uint64(s.Count), Root: s.Root, Height: uint64(s.Number)}
}

func stateAnswer(s proof.LogState) logStateJSON {
	return logStateJSON{hexutil.Uint64(s.Count), s.Root, hexutil.Uint64(s.Height)}
}

// Operations is where a topic's log of operations stands: what an audit begins with.
func (a *bpsAPI) Operations(ctx context.Context, topic string) (*logStateJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	h := a.back.Chain.FinalHeader()
	id, err := a.topicOf(ctx, h, topic)
	if err != nil {
		return nil, err
	}
	s, err := a.logState(ctx, h, id)
	if err != nil {
		return nil, err
	}
	out := stateAnswer(s)
	return &out, nil
}

func (a *bpsAPI) logState(ctx context.Context, h *types.Header, id common.Hash) (proof.LogState, error) {
	ret, err := a.view(ctx, h, contracts.OperationsCall(id))
	if err != nil {
		return proof.LogState{}, err
	}
	o, err := contracts.DecodeOperations(ret)
	return proof.LogState{Count: o.Count, Root: o.Root, Height: o.LastHeight}, err
}

type operationJSON struct {
	Operator  common.Address `json:"operator"`
	Pseudonym bool           `json:"pseudonym"`
	Role      hexutil.Uint64 `json:"role"`
	Operation hexutil.Uint64 `json:"operation"` // Kafka's number
	Allowed   bool           `json:"allowed"`
	Code      int16          `json:"code"` // Kafka's error; 0: allowed
	Reason    string         `json:"reason,omitempty"`
	Partition int32          `json:"partition"`
	First     int64          `json:"first"`
	Last      int64          `json:"last"`
	Count     hexutil.Uint64 `json:"count"`
	Start     int64          `json:"start"` // ms
	End       int64          `json:"end"`
	Host      string         `json:"host,omitempty"`
}

type operationBatchJSON struct {
	Number      hexutil.Uint64  `json:"number"`
	Transaction common.Hash     `json:"transaction"`
	Broker      common.Address  `json:"broker"`
	Count       hexutil.Uint64  `json:"count"`
	Entries     hexutil.Bytes   `json:"entries"` // as the contract chained them
	Operations  []operationJSON `json:"operations"`
}

type auditJSON struct {
	Topic   common.Hash          `json:"topic"`
	From    logStateJSON         `json:"from"` // the log before the oldest batch here; count 0: there are no older ones
	To      logStateJSON         `json:"to"`   // and after the newest
	Batches []operationBatchJSON `json:"batches"`
	Proved  bool                 `json:"proved"` // the batches lead from one to the other: none is missing
	Read    hexutil.Uint64       `json:"read"`   // blocks that were read for it
}

// Audit reads a topic's operations backwards, from the state of the log now or from one that an earlier answer began with
// (its from), oldest first: at most 64 batches. Only blocks with operations of this topic are read, and the batches are
// checked against the roots: one left out or changed is an error.
func (a *bpsAPI) Audit(ctx context.Context, topic string, until *logStateJSON, count *hexutil.Uint64) (*auditJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	h := a.back.Chain.FinalHeader()
	id, err := a.topicOf(ctx, h, topic)
	if err != nil {
		return nil, err
	}
	n := uint64(maxAuditBatches)
	if count != nil {
		n = uint64(*count)
	}
	if n == 0 || n > maxAuditBatches {
		return nil, limitExceeded("%d batches asked for, 1 to %d are given at once", n, maxAuditBatches)
	}
	var to proof.LogState
	if until != nil {
		to = until.state()
	} else if to, err = a.logState(ctx, h, id); err != nil {
		return nil, err
	}
	if to.Height > h.Number.Uint64() {
		return nil, invalidParams("block %d is above the last irreversible one, %s", to.Height, h.Number)
	}
	return a.audit(ctx, id, to, int(n)) //nolint:gosec // at most maxAuditBatches
}

// audit walks back from a state of the log.
func (a *bpsAPI) audit(ctx context.Context, id common.Hash, to proof.LogState, most int) (*auditJSON, error) {
	w := &auditWalk{a: a, id: id, at: to}
	held := a.hold(a.host(ctx))
	defer held.give()
	var chained []proof.OperationBatch
	out := &auditJSON{Topic: id, To: stateAnswer(to), Batches: []operationBatchJSON{}}
	for w.at.Count > 0 && len(out.Batches) < most {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b, err := w.back()
		if err != nil {
			return nil, err
		}
		list, err := proof.DecodeOperations(b.Entries, int(b.Count)) //nolint:gosec // bounded by the contract
		if err != nil {
			return nil, fmt.Errorf("operations of topic %s in block %d: %w", id, b.Number, err)
		}
		for i := range list {
			b.Operations = append(b.Operations, operationAnswer(&list[i]))
		}
		if err := held.gather(answerCopies * (2*len(b.Entries) + 512*len(list))); err != nil {
			return nil, err
		}
		out.Batches = append(out.Batches, *b)
		chained = append(chained, proof.OperationBatch{Height: uint64(b.Number), Broker: b.Broker, Count: uint32(b.Count), Entries: b.Entries}) //nolint:gosec // as above
	}
	slices.Reverse(out.Batches)
	slices.Reverse(chained)
	if _, err := proof.CheckOperations(id, w.at, to, chained); err != nil {
		return nil, &Error{Code: codeServer, Message: err.Error()}
	}
	out.From, out.Proved, out.Read = stateAnswer(w.at), true, hexutil.Uint64(w.read)
	return out, nil
}

func operationAnswer(o *proof.Operation) operationJSON {
	x := operationJSON{
		Operator: o.Operator, Pseudonym: o.Pseudonym, Role: hexutil.Uint64(o.Role), Operation: hexutil.Uint64(o.Kind), Allowed: !o.Refused(), Code: o.Code,
		Reason: o.Reason, Partition: o.Partition, First: o.First, Last: o.Last, Count: hexutil.Uint64(o.Count), Start: o.Start, End: o.End,
	}
	if o.Host.IsValid() {
		x.Host = o.Host.String()
	}
	return x
}

// auditWalk goes back batch by batch.
type auditWalk struct {
	a    *bpsAPI
	id   common.Hash
	at   proof.LogState
	read int
	last uint64 // height of logs
	logs []operatedLog
}

// operatedLog is one event of the topic with the batch that it stands for.
type operatedLog struct {
	event   *contracts.Operated
	tx      common.Hash
	entries []byte
}

// back is the batch that led to the state, and moves to the state before.
func (w *auditWalk) back() (*operationBatchJSON, error) {
	if w.last != w.at.Height || w.logs == nil {
		if err := w.load(w.at.Height); err != nil {
			return nil, err
		}
	}
	for i := range w.logs {
		l := &w.logs[i]
		if l.event.Root != w.at.Root {
			continue
		}
		if uint64(l.event.Count) > w.at.Count {
			break
		}
		b := &operationBatchJSON{Number: hexutil.Uint64(w.at.Height), Transaction: l.tx, Broker: l.event.Broker, Count: hexutil.Uint64(l.event.Count), Entries: l.entries}
		w.at = proof.LogState{Count: w.at.Count - uint64(l.event.Count), Root: l.event.PreviousRoot, Height: l.event.PreviousHeight}
		return b, nil
	}
	return nil, &Error{Code: codeServer, Message: fmt.Sprintf("block %d has no operations of topic %s with root %s: the state that the audit starts from is not of this chain", w.at.Height, w.id, w.at.Root)}
}

// load reads the events of the topic in a block, with the entries from the call data of their transactions.
func (w *auditWalk) load(height uint64) error {
	c := w.a.back.Chain
	b, err := c.BlockByNumber(height)
	if err != nil {
		return unreadable(fmt.Sprintf("block %d", height), err)
	}
	if b == nil {
		return &Error{Code: codeServer, Message: fmt.Sprintf("block %d is not kept by this node any more; ask one that keeps the whole history", height)}
	}
	receipts, err := c.Receipts(b.Hash())
	if err != nil {
		return unreadable(fmt.Sprintf("receipts of block %d", height), err)
	}
	if len(receipts) != len(b.Transactions) {
		return fmt.Errorf("block %d has %d transactions and %d receipts", height, len(b.Transactions), len(receipts))
	}
	w.last, w.logs = height, []operatedLog{}
	w.read++
	for i, r := range receipts {
		logs, err := w.transaction(b.Transactions[i], r)
		if err != nil {
			return fmt.Errorf("block %d: %w", height, err)
		}
		w.logs = append(w.logs, logs...)
	}
	return nil
}

func (w *auditWalk) transaction(tx *types.Transaction, r *types.Receipt) (out []operatedLog, err error) {
	for _, l := range r.Logs {
		if l.Address != contracts.TopicsAddress || len(l.Topics) < 2 || l.Topics[0] != contracts.EventOperated || l.Topics[1] != w.id {
			continue
		}
		ev, err := contracts.DecodeTopicsEvent(l)
		if err != nil {
			return nil, err
		}
		out = append(out, operatedLog{event: ev.(*contracts.Operated), tx: tx.Hash()})
	}
	if len(out) == 0 {
		return nil, nil
	}
	call, err := contracts.DecodeCommit(tx.Data())
	if err != nil {
		return nil, err
	}
	n := 0
	for _, o := range call.Operations {
		if o.Topic == w.id && n < len(out) {
			out[n].entries = o.Entries
			n++
		}
	}
	if n != len(out) {
		return nil, fmt.Errorf("transaction %s has %d batches of topic %s and %d events", tx.Hash(), n, w.id, len(out))
	}
	return out, nil
}
