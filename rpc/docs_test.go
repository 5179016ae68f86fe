package rpc

import (
	"context"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bornode/bornode/block"
)

// Every method that a client can call is in docs/rpc.md, and nothing else is offered.
func TestEveryMethodIsDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/rpc.md")
	require.NoError(t, err)
	doc := string(b)
	offered := make(map[string]bool)
	for space, apis := range map[string][]any{
		"eth": {&ethAPI{}, &syncAPI{}}, "net": {&netAPI{}}, "web3": {&web3API{}}, "txpool": {&poolAPI{}}, "bor": {&borAPI{}},
		"debug": {&debugAPI{}}, "admin": {&adminAPI{}},
	} {
		for _, api := range apis {
			typ := reflect.TypeOf(api)
			for m := range typ.Methods() {
				name := []rune(m.Name)
				name[0] = unicode.ToLower(name[0])
				full := space + "_" + string(name)
				if m.Type.NumOut() == 2 && m.Type.Out(0) == reflect.TypeFor[*gethrpc.Subscription]() {
					full = "`" + string(name) + "`"
				}
				offered[full] = true
				require.Contains(t, doc, full, "docs/rpc.md lacks it")
			}
		}
	}
	for _, word := range strings.FieldsFunc(doc, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }) {
		space, _, ok := strings.Cut(word, "_")
		switch space {
		case "eth", "net", "web3", "txpool", "bor", "debug", "admin":
			if ok && !strings.HasSuffix(word, "_") && word != "eth_subscribe" && word != "eth_unsubscribe" && word != "eth_subscription" {
				require.True(t, offered[word], "docs/rpc.md names %s, which is not offered", word)
			}
		}
	}
	for k := range reflect.TypeFor[Config]().NumField() {
		tag := reflect.TypeFor[Config]().Field(k).Tag.Get("mapstructure")
		require.Contains(t, doc, "`"+tag+"`", "docs/rpc.md lacks the setting")
	}
}

// longChain is a chain of many final blocks of which few have logs; only what a log query reads.
type longChain struct {
	Chain
	headers []*types.Header
	logs    map[common.Hash]types.Receipts
}

func (c *longChain) CurrentHeader() *types.Header                   { return c.headers[len(c.headers)-1] }
func (c *longChain) FinalHeader() *types.Header                     { return c.CurrentHeader() }
func (c *longChain) HeaderByNumber(n uint64) *types.Header          { return c.headers[n] }
func (c *longChain) CanonicalHash(n uint64) common.Hash             { return c.headers[n].Hash() }
func (c *longChain) Receipts(h common.Hash) (types.Receipts, error) { return c.logs[h], nil }

func TestLogsOver100kBlocks(t *testing.T) {
	c := &longChain{logs: map[common.Hash]types.Receipts{}}
	wanted := 0
	for i := range 100_100 {
		h := &types.Header{Number: big.NewInt(int64(i)), Difficulty: new(big.Int)}
		if i%1000 == 7 {
			l := &types.Log{Address: common.Address{byte(i / 1000 % 2)}, BlockNumber: uint64(i)}
			h.Bloom.Add(l.Address[:])
			c.logs[h.Hash()] = types.Receipts{{Logs: []*types.Log{l}}}
			if l.Address == (common.Address{1}) && i >= 50 && i < 100_050 {
				wanted++
			}
		}
		c.headers = append(c.headers, h)
	}
	cfg := DefaultConfig()
	s := &service{cfg: cfg, back: Backend{Chain: c}, index: newLogIndex(c)}
	s.bound()
	from, to := gethrpc.BlockNumber(50), gethrpc.BlockNumber(100_049)
	q := &logQuery{from: &from, to: &to, addresses: []common.Address{{1}}, hashes: []bloomBits{bitsOf(common.Address{1}.Bytes())}}
	for range 2 { // the second time from the cache
		logs, err := s.getLogs(context.Background(), q)
		require.NoError(t, err)
		require.Len(t, logs, wanted)
		for i := 1; i < len(logs); i++ {
			require.Less(t, logs[i-1].BlockNumber, logs[i].BlockNumber)
		}
	}
	to++
	_, err := s.getLogs(context.Background(), q)
	requireCode(t, err, codeLimit, "query covers 100001 blocks")

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	to--
	_, err = s.getLogs(ended, q)
	require.Error(t, err)
}

// The next base fee follows the chain's rule: constant, or EIP-1559 above a floor.
func TestNextBaseFee(t *testing.T) {
	n := newGenesis(t, 1000)
	full := &types.Header{Number: common.Big1, GasLimit: 100, GasUsed: 100, BaseFee: big.NewInt(8000), Difficulty: new(big.Int)}
	empty := &types.Header{Number: common.Big1, GasLimit: 100, BaseFee: big.NewInt(1001), Difficulty: new(big.Int)}
	for _, x := range []struct {
		fixed bool
		h     *types.Header
		want  int64
	}{{true, full, 1000}, {false, full, 9000}, {false, empty, 1000}} {
		n.params.BaseFeeFixed = x.fixed
		s := &service{back: Backend{Chain: feeChain{g: n}}}
		require.EqualValues(t, x.want, s.nextBaseFee(x.h).Int64())
	}
}

type feeChain struct {
	Chain
	g *genesis
}

func (c feeChain) Params() block.Parameters    { return c.g.params }
func (c feeChain) Config() *params.ChainConfig { return c.g.config }

func TestCloseEndsEverything(t *testing.T) {
	n := newNet(t, 0, nil)
	require.NoError(t, n.call(nil, "eth_chainId")) // the test's own client runs
	known := goleak.IgnoreCurrent()
	srv, err := New(func() Config { c := DefaultConfig(); c.HTTPAddr = "127.0.0.1:0"; return c }(), Backend{Chain: n.chain, Pool: n.pool, Sync: &n.extra}, nil, nil)
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- srv.Run(context.Background()) }()
	client, err := gethrpc.Dial(srv.WSURL())
	require.NoError(t, err)
	heads := make(chan *types.Header, 1)
	sub, err := client.EthSubscribe(bg, heads, "newHeads")
	require.NoError(t, err)
	require.NoError(t, srv.Close())
	require.NoError(t, <-ran)
	<-sub.Err()
	client.Close()
	goleak.VerifyNone(t, known)
}
