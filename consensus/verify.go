package consensus

import (
	"fmt"
	"math"

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
	domain  block.Domain // of the newest recovery: sessions and answers are bound to it, and all that is signed here
	keys    *bls.Cache
	headers *lru.Cache[sealed, common.Address]     // signer of a verified seal
	certs   *lru.Cache[common.Hash, struct{}]      // certificate and its schedules
	votes   *lru.Cache[checkedKey, *bls.Signature] // of votes that were verified, each for itself
	m       *metrics

	recoveries []dpos.Recovery
}

func newVerifier(genesis common.Hash, recoveries []dpos.Recovery, m *metrics) *verifier {
	return &verifier{
		domain:  block.Domain{Genesis: genesis, Recovery: dpos.DomainAt(recoveries, math.MaxUint64)},
		keys:    bls.NewCache(0),
		headers: lru.NewCache[sealed, common.Address](cacheHeaders),
		certs:   lru.NewCache[common.Hash, struct{}](cacheCertificates),
		votes:   lru.NewCache[checkedKey, *bls.Signature](cacheVotes),
		m:       m,

		recoveries: recoveries,
	}
}

// domainAt is what a block of a slot, and every vote on it, is bound to.
func (v *verifier) domainAt(slot uint64) block.Domain {
	return block.Domain{Genesis: v.domain.Genesis, Recovery: dpos.DomainAt(v.recoveries, slot)}
}

// seal checks that the header was sealed by this account; a seal seen before costs a look-up.
func (v *verifier) seal(h *block.SealedHeader, by common.Address) error {
	key := sealed{h.Hash(), h.Seal}
	signer, ok := v.headers.Get(key)
	if !ok {
		var err error
		v.m.seals.Inc()
		if signer, err = h.Signer(v.domainAt(h.Slot())); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		v.headers.Add(key, signer)
	}
	if signer != by {
		return fmt.Errorf("%w: block %d of slot %d is sealed by %s, the slot belongs to %s", ErrInvalid, h.Number(), h.Slot(), signer, by)
	}
	return nil
}

func certificateKey(d block.Domain, c *block.Certificate, schedules []block.Schedule) common.Hash {
	s, err := rlp.EncodeToBytes(schedules)
	if err != nil {
		panic(fmt.Sprintf("consensus: encode schedules: %v", err)) // plain data; cannot fail
	}
	return crypto.Keccak256Hash(d.Recovery[:], c.Encode(), s)
}

// certificate checks the aggregate against the schedules that count; each certificate costs one pairing once.
func (v *verifier) certificate(c *block.Certificate, schedules []block.Schedule) error {
	return v.certificateIn(v.domainAt(c.Target.Slot), c, schedules)
}

// certificateIn is certificate in a domain, whatever the target's slot.
func (v *verifier) certificateIn(d block.Domain, c *block.Certificate, schedules []block.Schedule) error {
	key := certificateKey(d, c, schedules)
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
	digest := d.VoteDigest(c.Link)
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

// checkedVote is a vote on its way through verification: its signature is parsed once, whatever it is needed for.
type checkedVote struct {
	block.Vote
	key       block.BLSKey
	id        checkedKey
	signature *bls.Signature // nil: no point of the signature group
	verified  bool
}

// checkedKey names the exact bytes of a vote and the key it is verified under.
type checkedKey struct {
	vote common.Hash
	key  block.BLSKey
}

// parseVote parses the signature of a vote, or finds it verified already.
func (v *verifier) parseVote(x block.Vote, key block.BLSKey) *checkedVote {
	c := &checkedVote{Vote: x, key: key, id: checkedKey{voteKey(&x), key}}
	if s, ok := v.votes.Get(c.id); ok {
		c.signature, c.verified = s, true
		return c
	}
	if s, err := bls.ParseSignature(x.Signature); err == nil {
		c.signature = s
	}
	return c
}

// verifyVotes verifies votes on one link, each for itself: one pairing while all are good, else halves until the bad
// ones are found. What is good is remembered, so that a tally has only to sum it.
func (v *verifier) verifyVotes(l block.Link, votes []*checkedVote) {
	var open []*checkedVote
	for _, c := range votes {
		if !c.verified && c.signature != nil {
			open = append(open, c)
		}
	}
	digest := v.domainAt(l.Target.Slot).VoteDigest(l)
	v.bisect(digest, open)
	for _, c := range open {
		if c.verified {
			v.votes.Add(c.id, c.signature)
		}
	}
}

// verifyVote verifies one vote; one that was found good before costs a look-up.
func (v *verifier) verifyVote(x block.Vote, key block.BLSKey) bool {
	c := v.parseVote(x, key)
	v.verifyVotes(x.Link, []*checkedVote{c})
	return c.verified
}

func (v *verifier) bisect(digest common.Hash, votes []*checkedVote) {
	if len(votes) == 0 {
		return
	}
	keys, sigs := make([][48]byte, len(votes)), make([]*bls.Signature, len(votes))
	for i, c := range votes {
		keys[i], sigs[i] = c.key, c.signature
	}
	v.m.voteChecks.Inc()
	if v.keys.VerifyEach(keys, digest[:], sigs) {
		for _, c := range votes {
			c.verified = true
		}
		return
	}
	if n := len(votes) / 2; n > 0 {
		v.bisect(digest, votes[:n])
		v.bisect(digest, votes[n:])
	}
}

// tally sums the votes of one link and verifies those that were not verified before. The certificate is nil if the
// good ones are no quorum of every schedule.
func (v *verifier) tally(t dpos.Tally) (*block.Certificate, []block.Vote) {
	var votes []*checkedVote
	var wrong []block.Vote
	for _, x := range t.Votes {
		if key := seatKey(t.Schedules, x.Voter); key != nil && x.Link == t.Link {
			votes = append(votes, v.parseVote(x, *key))
		} else {
			wrong = append(wrong, x)
		}
	}
	v.verifyVotes(t.Link, votes)
	var good []*bls.Signature
	voted := make(map[common.Address]bool)
	for _, c := range votes {
		if !c.verified {
			wrong = append(wrong, c.Vote)
		} else if !voted[c.Voter] {
			voted[c.Voter] = true
			good = append(good, c.signature)
		}
	}
	c := block.NewCertificate(t.Link, t.Schedules, func(a common.Address) bool { return voted[a] })
	if !c.HoldsQuorums(t.Schedules) {
		return nil, wrong
	}
	sum, err := bls.AggregateParsed(good)
	if err != nil {
		return nil, wrong // cannot be: a quorum is neither empty nor beyond the bound
	}
	c.Aggregate = sum
	v.certs.Add(certificateKey(v.domainAt(c.Target.Slot), c, t.Schedules), struct{}{})
	return c, wrong
}
