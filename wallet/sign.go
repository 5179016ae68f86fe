package wallet

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
	"go.uber.org/zap"
)

// sign signs what was decoded: it must be an unlocked account's, on an allowed chain, and confirmed.
func (s *Service) sign(ctx context.Context, r *request) ([]byte, error) {
	if err := s.allowedChain(r); err != nil {
		return nil, err
	}
	if err := s.withKey(r.account, nil); err != nil { // before somebody is asked
		return nil, err
	}
	asked, cancel := s.callers.context(ctx)
	defer cancel()
	if err := s.judge.decide(asked, r); err != nil {
		s.log.Warn("refused to sign", zap.String("what", string(r.kind)), zap.Stringer("account", r.account), zap.Error(err), zap.String("request", r.text()))
		return nil, err
	}
	var sig []byte
	err := s.withKey(r.account, func(key []byte) (err error) {
		sig, err = signHash(r.hash, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.log.Info("signed", zap.String("what", string(r.kind)), zap.Stringer("account", r.account), zap.String("request", r.text()))
	return sig, nil
}

// withKey calls fn with the account's key, which is only good during the call; without fn it only looks.
func (s *Service) withKey(account common.Address, fn func(key []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	locked := ""
	for _, w := range s.wallets {
		s.expire(w)
		if slot, ok := w.slots[account]; ok {
			if fn == nil {
				return nil
			}
			return fn(s.vault.at(slot))
		}
		if w.has(account) && (locked == "" || w.name < locked) {
			locked = w.name
		}
	}
	if locked != "" {
		return errLocked(locked)
	}
	return fail(CodeUnknown, "no wallet has account %s: see wallet_list, or import its key", account)
}

func (s *Service) allowedChain(r *request) error {
	if len(s.cfg.ChainIDs) == 0 || r.chain == nil {
		return nil
	}
	if r.chain.IsUint64() && slices.Contains(s.cfg.ChainIDs, r.chain.Uint64()) {
		return nil
	}
	return refused("chain %s is not among the chains to sign for %v: check the node, or add it to chain_ids", r.chain, s.cfg.ChainIDs)
}

// Accounts lists the accounts of all wallets, locked ones too, without doubles.
func (s *Service) Accounts() []common.Address {
	out := []common.Address{}
	for _, w := range s.List() {
		for _, a := range w.Accounts {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// SignTransaction signs a complete transaction.
func (s *Service) SignTransaction(ctx context.Context, args *TxArgs) (*types.Transaction, error) {
	tx, err := args.transaction()
	if err != nil {
		return nil, err
	}
	chain := (*big.Int)(args.ChainID)
	signer := types.LatestSignerForChainID(chain)
	hash := signer.Hash(tx)
	r := &request{kind: kindTransaction, account: *args.From, chain: chain, tx: tx, hash: hash[:], lines: describeTx(tx, *args.From)}
	if tx.Type() == types.LegacyTxType { // its chain is only in the signature
		r.lines[0] = fmt.Sprintf("transaction of type 0 on chain %s, nonce %d, from %s", chain, tx.Nonce(), args.From)
	}
	sig, err := s.sign(ctx, r)
	if err != nil {
		return nil, err
	}
	signed, err := tx.WithSignature(signer, sig)
	if err != nil {
		return nil, internal("put the signature to the transaction: %v", err)
	}
	return signed, nil
}

// SignAuthorization signs the delegation of an account to code (EIP-7702); chain 0 is every chain, address 0 ends it.
func (s *Service) SignAuthorization(ctx context.Context, account common.Address, chain *uint256.Int, delegate common.Address, nonce uint64) (*types.SetCodeAuthorization, error) {
	a := types.SetCodeAuthorization{ChainID: *chain, Address: delegate, Nonce: nonce}
	hash := a.SigHash()
	r := &request{
		kind: kindAuthorization, account: account, chain: chain.ToBig(), delegate: delegate, hash: hash[:],
		lines: []string{"authorization (EIP-7702)", account.String() + " " + describeDelegation(chain.ToBig(), delegate, nonce)},
	}
	sig, err := s.sign(ctx, r)
	if err != nil {
		return nil, err
	}
	a.R.SetBytes(sig[:32])
	a.S.SetBytes(sig[32:64])
	a.V = sig[64]
	return &a, nil
}

// SignMessage signs a message with the prefix of EIP-191; the signature ends in 27 or 28.
func (s *Service) SignMessage(ctx context.Context, account common.Address, message []byte) ([]byte, error) {
	if len(message) > MaxMessage {
		return nil, invalid("the message has %d bytes, %d are allowed: sign its hash in typed data", len(message), MaxMessage)
	}
	r := &request{kind: kindMessage, account: account, hash: accounts.TextHash(message), lines: describeMessage(account, message)}
	return s.signMessage(ctx, r)
}

// SignHash signs 32 bytes of which nobody can say what they stand for, if the settings allow that.
func (s *Service) SignHash(ctx context.Context, account common.Address, hash []byte) ([]byte, error) {
	if !s.cfg.RawHashes {
		return nil, refused("eth_sign would sign a bare hash, which could be a transaction: use personal_sign, or set raw_hashes = true if you must")
	}
	r := &request{
		kind: kindHash, account: account, hash: hash,
		lines: []string{"bare hash, by " + account.String(), fmt.Sprintf("0x%x: it may stand for ANY transaction or message", hash)},
	}
	return s.signMessage(ctx, r)
}

func (s *Service) signMessage(ctx context.Context, r *request) ([]byte, error) {
	sig, err := s.sign(ctx, r)
	if err != nil {
		return nil, err
	}
	sig[64] += 27
	return sig, nil
}

// SignTypedData signs structured data (EIP-712, version 4 of the method); the signature ends in 27 or 28.
func (s *Service) SignTypedData(ctx context.Context, account common.Address, text []byte) ([]byte, error) {
	d, err := parseTypedData(text)
	if err != nil {
		return nil, invalid("the typed data cannot be signed: %v", err)
	}
	r := &request{
		kind: kindTypedData, account: account, hash: d.hash, chain: d.chain, contract: d.contract, primaryType: d.primaryType,
		lines: append([]string{"typed data (EIP-712), by " + account.String()}, d.lines...),
	}
	return s.signMessage(ctx, r)
}
