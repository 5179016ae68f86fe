package chain

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/senders"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
)

// setSenders attaches the block's sender list to its transactions: a certificate or an earlier check vouches for it.
func (c *Chain) setSenders(b *block.Block) {
	for i, tx := range b.Transactions {
		senders.Attach(c.signer, tx, b.Senders[i])
	}
}

// encodedSize is len(b.Encode()) without encoding the transactions again.
func encodedSize(b *block.Block) uint64 {
	var txs uint64
	for _, tx := range b.Transactions {
		txs += txListSize(tx)
	}
	return rlp.ListSize(uint64(len(b.SealedHeader.Encode())) + rlp.ListSize(txs) + rlp.ListSize(uint64(len(b.Senders))*(common.AddressLength+1)))
}

// txListSize is what a transaction takes in an RLP list: a typed one is a byte string there.
func txListSize(tx *types.Transaction) uint64 {
	n := tx.Size()
	if tx.Type() == types.LegacyTxType {
		return n
	}
	if n < 56 {
		return n + 1
	}
	l := uint64(1)
	for x := n; x > 0; x >>= 8 {
		l++
	}
	return n + l
}

// CheckBody checks what the sealed header says of the body: the body digest (and that the header names the record
// holding it), the size that no chain exceeds, that no blob transaction is in, and, unless trustSenders, the transaction root and every
// sender, recovered in parallel unless this node recovered it before (Senders). With trustSenders a certificate above the block vouches for root and senders. It may
// run for several blocks at once. Errors wrap ErrInvalidBody.
func (c *Chain) CheckBody(b *block.Block, trustSenders bool) error {
	if b == nil || b.SealedHeader == nil || b.Header == nil || b.Record == nil {
		return fmt.Errorf("%w: block lacks a part", ErrInvalidBody)
	}
	if len(b.Senders) != len(b.Transactions) {
		return badBody(b, "%d senders for %d transactions", len(b.Senders), len(b.Transactions))
	}
	raw := b.Received() // then record and body digest were checked when it was decoded
	if h := b.Header.Extra; raw == nil && (len(h) != common.HashLength || common.BytesToHash(h) != b.Record.Hash()) {
		return badBody(b, "extra data %x is not the hash %s of the record", h, b.Record.Hash())
	}
	for i, tx := range b.Transactions {
		if tx.Type() == types.BlobTxType {
			return badBody(b, "transaction %d %s is a blob transaction", i, tx.Hash())
		}
	}
	if n := encodedSize(b); n > block.MaxBlockBytes { // the chain's own bound is known when the parent was executed
		return badBody(b, "%d bytes, %d allowed on any chain", n, block.MaxBlockBytes)
	}
	if raw == nil {
		if d := block.BodyDigest(b.Transactions, b.Senders); d != b.Record.BodyDigest {
			return badBody(b, "body digest is %s, the record says %s", d, b.Record.BodyDigest)
		}
	}
	if trustSenders {
		c.setSenders(b)
		return nil
	}
	if r := block.TxRoot(b.Transactions); r != b.Header.TxHash {
		return badBody(b, "transaction root is %s, the header says %s", r, b.Header.TxHash)
	}
	return c.recoverSenders(b)
}

// recoverSenders compares every sender with the one that this node recovers, now or before. Workers take runs of transactions in order; the error reported
// is that of the lowest index.
func (c *Chain) recoverSenders(b *block.Block) error {
	n := len(b.Transactions)
	workers := c.cfg.SenderWorkers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, (n+sendersAtOnce-1)/sendersAtOnce)
	var (
		next  atomic.Int64
		fresh atomic.Uint64 // signatures recovered
		mu    sync.Mutex
		badAt = n
		bad   error
		wg    sync.WaitGroup
	)
	work := func() {
		for {
			lo := int(next.Add(sendersAtOnce)) - sendersAtOnce
			if lo >= n {
				return
			}
			for i := lo; i < min(lo+sendersAtOnce, n); i++ {
				from, recovered, err := c.senders.Sender(b.Transactions[i])
				if recovered {
					fresh.Add(1)
				}
				if err == nil && from != b.Senders[i] {
					err = fmt.Errorf("sender is %s, the body says %s", from, b.Senders[i])
				}
				if err != nil {
					mu.Lock()
					if i < badAt {
						badAt, bad = i, err
					}
					mu.Unlock()
					return
				}
			}
		}
	}
	for range workers - 1 {
		wg.Go(work)
	}
	if n > 0 {
		work()
	}
	wg.Wait()
	c.m.recoveries.Add(float64(fresh.Load()))
	c.recoveries.Add(fresh.Load())
	if bad != nil {
		return badBody(b, "transaction %d %s: %w", badAt, b.Transactions[badAt].Hash(), bad)
	}
	return nil
}

// SenderRecoveries is how many senders CheckBody itself had to recover from signatures since Open.
func (c *Chain) SenderRecoveries() uint64 { return c.recoveries.Load() }

// StateFlushes is how often the state was written to disk since Open, as far as the flush settings asked for it.
func (c *Chain) StateFlushes() uint64 { return c.flushes.Load() }

// Senders recovers the senders of transactions and remembers them, for all parts of the node that see transactions before
// a block brings them.
func (c *Chain) Senders() *senders.Cache { return c.senders }

var errBlobTx = errors.New("blob transactions are refused")
