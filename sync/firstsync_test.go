package blocksync

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// modelSigner is a driver's wait after a start: it asks until enough were heard, and knows some votes of others.
type modelSigner struct {
	need  int
	votes map[common.Address][]block.Vote

	mu    sync.Mutex
	heard map[common.Address]ProducerAnswer
	asked atomic.Int64
}

func (s *modelSigner) Asks() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.heard) < s.need }

func (s *modelSigner) VotesBy(_ context.Context, a common.Address) ([]block.Vote, error) {
	s.asked.Add(1)
	return s.votes[a], nil
}

func (s *modelSigner) HearProducer(_ context.Context, a ProducerAnswer) error {
	for _, v := range a.Votes {
		if v.Signature == (block.BLSSignature{}) {
			return fmt.Errorf("%w: a vote that nobody signed", errModelInvalid)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard == nil {
		s.heard = make(map[common.Address]ProducerAnswer)
	}
	s.heard[a.Producer] = a
	return nil
}

func (s *modelSigner) answers() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.heard) }

// producer makes a node sign handshakes for an account of its own, and wait as signer says.
func producer(seed byte, signer *modelSigner) (common.Address, nodeOption) {
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte{seed}))
	if err != nil {
		panic(err)
	}
	account := crypto.PubkeyToAddress(key.PublicKey)
	return account, func(_ *Config, d *Deps) {
		d.FirstSync = signer
		d.Identity.Account, d.Identity.SignerStart = account, time.Now()
		d.Identity.Sign = func(h common.Hash) ([]byte, error) { return crypto.Sign(h[:], key) }
	}
}

// A signer that has started asks every producer's node once it knows who is there, and is told what that node holds of
// its votes; two that start at once answer each other.
func TestProducersAnswerAStart(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a, b := &modelSigner{need: 2}, &modelSigner{need: 1}
		c := &modelSigner{votes: make(map[common.Address][]block.Vote)}
		accountA, asA := producer(1, a)
		accountB, asB := producer(2, b)
		accountC, asC := producer(3, c)
		c.votes[accountA] = []block.Vote{sampleVote(7), sampleVote(6)}
		na, nb, nc := l.node("a", chain, asA), l.node("b", chain, asB), l.node("c", chain, asC)
		na.dial(nb.host)
		nc.dial(na.host)
		l.eventually(func() bool { return !a.Asks() && !b.Asks() }, "all answers are there")
		a.mu.Lock()
		require.Equal(l.t, c.votes[accountA], a.heard[accountC].Votes)
		require.Empty(l.t, a.heard[accountB].Votes)
		require.Equal(l.t, nc.Status().LIB, a.heard[accountC].LIB)
		a.mu.Unlock()
		require.Zero(l.t, c.answers(), "who does not ask is told nothing")
		asked := c.asked.Load()
		l.pass(5 * time.Second)
		require.Equal(l.t, asked, c.asked.Load(), "nobody asks on")
	})
}

// scriptProducer is a scripted producer's node: it asks and answers as the test says.
func (s *script) produces(seed byte, edit func(*Handshake)) *script {
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte{seed}))
	require.NoError(s.l.t, err)
	s.edit = func(h *Handshake) {
		h.Key = crypto.PubkeyToAddress(key.PublicKey)
		h.Sig, err = crypto.Sign(h.Token[:], key)
		require.NoError(s.l.t, err)
		edit(h)
	}
	return s
}

func (s *script) question() *Handshake {
	for {
		h, err := DecodeHandshake(s.next(0, TypeHandshake))
		require.NoError(s.l.t, err)
		if h.Question != 0 {
			return h
		}
	}
}

// Questions go on until they are answered; only an answer to the newest one counts; who tells a vote that was not
// signed is sent away.
func TestAnswersThatDoNotCount(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a := &modelSigner{need: 3}
		_, asA := producer(1, a)
		n := l.node("a", chain, asA)

		s := l.script("old", n).at(chain[20], chain[18], 19).produces(4, func(*Handshake) {}).hello()
		h, err := DecodeHandshake(s.next(0, TypeHandshake))
		require.NoError(t, err)
		require.NotZero(t, h.Modes&AnswersQuestions)
		s.quiet(10*time.Second, 0, TypeHandshake) // a node that does not know questions gets none
		require.Zero(t, a.answers(), "nor does it count")

		var answer ToldVotes
		s = l.script("peer", n).at(chain[20], chain[18], 19).produces(5, func(h *Handshake) { h.Modes |= AnswersQuestions; h.Answer = answer }).hello()
		first := s.question().Question
		answer = ToldVotes{Question: first + 7}
		s.hello()
		second := s.question().Question
		require.Greater(t, second, first, "it asks again")
		require.Zero(t, a.answers())
		answer = ToldVotes{Question: second, Votes: []block.Vote{sampleVote(1)}}
		s.hello()
		l.eventually(func() bool { return a.answers() == 1 }, "the answer counts")

		s = l.script("liar", n).at(chain[20], chain[18], 19).produces(6, func(h *Handshake) { h.Modes |= AnswersQuestions; h.Answer = answer })
		answer = ToldVotes{}
		s.hello()
		forged := sampleVote(9)
		forged.Signature = block.BLSSignature{}
		answer = ToldVotes{Question: s.question().Question, Votes: []block.Vote{forged}}
		s.hello()
		s.goneWith(Validation)
		require.Equal(t, 1, a.answers())
	})
}
