package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"github.com/stretchr/testify/require"
)

// postBody sends one HTTP request and reads its answer.
func (n *testNet) postBody(body string) string {
	n.t.Helper()
	r, err := http.Post(n.srv.HTTPURL(), "application/json", strings.NewReader(body))
	require.NoError(n.t, err)
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	require.NoError(n.t, err)
	return string(bytes.TrimSpace(answer))
}

func sendRawCall(t testing.TB, id int, tx *types.Transaction) string {
	raw, err := tx.MarshalBinary()
	require.NoError(t, err)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction","params":["%s"]}`, id, hexutil.Encode(raw))
}

// countedPool counts the rounds of Add.
type countedPool struct {
	Pool
	rounds atomic.Int64
}

func (p *countedPool) Add(txs []*types.Transaction, local bool) []error {
	p.rounds.Add(1)
	return p.Pool.Add(txs, local)
}

// The transactions with which a batch begins take one round of the pool; the rest of the batch is carried out in its order.
func TestBatchOfTransactionsIsOneRoundOfThePool(t *testing.T) {
	n := newNet(t, 0, nil)
	pool := &countedPool{Pool: n.pool}
	n.srv.back.Pool = pool
	to := account(7)
	var calls []string
	for i := range 20 {
		calls = append(calls, sendRawCall(t, i, n.sign(0, uint64(i), &to, 1, nil, 21000)))
	}
	calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":20,"method":"eth_getTransactionCount","params":["%s","pending"]}`, account(0)))
	calls = append(calls, sendRawCall(t, 21, n.sign(0, 20, &to, 1, nil, 21000)))
	var answers []struct {
		ID     int
		Result string
	}
	require.NoError(t, json.Unmarshal([]byte(n.postBody("["+strings.Join(calls, ",")+"]")), &answers))
	require.Len(t, answers, len(calls))
	require.EqualValues(t, 2, pool.rounds.Load())
	require.Equal(t, "0x14", answers[20].Result, "the transaction behind the question is not in yet when it is answered")
	for i, a := range answers {
		require.Equal(t, i, a.ID)
		if i != 20 {
			require.NotNil(t, n.pool.Get(common.HexToHash(a.Result)), i)
		}
	}
}

// A batch that the server refuses as a whole submits nothing.
func TestRefusedBatchSubmitsNothing(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.BatchItems = 3 })
	to := account(7)
	var calls []string
	for i := range 4 {
		calls = append(calls, sendRawCall(t, i, n.sign(0, uint64(i), &to, 1, nil, 21000)))
	}
	body := "[" + strings.Join(calls, ",") + "]"
	require.Contains(t, n.postBody(body), "batch too large")
	require.Contains(t, n.postBody(body[:len(body)-1]), "error", "cut off")
	pending, queued := n.pool.Stats()
	require.Zero(t, pending+queued)
}

// randomCall is a call of a batch: mostly a transaction, good or bad in one of many ways.
func randomCall(n *testNet, r *rand.Rand, id int, nonces map[int]uint64, earlier *[]string) string {
	from, to := r.IntN(3), account(7)
	transaction := func(nonce uint64) string { return sendRawCall(n.t, id, n.sign(from, nonce, &to, 1, nil, 21000)) }
	good := func() string {
		nonces[from]++
		call := transaction(nonces[from] - 1)
		*earlier = append(*earlier, call)
		return call
	}
	switch r.IntN(24) {
	case 0:
		return transaction(nonces[from] + 1 + uint64(r.IntN(3))) // a gap
	case 1:
		if len(*earlier) > 0 {
			return (*earlier)[r.IntN(len(*earlier))]
		}
		return good()
	case 2:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction","params":["0x02c0"]}`, id)
	case 3:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction","params":["02c0"]}`, id)
	case 4:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction","params":["0x02c0","0x02c0"]}`, id)
	case 5:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction"}`, id)
	case 6:
		return strings.Replace(transaction(nonces[from]), `"2.0"`, `"1.0"`, 1)
	case 7:
		return strings.Replace(transaction(nonces[from]), fmt.Sprintf(`"id":%d`, id), `"id":{}`, 1)
	case 8:
		return strings.Replace(good(), fmt.Sprintf(`"id":%d,`, id), "", 1) // a notification
	case 9:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_getTransactionCount","params":["%s","pending"]}`, id, account(from))
	case 10:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"txpool_status"}`, id)
	case 11:
		tx := types.MustSignNewTx(key(from), types.HomesteadSigner{}, &types.LegacyTx{Nonce: nonces[from], To: &to, Gas: 21000, GasPrice: big.NewInt(params.GWei)})
		return sendRawCall(n.t, id, tx)
	case 12:
		tx := types.MustSignNewTx(key(from), types.LatestSignerForChainID(big.NewInt(1)), &types.DynamicFeeTx{ChainID: big.NewInt(1), Nonce: nonces[from], To: &to, Gas: 21000, GasFeeCap: big.NewInt(params.GWei)})
		return sendRawCall(n.t, id, tx)
	case 13:
		return `7`
	case 14:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction","params":[null]}`, id)
	default:
		return good()
	}
}

// A batch is answered as its calls are one by one, whatever it consists of.
func TestBatchAnswersAsItsCallsDo(t *testing.T) {
	together, single := newNet(t, 0, nil), newNet(t, 0, nil)
	r := rand.New(rand.NewPCG(12, 1))
	nonces, earlier := make(map[int]uint64), []string(nil)
	for round := range 120 {
		var calls, want []string
		for id := range 1 + r.IntN(12) {
			calls = append(calls, randomCall(together, r, id, nonces, &earlier))
		}
		for _, call := range calls {
			answer := strings.TrimSuffix(strings.TrimPrefix(single.postBody("["+call+"]"), "["), "]")
			if answer != "" {
				want = append(want, answer)
			}
		}
		got := strings.TrimSuffix(strings.TrimPrefix(together.postBody("["+strings.Join(calls, ",")+"]"), "["), "]")
		require.Equal(t, strings.Join(want, ","), got, "round %d: %s", round, calls)
		if round%10 == 9 {
			together.mine()
			single.mine()
		}
	}
}
