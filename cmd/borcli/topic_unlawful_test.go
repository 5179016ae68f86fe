package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/proof"
)

// saidHistory is what a node says was done with a topic.
type saidHistory struct {
	s       *simulatedChain
	topic   common.Hash
	batches []proof.OperationBatch
	state   proof.LogState
}

func (h *saidHistory) add(broker int, ops ...proof.Operation) {
	e := proof.EncodeOperations(ops)
	n := uint32(len(ops)) //nolint:gosec // few
	h.batches = append(h.batches, proof.OperationBatch{Height: h.state.Height + 5, Broker: h.s.ops[broker].account, Count: n, Entries: e})
	h.state = h.state.Next(h.state.Height+5, e, n)
}

// show has the node say it, after change; the state that the contract keeps stays.
func (h *saidHistory) show(change func(*saidHistory)) {
	shown := func(s proof.LogState) map[string]any {
		return map[string]any{"count": hexutil.Uint64(s.Count), "root": s.Root, "number": hexutil.Uint64(s.Height)}
	}
	said := *h
	said.batches = append([]proof.OperationBatch(nil), h.batches...)
	if change != nil {
		change(&said)
	}
	var list []map[string]any
	for _, b := range said.batches {
		list = append(list, map[string]any{"number": hexutil.Uint64(b.Height), "broker": b.Broker, "count": hexutil.Uint64(b.Count), "entries": hexutil.Bytes(b.Entries),
			"transaction": common.Hash{}})
	}
	h.s.says = map[string]any{
		"bps_operations": shown(said.state),
		"bps_audit":      map[string]any{"topic": h.topic, "from": shown(proof.LogState{}), "to": shown(said.state), "batches": list},
	}
}

// now is the time of the newest block, in ms.
func (s *simulatedChain) now() int64 {
	var b struct {
		Time hexutil.Uint64 `json:"timestamp"`
	}
	require.NoError(s.t, s.client.Call(&b, "eth_getBlockByNumber", "latest", false))
	return int64(b.Time) * 1000 //nolint:gosec // a header's time
}

// An audit judges what was done by the rules of its time, and takes no history with a gap or with another count.
func TestAnUnlawfulHistoryIsNamed(t *testing.T) {
	s := withBrokers(t)
	s.do(5, "topic", "create", "acme.orders")
	s.pass(10 * time.Minute)
	s.do(5, "topic", "grant", s.ops[3].account.Hex(), "write", "--topic", "acme.orders")
	s.pass(10 * time.Minute)
	s.do(5, "topic", "configure", "acme.orders", "retention.ms=5")
	write := func(who int, code int16, at int64) proof.Operation {
		return proof.Operation{Operator: s.ops[who].account, Kind: proof.KindWrite, First: 0, Last: 0, Count: 1, Code: code, Start: at, End: at}
	}
	mid := s.now() - (5 * time.Minute).Milliseconds() // all rules are older than the lag
	h := &saidHistory{s: s, topic: contracts.TopicID("acme.orders", 1)}
	h.add(0, write(5, 0, mid), write(3, 0, mid), write(4, 29, mid))
	h.show(nil)
	audit := []string{"topic", "audit", "acme.orders", "--last", "0", "--rights"}
	require.Contains(t, s.do(3, audit...), "rights: 3 operations as the rules of the time say")

	h.add(1, write(4, 0, mid))
	h.show(nil)
	s.refused(3, exitVerify, "one operation was served that nothing allowed, and 0 operations were refused that the rules allowed", audit...)
	s.refused(3, exitVerify, s.ops[1].account.Hex(), audit...)
	require.Contains(t, s.as(3, audit...).out, "UNLAWFUL")
	var out struct {
		Rights     judged `json:"rights"`
		Operations []struct {
			Verdict string `json:"verdict"`
		} `json:"operations"`
	}
	o := s.as(3, append(audit, "--json")...)
	require.Equal(t, exitVerify, o.code)
	require.NoError(t, json.Unmarshal([]byte(o.out), &out))
	require.Equal(t, [4]int{3, 1, 0, 0}, [4]int{out.Rights.Lawful, out.Rights.Unlawful, out.Rights.Withheld, out.Rights.NotJudged})
	require.Equal(t, "unlawful", out.Operations[3].Verdict)

	h.add(2, write(3, 29, mid))
	h.show(nil)
	s.refused(3, exitVerify, "one operation was served that nothing allowed, and one operation was refused that the rules allowed", audit...)

	for name, x := range map[string]struct {
		words  string
		change func(*saidHistory)
	}{
		"the unlawful one is left out":  {"an operation is missing or was changed", func(h *saidHistory) { h.batches = append(h.batches[:1:1], h.batches[2:]...) }},
		"the newest are left out":       {"an operation is missing or was changed", func(h *saidHistory) { h.batches = h.batches[:2] }},
		"all are":                       {"the node shows none of 5", func(h *saidHistory) { h.batches = nil }},
		"a batch says less than it has": {"an operation is missing or was changed", func(h *saidHistory) { h.batches[0].Count = 2 }},
		"a batch says more":             {"an operation is missing or was changed", func(h *saidHistory) { h.batches[1].Count = 2 }},
		"a batch says far too much":     {"a batch of 513", func(h *saidHistory) { h.batches[1].Count = 513 }},
		"the whole says more":           {"an operation is missing or was changed", func(h *saidHistory) { h.state.Count++ }},
		"two lie at other heights": {"an operation is missing or was changed", func(h *saidHistory) {
			h.batches[0].Height, h.batches[1].Height = h.batches[1].Height, h.batches[0].Height
		}},
	} {
		h.show(x.change)
		o := s.as(3, audit...)
		require.Equal(t, exitVerify, o.code, "%s: %s", name, o.err)
		require.Contains(t, o.err, "the operations of topic acme.orders do not lead to what the contract has", name)
		require.Contains(t, o.err, x.words, name)
		require.Empty(t, o.out, "%s: nothing is shown as if it were good", name)
	}
}
