package rpc

import (
	"context"
	"fmt"
	"runtime"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

type netAPI struct{ *service }

func (a *netAPI) Version() string { return a.back.Chain.Config().ChainID.String() }

func (a *netAPI) Listening() bool { return a.back.Network != nil && a.back.Network.Listening() }

func (a *netAPI) PeerCount() hexutil.Uint {
	if a.back.Network == nil {
		return 0
	}
	return hexutil.Uint(len(a.back.Network.Peers()))
}

type web3API struct{ *service }

func (a *web3API) ClientVersion() string {
	v := a.back.Version
	if v == "" {
		v = "bornode"
	}
	return fmt.Sprintf("%s/%s-%s/%s", v, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

func (a *web3API) Sha3(b hexutil.Bytes) hexutil.Bytes { return crypto.Keccak256(b) }

type poolAPI struct{ *service }

func (a *poolAPI) Status() (map[string]hexutil.Uint, error) {
	if err := a.back.notReady("the transaction pool"); err != nil {
		return nil, err
	}
	pending, queued := a.back.Pool.Stats()
	return map[string]hexutil.Uint{"pending": hexutil.Uint(pending), "queued": hexutil.Uint(queued)}, nil
}

type poolContent[T any] map[string]map[string]map[string]T

func (a *poolAPI) Content(ctx context.Context) (poolContent[*transactionJSON], error) {
	return showPool(ctx, a, fullSize, func(from common.Address, tx *types.Transaction) *transactionJSON { return transactionOf(tx, from) })
}

func (a *poolAPI) Inspect(ctx context.Context) (poolContent[string], error) {
	line := func(*types.Transaction) int { return poolItemBytes / 4 }
	return showPool(ctx, a, line, func(_ common.Address, tx *types.Transaction) string {
		to := "contract creation"
		if tx.To() != nil {
			to = tx.To().Hex()
		}
		return fmt.Sprintf("%s: %v wei + %v gas × %v wei", to, tx.Value(), tx.Gas(), tx.GasPrice())
	})
}

// fullSize is about the bytes of a transaction in JSON, where data is in hex.
func fullSize(tx *types.Transaction) int { return poolItemBytes + 2*int(tx.Size()) } //nolint:gosec // bounded by the pool

func showPool[T any](ctx context.Context, a *poolAPI, size func(*types.Transaction) int, show func(common.Address, *types.Transaction) T) (poolContent[T], error) {
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	defer v.end()
	if p, q := a.back.Pool.Stats(); p+q > maxPoolContent {
		return nil, limitExceeded("the pool holds %d transactions, %d are shown at once; ask with txpool_contentFrom", p+q, maxPoolContent)
	}
	pending, queued := a.back.Pool.Content()
	out := poolContent[T]{"pending": {}, "queued": {}}
	for name, accounts := range map[string]map[common.Address][]*types.Transaction{"pending": pending, "queued": queued} {
		for from, txs := range accounts {
			if out[name][from.Hex()], err = byNonce(v, from, txs, size, show); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// poolView bounds what one request shows of the pool.
type poolView struct {
	left int // bytes
	held *hold
	end  func()
}

// view waits for a place for executions, since showing much of the pool is as much work.
func (a *poolAPI) view(ctx context.Context) (*poolView, error) {
	if err := a.back.notReady("the transaction pool"); err != nil {
		return nil, err
	}
	release, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	v := &poolView{left: maxPoolBytes, held: a.hold(a.host(ctx))}
	v.end = func() { v.held.give(); release() }
	return v, nil
}

func byNonce[T any](v *poolView, from common.Address, txs []*types.Transaction, size func(*types.Transaction) int, show func(common.Address, *types.Transaction) T) (map[string]T, error) {
	m := make(map[string]T, len(txs))
	for _, tx := range txs {
		n := size(tx)
		if v.left -= n; v.left < 0 {
			return nil, limitExceeded("the transactions take more than %d MiB, the most that is shown at once; list them with txpool_inspect and ask with eth_getTransactionByHash or txpool_contentFrom", maxPoolBytes>>20)
		}
		if err := v.held.gather(answerCopies * n); err != nil {
			return nil, err
		}
		m[strconv.FormatUint(tx.Nonce(), 10)] = show(from, tx)
	}
	return m, nil
}

func (a *poolAPI) ContentFrom(ctx context.Context, from common.Address) (map[string]map[string]*transactionJSON, error) {
	v, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	defer v.end()
	out := make(map[string]map[string]*transactionJSON, 2)
	pending, queued := a.back.Pool.ContentFrom(from)
	for name, txs := range map[string][]*types.Transaction{"pending": pending, "queued": queued} {
		out[name], err = byNonce(v, from, txs, fullSize, func(from common.Address, tx *types.Transaction) *transactionJSON { return transactionOf(tx, from) })
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// adminAPI is offered on the IPC socket alone.
type adminAPI struct{ *service }

func (a *adminAPI) AddPeer(ctx context.Context, addr string) (bool, error) {
	if a.back.Admin == nil {
		return false, notOffered("admin_addPeer")
	}
	err := a.back.Admin.AddPeer(ctx, addr)
	return err == nil, err
}

func (a *adminAPI) RemovePeer(ctx context.Context, id string) (bool, error) {
	if a.back.Admin == nil {
		return false, notOffered("admin_removePeer")
	}
	err := a.back.Admin.RemovePeer(ctx, id)
	return err == nil, err
}

// AcceptAnswers is the operator's word for one answer that is missing (borcli producer accept).
func (a *adminAPI) AcceptAnswers(ctx context.Context) (*SignerStatus, error) {
	if a.back.Admin == nil {
		return nil, notOffered("admin_acceptAnswers")
	}
	return a.back.Admin.AcceptAnswers(ctx)
}

// BackupCut is what is irreversible now: heights, proof, and the segment files with their sizes.
func (a *adminAPI) BackupCut() (any, error) {
	if a.back.Admin == nil {
		return nil, notOffered("admin_backupCut")
	}
	return a.back.Admin.BackupCut()
}

func (a *adminAPI) Peers() ([]PeerInfo, error) { return a.peers() }

func (a *adminAPI) NodeInfo() (map[string]any, error) {
	if a.back.Network == nil {
		return nil, notOffered("admin_nodeInfo")
	}
	head := a.back.Chain.CurrentHeader()
	return map[string]any{
		"id": a.back.Network.ID(), "name": (&web3API{a.service}).ClientVersion(), "listening": a.back.Network.Listening(),
		"chainId": (*hexutil.Big)(a.back.Chain.Config().ChainID), "head": head.Hash(), "height": hexutil.Uint64(head.Number.Uint64()),
	}, nil
}

func (s *service) peers() ([]PeerInfo, error) {
	if s.back.Network == nil {
		return nil, notOffered("the list of peers")
	}
	ps := s.back.Network.Peers()
	if ps == nil {
		ps = []PeerInfo{}
	}
	return ps, nil
}
