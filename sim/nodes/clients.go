package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
)

// question is what a client asks about final data.
type question uint8

const (
	blockByHeight question = iota
	blockByHash
	transaction
	receipts
	balance
	questions // their number
)

func (q question) String() string {
	return [...]string{"block by height", "block by hash", "transaction", "receipts", "balance"}[q]
}

// answer is one entry of the clients' history.
type answer struct {
	node, life int
	at         time.Duration
	question   question
	height     uint64
	index      uint64         // of a transaction in its block
	account    common.Address // whose balance
	got        string         // what was answered, in the words of the ledger; empty: nothing, as if there were none
	err        error
	excuse     string // why an error is none of the node's fault; empty: there is none
}

// toldFinal is the newest block that a node has called final, over its lives.
type toldFinal struct {
	mu     sync.Mutex
	height uint64
	hash   common.Hash
}

func (t *toldFinal) get() (uint64, common.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.height, t.hash
}

func (t *toldFinal) set(height uint64, hash common.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.height, t.hash = height, hash
}

// client asks one life of a node, as long as it lasts, and sends the load to it.
type client struct {
	l   *life
	rng *rand.Rand
	c   *checkers
}

// run is a client's life.
func (x *client) run(ctx context.Context) {
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		height := x.askFinal()
		for range questionsAtOnce {
			x.ask(ctx, height)
		}
		x.sendLoad()
	}
}

// askFinal has the node tell its newest final block, which it stands by from now on.
func (x *client) askFinal() uint64 {
	l := x.l
	h := l.chain.Final()
	if l.isOver() {
		height, _ := l.n.told.get()
		return height
	}
	x.c.tellFinal(fmt.Sprintf("node %d", l.n.id), h.Number(), h.Hash())
	if was, _ := l.n.told.get(); h.Number() < was {
		x.c.report("final", "node %d, life %d, calls block %d its newest final one, and has called %d final before", l.n.id, l.number, h.Number(), was)
	}
	l.n.told.set(h.Number(), h.Hash())
	return h.Number()
}

// ask puts one question about data that the node has called final, and notes the answer.
func (x *client) ask(ctx context.Context, told uint64) {
	a := answer{node: x.l.n.id, life: x.l.number, question: question(x.rng.IntN(int(questions)))}
	hash, tx, ok := x.choose(&a, told)
	if !ok {
		return
	}
	a.err = x.l.store.ReadRepaired(ctx, func() (err error) {
		a.got, err = x.read(&a, hash, tx)
		return err
	})
	if x.l.isOver() || ctx.Err() != nil {
		return // nobody has got this answer
	}
	a.at = time.Since(x.c.began)
	if a.err != nil {
		a.excuse = x.l.excuse(a.err)
	}
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	x.c.answers = append(x.c.answers, a)
}

// choose picks a height, and what lies there by the ledger.
func (x *client) choose(a *answer, told uint64) (hash, tx common.Hash, ok bool) {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	told = min(told, x.c.ledger.height)
	a.height = x.rng.Uint64N(told + 1)
	if a.question == balance || x.rng.IntN(3) == 0 { // old states are kept nowhere in a simulation
		a.height = told - min(told, x.rng.Uint64N(8))
	}
	b := x.c.ledger.blocks[a.height]
	if a.question == transaction {
		if len(b.Transactions) == 0 {
			return hash, tx, false
		}
		a.index = x.rng.Uint64N(uint64(len(b.Transactions)))
		tx = b.Transactions[a.index].Hash()
	}
	a.account = x.l.n.w.accounts[x.rng.IntN(len(x.l.n.w.accounts))].address
	return b.Hash(), tx, true
}

// read asks the node.
func (x *client) read(a *answer, hash, tx common.Hash) (string, error) {
	c := x.l.chain
	switch a.question {
	case blockByHeight:
		return describeBlock(c.BlockByNumber(a.height))
	case blockByHash:
		return describeBlock(c.BlockByHash(hash))
	case transaction:
		t, err := c.Transaction(tx)
		if t == nil || err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %d %d", t.Block, t.Height, t.Index), nil
	case receipts:
		rs, err := c.Receipts(hash)
		if err != nil {
			return "", err
		}
		return describeReceipts(rs), nil
	case balance:
		h, err := c.HeaderByNumber(a.height)
		if h == nil || err != nil {
			return "", err
		}
		s, err := c.StateAt(h)
		if err != nil {
			return "", err
		}
		v := s.GetBalance(a.account)
		return v.String(), s.Error()
	}
	return "", nil
}

func describeBlock(b *block.Block, err error) (string, error) {
	if b == nil || err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s", b.Hash(), block.BodyDigest(b.Transactions, b.Senders)), nil
}

func describeReceipts(rs types.Receipts) string {
	s := fmt.Sprintf("%d:", len(rs))
	for _, r := range rs {
		s += fmt.Sprintf(" %s %d %d %d", r.TxHash, r.Status, r.CumulativeGasUsed, r.BlockNumber)
	}
	return s
}

// expected is what the ledger answers.
func (l *ledger) expected(a *answer) string {
	b := l.blocks[a.height]
	switch a.question {
	case blockByHeight, blockByHash:
		return fmt.Sprintf("%s %s", b.Hash(), block.BodyDigest(b.Transactions, b.Senders))
	case transaction:
		return fmt.Sprintf("%s %d %d", b.Hash(), a.height, a.index)
	case receipts:
		s := fmt.Sprintf("%d:", len(b.Transactions))
		for i, tx := range b.Transactions {
			s += fmt.Sprintf(" %s 1 %d %d", tx.Hash(), 21_000*(i+1), a.height)
		}
		return s
	case balance:
		return l.balances[a.height][a.account].String()
	}
	return ""
}

// judgeAnswers holds the clients' whole history against the ledger.
func (c *checkers) judgeAnswers() (judged, excused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.answers {
		a := &c.answers[i]
		about := fmt.Sprintf("node %d, life %d, at %.3f s, %s at height %d", a.node, a.life, a.at.Seconds(), a.question, a.height)
		switch want := c.ledger.expected(a); {
		case a.err != nil && a.excuse != "":
			excused++
		case a.err != nil:
			c.violate("answers", "%s: an error without a cause: %v", about, a.err)
		case a.got == "":
			c.violate("answers", "%s: answered as if it did not exist", about)
		case a.got != want:
			c.violate("answers", "%s: got %s, it is %s", about, a.got, want)
		}
		judged++
	}
	return judged, excused
}

// excuse is why an error about final data is right; empty: it is not.
func (l *life) excuse(err error) string {
	switch {
	case errors.Is(err, chain.ErrStateUnavailable), errors.As(err, new(chain.ErrReplaying)):
		return "the state is not there"
	case errors.Is(err, blockstore.ErrIndexing):
		return "the index is being completed"
	case errors.Is(err, chain.ErrClosed), errors.Is(err, blockstore.ErrClosed):
		return "it ends"
	case l.n.medium.wasHurt():
		return "its disk was hurt"
	}
	return ""
}

// account is one of the load's, with what it has sent that may not be final yet.
type account struct {
	address common.Address
	sign    func(tx types.TxData) *types.Transaction

	mu      sync.Mutex
	next    uint64
	waiting []*types.Transaction
}

// outstanding are the account's transactions that are not final, with new ones up to a bound.
func (a *account) outstanding(final uint64, to common.Address, value uint64) []*types.Transaction {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.waiting) > 0 && a.waiting[0].Nonce() < final {
		a.waiting = a.waiting[1:]
	}
	for len(a.waiting) < maxOutstanding {
		a.waiting = append(a.waiting, a.sign(&types.LegacyTx{Nonce: a.next, To: &to, Value: new(big.Int).SetUint64(value), Gas: 21_000, GasPrice: new(big.Int)}))
		a.next++
	}
	return append([]*types.Transaction(nil), a.waiting...)
}

// sendLoad offers the node what one account has outstanding; a transaction that was lost is offered again.
func (x *client) sendLoad() {
	p := x.l.pool.Load()
	if p == nil {
		return
	}
	accounts := x.l.n.w.accounts
	a, to := accounts[x.rng.IntN(len(accounts))], accounts[x.rng.IntN(len(accounts))]
	x.c.mu.Lock()
	final := x.c.ledger.sent[a.address]
	x.c.mu.Unlock()
	p.Add(a.outstanding(final, to.address, 1+x.rng.Uint64N(1000)), true)
}
