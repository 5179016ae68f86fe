package block

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

// sampleAnswer is an answer with every field set, signed by the key.
func sampleAnswer(t testing.TB, d Domain, seed string) *SessionAnswer {
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte(seed)))
	require.NoError(t, err)
	p := Point{Slot: 4, Hash: common.Hash{4}}
	pre := Link{Kind: Prevote, Source: Point{Slot: 3, Hash: common.Hash{3}}, Target: p}
	com := Link{Kind: Precommit, Source: p, Target: p}
	qc, fc := &Certificate{Link: pre, Bitmaps: [][]byte{{7}}}, &Certificate{Link: com, Bitmaps: [][]byte{{7}}}
	a := &SessionAnswer{
		Asker: common.Address{1}, Session: Session{Number: 2, Nonce: common.Hash{3}}, From: crypto.PubkeyToAddress(key.PublicKey),
		LIBHeight: 5, LIB: p, FC: fc, QC: qc, Sessions: []SignedSession{{Producer: common.Address{1}, Session: Session{Number: 1}}},
		Votes:  []ToldVote{{Vote: Vote{Link: com, Voter: common.Address{1}}, QC: qc}, {Vote: Vote{Link: pre, Voter: common.Address{1}}}},
		Header: []byte{6}, Own: Session{Number: 7}, Signs: true,
	}
	sig, err := crypto.Sign(d.AnswerDigest(a).Bytes(), key)
	require.NoError(t, err)
	a.Sig = sig
	return a
}

func TestSessionAnswerIsSignedWhole(t *testing.T) {
	d := Domain{Genesis: common.Hash{9}}
	a := sampleAnswer(t, d, "a")
	require.NoError(t, a.Verify(d))
	require.ErrorIs(t, a.Verify(Domain{Genesis: common.Hash{8}}), ErrSignature)
	for name, change := range map[string]func(*SessionAnswer){
		"asker": func(a *SessionAnswer) { a.Asker[0]++ }, "number": func(a *SessionAnswer) { a.Session.Number++ }, "nonce": func(a *SessionAnswer) { a.Session.Nonce[0]++ },
		"from": func(a *SessionAnswer) { a.From[0]++ }, "height": func(a *SessionAnswer) { a.LIBHeight++ }, "LIB": func(a *SessionAnswer) { a.LIB.Slot++ },
		"FC": func(a *SessionAnswer) { a.FC = nil }, "QC": func(a *SessionAnswer) { a.QC = nil }, "sessions": func(a *SessionAnswer) { a.Sessions = nil },
		"votes": func(a *SessionAnswer) { a.Votes = a.Votes[:1] }, "QC of a vote": func(a *SessionAnswer) { a.Votes[0].QC = nil },
		"header": func(a *SessionAnswer) { a.Header = nil }, "own": func(a *SessionAnswer) { a.Own.Number++ }, "signs": func(a *SessionAnswer) { a.Signs = false },
		"signature": func(a *SessionAnswer) { a.Sig = nil },
	} {
		b := sampleAnswer(t, d, "a")
		change(b)
		require.ErrorIs(t, b.Verify(d), ErrSignature, name)
	}
	observer := sampleAnswer(t, d, "a")
	observer.From = common.Address{}
	require.ErrorIs(t, observer.Verify(d), ErrSignature)
	observer.Sig = nil
	require.NoError(t, observer.Verify(d))
}

// A session or an answer is good in the domain that it was signed in, and in no other: neither on another chain nor before or
// after a recovery.
func TestSessionsAndAnswersAreOfOneDomain(t *testing.T) {
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte("s")))
	require.NoError(t, err)
	domains := []Domain{{Genesis: common.Hash{9}}, {Genesis: common.Hash{8}}, {Genesis: common.Hash{9}, Recovery: common.Hash{1}}, {Genesis: common.Hash{9}, Recovery: common.Hash{2}}}
	for i, d := range domains {
		s := SignedSession{Producer: crypto.PubkeyToAddress(key.PublicKey), Session: Session{Number: 4, Nonce: common.Hash{5}}}
		sig, err := crypto.Sign(d.SessionDigest(s.Producer, s.Session).Bytes(), key)
		require.NoError(t, err)
		s.Seal = [SealLength]byte(sig)
		a := sampleAnswer(t, d, "a")
		for j, o := range domains {
			if i == j {
				require.NoError(t, s.Verify(o))
				require.NoError(t, a.Verify(o))
				continue
			}
			require.ErrorIs(t, s.Verify(o), ErrSignature, "%d, %d", i, j)
			require.ErrorIs(t, a.Verify(o), ErrSignature, "%d, %d", i, j)
		}
	}
}

// The other form of a signature, which anybody can make of a good one, is refused.
func TestHighSOfASessionIsRefused(t *testing.T) {
	d := Domain{Genesis: common.Hash{9}}
	a := sampleAnswer(t, d, "a")
	s := new(big.Int).SetBytes(a.Sig[32:64])
	s.Sub(crypto.S256().Params().N, s)
	s.FillBytes(a.Sig[32:64])
	a.Sig[64] ^= 1
	require.ErrorIs(t, a.Verify(d), ErrSignature)
}

func TestSessionIsItsProducers(t *testing.T) {
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte("s")))
	require.NoError(t, err)
	d := Domain{Genesis: common.Hash{9}}
	s := &SignedSession{Producer: crypto.PubkeyToAddress(key.PublicKey), Session: Session{Number: 4, Nonce: common.Hash{5}}}
	sig, err := crypto.Sign(d.SessionDigest(s.Producer, s.Session).Bytes(), key)
	require.NoError(t, err)
	s.Seal = [SealLength]byte(sig)
	require.NoError(t, s.Verify(d))
	again, err := DecodeSignedSession(s.Encode())
	require.NoError(t, err)
	require.Equal(t, s, again)
	for _, change := range []func(*SignedSession){
		func(s *SignedSession) { s.Number++ }, func(s *SignedSession) { s.Nonce[0]++ }, func(s *SignedSession) { s.Producer[0]++ }, func(s *SignedSession) { s.Seal[3]++ },
	} {
		b := *s
		change(&b)
		require.ErrorIs(t, b.Verify(d), ErrSignature)
	}
	require.True(t, Session{Number: 1, Nonce: common.Hash{9}}.Less(Session{Number: 2}))
	require.True(t, Session{Number: 2}.Less(Session{Number: 2, Nonce: common.Hash{1}}))
	require.False(t, Session{Number: 2}.Less(Session{Number: 2}))
}

func TestSessionAnswersAreBounded(t *testing.T) {
	d := Domain{}
	a := sampleAnswer(t, d, "a")
	got, err := DecodeSessionAnswer(a.Encode())
	require.NoError(t, err)
	require.Equal(t, a, got)
	for name, change := range map[string]func(*SessionAnswer){
		"votes":     func(a *SessionAnswer) { a.Votes = make([]ToldVote, MaxToldVotes+1); fill(a.Votes) },
		"sessions":  func(a *SessionAnswer) { a.Sessions = make([]SignedSession, MaxToldSessions+1) },
		"header":    func(a *SessionAnswer) { a.Header = make([]byte, MaxHeaderBytes+1) },
		"signature": func(a *SessionAnswer) { a.Sig = make([]byte, 3) },
		"bytes":     func(a *SessionAnswer) { a.Header = make([]byte, MaxSessionAnswerBytes) },
	} {
		b := sampleAnswer(t, d, "a")
		change(b)
		_, err := DecodeSessionAnswer(b.Encode())
		require.ErrorIs(t, err, ErrDecode, name)
	}
	most := sampleAnswer(t, d, "a")
	most.Votes = make([]ToldVote, MaxToldVotes)
	fill(most.Votes)
	for i := range most.Votes {
		most.Votes[i].QC = &Certificate{Link: a.QC.Link, Bitmaps: [][]byte{make([]byte, MaxBitmapBytes), make([]byte, MaxBitmapBytes)}}
	}
	most.Sessions, most.Header = make([]SignedSession, MaxToldSessions), make([]byte, MaxHeaderBytes)
	_, err = DecodeSessionAnswer(most.Encode())
	require.NoError(t, err, "the largest one fits")
}

func fill(votes []ToldVote) {
	for i := range votes {
		votes[i].Vote.Link = Link{Kind: Prevote, Target: Point{Slot: uint64(i) + 1}}
	}
}

func FuzzSessionAnswer(f *testing.F) {
	f.Add(sampleAnswer(f, Domain{}, "a").Encode())
	f.Add((&SessionAnswer{}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeSessionAnswer(b)
		if err != nil {
			return
		}
		require.Equal(t, b, a.Encode())
		_ = a.Verify(Domain{})
	})
}
