package proof

import (
	"encoding/binary"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
)

// Place is where the contract keeps a topic's log of operations.
type Place struct {
	Contract common.Address
	Counts   common.Hash // slot: count in the lowest 8 bytes, height of the newest batch in the next 8
	Root     common.Hash // slot
}

// StateProof shows what the state of a block holds at a Place: paths through the trie of accounts and that of the contract's
// storage, from the root down.
type StateProof struct {
	Account [][]byte
	Counts  [][]byte
	Root    [][]byte
}

// Prover is a trie of accounts or of storage (go-ethereum's state.Trie).
type Prover interface {
	Prove(key []byte, proofDb ethdb.KeyValueWriter) error
}

// ProveState makes the proof. storage is nil where the contract keeps nothing.
func ProveState(accounts, storage Prover, at Place) (*StateProof, error) {
	path := func(t Prover, key []byte) ([][]byte, error) {
		var list nodeList
		if err := t.Prove(crypto.Keccak256(key), &list); err != nil {
			return nil, fmt.Errorf("prove the state of contract %s: %w", at.Contract, err)
		}
		return list.nodes, nil
	}
	p := new(StateProof)
	var err error
	if p.Account, err = path(accounts, at.Contract[:]); err != nil || storage == nil {
		return p, err
	}
	if p.Counts, err = path(storage, at.Counts[:]); err != nil {
		return nil, err
	}
	p.Root, err = path(storage, at.Root[:])
	return p, err
}

// lookup gives the value of a key that a path proves, nil if it proves that there is none.
func lookup(root common.Hash, key []byte, path [][]byte) ([]byte, error) {
	if root == types.EmptyRootHash {
		return nil, nil
	}
	if len(path) == 0 || len(path) > MaxStateNodes {
		return nil, fmt.Errorf("%w: %d nodes of a trie, 1 to %d allowed", ErrProof, len(path), MaxStateNodes)
	}
	list := nodeList{byHash: make(map[common.Hash][]byte, len(path))}
	for _, n := range path {
		if len(n) > MaxStateNodeBytes {
			return nil, fmt.Errorf("%w: a node of %d bytes, %d allowed", ErrProof, len(n), MaxStateNodeBytes)
		}
		list.byHash[crypto.Keccak256Hash(n)] = n
	}
	value, err := trie.VerifyProof(root, crypto.Keccak256(key), &list)
	if err != nil {
		return nil, fmt.Errorf("%w: the path does not lead from root %s: %w", ErrProof, root, err)
	}
	return value, nil
}

// word is the value of a storage slot.
func word(root, slot common.Hash, path [][]byte) (w common.Hash, err error) {
	v, err := lookup(root, slot[:], path)
	if err != nil || v == nil {
		return w, err
	}
	_, content, rest, err := rlp.Split(v)
	if err != nil || len(rest) > 0 || len(content) > len(w) {
		return w, fmt.Errorf("%w: a slot of %d bytes", ErrProof, len(v))
	}
	return common.BytesToHash(content), nil
}

// Verify gives the state of the log that is shown to be in the state with this root. Errors wrap ErrProof.
func (p *StateProof) Verify(stateRoot common.Hash, at Place) (s LogState, err error) {
	v, err := lookup(stateRoot, at.Contract[:], p.Account)
	if err != nil {
		return s, err
	}
	if v == nil {
		return s, fmt.Errorf("%w: the chain has no contract %s", ErrProof, at.Contract)
	}
	var account types.StateAccount
	if err := rlp.DecodeBytes(v, &account); err != nil {
		return s, fmt.Errorf("%w: account %s: %w", ErrProof, at.Contract, err)
	}
	counts, err := word(account.Root, at.Counts, p.Counts)
	if err != nil {
		return s, err
	}
	if s.Root, err = word(account.Root, at.Root, p.Root); err != nil {
		return s, err
	}
	s.Count, s.Height = binary.BigEndian.Uint64(counts[24:]), binary.BigEndian.Uint64(counts[16:24])
	return s, nil
}
