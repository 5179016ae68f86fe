package consensus

import (
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/bls"
)

// sealed names one seal of one block: the hash covers header and record, not the seal.
type sealed struct {
	hash common.Hash
	seal [block.SealLength]byte
}

// verifier checks signatures. It holds no consensus state, only bounded caches of what was found good, and may be
// used from several goroutines.
type verifier struct {
	domain  block.Domain
	keys    *bls.Cache
	headers *lru.Cache[sealed, common.Address] // signer of a verified seal
	certs   *lru.Cache[common.Hash, struct{}]  // certificate and its schedules
	m       *metrics
}

func newVerifier(domain block.Domain, m *metrics) *verifier {
	return &verifier{
		domain:  domain,
		keys:    bls.NewCache(0),
		headers: lru.NewCache[sealed, common.Address](cacheHeaders),
		certs:   lru.NewCache[common.Hash, struct{}](cacheCertificates),
		m:       m,
	}
}

// seal checks that the header was sealed by this account; a seal seen before costs a look-up.
func (v *verifier) seal(h *block.SealedHeader, by common.Address) error {
	key := sealed{h.Hash(), h.Seal}
	signer, ok := v.headers.Get(key)
	if !ok {
		var err error
		v.m.seals.Inc()
		if signer, err = h.Signer(); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		v.headers.Add(key, signer)
	}
	if signer != by {
		return fmt.Errorf("%w: block %d of slot %d is sealed by %s, the slot belongs to %s", ErrInvalid, h.Number(), h.Slot(), signer, by)
	}
	return nil
}

func certificateKey(c *block.Certificate, schedules []block.Schedule) common.Hash {
	s, err := rlp.EncodeToBytes(schedules)
	if err != nil {
		panic(fmt.Sprintf("consensus: encode schedules: %v", err)) // plain data; cannot fail
	}
	return crypto.Keccak256Hash(c.Encode(), s)
}

// certificate checks the aggregate against the schedules that count; each certificate costs one pairing once.
func (v *verifier) certificate(c *block.Certificate, schedules []block.Schedule) error {
	key := certificateKey(c, schedules)
	if v.certs.Contains(key) {
		return nil
	}
	voters, err := c.Voters(schedules)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	keys := make([][48]byte, len(voters))
	for i, p := range voters {
		keys[i] = p.Key
	}
	digest := v.domain.VoteDigest(c.Link)
	v.m.aggregates.Inc()
	if !v.keys.VerifyAggregate(keys, digest[:], c.Aggregate) {
		return fmt.Errorf("%w: aggregate of the certificate of %ss on slot %d is wrong", ErrInvalid, c.Kind, c.Target.Slot)
	}
	v.certs.Add(key, struct{}{})
	return nil
}

// checks verifies what dpos left to verify of a header: its seal and its certificates.
func (v *verifier) checks(h *block.SealedHeader, c dpos.Checks) error {
	if err := v.seal(h, c.Producer.Account); err != nil {
		return err
	}
	for _, x := range c.Certificates {
		if err := v.certificate(x.Certificate, x.Schedules); err != nil {
			return fmt.Errorf("block %d: %w", h.Number(), err)
		}
	}
	return nil
}

// seatKey is the vote key of an account with a seat in one of the schedules; nil for others.
func seatKey(schedules []block.Schedule, a common.Address) *block.BLSKey {
	for _, s := range schedules {
		if i := s.Index(a); i >= 0 {
			return &s[i].Key
		}
	}
	return nil
}

// vote checks one vote on its own.
func (v *verifier) vote(x *block.Vote, key block.BLSKey) bool {
	digest := v.domain.VoteDigest(x.Link)
	return v.keys.Verify(key, digest[:], x.Signature)
}

// tally verifies the votes of one link together: one pairing when all are good, else halves until the bad ones are
// found. The certificate is nil if the good ones are no quorum of every schedule.
func (v *verifier) tally(t dpos.Tally) (*block.Certificate, []block.Vote) {
	digest := v.domain.VoteDigest(t.Link)
	var votes, wrong []block.Vote
	var keys [][48]byte
	for _, x := range t.Votes {
		if key := seatKey(t.Schedules, x.Voter); key != nil {
			votes, keys = append(votes, x), append(keys, *key)
		} else {
			wrong = append(wrong, x)
		}
	}
	bad := make([]bool, len(votes))
	v.bisect(digest, votes, keys, bad)
	var good []([96]byte)
	voted := make(map[common.Address]bool)
	for i, x := range votes {
		if bad[i] {
			wrong = append(wrong, x)
		} else if !voted[x.Voter] {
			voted[x.Voter] = true
			good = append(good, x.Signature)
		}
	}
	c := block.NewCertificate(t.Link, t.Schedules, func(a common.Address) bool { return voted[a] })
	for s, sched := range t.Schedules {
		if c.Count(s) < sched.Quorum() {
			return nil, wrong
		}
	}
	sum, err := bls.Aggregate(good)
	if err != nil {
		return nil, wrong // cannot be: each part verified
	}
	c.Aggregate = sum
	v.certs.Add(certificateKey(c, t.Schedules), struct{}{})
	return c, wrong
}

// bisect marks the votes that are bad.
func (v *verifier) bisect(digest common.Hash, votes []block.Vote, keys [][48]byte, bad []bool) {
	if len(votes) == 0 {
		return
	}
	sigs := make([][96]byte, len(votes))
	for i := range votes {
		sigs[i] = votes[i].Signature
	}
	if sum, err := bls.Aggregate(sigs); err == nil && v.keys.VerifyAggregate(keys, digest[:], sum) {
		return
	}
	if len(votes) == 1 {
		bad[0] = true
		return
	}
	n := len(votes) / 2
	v.bisect(digest, votes[:n], keys[:n], bad[:n])
	v.bisect(digest, votes[n:], keys[n:], bad[n:])
}

// suspects remembers the voters under whose name a bad vote came: each vote of theirs is verified on its own for a
// while, so that the peer that sends the next bad one is known at once.
type suspects struct {
	mu    sync.Mutex
	until map[common.Address]uint64 // slot; at most one per seat, since only seats are ever tallied
}

func (s *suspects) add(a common.Address, slot uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = make(map[common.Address]uint64)
	}
	for b, u := range s.until {
		if u < slot {
			delete(s.until, b)
		}
	}
	s.until[a] = slot + suspectSlots
}

func (s *suspects) has(a common.Address, slot uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.until[a]
	return ok && slot <= u
}
