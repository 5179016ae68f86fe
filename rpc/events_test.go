package rpc

import (
	"encoding/json"
	"errors"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/filters"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

func TestLogsByRange(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.LogCount = 60 })
	addr := n.deploy()
	other := n.deploy()
	for i := int64(0); i < 20; i++ {
		n.store(1, addr, 100+i%5, "a")
		n.store(2, other, 200, "b")
		n.mine()
		n.mine()
	}
	for i := 0; i < 600; i++ { // more than two chunks
		n.build2()
	}
	last := n.mine()
	var err error
	stored := n.abi.Events["Stored"].ID
	word := func(v int64) common.Hash { return common.BigToHash(big.NewInt(v)) }
	who := common.BytesToHash(account(1).Bytes())
	var all []*types.Log // what a query must select from
	for i := uint64(0); i <= last.Number(); i++ {
		rs, err := n.chain.Receipts(n.chain.CanonicalHash(i))
		require.NoError(t, err)
		for _, r := range rs {
			all = append(all, r.Logs...)
		}
	}
	require.Len(t, all, 40)
	queries := []struct {
		name string
		q    ethereum.FilterQuery
		want func(*types.Log) bool
	}{
		{"all", ethereum.FilterQuery{FromBlock: new(big.Int)}, func(*types.Log) bool { return true }},
		{"address", ethereum.FilterQuery{FromBlock: new(big.Int), Addresses: []common.Address{addr}}, func(l *types.Log) bool { return l.Address == addr }},
		{"two addresses", ethereum.FilterQuery{FromBlock: new(big.Int), Addresses: []common.Address{addr, other}}, func(*types.Log) bool { return true }},
		{"event", ethereum.FilterQuery{FromBlock: new(big.Int), Topics: [][]common.Hash{{stored}}}, func(*types.Log) bool { return true }},
		{"second position", ethereum.FilterQuery{FromBlock: new(big.Int), Topics: [][]common.Hash{nil, {who}}}, func(l *types.Log) bool { return l.Topics[1] == who }},
		{"alternatives", ethereum.FilterQuery{FromBlock: new(big.Int), Topics: [][]common.Hash{{stored}, nil, {word(101), word(103)}}}, func(l *types.Log) bool { return l.Topics[2] == word(101) || l.Topics[2] == word(103) }},
		{"four positions", ethereum.FilterQuery{FromBlock: new(big.Int), Topics: [][]common.Hash{nil, nil, nil, nil}}, func(*types.Log) bool { return false }},
		{"part", ethereum.FilterQuery{FromBlock: big.NewInt(10), ToBlock: big.NewInt(20)}, func(l *types.Log) bool { return l.BlockNumber >= 10 && l.BlockNumber <= 20 }},
		{"to the head", ethereum.FilterQuery{FromBlock: big.NewInt(10), ToBlock: new(big.Int).SetUint64(last.Number())}, func(l *types.Log) bool { return l.BlockNumber >= 10 }},
		{"nobody", ethereum.FilterQuery{FromBlock: new(big.Int), Addresses: []common.Address{{9}}}, func(*types.Log) bool { return false }},
		{"tags", ethereum.FilterQuery{FromBlock: big.NewInt(int64(gethrpc.EarliestBlockNumber)), ToBlock: big.NewInt(int64(gethrpc.FinalizedBlockNumber))}, nil},
	}
	check := func(round string, final uint64) {
		for _, x := range queries {
			got, err := n.eth.FilterLogs(bg, x.q)
			require.NoError(t, err, x.name)
			var want []*types.Log
			for _, l := range all {
				if x.want == nil && l.BlockNumber <= final || x.want != nil && x.want(l) {
					want = append(want, l)
				}
			}
			require.Len(t, got, len(want), "%s: %s", round, x.name)
			for i := range got {
				require.Equal(t, *want[i], got[i], "%s: %s", round, x.name)
			}
		}
	}
	check("reversible", 0)
	n.finalizeTo(500)
	check("first of final blocks", 500) // fills the cache of blooms
	require.Equal(t, 1, n.srv.index.blooms.Len())
	check("from the cache", 500)
	require.NoError(t, n.srv.index.open(filepath.Join(t.TempDir(), "logs")))
	for more := true; more; {
		more, err = n.srv.index.extend()
		require.NoError(t, err)
	}
	require.EqualValues(t, 501, n.srv.index.file.height(), "final blocks, and no others")
	n.srv.index.blooms.Purge()
	check("from the index", 500)

	hash := n.chain.CanonicalHash(all[0].BlockNumber)
	got, err := n.eth.FilterLogs(bg, ethereum.FilterQuery{BlockHash: &hash})
	require.NoError(t, err)
	require.Equal(t, *all[0], got[0])
	missing := common.Hash{7}
	requireCode(t, logsErr(n, ethereum.FilterQuery{BlockHash: &missing}), codeServer, "unknown block")
	requireCode(t, logsErr(n, ethereum.FilterQuery{FromBlock: big.NewInt(9), ToBlock: big.NewInt(8)}), codeInvalidParams, "fromBlock 9 lies above toBlock 8")
}

func logsErr(n *testNet, q ethereum.FilterQuery) error {
	_, err := n.eth.FilterLogs(bg, q)
	return err
}

// build2 makes an empty block without waiting for the pool.
func (n *testNet) build2() {
	n.adopt(n.build(n.chain.Sealed(n.chain.CurrentHeader().Hash()), 1, &list{}))
}

func (n *testNet) finalizeTo(height uint64) {
	var hs []common.Hash
	for i := n.chain.FinalHeader().Number.Uint64() + 1; i <= height; i++ {
		hs = append(hs, n.chain.CanonicalHash(i))
	}
	n.chain.SetSafe(hs[len(hs)-1])
	require.NoError(n.t, n.chain.Finalize(finalUpdate(hs)))
}

func TestLogLimits(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.LogRange, c.LogCount = 8, 3 })
	addr := n.deploy()
	for i := 0; i < 10; i++ {
		n.store(1, addr, 7, "x")
		n.mine()
	}
	requireCode(t, logsErr(n, ethereum.FilterQuery{FromBlock: new(big.Int)}), codeLimit, "query covers 12 blocks, 8 are allowed; ask for 0 to 7 first")
	requireCode(t, logsErr(n, ethereum.FilterQuery{FromBlock: big.NewInt(5)}), codeLimit, "more than 3 results")
	many := make([]common.Address, maxFilterAddresses+1)
	requireCode(t, logsErr(n, ethereum.FilterQuery{Addresses: many}), codeLimit, "1001 addresses")
	_, err := n.eth.FilterLogs(bg, ethereum.FilterQuery{FromBlock: big.NewInt(5), ToBlock: big.NewInt(7)})
	require.NoError(t, err)
}

// A branch switch: heads of the new branch follow, logs of the old one come once more as removed, before the new ones,
// and its transactions are back in the pool.
func TestSubscriptionsThroughReorg(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy()
	heads, logs, txs := make(chan *types.Header, 64), make(chan types.Log, 64), make(chan common.Hash, 64)
	hs, err := n.eth.SubscribeNewHead(bg, heads)
	require.NoError(t, err)
	ls, err := n.eth.SubscribeFilterLogs(bg, ethereum.FilterQuery{Addresses: []common.Address{addr}}, logs)
	require.NoError(t, err)
	ts, err := n.rpc.EthSubscribe(bg, txs, "newPendingTransactions")
	require.NoError(t, err)
	var logFilter, blockFilter, txFilter gethrpc.ID
	require.NoError(t, n.call(&logFilter, "eth_newFilter", map[string]any{"address": addr, "fromBlock": "0x0"}))
	require.NoError(t, n.call(&blockFilter, "eth_newBlockFilter"))
	require.NoError(t, n.call(&txFilter, "eth_newPendingTransactionFilter"))

	fork := n.chain.Sealed(n.chain.CurrentHeader().Hash())
	a := n.store(1, addr, 7, "old branch")
	require.Equal(t, a.Hash(), receive(t, txs, ts))
	old := n.mine()
	require.Equal(t, old.Hash(), receive(t, heads, hs).Hash())
	l := receive(t, logs, ls)
	require.Equal(t, a.Hash(), l.TxHash)
	require.False(t, l.Removed)
	require.Equal(t, old.Hash(), l.BlockHash)

	b := n.sign(2, 0, &addr, 0, mustPack(n, "store", big.NewInt(8), "new branch"), 1_000_000)
	c1 := n.build(fork, 2, &list{b})
	n.adopt(c1)
	c2 := n.build(c1.SealedHeader, 1, &list{})
	n.adopt(c2)
	require.Equal(t, c1.Hash(), receive(t, heads, hs).Hash())
	require.Equal(t, c2.Hash(), receive(t, heads, hs).Hash())
	l = receive(t, logs, ls)
	require.True(t, l.Removed)
	require.Equal(t, [2]common.Hash{old.Hash(), a.Hash()}, [2]common.Hash{l.BlockHash, l.TxHash})
	l = receive(t, logs, ls)
	require.False(t, l.Removed)
	require.Equal(t, [2]common.Hash{c1.Hash(), b.Hash()}, [2]common.Hash{l.BlockHash, l.TxHash})

	blocks := polled[common.Hash](n, blockFilter, 3) // which the subscribers above may have before
	require.Equal(t, []common.Hash{old.Hash(), c1.Hash(), c2.Hash()}, blocks)
	changes := polled[types.Log](n, logFilter, 3)
	require.Len(t, changes, 3)
	require.Equal(t, []bool{false, true, false}, []bool{changes[0].Removed, changes[1].Removed, changes[2].Removed})
	require.NoError(t, n.call(&changes, "eth_getFilterChanges", logFilter))
	require.Empty(t, changes)
	require.Contains(t, polled[common.Hash](n, txFilter, 1), a.Hash())
	require.NoError(t, n.call(&changes, "eth_getFilterLogs", logFilter))
	require.Len(t, changes, 1)
	require.Equal(t, b.Hash(), changes[0].TxHash)

	require.Eventually(t, func() bool { return n.pool.Has(a.Hash()) }, waitTime, pollTime)
	n.mine()
	r, err := n.eth.TransactionReceipt(bg, a.Hash())
	require.NoError(t, err)
	require.EqualValues(t, 4, r.BlockNumber.Int64())
	rcpt, err := n.eth.TransactionReceipt(bg, b.Hash())
	require.NoError(t, err)
	require.Equal(t, c1.Hash(), rcpt.BlockHash)
	var gone *types.Header
	require.NoError(t, n.call(&gone, "eth_getHeaderByHash", old.Hash()))
	require.NotNil(t, gone, "a losing branch stays readable by hash until it is dropped")

	var ok bool
	require.NoError(t, n.call(&ok, "eth_uninstallFilter", logFilter))
	require.True(t, ok)
	require.NoError(t, n.call(&ok, "eth_uninstallFilter", logFilter))
	require.False(t, ok)
	requireCode(t, n.call(nil, "eth_getFilterChanges", logFilter), codeServer, "filter not found")
}

// polled asks a filter until it has given so many changes, or more.
func polled[T any](n *testNet, filter gethrpc.ID, count int) (all []T) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		var some []T
		require.NoError(n.t, n.call(&some, "eth_getFilterChanges", filter))
		all = append(all, some...)
		return len(all) >= count
	}, waitTime, pollTime)
	return all
}

func mustPack(n *testNet, method string, args ...any) []byte {
	n.t.Helper()
	b, err := n.abi.Pack(method, args...)
	require.NoError(n.t, err)
	return b
}

func TestSubscribeSyncingAndFullTransactions(t *testing.T) {
	n := newNet(t, 0, nil)
	states, full := make(chan json.RawMessage, 16), make(chan *transactionJSON, 16)
	ss, err := n.rpc.EthSubscribe(bg, states, "syncing")
	require.NoError(t, err)
	fs, err := n.rpc.EthSubscribe(bg, full, "newPendingTransactions", true)
	require.NoError(t, err)
	n.extra.mu.Lock()
	n.extra.syncing = SyncStatus{Syncing: true, Mode: "certified", State: "ranges", Current: 5, Target: 9}
	n.extra.mu.Unlock()
	require.Contains(t, string(receive(t, states, ss)), `"highestBlock":"0x9"`)
	var st map[string]any
	require.NoError(t, n.call(&st, "eth_syncing"))
	require.Equal(t, "0x5", st["currentBlock"])
	n.extra.mu.Lock()
	n.extra.syncing = SyncStatus{}
	n.extra.mu.Unlock()
	require.Equal(t, "false", string(receive(t, states, ss)))
	to := account(3)
	tx := n.send(1, &to, 5, nil)
	got := receive(t, full, fs)
	require.Equal(t, tx.Hash(), got.Hash)
	require.Equal(t, account(1), got.From)
	require.Nil(t, got.BlockHash)
}

// A client that stops reading is closed with a reason; it gets everything before and nothing silently less.
func TestSlowSubscriberIsToldAndClosed(t *testing.T) {
	n := newNet(t, 0, nil)
	conn, _, err := websocket.DefaultDialer.Dial(n.srv.WSURL(), nil)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}`)))
	_, answer, err := conn.ReadMessage()
	require.NoError(t, err)
	require.Contains(t, string(answer), `"result":"0x`)

	// More comes at once than the queue holds beside what the sender took out meanwhile.
	require.Eventually(t, func() bool { return n.srv.hub.listeners(kindHeads) == 1 }, waitTime, pollTime)
	b := n.mine()
	items := make([]any, maxSubscriberItems)
	for i := range items {
		items[i] = headerOf(b.Header, b.Hash())
	}
	overflown := false
	for range 4 {
		n.srv.hub.publish(kindHeads, func(s *subscriber) {
			s.put(items...)
			s.mu.Lock()
			overflown = s.lost != nil
			s.mu.Unlock()
		})
	}
	require.True(t, overflown)
	count := 0
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(waitTime)))
	for {
		_, m, err := conn.ReadMessage()
		if err != nil {
			var ce *websocket.CloseError
			require.True(t, errors.As(err, &ce), "%v", err)
			require.Equal(t, websocket.CloseTryAgainLater, ce.Code)
			require.Contains(t, ce.Text, "too many notifications are waiting")
			break
		}
		require.Contains(t, string(m), "eth_subscription")
		count++
	}
	require.Positive(t, count)
	require.Eventually(t, func() bool { return n.srv.hub.listeners(kindHeads) == 0 }, waitTime, pollTime)
}

func TestPolledFilterOverflowAndExpiry(t *testing.T) {
	h := newHub()
	table := newFilterTable(2, 2, time.Minute)
	now := time.Unix(1000, 0)
	table.now = func() time.Time { return now }
	a, err := table.add(&polledFilter{sub: h.subscribe(want{kind: kindHeads, limit: 3})})
	require.NoError(t, err)
	_, err = table.add(&polledFilter{sub: h.subscribe(want{kind: kindHeads, limit: 3})})
	require.NoError(t, err)
	_, err = table.add(&polledFilter{sub: h.subscribe(want{kind: kindHeads, limit: 3})})
	requireCode(t, err, codeLimit, "or 2 of all")
	require.Equal(t, 2, h.listeners(kindHeads), "the refused one leaves nothing behind")

	now = now.Add(40 * time.Second)
	f := table.get(a)
	now = now.Add(40 * time.Second)
	table.expire()
	require.Equal(t, 1, h.listeners(kindHeads), "the one nobody polled is gone")
	require.Nil(t, table.get("0x0"))

	x := &headerJSON{}
	h.publish(kindHeads, func(s *subscriber) { s.put(x, x) })
	h.publish(kindHeads, func(s *subscriber) { s.put(x, x) }) // one too many: none of the two is taken
	items, err := f.sub.take()
	require.NoError(t, err)
	require.Len(t, items, 2)
	_, err = f.sub.take()
	require.ErrorIs(t, err, errOverflow)
}

func FuzzFilterCriteria(f *testing.F) {
	f.Add([]byte(`{"fromBlock":"earliest","toBlock":"0x10","address":["0x0000000000000000000000000000000000000001"],"topics":[null,["0x0000000000000000000000000000000000000000000000000000000000000001"]]}`))
	f.Add([]byte(`{"blockHash":"0x00"}`))
	f.Add([]byte(`{"topics":[[],[],[],[],[]]}`))
	f.Add([]byte(`{"fromBlock":"0xffffffffffffffff"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c filters.FilterCriteria
		if json.Unmarshal(b, &c) != nil {
			return
		}
		q, err := newLogQuery(c)
		if err != nil {
			return
		}
		l := &types.Log{Topics: []common.Hash{{1}, {2}}, BlockNumber: 7}
		var bloom types.Bloom
		bloom.Add(l.Address[:])
		for _, x := range l.Topics {
			bloom.Add(x[:])
		}
		if q.match(l) && !q.mayMatch(&bloom) {
			t.Fatal("the bloom excludes a log that matches")
		}
		q.covers(7)
	})
}

func FuzzCallArguments(f *testing.F) {
	f.Add([]byte(`{"to":"0x0000000000000000000000000000000000000001","gas":"0x5208","value":"0x1","maxFeePerGas":"0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","maxPriorityFeePerGas":"0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"}`))
	f.Add([]byte(`{"gasPrice":"0x1","input":"0x00","data":"0x00"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var a callArgs
		if json.Unmarshal(b, &a) != nil || a.check(big.NewInt(1)) != nil {
			return
		}
		a.message(big.NewInt(7), 21_000)
	})
}

func FuzzStorageKey(f *testing.F) {
	for _, s := range []string{"0x", "0x1", "1", "0xzz", "0x" + string(make([]byte, 80)), common.Hash{1}.Hex()} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if h, name, err := storageKey(s); err == nil {
			again, _, err := storageKey(name)
			require.NoError(t, err)
			require.Equal(t, h, again)
		}
	})
}
