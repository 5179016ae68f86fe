package node

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/pubsub/token"
)

const (
	goldenFolders = "testdata/folders"
	goldenRecords = 20
	goldenTopic   = "acme.orders"
	maxGoldenFile = 64 << 20 // unpacked

	goldenSegmentBytes = 16 << 10 // several segments
)

// goldenFacts is what is known of a folder that an earlier program left. The keys are of that network alone.
type goldenFacts struct {
	Admin, Owner hexutil.Bytes
	Hashes       map[uint64]common.Hash          // of final blocks
	At           uint64                          // height that the balances are of
	Balances     map[common.Address]*hexutil.Big // there
	Payee        common.Address                  // got the transfers
	Transfers    []common.Hash
	Records      []string // of the topic, in the order written
}

// A folder that a released program left is whole for this one, says what it said, and goes on. The folders stay as they
// are; each release adds one: BORNODE_GOLDEN_FOLDER=VERSION go test ./node -run TestGoldenFolders.
func TestGoldenFolders(t *testing.T) {
	if version := os.Getenv("BORNODE_GOLDEN_FOLDER"); version != "" {
		makeGoldenFolder(t, filepath.Join(goldenFolders, version))
	}
	archives, err := filepath.Glob(filepath.Join(goldenFolders, "*.tar.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, archive := range archives {
		t.Run(filepath.Base(archive), func(t *testing.T) { goOnWith(t, strings.TrimSuffix(archive, ".tar.gz")) })
	}
}

// goldenStand is a copy of a release's folder that is not started, and what is known of it.
func goldenStand(t *testing.T, name string) (s *stand, facts goldenFacts) {
	t.Helper()
	text, err := os.ReadFile(name + ".json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &facts))
	s = &stand{t: t, addr: freeAddr(t)}
	s.admin, err = crypto.ToECDSA(facts.Admin)
	require.NoError(t, err)
	s.owner, err = crypto.ToECDSA(facts.Owner)
	require.NoError(t, err)
	dir := t.TempDir()
	unpackFolder(t, name+".tar.gz", dir)
	s.configure(dir)
	return s, facts
}

func goOnWith(t *testing.T, name string) {
	s, facts := goldenStand(t, name)
	s.cfg.Store.SegmentBytes = goldenSegmentBytes
	requireWhole(t, s)

	s.start()
	client := s.n.rpc.Client()
	defer client.Close()
	var newest uint64
	for height, hash := range facts.Hashes {
		var b struct{ Hash common.Hash }
		require.NoError(t, client.Call(&b, "eth_getBlockByNumber", hexutil.EncodeUint64(height), false))
		require.Equal(t, hash, b.Hash, "block %d", height)
		newest = max(newest, height)
	}
	for account, want := range facts.Balances {
		var got hexutil.Big
		require.NoError(t, client.Call(&got, "eth_getBalance", account, hexutil.EncodeUint64(facts.At)))
		require.Equal(t, want.String(), got.String(), account)
	}
	for _, hash := range facts.Transfers {
		var r *types.Receipt
		require.NoError(t, client.Call(&r, "eth_getTransactionReceipt", hash))
		require.NotNil(t, r, hash)
		require.Equal(t, types.ReceiptStatusSuccessful, r.Status)
	}
	s.until("it makes final blocks again", func() bool { return s.n.chain.FinalHeader().Number.Uint64() > newest+3 })
	s.until("the broker is back", func() bool { return s.n.brokers.mirror.View() != nil })
	producer := s.client(s.owner, token.Data, kgo.DefaultProduceTopic(goldenTopic))
	require.NoError(t, producer.ProduceSync(s.ctx(), kgo.StringRecord("after")).FirstErr())
	require.Equal(t, append(facts.Records, "after"), s.readTopic(goldenTopic, len(facts.Records)+1))
	s.stop()
	requireWhole(t, s)
}

// requireWhole is bornode fsck --full, which finds nothing.
func requireWhole(t *testing.T, s *stand) {
	t.Helper()
	store, err := InspectStore(s.cfg, zap.NewNop())
	require.NoError(t, err)
	defer store.Close()
	r, err := store.Fsck(t.Context(), blockstore.FsckOptions{Transactions: true}, nil)
	require.NoError(t, err)
	require.Empty(t, r.Problems)
	rest, err := CheckFolder(t.Context(), s.cfg, store, true, zap.NewNop())
	require.NoError(t, err)
	require.True(t, rest.Sound(), "%v", rest.Findings)
}

// readTopic reads so many records of a topic from its start.
func (s *stand) readTopic(topic string, count int) (values []string) {
	s.t.Helper()
	c := s.client(s.owner, token.Data, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	for ctx := s.ctx(); len(values) < count; {
		f := c.PollFetches(ctx)
		require.NoError(s.t, f.Err0())
		f.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// makeGoldenFolder runs a network of one producer, with transfers and a topic, and keeps its folder.
func makeGoldenFolder(t *testing.T, name string) {
	require.NoFileExists(t, name+".tar.gz", "a folder that a release has left is never made again")
	s := newStand(t)
	s.cfg.Store.SegmentBytes = goldenSegmentBytes
	s.start()
	s.tenant("acme", 1<<30, 100)
	forever := "-1"
	s.topic(s.ctx(), goldenTopic, 1, map[string]*string{"retention.ms": &forever})
	facts := goldenFacts{Admin: crypto.FromECDSA(s.admin), Owner: crypto.FromECDSA(s.owner), Hashes: make(map[uint64]common.Hash),
		Balances: make(map[common.Address]*hexutil.Big), Payee: common.HexToAddress("0x1234567890123456789012345678901234567890")}
	producer := s.client(s.owner, token.Data, kgo.DefaultProduceTopic(goldenTopic))
	for i := range goldenRecords {
		value := "record " + hexutil.EncodeUint64(uint64(i)) //nolint:gosec // small
		require.NoError(t, producer.ProduceSync(s.ctx(), kgo.StringRecord(value)).FirstErr())
		facts.Records = append(facts.Records, value)
		facts.Transfers = append(facts.Transfers, s.transfer(facts.Payee, 1000+int64(i)))
	}
	client := s.n.rpc.Client()
	defer client.Close()
	s.until("the transfers are final", func() bool {
		var r *types.Receipt
		err := client.Call(&r, "eth_getTransactionReceipt", facts.Transfers[goldenRecords-1])
		return err == nil && r != nil && r.BlockNumber.Cmp(s.n.chain.FinalHeader().Number) <= 0
	})
	facts.At = s.n.chain.FinalHeader().Number.Uint64()
	for height := range facts.At + 1 {
		hash, err := s.n.chain.CanonicalHash(height)
		require.NoError(t, err)
		facts.Hashes[height] = hash
	}
	for _, account := range []common.Address{facts.Payee, addressOf(s.admin)} {
		facts.Balances[account] = new(hexutil.Big)
		require.NoError(t, client.Call(facts.Balances[account], "eth_getBalance", account, hexutil.EncodeUint64(facts.At)))
	}
	for range 2 { // every start writes journals to tables
		s.stop()
		s.start()
		from := s.n.chain.FinalHeader().Number.Uint64()
		s.until("it makes final blocks again", func() bool { return s.n.chain.FinalHeader().Number.Uint64() > from+3 })
	}
	s.stop()
	text, err := json.MarshalIndent(&facts, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(goldenFolders, 0o755))
	require.NoError(t, os.WriteFile(name+".json", append(text, '\n'), 0o644))
	packFolder(t, s.cfg.DataDir, name+".tar.gz")
}

// transfer sends wei of the admin's.
func (s *stand) transfer(to common.Address, wei int64) common.Hash {
	s.t.Helper()
	chain := big.NewInt(standChain)
	tx, err := types.SignNewTx(s.admin, types.LatestSignerForChainID(chain), &types.DynamicFeeTx{ChainID: chain,
		Nonce: s.n.pool.Nonce(addressOf(s.admin)), GasFeeCap: big.NewInt(100), GasTipCap: new(big.Int), Gas: 50_000, To: &to, Value: big.NewInt(wei)})
	require.NoError(s.t, err)
	require.NoError(s.t, s.n.pool.Add([]*types.Transaction{tx}, true)[0])
	return tx.Hash()
}

func packFolder(t *testing.T, dir, archive string) {
	t.Helper()
	f, err := os.Create(archive)
	require.NoError(t, err)
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		err = w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(data))})
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}))
	require.NoError(t, errors.Join(w.Close(), z.Close(), f.Close()))
}

func unpackFolder(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		data, err := io.ReadAll(io.LimitReader(r, maxGoldenFile))
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
}
