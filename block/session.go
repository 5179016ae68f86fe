package block

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Session is one start of a producer (DESIGN §7 rule 11). A later start has a higher number; two instances that run on copies
// of one folder may take the same one, and the nonce tells them apart. The zero Session is none.
type Session struct {
	Number uint64
	Nonce  common.Hash
}

// Less orders sessions by number, then by nonce.
func (s Session) Less(o Session) bool {
	if s.Number != o.Number {
		return s.Number < o.Number
	}
	return s.Nonce.Cmp(o.Nonce) < 0
}

// SignedSession is a session with its producer's signature: nobody else can make one.
type SignedSession struct {
	Producer common.Address
	Session
	Seal [SealLength]byte // by the seal key over Domain.SessionDigest
}

// ToldVote is a vote that is told to its own voter, a precommit with the certificate that it rests on if the teller has it.
type ToldVote struct {
	Vote Vote
	QC   *Certificate `rlp:"nilList"`
}

// SessionAnswer is what a node holds of a producer that has started, and where the node is itself.
type SessionAnswer struct {
	Asker     common.Address
	Session   Session        // of the asker; the answer is to it alone
	From      common.Address // producer whose Sig follows; zero: an observer, whose answer is worth what it proves itself
	LIBHeight uint64
	LIB       Point
	FC        *Certificate    `rlp:"nilList"` // of LIB; nil: none
	QC        *Certificate    `rlp:"nilList"` // newest known
	Sessions  []SignedSession // of the asker: the newest that the node ever saw, but for Session
	Votes     []ToldVote      // of the asker
	Header    []byte          // encoded sealed header: the newest block by the asker that the node holds; empty: none
	Own       Session         // of From itself, if From is the asker: a second instance of it runs
	Signs     bool            // that instance has signed in Own, or may at any moment
	Sig       []byte          // by From's seal key over Domain.AnswerDigest; empty for an observer
}

// What opens the signed bytes of sessions and answers.
const (
	SessionPrefix = "bornode-session-1"
	AnswerPrefix  = "bornode-answer-1"
)

// SessionDigest is keccak256 of abi.encodePacked("bornode-session-1", bytes32 genesis, bytes32 recovery, address producer,
// uint64 number, bytes32 nonce): what a producer signs at its start.
func (d Domain) SessionDigest(producer common.Address, s Session) common.Hash {
	b := append(d.open(SessionPrefix), producer[:]...)
	b = binary.BigEndian.AppendUint64(b, s.Number)
	return crypto.Keccak256Hash(append(b, s.Nonce[:]...))
}

// AnswerDigest is keccak256 of abi.encodePacked("bornode-answer-1", bytes32 genesis, bytes32 recovery, bytes32 of the
// keccak256 of the answer's encoding without Sig): what a producer that answers signs.
func (d Domain) AnswerDigest(a *SessionAnswer) common.Hash {
	x := *a
	x.Sig = nil
	h := crypto.Keccak256Hash(x.Encode())
	return crypto.Keccak256Hash(append(d.open(AnswerPrefix), h[:]...))
}

// Verify checks that the producer signed its session in this domain.
func (s *SignedSession) Verify(d Domain) error {
	return SignedBy(s.Producer, d.SessionDigest(s.Producer, s.Session), s.Seal[:])
}

// Verify checks that the answer is From's, in this domain. An observer's answer has nothing to check.
func (a *SessionAnswer) Verify(d Domain) error {
	if a.From == (common.Address{}) {
		if len(a.Sig) != 0 {
			return fmt.Errorf("%w: an observer's answer is not signed", ErrSignature)
		}
		return nil
	}
	return SignedBy(a.From, d.AnswerDigest(a), a.Sig)
}

// ErrSignature says that something is not signed by whom it names.
var ErrSignature = errors.New("signature is of another account")

// SignedBy checks that an account made a signature of SealLength bytes with a low s value. Errors wrap ErrSignature.
func SignedBy(who common.Address, digest common.Hash, sig []byte) error {
	if len(sig) != SealLength {
		return fmt.Errorf("%w than %s, or malformed", ErrSignature, who)
	}
	if signer, err := recoverSigner(digest, sig); err != nil || signer != who {
		return fmt.Errorf("%w than %s, or malformed", ErrSignature, who)
	}
	return nil
}

// Encode is the RLP of the answer.
func (a *SessionAnswer) Encode() []byte { return encode(a) }

// Encode is the RLP of the session.
func (s *SignedSession) Encode() []byte { return encode(s) }

// DecodeSignedSession decodes a session; its signature is not verified.
func DecodeSignedSession(b []byte) (*SignedSession, error) {
	x := new(SignedSession)
	return x, decode(b, MaxVoteBytes, "session", x)
}

// DecodeSessionAnswer decodes an answer within its bounds; nothing in it is verified.
func DecodeSessionAnswer(b []byte) (*SessionAnswer, error) {
	x := new(SessionAnswer)
	if err := decode(b, MaxSessionAnswerBytes, "session answer", x); err != nil {
		return nil, err
	}
	switch {
	case len(x.Votes) > MaxToldVotes:
		return nil, fmt.Errorf("%w: session answer tells %d votes, %d allowed", ErrDecode, len(x.Votes), MaxToldVotes)
	case len(x.Sessions) > MaxToldSessions:
		return nil, fmt.Errorf("%w: session answer tells %d sessions, %d allowed", ErrDecode, len(x.Sessions), MaxToldSessions)
	case len(x.Header) > MaxHeaderBytes:
		return nil, fmt.Errorf("%w: session answer has a header of %d bytes, %d allowed", ErrDecode, len(x.Header), MaxHeaderBytes)
	case len(x.Sig) != 0 && len(x.Sig) != SealLength:
		return nil, fmt.Errorf("%w: session answer has a signature of %d bytes", ErrDecode, len(x.Sig))
	}
	return x, nil
}
