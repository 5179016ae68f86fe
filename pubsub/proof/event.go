package proof

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
)

// Event shows that a log is in a block: the path through the trie of the block's receipts.
type Event struct {
	Transaction uint64   // index in the block
	Log         uint64   // index in the receipt
	Nodes       [][]byte // from the root down
}

// nodeList collects the nodes of a proof in order (trie.Prove), and serves them by hash (trie.VerifyProof).
type nodeList struct {
	nodes  [][]byte
	byHash map[common.Hash][]byte
}

func (n *nodeList) Put(_, value []byte) error {
	n.nodes = append(n.nodes, bytes.Clone(value))
	return nil
}
func (n *nodeList) Delete([]byte) error { return errors.New("a proof only grows") }
func (n *nodeList) Has(key []byte) (bool, error) {
	_, ok := n.byHash[common.BytesToHash(key)]
	return ok, nil
}
func (n *nodeList) Get(key []byte) ([]byte, error) {
	if v, ok := n.byHash[common.BytesToHash(key)]; ok {
		return v, nil
	}
	return nil, errors.New("node is missing")
}

func receiptKey(i uint64) []byte { return rlp.AppendUint64(nil, i) }

// ProveEvent makes the proof from all receipts of the block, in order.
func ProveEvent(receipts types.Receipts, transaction, log uint64) (*Event, error) {
	if transaction >= uint64(len(receipts)) || log >= uint64(len(receipts[transaction].Logs)) {
		return nil, fmt.Errorf("no log %d in receipt %d of %d", log, transaction, len(receipts))
	}
	t := trie.NewEmpty(nil)
	var buf bytes.Buffer
	for i := range receipts {
		buf.Reset()
		receipts.EncodeIndex(i, &buf)
		if err := t.Update(receiptKey(uint64(i)), bytes.Clone(buf.Bytes())); err != nil {
			return nil, fmt.Errorf("receipt %d: %w", i, err)
		}
	}
	var list nodeList
	if err := t.Prove(receiptKey(transaction), &list); err != nil {
		return nil, fmt.Errorf("receipt %d: %w", transaction, err)
	}
	return &Event{transaction, log, list.nodes}, nil
}

// Verify gives the log that is shown to be in the block with this root of receipts. Errors wrap ErrProof.
func (e *Event) Verify(receiptsRoot common.Hash) (*types.Log, error) {
	if len(e.Nodes) == 0 || len(e.Nodes) > MaxReceiptNodes {
		return nil, fmt.Errorf("%w: %d nodes of the trie of receipts, 1 to %d allowed", ErrProof, len(e.Nodes), MaxReceiptNodes)
	}
	list := nodeList{byHash: make(map[common.Hash][]byte, len(e.Nodes))}
	for _, n := range e.Nodes {
		if len(n) > MaxReceiptNodeBytes {
			return nil, fmt.Errorf("%w: a node of %d bytes, %d allowed", ErrProof, len(n), MaxReceiptNodeBytes)
		}
		list.byHash[crypto.Keccak256Hash(n)] = n
	}
	value, err := trie.VerifyProof(receiptsRoot, receiptKey(e.Transaction), &list)
	if err != nil || value == nil {
		return nil, fmt.Errorf("%w: receipt %d is not in the trie with root %s", ErrProof, e.Transaction, receiptsRoot)
	}
	var r types.Receipt
	if err := r.UnmarshalBinary(value); err != nil {
		return nil, fmt.Errorf("%w: receipt %d: %w", ErrProof, e.Transaction, err)
	}
	if r.Status != types.ReceiptStatusSuccessful || e.Log >= uint64(len(r.Logs)) {
		return nil, fmt.Errorf("%w: receipt %d has status %d and %d logs", ErrProof, e.Transaction, r.Status, len(r.Logs))
	}
	return r.Logs[e.Log], nil
}

// Checkpointed is a topic's checkpoint as the contract announced it.
type Checkpointed struct {
	Topic  [32]byte
	Seq    uint64
	Root   Hash
	Leaves uint64
	Broker common.Address
}

// checkpointedID is the first topic of the event.
var checkpointedID = crypto.Keccak256Hash([]byte("Checkpointed(bytes32,uint64,bytes32,uint64,address)"))

// DecodeCheckpointed reads a checkpoint from a log of the contract at this address.
func DecodeCheckpointed(contract common.Address, l *types.Log) (c Checkpointed, err error) {
	if l.Address != contract || len(l.Topics) != 3 || l.Topics[0] != checkpointedID || len(l.Data) != 96 {
		return c, fmt.Errorf("%w: log of %s is no checkpoint of the contract %s", ErrProof, l.Address, contract)
	}
	seq, leaves, broker := l.Topics[2].Big(), common.BytesToHash(l.Data[32:64]).Big(), common.BytesToHash(l.Data[64:])
	if !seq.IsUint64() || !leaves.IsUint64() || !bytes.Equal(broker[:12], make([]byte, 12)) {
		return c, fmt.Errorf("%w: checkpoint with numbers out of range", ErrProof)
	}
	return Checkpointed{l.Topics[1], seq.Uint64(), Hash(l.Data[:32]), leaves.Uint64(), common.BytesToAddress(broker[:])}, nil
}
