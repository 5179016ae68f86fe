package contracts

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// The brokers' own tenant and its only topic, where the offsets of consumer groups are kept. Any live broker may create
// it, with OffsetsPartitions partitions and nobody as its owner.
const (
	BrokersTenant     = "_bps"
	OffsetsTopic      = "_bps.offsets"
	OffsetsPartitions = 16
)

// Scopes of a token, bit by bit.
const (
	ScopeData  uint8 = 1
	ScopeAdmin uint8 = 2
)

// FirstEpoch is the epoch of a new lease; 0 is none.
const FirstEpoch = 1

// ErrName is wrapped by every error about the name of a tenant, a topic or a group.
var ErrName = errors.New("name")

var bpsTopics = sync.OnceValue(NewTopics)

func nameChars(s string, dots bool) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && (c != '.' || !dots) {
			return false
		}
	}
	return true
}

// CheckTenantName says why a tenant cannot have this name. Errors wrap ErrName.
func CheckTenantName(name string) error {
	if name == BrokersTenant {
		return fmt.Errorf("%w: the tenant %s is the brokers' own; take another name", ErrName, BrokersTenant)
	}
	if name == "" || len(name) > MaxTenantName || !nameChars(name, false) {
		return fmt.Errorf("%w: a tenant's name has 1 to %d of the characters a-z, A-Z, 0-9, _ and -, not %.80q", ErrName, MaxTenantName, name)
	}
	return nil
}

// TenantOf is the tenant of a topic or a group: what stands before the first dot. Errors wrap ErrName and say why there
// can be no topic of this name.
func TenantOf(name string) (string, error) {
	if len(name) > MaxTopicName || !nameChars(name, true) {
		return "", fmt.Errorf("%w: a name has at most %d of the characters a-z, A-Z, 0-9, ., _ and -, not %.80q", ErrName, MaxTopicName, name)
	}
	tenant, rest, _ := strings.Cut(name, ".")
	if tenant == "" || rest == "" || len(tenant) > MaxTenantName {
		return "", fmt.Errorf("%w: %q lacks its tenant: a name is tenant.rest", ErrName, name)
	}
	return tenant, nil
}

// TenantID is how Topics and its events name a tenant.
func TenantID(name string) common.Hash { return crypto.Keccak256Hash([]byte(name)) }

// TopicID is the id of the topic that was created as the given number, from 1 on.
func TopicID(name string, number uint64) common.Hash {
	return hashOf("string,uint256", name, new(big.Int).SetUint64(number))
}

// GroupID is how Topics names a consumer group.
func GroupID(name string) common.Hash { return crypto.Keccak256Hash([]byte(name)) }

// GroupPartition is the partition of OffsetsTopic whose leader coordinates a group, and alone commits its offsets.
func GroupPartition(group common.Hash) int32 { return int32(group[31]) % OffsetsPartitions }

// FoldOperations is the root of a topic's log of operations after count more, whose encoding is entries, were put on
// record; root and lastHeight are those before, zero at first.
func FoldOperations(root common.Hash, lastHeight uint64, entries []byte, count uint32) common.Hash {
	return hashOf("bytes32,uint64,bytes32,uint32", root, lastHeight, crypto.Keccak256Hash(entries), count)
}

// TokenDigest is what the account of a token signs for the chain of this id: the EIP-191 form of a hash.
func TokenDigest(chainID uint64, t Token) common.Hash {
	h := hashOf("string,uint256,address,address,uint64,uint64,uint8,bytes32",
		"bornode token", new(big.Int).SetUint64(chainID), TopicsAddress, t.Account, t.Issued, t.Expires, t.Scope, t.Nonce)
	return crypto.Keccak256Hash([]byte("\x19Ethereum Signed Message:\n32"), h[:])
}

// hashOf is keccak256(abi.encode(args)).
func hashOf(types string, args ...any) common.Hash {
	b, err := packArguments(types, args...)
	if err != nil {
		panic(fmt.Sprintf("contracts: %v", err)) // constant types and arguments of them
	}
	return crypto.Keccak256Hash(b)
}

// EncodeTopicConfig is a topic's configuration as Topics keeps it: a JSON object of strings, keys sorted.
func EncodeTopicConfig(config map[string]string) ([]byte, error) {
	if len(config) == 0 {
		return []byte{}, nil
	}
	b, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("configuration of a topic: %w", err)
	}
	if len(b) > MaxTopicConfig {
		return nil, fmt.Errorf("configuration of a topic: it has %d bytes, %d are allowed", len(b), MaxTopicConfig)
	}
	return b, nil
}

// DecodeTopicConfig reads a topic's configuration. Whoever owns a topic may have stored any bytes: on an error, which
// wraps ErrReturn, take the configuration as empty.
func DecodeTopicConfig(b []byte) (map[string]string, error) {
	config := map[string]string{}
	if len(b) == 0 {
		return config, nil
	}
	if len(b) > MaxTopicConfig {
		return nil, fmt.Errorf("%w: configuration of %d bytes", ErrReturn, len(b))
	}
	if err := json.Unmarshal(b, &config); err != nil || config == nil {
		return nil, fmt.Errorf("%w: the configuration is no object of strings", ErrReturn)
	}
	return config, nil
}
