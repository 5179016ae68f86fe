package load

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
)

// Kind is what the offered transactions do.
type Kind string

const (
	Transfer Kind = "transfer" // 1 wei to a fresh-looking address out of a few thousand
	Payload  Kind = "payload"  // Size bytes of call data to an address without code
	Contract Kind = "contract" // one storage write in a contract deployed first
)

const (
	maxRate      = 100_000
	maxSize      = 120 << 10 // the pool refuses transactions above 128 KiB
	tick         = 10 * time.Millisecond
	followEvery  = 4 * time.Millisecond
	maxPerBatch  = 500
	recipients   = 4096
	deployPeriod = time.Minute
)

// Options of one run. Accounts must be funded and used by nobody else meanwhile.
type Options struct {
	Endpoints []string // JSON-RPC URLs (http or ws) that take the transactions, in turn
	Follow    string   // URL at which inclusion and finality are observed; empty: the first of Endpoints
	Accounts  []*ecdsa.PrivateKey
	Kind      Kind
	Size      int // bytes of call data for Payload
	Rate      int // transactions per second, all endpoints together
	Duration  time.Duration
	Drain     time.Duration // how long to wait for the last ones to become final
}

// Percentiles of a latency, in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// Result of a run. Latencies run from the moment when a transaction was due by the rate: one that waits for the answer
// to those before it has begun to wait then.
type Result struct {
	Kind       Kind        `json:"kind"`
	Offered    int         `json:"offered"`
	Accepted   int         `json:"accepted"`
	Refused    int         `json:"refused"`
	FirstError string      `json:"first_error,omitempty"`
	Included   int         `json:"included"`
	Final      int         `json:"final"`
	Missing    int         `json:"missing"` // accepted, but not final when the drain time was over
	Twice      int         `json:"twice"`   // found in more than one final block
	Seconds    float64     `json:"seconds"` // first offer to last final one
	OfferedTPS float64     `json:"offered_tps"`
	FinalTPS   float64     `json:"final_tps"`
	Inclusion  Percentiles `json:"inclusion"`
	Finality   Percentiles `json:"finality"`
	LoaderCPU  float64     `json:"loader_cpu_us_per_tx"` // processor time of this process, signing not counted, per offered one

	Hashes []common.Hash `json:"-"` // of the accepted transactions
	Heads  []uint64      `json:"-"` // for each, the height of the accepting node's head at that moment
}

func (o *Options) validate() error {
	switch {
	case len(o.Endpoints) == 0:
		return errors.New("load: no endpoint given")
	case len(o.Accounts) < len(o.Endpoints):
		return fmt.Errorf("load: %d accounts for %d endpoints, one each is needed", len(o.Accounts), len(o.Endpoints))
	case o.Rate < 1 || o.Rate > maxRate:
		return fmt.Errorf("load: rate %d, use 1 to %d", o.Rate, maxRate)
	case o.Size < 0 || o.Size > maxSize:
		return fmt.Errorf("load: size %d, use 0 to %d bytes", o.Size, maxSize)
	case o.Kind != Transfer && o.Kind != Payload && o.Kind != Contract:
		return fmt.Errorf("load: kind %q, use transfer, payload or contract", o.Kind)
	case o.Duration <= 0:
		return errors.New("load: the duration must be positive")
	}
	return nil
}

// Run offers the load and returns when all accepted transactions are final or the drain time is over.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Follow == "" {
		o.Follow = o.Endpoints[0]
	}
	m, err := newMaker(ctx, o)
	if err != nil {
		return nil, err
	}
	batches, err := m.sign(ctx)
	if err != nil {
		return nil, err
	}
	follow, err := rpc.DialContext(ctx, o.Follow)
	if err != nil {
		return nil, fmt.Errorf("load: %s: %w", o.Follow, err)
	}
	defer follow.Close()
	f := newFollower(follow, m.total())
	if err := f.start(ctx); err != nil {
		return nil, err
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	var followErr error
	var watch sync.WaitGroup
	watch.Go(func() { followErr = f.run(following) })

	begun, cpu := time.Now(), ProcessorTime()
	var senders sync.WaitGroup
	for i, url := range o.Endpoints {
		senders.Go(func() { f.sendAll(ctx, url, batches[i], o) })
	}
	senders.Wait()
	offered := time.Since(begun)
	drain, cancel := context.WithTimeout(ctx, o.Drain)
	f.awaitFinal(drain)
	cancel()
	stop()
	watch.Wait()
	if followErr != nil && ctx.Err() == nil && !errors.Is(followErr, context.Canceled) {
		return nil, fmt.Errorf("load: following %s: %w", o.Follow, followErr)
	}
	r := f.result(o, begun, offered)
	if r.Offered > 0 {
		r.LoaderCPU = round(float64((ProcessorTime() - cpu).Microseconds()) / float64(r.Offered))
	}
	return r, ctx.Err()
}

// ProcessorTime is what this process has used since it began, user and system. It may be called from any goroutine.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// maker prepares signed transactions before the clock starts, so that signing costs the network nothing.
type maker struct {
	o        Options
	chainID  *big.Int
	gasPrice *big.Int
	client   *ethclient.Client
	target   common.Address
}

func newMaker(ctx context.Context, o Options) (*maker, error) {
	c, err := ethclient.DialContext(ctx, o.Endpoints[0])
	if err != nil {
		return nil, fmt.Errorf("load: %s: %w", o.Endpoints[0], err)
	}
	m := &maker{o: o, client: c}
	if m.chainID, err = c.ChainID(ctx); err != nil {
		return nil, fmt.Errorf("load: %s: %w", o.Endpoints[0], err)
	}
	if m.gasPrice, err = c.SuggestGasPrice(ctx); err != nil {
		return nil, fmt.Errorf("load: %s: %w", o.Endpoints[0], err)
	}
	m.gasPrice.Mul(m.gasPrice, big.NewInt(4)) // room for a rising market
	if o.Kind == Contract {
		return m, m.deploy(ctx)
	}
	return m, nil
}

// counterCode stores, for each caller, how often it called: CALLER SLOAD 1 ADD CALLER SSTORE STOP, with its
// constructor.
var counterCode = common.FromHex("0x6733546001013355006000526008601860f3")

func (m *maker) deploy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deployPeriod)
	defer cancel()
	key := m.o.Accounts[0]
	from := crypto.PubkeyToAddress(key.PublicKey)
	nonce, err := m.client.PendingNonceAt(ctx, from)
	if err != nil {
		return err
	}
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(m.chainID), &types.LegacyTx{
		Nonce: nonce, GasPrice: m.gasPrice, Gas: 200_000, Data: counterCode,
	})
	if err != nil {
		return err
	}
	if err := m.client.SendTransaction(ctx, tx); err != nil {
		return fmt.Errorf("load: deploying the contract: %w", err)
	}
	for {
		r, err := m.client.TransactionReceipt(ctx, tx.Hash())
		if err == nil {
			if r.Status != types.ReceiptStatusSuccessful {
				return errors.New("load: the contract's deployment was reverted")
			}
			m.target = r.ContractAddress
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("load: the contract was not deployed: %w", ctx.Err())
		case <-time.After(tick):
		}
	}
}

func (m *maker) total() int { return int(float64(m.o.Rate) * m.o.Duration.Seconds()) }

// sign returns, per endpoint, the transactions in sending order. Accounts are dealt out to endpoints in turn.
func (m *maker) sign(ctx context.Context) ([][]*types.Transaction, error) {
	n := len(m.o.Endpoints)
	out := make([][]*types.Transaction, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for e := range n {
		var keys []*ecdsa.PrivateKey
		for i := e; i < len(m.o.Accounts); i += n {
			keys = append(keys, m.o.Accounts[i])
		}
		count := (m.total() + n - 1 - e) / n
		wg.Go(func() { out[e], errs[e] = m.signFor(ctx, keys, count) })
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

func (m *maker) signFor(ctx context.Context, keys []*ecdsa.PrivateKey, count int) ([]*types.Transaction, error) {
	signer := types.LatestSignerForChainID(m.chainID)
	nonces := make([]uint64, len(keys))
	for i, k := range keys {
		n, err := m.client.PendingNonceAt(ctx, crypto.PubkeyToAddress(k.PublicKey))
		if err != nil {
			return nil, fmt.Errorf("load: nonce: %w", err)
		}
		nonces[i] = n
	}
	data := make([]byte, m.o.Size)
	txs := make([]*types.Transaction, 0, count)
	for i := range count {
		k := i % len(keys)
		tx, err := types.SignNewTx(keys[k], signer, m.body(i, nonces[k], data))
		if err != nil {
			return nil, err
		}
		nonces[k]++
		txs = append(txs, tx)
	}
	return txs, ctx.Err()
}

func (m *maker) body(i int, nonce uint64, data []byte) *types.LegacyTx {
	tx := &types.LegacyTx{Nonce: nonce, GasPrice: m.gasPrice, Gas: 21_000, Value: big.NewInt(1)}
	switch m.o.Kind {
	case Contract:
		tx.To, tx.Gas, tx.Value = &m.target, 60_000, new(big.Int)
	case Payload:
		fill(data, uint64(i))
		tx.Data = slices.Clone(data)
		tx.Gas += 40 * uint64(len(data)) // EIP-7623's floor for bytes that are not zero
		fallthrough
	default:
		to := common.BigToAddress(big.NewInt(int64(0x10_0000 + i%recipients)))
		tx.To = &to
	}
	return tx
}

// fill writes bytes that do not compress, different for every i.
func fill(b []byte, i uint64) {
	x := i*0x9e3779b97f4a7c15 + 1
	for j := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[j] = byte(x)
	}
}
