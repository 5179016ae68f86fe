package rpc

import (
	"encoding/hex"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

func (a *ethAPI) GetBalance(addr common.Address, ref *gethrpc.BlockNumberOrHash) (*hexutil.Big, error) {
	s, _, err := a.back.state(ref)
	if err != nil {
		return nil, err
	}
	return (*hexutil.Big)(s.GetBalance(addr).ToBig()), s.Error()
}

func (a *ethAPI) GetCode(addr common.Address, ref *gethrpc.BlockNumberOrHash) (hexutil.Bytes, error) {
	s, _, err := a.back.state(ref)
	if err != nil {
		return nil, err
	}
	return s.GetCode(addr), s.Error()
}

func (a *ethAPI) GetStorageAt(addr common.Address, key string, ref *gethrpc.BlockNumberOrHash) (hexutil.Bytes, error) {
	k, _, err := storageKey(key)
	if err != nil {
		return nil, err
	}
	s, _, err := a.back.state(ref)
	if err != nil {
		return nil, err
	}
	v := s.GetState(addr, k)
	return v[:], s.Error()
}

// GetStorageValues reads many slots of many accounts at one block.
func (a *ethAPI) GetStorageValues(slots map[common.Address][]common.Hash, ref *gethrpc.BlockNumberOrHash) (map[common.Address][]hexutil.Bytes, error) {
	total := 0
	for _, keys := range slots {
		total += len(keys)
	}
	switch {
	case total == 0:
		return nil, invalidParams("no slots are asked for")
	case total > maxStorageSlots:
		return nil, limitExceeded("%d slots asked for, %d are allowed", total, maxStorageSlots)
	}
	s, _, err := a.back.state(ref)
	if err != nil {
		return nil, err
	}
	out := make(map[common.Address][]hexutil.Bytes, len(slots))
	for addr, keys := range slots {
		values := make([]hexutil.Bytes, len(keys))
		for i, k := range keys {
			v := s.GetState(addr, k)
			values[i] = v[:]
		}
		out[addr] = values
	}
	return out, s.Error()
}

// GetTransactionCount at pending counts the pool's executable transactions too.
func (a *ethAPI) GetTransactionCount(addr common.Address, ref *gethrpc.BlockNumberOrHash) (hexutil.Uint64, error) {
	if n, ok := refNumber(ref); ok && n == gethrpc.PendingBlockNumber {
		if err := a.back.notReady("the transaction pool"); err != nil {
			return 0, err
		}
		return hexutil.Uint64(a.back.Pool.Nonce(addr)), nil
	}
	s, _, err := a.back.state(ref)
	if err != nil {
		return 0, err
	}
	return hexutil.Uint64(s.GetNonce(addr)), s.Error()
}

type proofJSON struct {
	Address      common.Address     `json:"address"`
	AccountProof []string           `json:"accountProof"`
	Balance      *hexutil.Big       `json:"balance"`
	CodeHash     common.Hash        `json:"codeHash"`
	Nonce        hexutil.Uint64     `json:"nonce"`
	StorageHash  common.Hash        `json:"storageHash"`
	StorageProof []storageProofJSON `json:"storageProof"`
}

type storageProofJSON struct {
	Key   string       `json:"key"`
	Value *hexutil.Big `json:"value"`
	Proof []string     `json:"proof"`
}

// nodeList collects the trie nodes of a proof, root first.
type nodeList []string

func (l *nodeList) Put(_, value []byte) error { *l = append(*l, hexutil.Encode(value)); return nil }
func (l *nodeList) Delete([]byte) error       { panic("rpc: proofs only grow") }

func (a *ethAPI) GetProof(addr common.Address, keys []string, ref *gethrpc.BlockNumberOrHash) (*proofJSON, error) {
	if len(keys) > maxStorageKeys {
		return nil, limitExceeded("%d storage keys asked for, %d are allowed", len(keys), maxStorageKeys)
	}
	hashes, names := make([]common.Hash, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		var err error
		if hashes[i], names[i], err = storageKey(k); err != nil {
			return nil, err
		}
	}
	s, h, err := a.back.state(ref)
	if err != nil {
		return nil, err
	}
	tr, err := s.Database().OpenTrie(h.Root)
	if err != nil {
		return nil, &Error{Code: codeServer, Message: "proofs are available for the newest blocks only: " + err.Error()}
	}
	account := nodeList{}
	if err := tr.Prove(crypto.Keccak256(addr[:]), &account); err != nil {
		return nil, err
	}
	root := s.GetStorageRoot(addr)
	storage, err := proveStorage(s, h.Root, addr, root, hashes, names)
	if err != nil {
		return nil, err
	}
	code := s.GetCodeHash(addr)
	if root == (common.Hash{}) {
		root = types.EmptyRootHash
	}
	return &proofJSON{
		Address: addr, AccountProof: account, Balance: (*hexutil.Big)(s.GetBalance(addr).ToBig()), CodeHash: code,
		Nonce: hexutil.Uint64(s.GetNonce(addr)), StorageHash: root, StorageProof: storage,
	}, s.Error()
}

func proveStorage(s *state.StateDB, stateRoot common.Hash, addr common.Address, root common.Hash, keys []common.Hash, names []string) ([]storageProofJSON, error) {
	out := make([]storageProofJSON, len(keys))
	var tr state.Trie
	if root != (common.Hash{}) && root != types.EmptyRootHash && len(keys) > 0 {
		var err error
		if tr, err = s.Database().OpenStorageTrie(stateRoot, addr, root, nil); err != nil {
			return nil, err
		}
	}
	for i, k := range keys {
		out[i] = storageProofJSON{Key: names[i], Value: new(hexutil.Big), Proof: []string{}}
		if tr == nil {
			continue
		}
		nodes := nodeList{}
		if err := tr.Prove(crypto.Keccak256(k[:]), &nodes); err != nil {
			return nil, err
		}
		out[i].Value, out[i].Proof = (*hexutil.Big)(s.GetState(addr, k).Big()), nodes
	}
	return out, nil
}

// storageKey reads a storage key, as 32 bytes or as a number, and the form in which eth_getProof names it back.
func storageKey(s string) (common.Hash, string, error) {
	digits := strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	if len(digits) > 64 {
		return common.Hash{}, "", invalidParams("storage key %.80q is longer than 32 bytes", s)
	}
	full := len(digits) == 64
	if len(digits)%2 == 1 {
		digits = "0" + digits
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return common.Hash{}, "", invalidParams("storage key %q is not hexadecimal", s)
	}
	h := common.BytesToHash(b)
	if full {
		return h, h.Hex(), nil
	}
	return h, hexutil.EncodeBig(h.Big()), nil
}
