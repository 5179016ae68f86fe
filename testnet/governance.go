package testnet

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/bls"
	"github.com/bornode/bornode/node"
)

// actor signs transactions of one account.
type actor interface {
	Account() common.Address
	SignTx(tx types.TxData, chainID uint64) (*types.Transaction, error)
}

// funded is a funded account of the network as an actor.
type funded struct{ a Account }

func (f funded) Account() common.Address { return f.a.Address }
func (f funded) SignTx(tx types.TxData, chainID uint64) (*types.Transaction, error) {
	return types.SignNewTx(f.a.Private(), types.LatestSignerForChainID(new(big.Int).SetUint64(chainID)), tx)
}

// producer is the account of a producer's node.
func (n *Network) producer(x *Node) (*signer.Local, error) {
	return signer.Load(filepath.Join(x.Dir, node.ProducerFile))
}

// transact sends a transaction and returns its receipt once it is in a block. A refusal of the contract is an error
// with its reason.
func (n *Network) transact(ctx context.Context, c *ethclient.Client, from actor, to common.Address, value *big.Int, data []byte) (*types.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, n.patience())
	defer cancel()
	gas, err := c.EstimateGas(ctx, ethereum.CallMsg{From: from.Account(), To: &to, Value: value, Data: data})
	if err != nil {
		return nil, err
	}
	nonce, err := c.PendingNonceAt(ctx, from.Account())
	if err != nil {
		return nil, err
	}
	price, err := c.SuggestGasPrice(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := from.SignTx(&types.LegacyTx{Nonce: nonce, GasPrice: price, Gas: gas + gas/4 + 50_000, To: &to, Value: value, Data: data}, n.ChainID)
	if err != nil {
		return nil, err
	}
	if err := c.SendTransaction(ctx, tx); err != nil {
		return nil, err
	}
	var r *types.Receipt
	err = poll(ctx, func() (bool, error) {
		r, err = c.TransactionReceipt(ctx, tx.Hash())
		if err != nil {
			return false, nil //nolint:nilerr // not included yet
		}
		if r.Status != types.ReceiptStatusSuccessful {
			return false, revertedError(r, from)
		}
		return true, nil
	})
	return r, err
}

// transactFinal is transact for a step that something else builds on: it returns when the transaction is in a final block, and
// that block's receipt. A switch of branches may take it out of the block in which it was first.
func (n *Network) transactFinal(ctx context.Context, c *ethclient.Client, from actor, to common.Address, value *big.Int, data []byte) (*types.Receipt, error) {
	r, err := n.transact(ctx, c, from, to, value, data)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, n.patience())
	defer cancel()
	hash := r.TxHash
	err = poll(ctx, func() (bool, error) {
		f, err := c.HeaderByNumber(ctx, big.NewInt(int64(rpc.FinalizedBlockNumber)))
		if err != nil {
			return false, nil //nolint:nilerr // asked again
		}
		r, err = c.TransactionReceipt(ctx, hash)
		if err != nil || r.BlockNumber.Cmp(f.Number) > 0 {
			return false, nil //nolint:nilerr // not yet, or not again
		}
		if r.Status != types.ReceiptStatusSuccessful {
			return false, revertedError(r, from)
		}
		return true, nil
	})
	return r, err
}

func revertedError(r *types.Receipt, from actor) error {
	return fmt.Errorf("testnet: transaction %s of %s was reverted in block %s", r.TxHash, from.Account(), r.BlockNumber)
}

// read calls a system contract at the head.
func read(ctx context.Context, c *ethclient.Client, to common.Address, data []byte) ([]byte, error) {
	return c.CallContract(ctx, ethereum.CallMsg{To: &to, Data: data}, nil)
}

// decide has a proposal take effect and returns when that is final: by the network's admin while it has one, else by
// the producers of the schedule whose keys lie in the network's folder.
func (n *Network) decide(ctx context.Context, c *ethclient.Client, proposal []byte) (*types.Receipt, error) {
	m := contracts.NewMembers()
	ret, err := read(ctx, c, contracts.MembersAddress, m.PackAdmin())
	if err != nil {
		return nil, err
	}
	admin, err := m.UnpackAdmin(ret)
	if err != nil {
		return nil, err
	}
	if admin == n.Admin.Address {
		return n.transactFinal(ctx, c, funded{n.Admin}, contracts.MembersAddress, nil, proposal)
	}
	return n.vote(ctx, c, proposal)
}

// vote opens a proposal as one producer of the schedule and approves it as the others until it has taken effect in a
// final block.
func (n *Network) vote(ctx context.Context, c *ethclient.Client, proposal []byte) (*types.Receipt, error) {
	m, p := contracts.NewMembers(), contracts.NewProducers()
	content, err := contracts.ProposedContent(proposal)
	if err != nil {
		return nil, err
	}
	var id *big.Int
	for _, x := range n.Nodes {
		if x.Role != "producer" {
			continue
		}
		ret, err := read(ctx, c, contracts.ProducersAddress, p.PackIsActive(x.Account))
		if err != nil {
			return nil, err
		}
		if active, err := p.UnpackIsActive(ret); err != nil || !active {
			continue // its approval would not count
		}
		from, err := n.producer(x)
		if err != nil {
			return nil, err
		}
		call := proposal
		if id != nil {
			call = contracts.ApproveCall(id.Uint64(), content)
		}
		r, err := n.transactFinal(ctx, c, from, contracts.MembersAddress, nil, call)
		if err != nil {
			return nil, err
		}
		for _, l := range r.Logs {
			if e, err := m.UnpackProposedEvent(l); err == nil {
				id = e.Id
			}
			if _, err := m.UnpackExecutedEvent(l); err == nil {
				return r, nil
			}
		}
	}
	return nil, errors.New("testnet: the producers whose keys lie in the network's folder are no quorum of the schedule")
}

// register makes a producer's node a candidate: money for its account, the minimum stake, its BLS key, and the stake as
// votes for itself. It returns when that is final.
func (n *Network) register(ctx context.Context, c *ethclient.Client, x *Node) error {
	from, err := n.producer(x)
	if err != nil {
		return err
	}
	p := contracts.NewProducers()
	ret, err := read(ctx, c, contracts.ProducersAddress, p.PackSettings())
	if err != nil {
		return err
	}
	settings, err := p.UnpackSettings(ret)
	if err != nil {
		return err
	}
	stake := settings.MinStake
	registration, err := registration(from, n.ChainID)
	if err != nil {
		return err
	}
	money := new(big.Int).Add(stake, big.NewInt(1e18))
	for _, t := range []struct {
		from  actor
		to    common.Address
		value *big.Int
		data  []byte
	}{
		{funded{n.Accounts[0]}, from.Account(), money, nil},
		{from, contracts.ProducersAddress, stake, p.PackDeposit()},
		{from, contracts.ProducersAddress, nil, registration},
		{from, contracts.ProducersAddress, nil, p.PackVote(from.Account(), stake)},
	} {
		if _, err := n.transactFinal(ctx, c, t.from, t.to, t.value, t.data); err != nil {
			return fmt.Errorf("testnet: node %d does not become a candidate: %w", x.Index, err)
		}
	}
	return nil
}

// registration is the call that registers a producer's BLS key.
func registration(s *signer.Local, chainID uint64) ([]byte, error) {
	key := s.VoteKey()
	raw, err := bls.UncompressG1(key)
	if err != nil {
		return nil, err
	}
	proof, err := bls.UncompressG2(s.ProvePossession(chainID))
	if err != nil {
		return nil, err
	}
	return contracts.RegisterCall(key[:], raw, proof)
}
