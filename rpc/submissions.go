package rpc

import (
	"bytes"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// submission is one transaction offered to the pool, and the pool's answer.
type submission struct {
	raw  []byte // as the client encoded it
	hash common.Hash
	err  error
}

// submitTransactions offers signed transactions to the pool in one round of it, in their order.
func (s *service) submitTransactions(raws []hexutil.Bytes) []submission {
	submissions := make([]submission, len(raws))
	offered := make([]*types.Transaction, 0, len(raws))
	places := make([]int, 0, len(raws)) // of the offered ones among the submissions
	for i, raw := range raws {
		submissions[i].raw = raw
		tx := new(types.Transaction)
		switch err := tx.UnmarshalBinary(raw); {
		case err != nil:
			submissions[i].err = invalidParams("the bytes are no signed transaction: %s", err)
		case !s.cfg.AllowUnprotected && !tx.Protected():
			submissions[i].err = &Error{Code: codeServer, Message: "only replay-protected (EIP-155) transactions allowed over RPC; sign it with the chain id"}
		default:
			submissions[i].hash = tx.Hash()
			offered, places = append(offered, tx), append(places, i)
		}
	}
	if len(offered) == 0 {
		return submissions
	}
	if err := s.back.notReady("the transaction pool"); err != nil {
		for _, place := range places {
			submissions[place].err = err
		}
		return submissions
	}
	for k, err := range s.back.Pool.Add(offered, true) {
		if err != nil {
			submissions[places[k]].err = submitError(err)
		}
	}
	return submissions
}

// batchCall is what leadingTransactions reads of a call in a batch; the fields are those of go-ethereum's server.
type batchCall struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// leadingTransactions is the transactions of the eth_sendRawTransaction calls with which a batch begins, up to the first
// call that is another or is not well-formed. The server carries a batch out in its order, so whatever stands before a
// call has the same effect on it when these are offered to the pool together: a round of the pool costs about as much
// for a thousand transactions as for one. nil where there are fewer than two.
func leadingTransactions(message []byte) []hexutil.Bytes {
	if !bytes.HasPrefix(bytes.TrimLeft(message, " \t\r\n"), []byte("[")) || !bytes.Contains(message, []byte(`eth_sendRawTransaction"`)) {
		return nil
	}
	var calls []batchCall
	if json.Unmarshal(message, &calls) != nil {
		return nil
	}
	raws := make([]hexutil.Bytes, 0, len(calls))
	for _, call := range calls {
		var params []hexutil.Bytes
		if !call.isSendRawTransaction() || json.Unmarshal(call.Params, &params) != nil || len(params) != 1 {
			break
		}
		raws = append(raws, params[0])
	}
	if len(raws) < 2 {
		return nil
	}
	return raws
}

// isSendRawTransaction reports that the server will call the method: with an id that it accepts, or with none.
func (c *batchCall) isSendRawTransaction() bool {
	goodID := len(c.ID) == 0 || c.ID[0] != '{' && c.ID[0] != '['
	return c.Method == "eth_sendRawTransaction" && c.Version == "2.0" && goodID && bytes.HasPrefix(c.Params, []byte("["))
}

// submitLeading offers a batch's leading transactions to the pool; their calls find the answers by nextSubmission.
func (c *caller) submitLeading(message []byte) {
	raws := leadingTransactions(message)
	if raws == nil || c.ctx.Err() != nil {
		return
	}
	submissions := c.s.submitTransactions(raws)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.submissions = submissions
}

// nextSubmission is the pool's answer to the transaction if its batch offered it already. Calls of a batch run one after
// the other, so the next answer is this call's; a call that does not match ends the search for those behind it too.
func (c *caller) nextSubmission(raw []byte) (submission, bool) {
	if c == nil {
		return submission{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.submissions) == 0 {
		return submission{}, false
	}
	next := c.submissions[0]
	c.submissions = c.submissions[1:]
	if !bytes.Equal(next.raw, raw) {
		c.submissions = nil
		return submission{}, false
	}
	return next, true
}
