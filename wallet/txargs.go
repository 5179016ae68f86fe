package wallet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"

	"github.com/bornode/bornode/internal/nearest"
)

// TxArgs is a transaction to sign, as eth_signTransaction takes it. All of it must be filled in: a wallet knows no node.
type TxArgs struct {
	From                 *common.Address              `json:"from"`
	To                   *common.Address              `json:"to"`
	Type                 *hexutil.Uint64              `json:"type"`
	ChainID              *hexutil.Big                 `json:"chainId"`
	Nonce                *hexutil.Uint64              `json:"nonce"`
	Gas                  *hexutil.Uint64              `json:"gas"`
	GasPrice             *hexutil.Big                 `json:"gasPrice"`
	MaxFeePerGas         *hexutil.Big                 `json:"maxFeePerGas"`
	MaxPriorityFeePerGas *hexutil.Big                 `json:"maxPriorityFeePerGas"`
	Value                *hexutil.Big                 `json:"value"`
	Data                 *hexutil.Bytes               `json:"data"`
	Input                *hexutil.Bytes               `json:"input"`
	AccessList           *types.AccessList            `json:"accessList"`
	AuthorizationList    []types.SetCodeAuthorization `json:"authorizationList"`
}

var txFields = []string{"from", "to", "type", "chainId", "nonce", "gas", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas",
	"value", "data", "input", "accessList", "authorizationList"}

// UnmarshalJSON refuses unknown fields: what a wallet would leave out is not what its user asked for. gasLimit is
// taken for gas.
func (a *TxArgs) UnmarshalJSON(text []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return errors.New("the transaction is not a JSON object")
	}
	if v, ok := fields["gasLimit"]; ok && fields["gas"] == nil {
		fields["gas"] = v
		delete(fields, "gasLimit")
	}
	for name := range fields {
		if strings.HasPrefix(name, "blob") || name == "maxFeePerBlobGas" {
			return errors.New("blob transactions (type 3) are not supported: send the data in a transaction of type 2")
		}
		if !contains(txFields, name) {
			if near := nearest.Name(name, txFields); near != "" {
				return fmt.Errorf("the transaction has an unknown field %.40q; did you mean %q?", name, near)
			}
			return fmt.Errorf("the transaction has an unknown field %.40q: use %s", name, strings.Join(txFields, ", "))
		}
	}
	clean, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	type plain TxArgs
	return strictJSON(clean, (*plain)(a))
}

func contains(list []string, name string) bool {
	for _, s := range list {
		if s == name {
			return true
		}
	}
	return false
}

// strictJSON decodes one value and refuses unknown fields and anything after it.
func strictJSON(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// transaction checks that all is there and within bounds, and builds the unsigned transaction.
func (a *TxArgs) transaction() (*types.Transaction, error) {
	kind, err := a.kind()
	if err != nil {
		return nil, err
	}
	if err := a.complete(kind); err != nil {
		return nil, err
	}
	data, err := a.data()
	if err != nil {
		return nil, err
	}
	value := (*big.Int)(a.Value)
	if value == nil {
		value = new(big.Int)
	}
	list := types.AccessList{}
	if a.AccessList != nil {
		list = *a.AccessList
	}
	nonce, gas, chain := uint64(*a.Nonce), uint64(*a.Gas), (*big.Int)(a.ChainID)
	if nonce == 1<<64-1 {
		return nil, invalid("the nonce is the highest there is: no account gets there, check it")
	}
	for _, n := range []*big.Int{value, chain, (*big.Int)(a.GasPrice), (*big.Int)(a.MaxFeePerGas), (*big.Int)(a.MaxPriorityFeePerGas)} {
		if n != nil && (n.Sign() < 0 || n.BitLen() > 256) {
			return nil, invalid("a number of the transaction does not fit 256 bits: check value, chainId and fees")
		}
	}
	switch kind {
	case types.LegacyTxType:
		return types.NewTx(&types.LegacyTx{Nonce: nonce, GasPrice: (*big.Int)(a.GasPrice), Gas: gas, To: a.To, Value: value, Data: data}), nil
	case types.AccessListTxType:
		return types.NewTx(&types.AccessListTx{ChainID: chain, Nonce: nonce, GasPrice: (*big.Int)(a.GasPrice), Gas: gas, To: a.To, Value: value, Data: data, AccessList: list}), nil
	}
	tip, most := (*big.Int)(a.MaxPriorityFeePerGas), (*big.Int)(a.MaxFeePerGas)
	if tip.Cmp(most) > 0 {
		return nil, invalid("maxPriorityFeePerGas is above maxFeePerGas: lower it")
	}
	if kind == types.DynamicFeeTxType {
		return types.NewTx(&types.DynamicFeeTx{ChainID: chain, Nonce: nonce, GasTipCap: tip, GasFeeCap: most, Gas: gas, To: a.To, Value: value, Data: data, AccessList: list}), nil
	}
	return types.NewTx(&types.SetCodeTx{
		ChainID: uint256.MustFromBig(chain), Nonce: nonce, GasTipCap: uint256.MustFromBig(tip), GasFeeCap: uint256.MustFromBig(most),
		Gas: gas, To: *a.To, Value: uint256.MustFromBig(value), Data: data, AccessList: list, AuthList: a.AuthorizationList,
	}), nil
}

// kind is the type that was asked for, or the one that the fields imply.
func (a *TxArgs) kind() (uint64, error) {
	implied := uint64(types.LegacyTxType)
	switch {
	case a.AuthorizationList != nil:
		implied = types.SetCodeTxType
	case a.MaxFeePerGas != nil || a.MaxPriorityFeePerGas != nil:
		implied = types.DynamicFeeTxType
	case a.AccessList != nil:
		implied = types.AccessListTxType
	}
	if a.Type == nil {
		return implied, nil
	}
	kind := uint64(*a.Type)
	switch {
	case kind == 3 || kind > types.SetCodeTxType:
		return 0, invalid("transactions of type %d are not supported: use 0, 1, 2 or 4", kind)
	case kind < implied && (implied != types.AccessListTxType || len(*a.AccessList) > 0):
		return 0, invalid("the transaction says type %d but has fields of type %d: leave the type out, or the fields", kind, implied)
	}
	return kind, nil
}

// complete names what is missing, or out of place.
func (a *TxArgs) complete(kind uint64) error {
	var missing []string
	need := func(there bool, name string) {
		if !there {
			missing = append(missing, name)
		}
	}
	need(a.From != nil, "from")
	need(a.ChainID != nil && (*big.Int)(a.ChainID).Sign() > 0, "chainId")
	need(a.Nonce != nil, "nonce")
	need(a.Gas != nil, "gas")
	if kind <= types.AccessListTxType {
		need(a.GasPrice != nil, "gasPrice")
	} else {
		need(a.MaxFeePerGas != nil, "maxFeePerGas")
		need(a.MaxPriorityFeePerGas != nil, "maxPriorityFeePerGas")
	}
	if kind == types.SetCodeTxType {
		need(a.To != nil, "to")
		need(len(a.AuthorizationList) > 0, "authorizationList")
	}
	if len(missing) > 0 {
		return invalid("the transaction lacks %s: the wallet knows no node, so fill it in (borcli does)", strings.Join(missing, ", "))
	}
	if kind >= types.DynamicFeeTxType && a.GasPrice != nil {
		return invalid("a transaction of type %d has no gasPrice: leave it out, or maxFeePerGas and maxPriorityFeePerGas", kind)
	}
	if len(a.AuthorizationList) > MaxAuthorizations {
		return invalid("the transaction has %d authorizations, %d are allowed: split it", len(a.AuthorizationList), MaxAuthorizations)
	}
	entries := 0
	if a.AccessList != nil {
		entries = len(*a.AccessList) + a.AccessList.StorageKeys()
	}
	if entries > MaxListEntries {
		return invalid("the access list has %d entries, %d are allowed: shorten it", entries, MaxListEntries)
	}
	return nil
}

func (a *TxArgs) data() ([]byte, error) {
	if a.Data != nil && a.Input != nil && !bytes.Equal(*a.Data, *a.Input) {
		return nil, invalid("data and input differ: give one of them")
	}
	var data []byte
	if a.Input != nil {
		data = *a.Input
	} else if a.Data != nil {
		data = *a.Data
	}
	if len(data) > MaxData {
		return nil, invalid("the transaction has %d bytes of data, %d are allowed: split it", len(data), MaxData)
	}
	if a.To == nil && len(data) == 0 {
		return nil, invalid("the transaction has neither a recipient nor data: fill in to, or the code to deploy")
	}
	return data, nil
}
