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
	"github.com/bornode/bornode/internal/leaks"
)

// What the text names is offered, and it has every setting.
func TestReferenceText(t *testing.T) {
	b, err := os.ReadFile("../docs/rpc.md")
	require.NoError(t, err)
	doc, offered := string(b), registered(t)
	for _, word := range strings.FieldsFunc(doc, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }) {
		space, _, ok := strings.Cut(word, "_")
		switch space {
		case "eth", "net", "web3", "txpool", "bor", "debug", "admin":
			if ok && !strings.HasSuffix(word, "_") && word != "eth_subscribe" && word != "eth_unsubscribe" && word != "eth_subscription" {
				require.Contains(t, offered, word, "docs/rpc.md names it")
			}
		}
	}
	for k := range reflect.TypeFor[Config]().NumField() {
		tag := reflect.TypeFor[Config]().Field(k).Tag.Get("mapstructure")
		require.Contains(t, doc, "`"+tag+"`", "docs/rpc.md lacks the setting")
	}
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
	g *testGenesis
}

func (c feeChain) ParamsFor(*types.Header, uint64) (block.Parameters, error) { return c.g.params, nil }

func (c feeChain) Config() *params.ChainConfig { return c.g.config }

func TestCloseEndsEverything(t *testing.T) {
	n := newNet(t, 0, nil)
	mined := make(chan *types.Header, 1)
	own, err := n.eth.SubscribeNewHead(bg, mined)
	require.NoError(t, err)
	n.mine()
	receive(t, mined, own) // the first server and its client run in full: what they start later would count as left
	known := goleak.IgnoreCurrent()
	srv, err := New(func() Config { c := DefaultConfig(); c.HTTPAddr = "127.0.0.1:0"; return c }(), Backend{Chain: n.chain.Chain, Pool: n.pool, Sync: &n.extra}, nil, nil)
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
	leaks.None(t, known)
}
