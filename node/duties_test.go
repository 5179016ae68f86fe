package node

import (
	"context"
	"crypto/rand"
	"math/big"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/event"
	"github.com/ethereum/go-ethereum/params"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/txpool"
)

const testEpoch = 20

// stage is a chain, a pool and a schedule that a test moves by hand. Only the test and, while the test waits, the
// goroutine of duties use it.
type stage struct {
	t      *testing.T
	d      *duties
	logs   *observer.ObservedLogs
	stop   func() // ends the goroutine of duties
	feed   event.FeedOf[chain.HeadEvent]
	height uint64
	final  uint64
	people map[common.Address]contracts.Candidate
	seats  block.Schedule
	elects bool
	synced bool
	idle   bool // blocks are empty

	refuse  func(data []byte) string
	tries   int // to estimate gas
	poolErr error
	fee     int64                    // base fee
	lossy   bool                     // the pool forgets what it takes
	pool    []*types.Transaction     // waiting, in order of nonces
	queued  []*types.Transaction     // for a missing nonce
	blocks  map[common.Hash]bool     // included, and with what outcome
	offered map[common.Hash]int      // to peers, beside the pool's own gossip
	include func(*types.Transaction) // what a block does with a transaction; nil: none is included
	sent    []*types.Transaction
}

func (s *stage) CurrentHeader() *types.Header {
	h := &types.Header{Number: new(big.Int).SetUint64(s.height), Time: s.height}
	if s.idle {
		h.TxHash = types.EmptyTxsHash
	}
	return h
}
func (s *stage) FinalHeader() *types.Header {
	return &types.Header{Number: new(big.Int).SetUint64(s.final), Extra: []byte("final")}
}
func (s *stage) SubscribeHead(ch chan<- chain.HeadEvent) event.Subscription {
	return s.feed.Subscribe(ch)
}
func (s *stage) Candidate(h *types.Header, a common.Address) (contracts.Candidate, []byte, error) {
	c, ok := s.people[a]
	if !ok {
		c.Votes = new(big.Int)
	}
	if len(h.Extra) > 0 && s.final < s.height {
		c.Guilty = false // LIB is behind
	}
	return c, nil, nil
}
func (s *stage) Try(_ context.Context, _ *types.Header, _, _ common.Address, data []byte) (uint64, string, error) {
	s.tries++
	if s.refuse != nil {
		return 50_000, s.refuse(data), nil
	}
	return 50_000, "", nil
}
func (s *stage) Outcome(tx common.Hash) (included, ok bool, err error) {
	ok, included = s.blocks[tx]
	return included, ok, nil
}
func (s *stage) BaseFee(*types.Header) *big.Int    { return big.NewInt(s.fee) }
func (s *stage) Schedule() (block.Schedule, error) { return s.seats, nil }
func (s *stage) Elects() (bool, error)             { return s.elects, nil }
func (s *stage) Nonce(common.Address) uint64       { return uint64(len(s.sent)) }
func (s *stage) ContentFrom(common.Address) (pending, queued []*types.Transaction) {
	return s.pool, s.queued
}
func (s *stage) Has(h common.Hash) bool {
	return slices.ContainsFunc(slices.Concat(s.pool, s.queued), func(tx *types.Transaction) bool { return tx.Hash() == h })
}
func (s *stage) Add(txs []*types.Transaction, _ bool) []error {
	if s.poolErr != nil {
		return []error{s.poolErr}
	}
	for i, old := range s.pool {
		if old.Nonce() != txs[0].Nonce() {
			continue
		}
		if !dearer(txs[0].GasTipCap(), old.GasTipCap()) || !dearer(txs[0].GasFeeCap(), old.GasFeeCap()) {
			return []error{txpool.ErrUnderpriced}
		}
		s.pool = slices.Delete(s.pool, i, i+1)
		break
	}
	s.sent = append(s.sent, txs...)
	if !s.lossy {
		s.pool = append(s.pool, txs...)
	}
	return []error{nil}
}

// dearer is what the pool wants of a replacement: a tenth more.
func dearer(fee, old *big.Int) bool {
	x := new(big.Int).Mul(old, big.NewInt(11))
	return fee.Cmp(old) > 0 && new(big.Int).Mul(fee, big.NewInt(10)).Cmp(x) >= 0
}

// block makes the next block, with all that waits in the pool, and lets duties see it.
func (s *stage) block() {
	s.height++
	if s.include != nil {
		for _, tx := range s.pool {
			s.include(tx)
			if _, ok := s.blocks[tx.Hash()]; !ok {
				s.blocks[tx.Hash()] = true
			}
		}
		s.pool = nil
	}
	s.feed.Send(chain.HeadEvent{})
	synctest.Wait()
}

func (s *stage) blocksN(n int) {
	for range n {
		s.block()
	}
}

// to makes blocks up to a height.
func (s *stage) to(height uint64) {
	for s.height < height {
		s.block()
	}
}

func fit() contracts.Candidate {
	return contracts.Candidate{Key: 1, Place: 1, Votes: big.NewInt(5)}
}

// newStage has a schedule of four others. The producer is a candidate without a seat.
func newStage(t *testing.T, change func(*stage, *dutyDeps)) *stage {
	t.Helper()
	key, err := signer.Generate(rand.Reader)
	require.NoError(t, err)
	core, logs := observer.New(zap.InfoLevel)
	s := &stage{t: t, fee: 7, logs: logs, elects: true, synced: true, people: make(map[common.Address]contracts.Candidate),
		blocks: make(map[common.Hash]bool), offered: make(map[common.Hash]int)}
	for i := range 4 {
		s.seats = append(s.seats, block.Producer{Account: common.Address{byte(i + 1)}})
	}
	deps := dutyDeps{
		cfg: config.Duties{Enabled: true}, self: key.Account(), params: block.Parameters{ChainID: 7, EpochBlocks: testEpoch},
		chain: s, pool: s, consensus: s, signer: key, synced: func() bool { return s.synced },
		offer: func(txs types.Transactions) {
			for _, tx := range txs {
				s.offered[tx.Hash()]++
			}
		},
		bump: 10, file: filepath.Join(t.TempDir(), DutiesFile), log: zap.New(core),
	}
	s.people[deps.self] = fit()
	if change != nil {
		change(s, &deps)
	}
	s.d, err = newDuties(deps)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.d.run(ctx) }()
	s.stop = func() { stop(); <-ended }
	t.Cleanup(s.stop)
	synctest.Wait()
	return s
}

// me changes how the producer's account stands.
func (s *stage) me(change func(*contracts.Candidate)) {
	c := s.people[s.d.self]
	change(&c)
	s.people[s.d.self] = c
}

// reports makes blocks execute reports.
func (s *stage) reports() {
	s.include = func(*types.Transaction) {
		s.me(func(c *contracts.Candidate) { c.Reported = (s.height-1)/testEpoch + 1 })
	}
}

func TestStandbyReportsOnceAnEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.reports()
		s.block()
		require.Len(t, s.sent, 1, "at the first block of the epoch")
		tx := s.sent[0]
		require.Equal(t, contracts.ProducersAddress, *tx.To())
		require.Equal(t, contracts.ReportStandbyCall(), tx.Data())
		require.Equal(t, big.NewInt(14), tx.GasFeeCap(), "the fee may double")
		require.Zero(t, tx.GasTipCap().Sign())
		from, err := types.Sender(types.LatestSignerForChainID(big.NewInt(7)), tx)
		require.NoError(t, err)
		require.Equal(t, s.d.self, from)
		s.to(3*testEpoch - 1)
		require.Len(t, s.sent, 3, "one in each epoch")
	})
}

func TestReportsThatGetLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.lossy = true
		s.block()
		require.Len(t, s.sent, 1)
		s.lossy = false
		s.block()
		require.Len(t, s.sent, 2, "neither in a block nor in the pool: sent again")
		s.blocksN(offerBlocks + 1)
		require.Len(t, s.sent, 2, "it waits in the pool")
		require.Equal(t, 1, s.offered[s.sent[1].Hash()], "and the peers hear of it again")
		s.reports()
		s.blocksN(3)
		require.Len(t, s.sent, 2)
	})
}

// A fee that rises above what a waiting transaction pays has it replaced.
func TestFeesThatRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.block()
		s.fee = 14
		s.block()
		require.Len(t, s.sent, 1, "it pays enough still")
		s.fee = 15
		s.blocksN(2)
		require.Len(t, s.sent, 2)
		require.Equal(t, s.sent[0].Nonce(), s.sent[1].Nonce())
		require.Equal(t, big.NewInt(30+minTip), s.sent[1].GasFeeCap())
		require.Equal(t, big.NewInt(minTip), s.sent[1].GasTipCap())
	})
}

// Who fills the blocks with transactions that pay a tip does not keep ours out for pennies, nor makes us pay any price.
func TestTipsThatRise(t *testing.T) {
	for _, fee := range []int64{0, 7, 50 * params.GWei} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, func(s *stage, d *dutyDeps) { s.fee, d.params.EpochBlocks = fee, 1<<20 })
			s.idle = true
			s.blocksN(3 * patienceBlocks)
			require.Len(t, s.sent, 1, "no fee is too low for an empty block")
			s.idle = false
			s.block()
			require.Len(t, s.sent, 2)
			require.Equal(t, big.NewInt(minTip), s.sent[1].GasTipCap())
			s.blocksN(20 * patienceBlocks)
			last := s.sent[len(s.sent)-1]
			require.GreaterOrEqual(t, last.GasTipCapIntCmp(big.NewInt(maxTip)), 0)
			require.Negative(t, last.GasTipCapIntCmp(big.NewInt(2*maxTip)))
			require.Len(t, s.pool, 1, "each in place of the one before")
			require.Empty(t, s.logs.FilterMessage("not sent").All())
		})
	}
}

// A transaction of the operator that no block takes is before ours: it is theirs to replace, and told once.
func TestBehindAnotherTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(s *stage, d *dutyDeps) {
			d.params.EpochBlocks = 1 << 20
			s.pool = []*types.Transaction{types.NewTx(&types.DynamicFeeTx{Nonce: 1000, GasFeeCap: big.NewInt(1), GasTipCap: new(big.Int)})}
		})
		s.blocksN(2 * patienceBlocks)
		require.Empty(t, s.logs.FilterMessageSnippet("waits behind another transaction").All(), "others may pass in time")
		s.blocksN(2 * patienceBlocks)
		require.Len(t, s.sent, 1, "a tip does not help")
		told := s.logs.FilterMessageSnippet("waits behind another transaction").All()
		require.Len(t, told, 1)
		require.EqualValues(t, 1000, told[0].ContextMap()["nonce"])
		s.pool = s.pool[1:]
		s.block()
		require.Len(t, s.sent, 2)
	})
	synctest.Test(t, func(t *testing.T) { // what was before ours is gone, in no block
		s := newStage(t, func(_ *stage, d *dutyDeps) { d.params.EpochBlocks = 1 << 20 })
		s.block()
		s.pool, s.queued = nil, s.pool
		s.blocksN(patienceBlocks)
		require.Len(t, s.sent, 2, "one that takes the missing nonce")
	})
}

// What the pool refuses in place of a transaction that waits is tried again; the one that waits is not forgotten.
func TestReplacementsThatFail(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *stage{
		"report": func(t *testing.T) *stage { return newStage(t, nil) },
		"way out of jail": func(t *testing.T) *stage {
			s := newStage(t, func(_ *stage, d *dutyDeps) { d.cfg.Unjail = true })
			s.me(func(c *contracts.Candidate) { c.JailedUntil = 1 })
			return s
		},
		"evidence": func(t *testing.T) *stage {
			s := newStage(t, func(s *stage, d *dutyDeps) { s.elects, s.seats[0].Account = false, d.self })
			require.True(t, s.d.docket.add(&proof{Kind: 1, Guilty: common.Address{2}, Slot: 8, Calls: [][]byte{{1}}}))
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t)
				s.block()
				require.Len(t, s.sent, 1)
				s.fee, s.poolErr = 100, txpool.ErrInsufficient
				s.blocksN(3)
				require.Equal(t, 1, s.logs.FilterMessageSnippet("send it money").Len())
				s.poolErr = nil
				s.blocksN(retryBlocks)
				require.Len(t, s.sent, 2)
				require.Equal(t, s.sent[0].Nonce(), s.sent[1].Nonce(), "in its place")
			})
		})
	}
}

// What the pool's journal kept over a restart is not sent twice.
func TestTransactionsOfTheLastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.block()
		require.Len(t, s.sent, 1)
		again := newStage(t, func(n *stage, d *dutyDeps) {
			d.self, d.signer = s.d.self, s.d.signer
			n.people, n.pool, n.height = s.people, s.pool, s.height
		})
		again.blocksN(3)
		require.Empty(t, again.sent)
		again.blocksN(patienceBlocks)
		require.Len(t, again.sent, 1, "the duty follows it")
		require.Equal(t, s.sent[0].Nonce(), again.sent[0].Nonce())
	})
	synctest.Test(t, func(t *testing.T) { // one that is in a block already, which the pool has not seen yet, does not count
		s := newStage(t, nil)
		s.block()
		again := newStage(t, func(n *stage, d *dutyDeps) {
			d.self, d.signer = s.d.self, s.d.signer
			n.people, n.pool, n.height = s.people, s.pool, s.height
			n.blocks[s.pool[0].Hash()] = false
			n.sent = s.sent // its nonce
		})
		again.block()
		require.Len(t, again.sent, 2)
	})
}

func TestNoReportWithoutUse(t *testing.T) {
	for name, change := range map[string]func(*stage){
		"syncing":      func(s *stage) { s.synced = false },
		"no election":  func(s *stage) { s.elects = false },
		"seated":       func(s *stage) { s.me(func(c *contracts.Candidate) { c.Seated = 1 }) },
		"in jail":      func(s *stage) { s.me(func(c *contracts.Candidate) { c.JailedUntil = 1 << 40 }) },
		"guilty":       func(s *stage) { s.me(func(c *contracts.Candidate) { c.Guilty = true }) },
		"resigned":     func(s *stage) { s.me(func(c *contracts.Candidate) { c.Resigned = true }) },
		"no votes":     func(s *stage) { s.me(func(c *contracts.Candidate) { c.Votes = new(big.Int) }) },
		"no candidate": func(s *stage) { delete(s.people, s.d.self) },
		"switched off": func(s *stage) { s.d.cfg.Enabled = false },
		"no signer":    func(s *stage) { s.d.signer = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, nil)
				change(s)
				s.to(2 * testEpoch)
				require.Empty(t, s.sent)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.refuse = func([]byte) string { return "Producers: no node of the caller has the producer role" }
		s.to(2*testEpoch - 1)
		require.Empty(t, s.sent)
		n := s.logs.FilterMessage("not sent: the contract would refuse it").Len()
		require.Equal(t, 2, n, "said once an epoch")
	})
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.poolErr = txpool.ErrInsufficient
		s.to(testEpoch - 1)
		require.Equal(t, 1, s.logs.FilterMessageSnippet("send it money").Len())
		s.poolErr = nil
		s.to(2*testEpoch - 1)
		require.Len(t, s.pool, 1)
	})
}

func TestJailIsTold(t *testing.T) {
	for _, self := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, func(_ *stage, d *dutyDeps) { d.cfg.Unjail = self })
			s.me(func(c *contracts.Candidate) { c.Seated = 1 })
			s.block()
			s.me(func(c *contracts.Candidate) { c.Seated, c.JailedUntil = 0, 10 })
			s.blocksN(3)
			require.Equal(t, 1, s.logs.FilterMessageSnippet("is in jail").Len())
			require.Equal(t, 1, s.logs.FilterMessageSnippet("has no seat").Len())
			require.Empty(t, s.sent)
			s.lossy = self // the first try gets lost
			s.to(11)
			s.lossy = false
			s.include = func(*types.Transaction) { s.me(func(c *contracts.Candidate) { c.JailedUntil = 0 }) }
			s.to(15)
			if !self {
				require.Equal(t, 1, s.logs.FilterMessageSnippet("may leave jail now").Len())
				require.Empty(t, s.sent)
				return
			}
			require.Equal(t, contracts.UnjailCall(), s.sent[0].Data())
			require.Equal(t, 1, s.logs.FilterMessageSnippet("out of jail").FilterLevelExact(zap.InfoLevel).FilterMessage("this producer is out of jail").Len())
		})
	}
}

// A way out that the contract refuses is tried once for each time in jail.
func TestUnjailIsTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(_ *stage, d *dutyDeps) { d.cfg.Unjail = true })
		s.me(func(c *contracts.Candidate) { c.JailedUntil = 2 })
		s.refuse = func([]byte) string { return "Producers: the caller is not in jail" }
		s.blocksN(6)
		require.Equal(t, 1, s.logs.FilterMessage("not sent: the contract would refuse it").Len())
		s.refuse = nil
		s.me(func(c *contracts.Candidate) { c.JailedUntil = 3 })
		s.blocksN(2)
		require.Len(t, s.sent, 1)
	})
}

// A way out that could not be sent is tried again.
func TestUnjailIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(_ *stage, d *dutyDeps) { d.cfg.Unjail = true })
		s.me(func(c *contracts.Candidate) { c.JailedUntil = 2 })
		s.poolErr = txpool.ErrInsufficient
		s.blocksN(retryBlocks)
		require.Equal(t, 1, s.logs.FilterMessageSnippet("send it money").Len())
		s.poolErr = nil
		s.blocksN(retryBlocks / 2)
		require.Len(t, s.sent, 1)
	})
}

func TestDocketIsBounded(t *testing.T) {
	d := new(docket)
	require.False(t, d.add(&proof{Kind: 1}), "no calls")
	for i := range 2 * maxProofs {
		d.add(&proof{Kind: 1, Guilty: common.Address{byte(i)}, Calls: [][]byte{{1}}})
	}
	require.Len(t, d.proofs, maxProofs)
	d = new(docket)
	for i := range 3 {
		d.add(&proof{Kind: 1, Guilty: common.Address{byte(i)}, Calls: [][]byte{make([]byte, maxProofBytes/2)}})
	}
	require.Len(t, d.proofs, 2)
}

func TestRank(t *testing.T) {
	s := block.Schedule{{Account: common.Address{1}}, {Account: common.Address{2}}, {Account: common.Address{3}}}
	for slot := range uint64(7) {
		seen := make(map[uint64]bool)
		for _, p := range s {
			seen[rank(s, p.Account, slot)] = true
		}
		require.Equal(t, map[uint64]bool{0: true, 1: true, 2: true}, seen, "each has its own")
		require.Zero(t, rank(s, s[slot%3].Account, slot))
		require.EqualValues(t, 3, rank(s, common.Address{9}, slot), "who has no seat comes last")
	}
}

func FuzzDecodeDocket(f *testing.F) {
	d := new(docket)
	d.add(&proof{Kind: 1, Guilty: common.Address{1}, Slot: 3, Calls: [][]byte{{1, 2}, {3}}})
	b, err := d.encode()
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte{0xc0})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decodeDocket(b, 5)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(d.proofs), maxProofs)
		again, err := d.encode()
		require.NoError(t, err)
		same, err := decodeDocket(again, 5)
		require.NoError(t, err)
		require.Len(t, same.proofs, len(d.proofs))
	})
}
