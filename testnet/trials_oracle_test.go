package testnet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
)

const (
	trialHeights = 500 // that one sweep asks for, most
	trialBatch   = 40  // calls sent together
	logRange     = 32  // blocks of one eth_getLogs
)

// question is a call about final data and a sound node's answer.
type finalQuestion struct {
	method string
	params []any
	height uint64 // the answer is about no block above
	answer string
}

// oracle compares a node's answers about final data with those of a sound node, which it asks once.
type oracle struct {
	sound *rpc.Client
	known map[uint64][]finalQuestion // by height
}

func newOracle(t *testing.T, url string) *oracle {
	t.Helper()
	c, err := rpc.DialContext(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &oracle{sound: c, known: make(map[uint64][]finalQuestion)}
}

// finalOf is the last final block of a node.
func finalOf(ctx context.Context, c *rpc.Client) (uint64, error) {
	var h struct{ Number *hexutil.Uint64 }
	if err := c.CallContext(ctx, &h, "eth_getBlockByNumber", "finalized", false); err != nil {
		return 0, err
	}
	if h.Number == nil {
		return 0, nil
	}
	return uint64(*h.Number), nil
}

func (o *oracle) add(ctx context.Context, height uint64, method string, params ...any) (string, error) {
	var answer json.RawMessage
	if err := o.sound.CallContext(ctx, &answer, method, params...); err != nil {
		return "", fmt.Errorf("the sound node: %s %v: %w", method, params, err)
	}
	o.known[height] = append(o.known[height], finalQuestion{method, params, height, string(answer)})
	return string(answer), nil
}

// questions are those about a height.
func (o *oracle) questions(ctx context.Context, height uint64) ([]finalQuestion, error) {
	if q := o.known[height]; q != nil {
		return q, nil
	}
	number := hexutil.Uint64(height)
	body, err := o.add(ctx, height, "eth_getBlockByNumber", number, true)
	if err != nil {
		return nil, err
	}
	var b struct {
		Hash         string
		Transactions []struct{ Hash string }
	}
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		return nil, err
	}
	if _, err := o.add(ctx, height, "eth_getBlockByHash", b.Hash, false); err != nil {
		return nil, err
	}
	if _, err := o.add(ctx, height, "eth_getBlockReceipts", number); err != nil {
		return nil, err
	}
	for _, tx := range b.Transactions[:min(2, len(b.Transactions))] {
		for _, method := range []string{"eth_getTransactionByHash", "eth_getTransactionReceipt"} {
			if _, err := o.add(ctx, height, method, tx.Hash); err != nil {
				return nil, err
			}
		}
	}
	if height >= logRange && height%logRange == 0 {
		if _, err := o.add(ctx, height, "eth_getLogs", map[string]any{"fromBlock": number - logRange, "toBlock": number}); err != nil {
			return nil, err
		}
	}
	return o.known[height], nil
}

// sweep asks a node about final blocks up to a height. errors counts answers that were errors, wrong lists those that
// were others than the sound node's, empty ones included. A block above the node's own final one may be unknown to it.
func (o *oracle) sweep(ctx context.Context, url string, upTo uint64, random *rand.Rand) (errors, right int, first error, wrong []string, err error) {
	c, err := rpc.DialContext(ctx, url)
	if err != nil {
		return 1, 0, err, nil, nil
	}
	defer c.Close()
	final, err := finalOf(ctx, c)
	if err != nil {
		return 1, 0, err, nil, nil //nolint:nilerr // the node does not answer yet
	}
	var ask []finalQuestion
	step := max(1, upTo/trialHeights)
	for h := random.Uint64N(step); h <= upTo; h += step {
		q, err := o.questions(ctx, h)
		if err != nil {
			return 0, 0, nil, nil, err
		}
		ask = append(ask, q...)
	}
	if final < upTo {
		errors, first = 1, fmt.Errorf("its final block is %d, the sound node had %d", final, upTo)
	}
	for len(ask) > 0 {
		part := ask[:min(trialBatch, len(ask))]
		ask = ask[len(part):]
		calls, answers := make([]rpc.BatchElem, len(part)), make([]json.RawMessage, len(part))
		for i, q := range part {
			calls[i] = rpc.BatchElem{Method: q.method, Args: q.params, Result: &answers[i]}
		}
		if err := c.BatchCallContext(ctx, calls); err != nil {
			return errors + 1, right, err, wrong, nil //nolint:nilerr // it ended
		}
		for i, q := range part {
			switch {
			case q.height > final: // it may not know yet
			case calls[i].Error != nil:
				if errors++; first == nil {
					first = fmt.Errorf("%s %v: %w", q.method, q.params, calls[i].Error)
				}
			case string(answers[i]) != q.answer:
				wrong = append(wrong, fmt.Sprintf("%s %v (final %d): %.200s; the sound node: %.200s", q.method, q.params, final, answers[i], q.answer))
			default:
				right++
			}
		}
	}
	return errors, right, first, wrong, nil
}
