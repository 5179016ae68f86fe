package wallet

import (
	"context"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/holiman/uint256"
)

// walletAPI is the namespace wallet.
type walletAPI struct {
	s       *Service
	version string
}

func (a *walletAPI) Version() string { return a.version }
func (a *walletAPI) List() []Info    { return a.s.List() }

func (a *walletAPI) Create(ctx context.Context, name, password string) error {
	return a.s.Create(ctx, name, password)
}

func (a *walletAPI) Unlock(ctx context.Context, name, password string, seconds uint64) error {
	return a.s.Unlock(ctx, name, password, seconds)
}

func (a *walletAPI) Lock(name string) error { return a.s.Lock(name) }
func (a *walletAPI) LockAll()               { a.s.LockAll() }

func (a *walletAPI) NewAccount(ctx context.Context, name, password string) (common.Address, error) {
	return a.s.NewAccount(ctx, name, password)
}

func (a *walletAPI) ImportKey(ctx context.Context, name, password, hexKey string) (common.Address, error) {
	return a.s.ImportKey(ctx, name, password, hexKey)
}

// ImportKeystore takes the file as a string or as the JSON object itself.
func (a *walletAPI) ImportKeystore(ctx context.Context, name, password string, file json.RawMessage, filePassword string) (common.Address, error) {
	text := string(file)
	var inner string
	if json.Unmarshal(file, &inner) == nil {
		text = inner
	}
	return a.s.ImportKeystore(ctx, name, password, text, filePassword)
}

func (a *walletAPI) ImportMnemonic(ctx context.Context, name, password, words string, passphrase, path *string, count *int) ([]common.Address, error) {
	n := 1
	if count != nil {
		n = *count
	}
	return a.s.ImportMnemonic(ctx, name, password, words, orEmpty(passphrase), orEmpty(path), n)
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (a *walletAPI) NewMnemonic() (string, error) { return NewMnemonic() }

func (a *walletAPI) Export(ctx context.Context, name, password string, address common.Address, form string) (string, error) {
	return a.s.Export(ctx, name, password, address, form)
}

func (a *walletAPI) ChangePassword(ctx context.Context, name, password, newPassword string) error {
	return a.s.ChangePassword(ctx, name, password, newPassword)
}

func (a *walletAPI) Delete(ctx context.Context, name, password string) error {
	return a.s.Delete(ctx, name, password)
}

// AuthorizationArgs is a delegation to sign (EIP-7702).
type AuthorizationArgs struct {
	ChainID *hexutil.U256   `json:"chainId"`
	Address *common.Address `json:"address"`
	Nonce   *hexutil.Uint64 `json:"nonce"`
}

func (a *walletAPI) SignAuthorization(ctx context.Context, account common.Address, args AuthorizationArgs) (*types.SetCodeAuthorization, error) {
	if args.ChainID == nil || args.Address == nil || args.Nonce == nil {
		return nil, invalid("the authorization lacks chainId, address or nonce: fill them in")
	}
	return a.s.SignAuthorization(ctx, account, (*uint256.Int)(args.ChainID), *args.Address, uint64(*args.Nonce))
}

// ethAPI is what the namespace eth has of a signer.
type ethAPI struct{ s *Service }

func (a *ethAPI) Accounts() []common.Address { return a.s.Accounts() }

// SignedTransaction is the answer of eth_signTransaction.
type SignedTransaction struct {
	Raw hexutil.Bytes      `json:"raw"`
	Tx  *types.Transaction `json:"tx"`
}

func (a *ethAPI) SignTransaction(ctx context.Context, args TxArgs) (*SignedTransaction, error) {
	tx, err := a.s.SignTransaction(ctx, &args)
	if err != nil {
		return nil, err
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return nil, internal("encode the transaction: %v", err)
	}
	return &SignedTransaction{raw, tx}, nil
}

// Sign signs a message as personal_sign does. 32 bytes are taken for a bare hash, as some wallets do, which the
// settings must allow.
func (a *ethAPI) Sign(ctx context.Context, account common.Address, data hexutil.Bytes) (hexutil.Bytes, error) {
	if len(data) == 32 {
		return a.s.SignHash(ctx, account, data)
	}
	return a.s.SignMessage(ctx, account, data)
}

// SignTypedData_v4 has the underscore that the method's name has.
func (a *ethAPI) SignTypedData_v4(ctx context.Context, account common.Address, data json.RawMessage) (hexutil.Bytes, error) {
	return a.s.SignTypedData(ctx, account, data)
}

// personalAPI is what the namespace personal has of a signer.
type personalAPI struct{ s *Service }

func (a *personalAPI) Sign(ctx context.Context, data hexutil.Bytes, account common.Address) (hexutil.Bytes, error) {
	return a.s.SignMessage(ctx, account, data)
}

// methodsOf is a JSON-RPC server of the service's methods.
func methodsOf(s *Service, version string) (*gethrpc.Server, error) {
	srv := gethrpc.NewServer()
	srv.SetBatchLimits(MaxBatch, MaxBatchBytes)
	srv.SetHTTPBodyLimit(MaxBody)
	for name, api := range map[string]any{"wallet": &walletAPI{s, version}, "eth": &ethAPI{s}, "personal": &personalAPI{s}} {
		if err := srv.RegisterName(name, api); err != nil {
			return nil, err
		}
	}
	return srv, nil
}
