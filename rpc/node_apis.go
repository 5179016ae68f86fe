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

func (a *poolAPI) Status() map[string]hexutil.Uint {
	pending, queued := a.back.Pool.Stats()
	return map[string]hexutil.Uint{"pending": hexutil.Uint(pending), "queued": hexutil.Uint(queued)}
}

type poolContent[T any] map[string]map[string]map[string]T

func (a *poolAPI) Content() (poolContent[*transactionJSON], error) {
	return showPool(a, func(from common.Address, tx *types.Transaction) *transactionJSON { return transactionOf(tx, from) })
}

func (a *poolAPI) Inspect() (poolContent[string], error) {
	return showPool(a, func(_ common.Address, tx *types.Transaction) string {
		to := "contract creation"
		if tx.To() != nil {
			to = tx.To().Hex()
		}
		return fmt.Sprintf("%s: %v wei + %v gas × %v wei", to, tx.Value(), tx.Gas(), tx.GasPrice())
	})
}

func showPool[T any](a *poolAPI, show func(common.Address, *types.Transaction) T) (poolContent[T], error) {
	if p, q := a.back.Pool.Stats(); p+q > maxPoolContent {
		return nil, limitExceeded("the pool holds %d transactions, %d are shown at once; ask with txpool_contentFrom", p+q, maxPoolContent)
	}
	pending, queued := a.back.Pool.Content()
	out := poolContent[T]{"pending": {}, "queued": {}}
	for name, accounts := range map[string]map[common.Address][]*types.Transaction{"pending": pending, "queued": queued} {
		for from, txs := range accounts {
			out[name][from.Hex()] = byNonce(from, txs, show)
		}
	}
	return out, nil
}

func byNonce[T any](from common.Address, txs []*types.Transaction, show func(common.Address, *types.Transaction) T) map[string]T {
	m := make(map[string]T, len(txs))
	for _, tx := range txs {
		m[strconv.FormatUint(tx.Nonce(), 10)] = show(from, tx)
	}
	return m
}

func (a *poolAPI) ContentFrom(from common.Address) map[string]map[string]*transactionJSON {
	pending, queued := a.back.Pool.ContentFrom(from)
	show := func(from common.Address, tx *types.Transaction) *transactionJSON { return transactionOf(tx, from) }
	return map[string]map[string]*transactionJSON{"pending": byNonce(from, pending, show), "queued": byNonce(from, queued, show)}
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
