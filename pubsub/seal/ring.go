package seal

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/pubsub/batch"
)

// Ring holds the keys of topics' epochs and decrypts with them.
type Ring struct {
	chain common.Hash

	mu       sync.RWMutex
	keys     map[ringID]ringKey
	sessions map[sessionID]cipher.AEAD
}

type ringID struct {
	topic common.Hash
	epoch uint32
}

type ringKey struct {
	key   Key
	print [4]byte
}

type sessionID struct {
	ringID
	id [16]byte
}

// NewRing is empty. chain is the hash of block 0.
func NewRing(chain common.Hash) *Ring {
	return &Ring{chain: chain, keys: map[ringID]ringKey{}, sessions: map[sessionID]cipher.AEAD{}}
}

// Add puts in a key; another one of the same topic and epoch is replaced. The error is a full ring.
func (r *Ring) Add(topic common.Hash, epoch uint32, k Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := ringID{topic, epoch}
	old, ok := r.keys[id]
	if !ok && len(r.keys) >= RingKeys {
		return fmt.Errorf("no room for the key of epoch %d of topic %s: %d keys are held already", epoch, topic, RingKeys)
	}
	if ok && old.key != k {
		clear(r.sessions) // some are the old key's
	}
	r.keys[id] = ringKey{k, k.fingerprint()}
	return nil
}

// Key is the key of an epoch; false: it is not here.
func (r *Ring) Key(topic common.Hash, epoch uint32) (Key, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	k, ok := r.keys[ringID{topic, epoch}]
	return k.key, ok
}

// Open appends to dst the sealed batch raw of that place with its records in clear; dst and raw must not overlap.
// Errors: ErrNotSealed, *NoKeyError, *TamperedError; then nothing was appended.
func (r *Ring) Open(dst, raw []byte, topic common.Hash, partition int32) ([]byte, error) {
	if !Sealed(raw) {
		return nil, ErrNotSealed
	}
	section := raw[batch.HeaderBytes:]
	aead, err := r.session(topic, section)
	if err != nil {
		return nil, err
	}
	at := len(dst)
	dst = slices.Grow(dst, len(raw)-Overhead)
	dst = append(dst, raw[:batch.HeaderBytes]...)
	var aad [sectionHeader + 4 + batch.HeaderBytes - coveredAt]byte
	associate(&aad, raw, section, partition)
	nonce := nonce(section)
	dst, err = aead.Open(dst, nonce[:], section[sectionHeader:], aad[:])
	if err != nil {
		return nil, &TamperedError{Topic: topic, Partition: partition, Offset: int64(binary.BigEndian.Uint64(raw))}
	}
	return finish(dst, at), nil
}

// session is the cipher of the session that a section names.
func (r *Ring) session(topic common.Hash, section []byte) (cipher.AEAD, error) {
	epoch := binary.BigEndian.Uint32(section[keyIDAt:])
	id := sessionID{ringID{topic, epoch}, [16]byte(section[sessionAt:counterAt])}
	r.mu.RLock()
	k, ok := r.keys[id.ringID]
	aead := r.sessions[id]
	r.mu.RUnlock()
	switch {
	case !ok:
		return nil, &NoKeyError{Topic: topic, Epoch: epoch}
	case k.print != [4]byte(section[keyIDAt+4:sessionAt]):
		return nil, &NoKeyError{Topic: topic, Epoch: epoch, Other: true}
	case aead != nil:
		return aead, nil
	}
	aead, err := session(k.key, r.chain, topic, epoch, id.id[:])
	if err != nil {
		return nil, fmt.Errorf("decrypting a batch of topic %s: %w", topic, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sessions) >= OpenSessions {
		clear(r.sessions) // deriving one again takes microseconds
	}
	if now, ok := r.keys[id.ringID]; ok && now.key == k.key {
		r.sessions[id] = aead
	}
	return aead, nil
}
