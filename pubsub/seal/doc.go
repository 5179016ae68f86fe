// Package seal keeps what is in a topic from everyone but its readers, the brokers included.
//
// Every encrypted topic has epochs, each with a random key. Whoever owns the topic seals the key of an epoch to each
// reader (and producer) by HPKE and publishes the sealed keys on the chain; removing a reader means a new epoch, so
// that revocation works forward only: what a reader could read before, it can read for ever. A sealed key names in its
// encryption the chain, the topic, the epoch and the reader, and carries the signature of the account that made it: one
// who may answer for the chain cannot slip in a key of his own past a reader who knows the owner.
//
// A producer encrypts the section of records of a batch, as it is (compressed or not), with AES-256-GCM:
//
//	"BPS1" | key id 8 | session 16 | counter 8 | ciphertext and tag
//
// The key id is the epoch (4 bytes, big endian) and a fingerprint of its key (4). The session is random; its key comes
// by HKDF-SHA-256 from the key of the epoch, the session, the chain and the topic. Every batch of a session takes the
// next counter as its nonce, so that none is ever used twice. Everything of the batch's header that its checksum covers
// (attributes, times, producer, sequence, count) and the partition are bound as associated data; the base offset and the
// leader epoch are the broker's and are not. In a batch without a producer's id the producer's fields count as unset,
// since brokers mark copies there.
//
// Identity, Sealer and Ring are safe for concurrent use; each owns its state. Invariants: a counter of a session is
// given out once; no plaintext is returned after a failure; a private key is written to files of mode 0600 only.
//
// The package does no other I/O, does not know who may read a topic, does not hide sizes, times and counts, and does not
// see whether a broker leaves out a whole batch (package proof does) or repeats one: sessions and counters (Place) let
// readers see that, which package gate does.
package seal
