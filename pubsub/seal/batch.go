package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/pubsub/batch"
)

// Places in a sealed section of records and in a batch.
const (
	magic         = "BPS1"
	keyIDAt       = 4
	sessionAt     = 12
	counterAt     = 28
	sectionHeader = 36

	batchLengthAt = 8
	batchCRCAt    = 17
	coveredAt     = 21
	producerAt    = 43 // id (8), epoch (2), first sequence (4)
	countAt       = 57
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrNotSealed says that a batch of an encrypted topic is in clear: it did not come from one who has the key.
var ErrNotSealed = errors.New("the batch is not encrypted")

// NoKeyError says which key is missing.
type NoKeyError struct {
	Topic common.Hash
	Epoch uint32
	Other bool // there is a key of that epoch, but not the one that was used
}

func (e *NoKeyError) Error() string {
	if e.Other {
		return fmt.Sprintf("the batch of topic %s was encrypted with another key of epoch %d than the one at hand", e.Topic, e.Epoch)
	}
	if e.Epoch == 0 {
		return fmt.Sprintf("topic %s has no key yet: its owner starts the first epoch", e.Topic)
	}
	return fmt.Sprintf("no key of epoch %d of topic %s: ask the topic's owner to seal it to your account", e.Epoch, e.Topic)
}

// TamperedError says that a batch is not what one with the key wrote at that place.
type TamperedError struct {
	Topic     common.Hash
	Partition int32
	Offset    int64 // base offset that the broker gave it
}

func (e *TamperedError) Error() string {
	return fmt.Sprintf("the batch at offset %d of partition %d of topic %s was changed after it was encrypted", e.Offset, e.Partition, e.Topic)
}

// Sealed tells whether a batch's section of records is in the form of this package.
func Sealed(raw []byte) bool {
	return len(raw) >= batch.HeaderBytes+Overhead && string(raw[batch.HeaderBytes:batch.HeaderBytes+len(magic)]) == magic
}

// EpochOf is the epoch whose key a sealed batch was encrypted with.
func EpochOf(raw []byte) uint32 {
	return binary.BigEndian.Uint32(raw[batch.HeaderBytes+keyIDAt:])
}

// Place is where a sealed batch stands among those of its producer: within a session counters rise, and none comes twice.
type Place struct {
	Session [16]byte
	Counter uint64
}

// PlaceOf is the place that a sealed batch names; whether it is its own, only Ring.Open tells.
func PlaceOf(raw []byte) Place {
	section := raw[batch.HeaderBytes:]
	return Place{[16]byte(section[sessionAt:counterAt]), binary.BigEndian.Uint64(section[counterAt:])}
}

// session derives the cipher of a session.
func session(k Key, chain, topic common.Hash, epoch uint32, id []byte) (cipher.AEAD, error) {
	info := Context{Chain: chain, Topic: topic, Epoch: epoch}.bytes("bornode batch key v1")
	sk, err := hkdf.Key(sha256.New, k[:], id, string(info), 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(sk)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// associate puts what is bound to the ciphertext into aad: section header, partition, covered header. A batch without a
// producer's id (one below 0) has nothing of a producer in it: brokers mark copies of such batches there, when they save
// what one of them acknowledged alone.
func associate(aad *[sectionHeader + 4 + batch.HeaderBytes - coveredAt]byte, raw []byte, section []byte, partition int32) {
	copy(aad[:], section[:sectionHeader])
	binary.BigEndian.PutUint32(aad[sectionHeader:], uint32(partition))
	covered := aad[sectionHeader+4:]
	copy(covered, raw[coveredAt:batch.HeaderBytes])
	if producer := covered[producerAt-coveredAt : countAt-coveredAt]; producer[0]&0x80 != 0 {
		copy(producer, nobody[:])
	}
}

// nobody are the producer's fields of a batch without one.
var nobody = [countAt - producerAt]byte(bytes.Repeat([]byte{0xff}, countAt-producerAt))

func nonce(section []byte) (n [12]byte) {
	copy(n[4:], section[counterAt:sectionHeader])
	return n
}

// finish gives the batch that begins at out[at] its length and checksum.
func finish(out []byte, at int) []byte {
	b := out[at:]
	binary.BigEndian.PutUint32(b[batchLengthAt:], uint32(len(b)-batchLengthAt-4))
	binary.BigEndian.PutUint32(b[batchCRCAt:], crc32.Checksum(b[coveredAt:], castagnoli))
	return out
}

// Sealer encrypts batches of one topic under one epoch.
type Sealer struct {
	chain, topic common.Hash
	epoch        uint32
	key          Key
	print        [4]byte

	mu      sync.Mutex
	id      [16]byte
	aead    cipher.AEAD
	counter uint64
	limit   uint64
}

// NewSealer begins with a session of its own.
func NewSealer(chain, topic common.Hash, epoch uint32, k Key) *Sealer {
	return &Sealer{chain: chain, topic: topic, epoch: epoch, key: k, print: k.fingerprint(), limit: SessionBatches}
}

// Epoch is the one it encrypts under.
func (s *Sealer) Epoch() uint32 { return s.epoch }

// next hands out a counter of the session, once.
func (s *Sealer) next() (cipher.AEAD, [16]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aead == nil || s.counter >= s.limit {
		_, _ = rand.Read(s.id[:]) // never fails: the program ends instead
		aead, err := session(s.key, s.chain, s.topic, s.epoch, s.id[:])
		if err != nil {
			return nil, s.id, 0, err
		}
		s.aead, s.counter = aead, 0
	}
	n := s.counter
	s.counter++
	return s.aead, s.id, n, nil
}

// Seal appends to dst the batch raw (checked before) with its records encrypted for that partition.
func (s *Sealer) Seal(dst, raw []byte, partition int32) ([]byte, error) {
	aead, id, n, err := s.next()
	if err != nil {
		return nil, fmt.Errorf("encrypting a batch of topic %s: %w", s.topic, err)
	}
	at := len(dst)
	dst = slices.Grow(dst, len(raw)+Overhead)
	dst = append(dst, raw[:batch.HeaderBytes]...)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint32(dst, s.epoch)
	dst = append(append(dst, s.print[:]...), id[:]...)
	dst = binary.BigEndian.AppendUint64(dst, n)
	var aad [sectionHeader + 4 + batch.HeaderBytes - coveredAt]byte
	section := dst[at+batch.HeaderBytes:]
	associate(&aad, raw, section, partition)
	nonce := nonce(section)
	dst = aead.Seal(dst, nonce[:], raw[batch.HeaderBytes:], aad[:])
	return finish(dst, at), nil
}
