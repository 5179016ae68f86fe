package chain

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
)

// trustedSigner answers Sender with an address that a certificate vouches for. It equals the signer it stands for,
// so that types.Sender's cache, once filled through it, serves every later user of the transaction.
type trustedSigner struct {
	types.Signer
	from common.Address
}

func (s *trustedSigner) Sender(*types.Transaction) (common.Address, error) { return s.from, nil }

func (s *trustedSigner) Equal(o types.Signer) bool {
	if t, ok := o.(*trustedSigner); ok {
		o = t.Signer
	}
	return s.Signer.Equal(o)
}

// setSenders fills the sender cache of the block's transactions from its sender list.
func (c *Chain) setSenders(b *block.Block) {
	signers := make([]trustedSigner, len(b.Senders))
	for i, tx := range b.Transactions {
		signers[i] = trustedSigner{c.signer, b.Senders[i]}
		_, _ = types.Sender(&signers[i], tx) // cannot fail
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
// sender, recovered in parallel. With trustSenders a certificate above the block vouches for root and senders. It may
// run for several blocks at once. Errors wrap ErrInvalidBody.
func (c *Chain) CheckBody(b *block.Block, trustSenders bool) error {
	if b == nil || b.SealedHeader == nil || b.Header == nil || b.Record == nil {
		return fmt.Errorf("%w: block lacks a part", ErrInvalidBody)
	}
	if len(b.Senders) != len(b.Transactions) {
		return badBody(b, "%d senders for %d transactions", len(b.Senders), len(b.Transactions))
	}
	if h := b.Record.Hash(); len(b.Header.Extra) != common.HashLength || common.BytesToHash(b.Header.Extra) != h {
		return badBody(b, "extra data %x is not the hash %s of the record", b.Header.Extra, h)
	}
	for i, tx := range b.Transactions {
		if tx.Type() == types.BlobTxType {
			return badBody(b, "transaction %d %s is a blob transaction", i, tx.Hash())
		}
	}
	if n := encodedSize(b); n > block.MaxBlockBytes { // the chain's own bound is known when the parent was executed
		return badBody(b, "%d bytes, %d allowed on any chain", n, block.MaxBlockBytes)
	}
	if d := block.BodyDigest(b.Transactions, b.Senders); d != b.Record.BodyDigest {
		return badBody(b, "body digest is %s, the record says %s", d, b.Record.BodyDigest)
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

// recoverSenders recovers and compares every sender. Workers take runs of transactions in order; the error reported
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
				from, err := types.Sender(c.signer, b.Transactions[i])
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
	c.m.recoveries.Add(float64(n))
	c.recoveries.Add(uint64(n)) //nolint:gosec // a length
	if bad != nil {
		return badBody(b, "transaction %d %s: %w", badAt, b.Transactions[badAt].Hash(), bad)
	}
	return nil
}

// SenderRecoveries is how many senders CheckBody recovered from signatures since Open.
func (c *Chain) SenderRecoveries() uint64 { return c.recoveries.Load() }

// StateFlushes is how often the state was written to disk since Open, as far as the flush settings asked for it.
func (c *Chain) StateFlushes() uint64 { return c.flushes.Load() }

var errBlobTx = errors.New("blob transactions are refused")
