package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/runtime"
	"github.com/ethereum/go-ethereum/crypto"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/holiman/uint256"
	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/bls"
	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/gate/gatetest"
	"github.com/bornode/bornode/pubsub/seal"
)

const (
	chainID  = 4711
	patience = 3 * time.Minute
)

// world is a network of one broker that lies where asked to, and one node with the real contract.
type world struct {
	t       *testing.T
	ctx     context.Context
	genesis *genesis.Genesis
	voter   *bls.SecretKey // the only producer's
	kafka   *gatetest.Broker
	url     string
	broker  *ecdsa.PrivateKey
	owner   *ecdsa.PrivateKey // of the tenant acme

	mu       sync.Mutex
	state    *state.StateDB
	height   uint64
	nonces   map[common.Address]uint64
	receipts map[common.Hash]*types.Receipt
	proof    func(topic common.Hash, partition int32, from, to int64, after uint64) ([]byte, error)
	commits  uint64 // of the broker
	witness  map[int]witnessAnswer
	asked    int          // for witness
	without  map[int]bool // nodes that give no proofs
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	k, err := crypto.GenerateKey()
	require.NoError(t, err)
	return k
}

func newWorld(t *testing.T) *world { return newWorldOf(t, 1) }

// newWorldOf has so many brokers.
func newWorldOf(t *testing.T, brokers int) *world {
	t.Helper()
	w := &world{t: t, broker: newKey(t), owner: newKey(t), height: 1, nonces: map[common.Address]uint64{}, receipts: map[common.Hash]*types.Receipt{},
		witness: map[int]witnessAnswer{}, without: map[int]bool{}}
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w.makeGenesis()
	s, err := state.New(types.EmptyRootHash, state.NewDatabaseForTesting())
	require.NoError(t, err)
	w.state = s
	for a, x := range w.genesis.Alloc() {
		s.SetCode(a, x.Code, tracing.CodeChangeGenesis)
		s.AddBalance(a, uint256.MustFromBig(x.Balance), tracing.BalanceIncreaseGenesisBalance)
		for k, v := range x.Storage {
			s.SetState(a, k, v)
		}
	}
	s.Finalise(w.genesis.ChainConfig().Rules(new(big.Int), true, 0))
	w.tenant()
	w.kafka, err = gatetest.New(brokers, gate.ReceiptTag)
	require.NoError(t, err)
	t.Cleanup(w.kafka.Close)
	srv := gethrpc.NewServer()
	require.NoError(t, srv.RegisterName("eth", &ethAPI{w}))
	require.NoError(t, srv.RegisterName("bps", &bpsAPI{w, 0}))
	h := httptest.NewServer(srv)
	t.Cleanup(func() { h.Close(); srv.Stop() })
	w.url = h.URL
	return w
}

// prover is one more node, which has proofs and a word about checkpoints alone.
func (w *world) prover(number int) string {
	srv := gethrpc.NewServer()
	require.NoError(w.t, srv.RegisterName("bps", &bpsAPI{w, number}))
	h := httptest.NewServer(srv)
	w.t.Cleanup(func() { h.Close(); srv.Stop() })
	return h.URL
}

func (w *world) makeGenesis() {
	producer := newKey(w.t)
	account := crypto.PubkeyToAddress(producer.PublicKey)
	var err error
	w.voter, err = bls.GenerateKey(rand.Reader)
	require.NoError(w.t, err)
	possession := w.voter.Sign(block.PossessionDigest(chainID, account, w.voter.PublicKey()).Bytes())
	w.genesis, err = genesis.New(genesis.Options{ChainID: chainID, GenesisTime: 1_790_000_000, Slot: 100 * time.Millisecond, TurnSlots: 2, EpochBlocks: 16,
		Admin:     account,
		Producers: []genesis.Producer{{Account: account, BLSKey: w.voter.PublicKey(), Proof: possession}},
		Members: []genesis.Member{{PeerID: peerID(w.t), Account: account, Roles: genesis.RoleProducer},
			{PeerID: peerID(w.t), Account: crypto.PubkeyToAddress(w.broker.PublicKey), Roles: genesis.RoleBroker}}})
	require.NoError(w.t, err)
}

func peerID(t testing.TB) string {
	_, pub, err := p2pcrypto.GenerateEd25519Key(rand.Reader)
	require.NoError(t, err)
	id, err := peer.IDFromPublicKey(pub)
	require.NoError(t, err)
	return id.String()
}

// tenant registers the broker and makes the tenant acme.
func (w *world) tenant() {
	data, err := contracts.RegisterBrokerCall("broker.example", 9092, w.genesis.Members()[1].PeerID)
	require.NoError(w.t, err)
	w.must(crypto.PubkeyToAddress(w.broker.PublicKey), contracts.TopicsAddress, data)
	data, err = contracts.SetTenantCall(contracts.Tenant{Name: "acme", Owner: crypto.PubkeyToAddress(w.owner.PublicKey), BytesPerSecond: 1 << 20,
		Connections: 10, Topics: 100, Partitions: 400})
	require.NoError(w.t, err)
	w.must(w.genesis.Admin(), contracts.MembersAddress, data)
}

func (w *world) must(from, to common.Address, data []byte) {
	w.t.Helper()
	_, _, err := w.run(from, to, data, true)
	require.NoError(w.t, err)
}

// run calls a contract; keep: the changes stay.
func (w *world) run(from, to common.Address, data []byte, keep bool) ([]byte, uint64, error) {
	s := w.state
	if !keep {
		s = s.Copy()
	}
	s.SetTxContext(common.BigToHash(big.NewInt(int64(s.TxIndex()+1))), s.TxIndex()+1, 0)
	const most = 16_000_000
	ret, left, err := runtime.Call(to, data, &runtime.Config{ChainConfig: w.genesis.ChainConfig(), Origin: from, BlockNumber: new(big.Int).SetUint64(w.height),
		Time: 1_790_000_000 + w.height, GasLimit: most, Value: new(big.Int), State: s, BaseFee: new(big.Int), Difficulty: new(big.Int), Random: &common.Hash{},
		GetHashFn: func(uint64) common.Hash { return common.Hash{} }})
	if errors.Is(err, vm.ErrExecutionReverted) {
		if reason, uerr := abi.UnpackRevert(ret); uerr == nil {
			err = &revert{reason, ret}
		}
	}
	return ret, most - left, err
}

// revert is go-ethereum's error with data.
type revert struct {
	reason string
	data   []byte
}

func (r *revert) Error() string  { return "execution reverted: " + r.reason }
func (r *revert) ErrorCode() int { return 3 }
func (r *revert) ErrorData() any { return hexutil.Encode(r.data) }

// commit has the broker put a checkpoint on the chain.
func (w *world) commit(height uint64, topic common.Hash, seq uint64, root [32]byte, leaves uint64) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.height = max(w.height, height)
	w.commits++
	data, err := contracts.CommitCall(contracts.Commit{Number: w.commits, Checkpoints: []contracts.Checkpoint{{Topic: topic, Seq: seq, Root: root, Leaves: leaves}}})
	require.NoError(w.t, err)
	w.must(crypto.PubkeyToAddress(w.broker.PublicKey), contracts.TopicsAddress, data)
}

type ethAPI struct{ w *world }

type callArgs struct {
	From *common.Address `json:"from"`
	To   common.Address  `json:"to"`
	Data hexutil.Bytes   `json:"data"`
	In   hexutil.Bytes   `json:"input"`
}

func (c *callArgs) run(w *world) ([]byte, uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var from common.Address
	if c.From != nil {
		from = *c.From
	}
	return w.run(from, c.To, append(c.Data, c.In...), false)
}

func (a *ethAPI) ChainId() hexutil.Uint64 { return chainID } //nolint:revive,staticcheck // the method's name
func (a *ethAPI) Call(c callArgs, tag string) (hexutil.Bytes, error) {
	if tag != "finalized" {
		return nil, errors.New("views are of final state")
	}
	ret, _, err := c.run(a.w)
	return ret, err
}

func (a *ethAPI) EstimateGas(c callArgs, _ *string) (hexutil.Uint64, error) {
	_, gas, err := c.run(a.w)
	return hexutil.Uint64(gas + 300_000), err
}

func (a *ethAPI) GetBlockByNumber(tag string, _ bool) (map[string]any, error) {
	b, err := a.w.genesis.Block()
	if err != nil {
		return nil, err
	}
	h := types.CopyHeader(b.Header)
	if tag != "0x0" {
		a.w.mu.Lock()
		h.Number = new(big.Int).SetUint64(a.w.height)
		a.w.mu.Unlock()
	}
	out := map[string]any{"number": (*hexutil.Big)(h.Number), "hash": h.Hash(), "parentHash": h.ParentHash, "sha3Uncles": h.UncleHash, "miner": h.Coinbase,
		"stateRoot": h.Root, "transactionsRoot": h.TxHash, "receiptsRoot": h.ReceiptHash, "logsBloom": h.Bloom, "difficulty": "0x0",
		"gasLimit": hexutil.Uint64(h.GasLimit), "gasUsed": "0x0", "timestamp": hexutil.Uint64(h.Time), "extraData": hexutil.Bytes(h.Extra)}
	return out, nil
}

func (a *ethAPI) GetTransactionCount(addr common.Address, _ string) hexutil.Uint64 {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return hexutil.Uint64(a.w.nonces[addr])
}

func (a *ethAPI) GasPrice() *hexutil.Big { return new(hexutil.Big) }

func (a *ethAPI) SendRawTransaction(raw hexutil.Bytes) (common.Hash, error) {
	w := a.w
	w.mu.Lock()
	defer w.mu.Unlock()
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(raw); err != nil {
		return common.Hash{}, err
	}
	from, err := types.Sender(types.LatestSignerForChainID(big.NewInt(chainID)), tx)
	if err != nil {
		return common.Hash{}, err
	}
	if tx.Nonce() != w.nonces[from] {
		return common.Hash{}, fmt.Errorf("nonce %d, %d is due", tx.Nonce(), w.nonces[from])
	}
	w.nonces[from]++
	w.height++
	_, used, err := w.run(from, *tx.To(), tx.Data(), true)
	r := &types.Receipt{Status: types.ReceiptStatusSuccessful, TxHash: tx.Hash(), BlockNumber: new(big.Int).SetUint64(w.height), GasUsed: used, Logs: []*types.Log{}}
	if err != nil {
		r.Status = types.ReceiptStatusFailed
	}
	w.receipts[tx.Hash()] = r
	return tx.Hash(), nil
}

func (a *ethAPI) GetTransactionReceipt(h common.Hash) *types.Receipt {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return a.w.receipts[h]
}

type bpsAPI struct {
	w    *world
	node int
}

func (a *bpsAPI) Witness(common.Hash) (witnessAnswer, error) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.asked++
	x, ok := a.w.witness[a.node]
	if !ok {
		return x, errors.New("no broker")
	}
	return x, nil
}

type witnessAnswer struct {
	Replica  bool             `json:"replica"`
	Seq      hexutil.Uint64   `json:"seq"`
	Root     common.Hash      `json:"root"`
	Pending  []hexutil.Uint64 `json:"pending"`
	Disputes []hexutil.Bytes  `json:"disputes"`
}

// says has a node of a number answer so about checkpoints.
func (w *world) says(node int, x witnessAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.witness[node] = x
}

func (a *bpsAPI) Proof(topic common.Hash, partition, offset, records hexutil.Uint64, batches bool, after *struct {
	Number   hexutil.Uint64
	Hash     common.Hash
	Followed bool
}) (map[string]any, error) {
	a.w.mu.Lock()
	f, none := a.w.proof, a.w.without[a.node]
	a.w.mu.Unlock()
	if f == nil || batches || none {
		return nil, errors.New("not proved yet")
	}
	var from uint64
	if after != nil && after.Followed {
		from = uint64(after.Number)
	}
	b, err := f(topic, int32(partition), int64(offset), int64(offset+records), from) //nolint:gosec // small
	return map[string]any{"proof": hexutil.Bytes(b)}, err
}

// client of an account; nil: a new one.
func (w *world) client(key *ecdsa.PrivateKey, change ...func(*Config)) *Client {
	w.t.Helper()
	if key == nil {
		key = newKey(w.t)
	}
	id, err := seal.NewIdentity(seal.Hybrid)
	require.NoError(w.t, err)
	cfg := Config{Brokers: w.kafka.Addrs(), Node: w.url, Genesis: w.genesis, Account: KeySigner(key), SealKey: id}
	for _, f := range change {
		f(&cfg)
	}
	c, err := Open(w.ctx, cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

func (w *world) admin(c *Client) *Admin {
	w.t.Helper()
	a, err := c.Admin()
	require.NoError(w.t, err)
	return a
}

// topic makes one of the tenant acme, on the chain and at the broker.
func (w *world) topic(a *Admin, name string, encrypted bool) common.Hash {
	w.t.Helper()
	id, err := a.CreateTopic(w.ctx, contracts.NewTopic{Name: name, Partitions: 1, Replicas: 1, Encrypted: encrypted, Auditor: a.c.Account()})
	require.NoError(w.t, err)
	w.kafka.Create(name, 1)
	return id
}

func (w *world) send(c *Client, topic string, values ...string) (sent []Sent) {
	w.t.Helper()
	p, err := c.Producer()
	require.NoError(w.t, err)
	defer p.Close()
	for _, v := range values {
		s, err := p.Send(w.ctx, &Record{Topic: topic, Value: []byte(v)})
		require.NoError(w.t, err)
		sent = append(sent, s)
	}
	return sent
}

func (w *world) consumer(c *Client, topic string) *Consumer {
	w.t.Helper()
	x, err := c.Consumer(ConsumerConfig{Topics: []string{topic}, Options: []kgo.Opt{kgo.FetchMaxWait(500 * time.Millisecond)}})
	require.NoError(w.t, err)
	return x
}

// deceived reads until n records came and something was wrong with them. With Follow either may come first: proofs are asked
// for while records are on their way to whoever reads.
func (w *world) deceived(x *Consumer, n int) (wrong error) {
	w.t.Helper()
	for got := 0; wrong == nil || got < n; {
		rs, err := x.Records(w.ctx)
		require.NoError(w.t, w.ctx.Err())
		if wrong == nil {
			wrong = err
		}
		got += len(rs)
	}
	return wrong
}

func (w *world) receive(x *Consumer, n int) (values []string) {
	w.t.Helper()
	for len(values) < n {
		rs, err := x.Records(w.ctx)
		require.NoError(w.t, err)
		for _, r := range rs {
			values = append(values, string(r.Value))
		}
	}
	return values
}
