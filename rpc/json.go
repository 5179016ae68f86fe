package rpc

import (
	"math/big"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// headerJSON has the keys of the execution API specification; the hash that clients compute from them is the block's.
type headerJSON struct {
	Number           *hexutil.Big     `json:"number"`
	Hash             common.Hash      `json:"hash"`
	ParentHash       common.Hash      `json:"parentHash"`
	Nonce            types.BlockNonce `json:"nonce"`
	MixHash          common.Hash      `json:"mixHash"`
	Sha3Uncles       common.Hash      `json:"sha3Uncles"`
	LogsBloom        types.Bloom      `json:"logsBloom"`
	StateRoot        common.Hash      `json:"stateRoot"`
	Miner            common.Address   `json:"miner"`
	Difficulty       *hexutil.Big     `json:"difficulty"`
	ExtraData        hexutil.Bytes    `json:"extraData"`
	GasLimit         hexutil.Uint64   `json:"gasLimit"`
	GasUsed          hexutil.Uint64   `json:"gasUsed"`
	Timestamp        hexutil.Uint64   `json:"timestamp"`
	TransactionsRoot common.Hash      `json:"transactionsRoot"`
	ReceiptsRoot     common.Hash      `json:"receiptsRoot"`
	BaseFeePerGas    *hexutil.Big     `json:"baseFeePerGas,omitempty"`
	WithdrawalsRoot  *common.Hash     `json:"withdrawalsRoot,omitempty"`
	BlobGasUsed      *hexutil.Uint64  `json:"blobGasUsed,omitempty"`
	ExcessBlobGas    *hexutil.Uint64  `json:"excessBlobGas,omitempty"`
	ParentBeaconRoot *common.Hash     `json:"parentBeaconBlockRoot,omitempty"`
	RequestsHash     *common.Hash     `json:"requestsHash,omitempty"`
}

type blockJSON struct {
	*headerJSON
	Size         hexutil.Uint64      `json:"size"`
	Transactions any                 `json:"transactions"` // []common.Hash or []*transactionJSON
	Uncles       []common.Hash       `json:"uncles"`
	Withdrawals  []*types.Withdrawal `json:"withdrawals"`
}

func headerOf(h *types.Header, hash common.Hash) *headerJSON {
	return &headerJSON{
		Number: (*hexutil.Big)(h.Number), Hash: hash, ParentHash: h.ParentHash, Nonce: h.Nonce, MixHash: h.MixDigest,
		Sha3Uncles: h.UncleHash, LogsBloom: h.Bloom, StateRoot: h.Root, Miner: h.Coinbase, Difficulty: (*hexutil.Big)(h.Difficulty),
		ExtraData: h.Extra, GasLimit: hexutil.Uint64(h.GasLimit), GasUsed: hexutil.Uint64(h.GasUsed), Timestamp: hexutil.Uint64(h.Time),
		TransactionsRoot: h.TxHash, ReceiptsRoot: h.ReceiptHash, BaseFeePerGas: (*hexutil.Big)(h.BaseFee),
		WithdrawalsRoot: h.WithdrawalsHash, BlobGasUsed: (*hexutil.Uint64)(h.BlobGasUsed), ExcessBlobGas: (*hexutil.Uint64)(h.ExcessBlobGas),
		ParentBeaconRoot: h.ParentBeaconRoot, RequestsHash: h.RequestsHash,
	}
}

func blockOf(b *block.Block, full bool) *blockJSON {
	j := &blockJSON{
		headerJSON: headerOf(b.Header, b.Hash()), Size: hexutil.Uint64(b.Ethereum().Size()),
		Uncles: []common.Hash{}, Withdrawals: []*types.Withdrawal{},
	}
	if !full {
		hashes := make([]common.Hash, len(b.Transactions))
		for i, tx := range b.Transactions {
			hashes[i] = tx.Hash()
		}
		j.Transactions = hashes
		return j
	}
	txs := make([]*transactionJSON, len(b.Transactions))
	for i := range txs {
		txs[i] = transactionIn(b, uint64(i))
	}
	j.Transactions = txs
	return j
}

type transactionJSON struct {
	BlockHash         *common.Hash                 `json:"blockHash"`
	BlockNumber       *hexutil.Big                 `json:"blockNumber"`
	BlockTimestamp    *hexutil.Uint64              `json:"blockTimestamp"`
	From              common.Address               `json:"from"`
	Gas               hexutil.Uint64               `json:"gas"`
	GasPrice          *hexutil.Big                 `json:"gasPrice"`
	MaxFeePerGas      *hexutil.Big                 `json:"maxFeePerGas,omitempty"`
	MaxPriorityFee    *hexutil.Big                 `json:"maxPriorityFeePerGas,omitempty"`
	Hash              common.Hash                  `json:"hash"`
	Input             hexutil.Bytes                `json:"input"`
	Nonce             hexutil.Uint64               `json:"nonce"`
	To                *common.Address              `json:"to"`
	TransactionIndex  *hexutil.Uint64              `json:"transactionIndex"`
	Value             *hexutil.Big                 `json:"value"`
	Type              hexutil.Uint64               `json:"type"`
	AccessList        *types.AccessList            `json:"accessList,omitempty"`
	ChainID           *hexutil.Big                 `json:"chainId,omitempty"`
	AuthorizationList []types.SetCodeAuthorization `json:"authorizationList,omitempty"`
	V                 *hexutil.Big                 `json:"v"`
	R                 *hexutil.Big                 `json:"r"`
	S                 *hexutil.Big                 `json:"s"`
	YParity           *hexutil.Uint64              `json:"yParity,omitempty"`
}

// transactionOf shows a transaction that is in no block.
func transactionOf(tx *types.Transaction, from common.Address) *transactionJSON {
	v, r, s := tx.RawSignatureValues()
	j := &transactionJSON{
		From: from, Gas: hexutil.Uint64(tx.Gas()), GasPrice: (*hexutil.Big)(tx.GasPrice()), Hash: tx.Hash(), Input: tx.Data(),
		Nonce: hexutil.Uint64(tx.Nonce()), To: tx.To(), Value: (*hexutil.Big)(tx.Value()), Type: hexutil.Uint64(tx.Type()),
		V: (*hexutil.Big)(v), R: (*hexutil.Big)(r), S: (*hexutil.Big)(s),
	}
	if id := tx.ChainId(); id.Sign() != 0 {
		j.ChainID = (*hexutil.Big)(id)
	}
	if tx.Type() == types.LegacyTxType {
		return j
	}
	al, parity := tx.AccessList(), hexutil.Uint64(v.Uint64())
	j.AccessList, j.YParity = &al, &parity
	if tx.Type() != types.AccessListTxType {
		j.MaxFeePerGas, j.MaxPriorityFee = (*hexutil.Big)(tx.GasFeeCap()), (*hexutil.Big)(tx.GasTipCap())
		j.AuthorizationList = tx.SetCodeAuthorizations()
	}
	return j
}

// transactionIn shows the transaction at an index of a block.
func transactionIn(b *block.Block, index uint64) *transactionJSON {
	tx, hash, at := b.Transactions[index], b.Hash(), hexutil.Uint64(b.Header.Time)
	j := transactionOf(tx, b.Senders[index])
	j.BlockHash, j.BlockNumber, j.BlockTimestamp = &hash, (*hexutil.Big)(b.Header.Number), &at
	j.TransactionIndex = (*hexutil.Uint64)(&index)
	j.GasPrice = (*hexutil.Big)(paidPrice(tx, b.Header.BaseFee))
	return j
}

// paidPrice is what a transaction pays per gas in a block with this base fee.
func paidPrice(tx *types.Transaction, baseFee *big.Int) *big.Int {
	if baseFee == nil {
		return tx.GasPrice()
	}
	p := new(big.Int).Add(tx.GasTipCap(), baseFee)
	if p.Cmp(tx.GasFeeCap()) > 0 {
		return tx.GasFeeCap()
	}
	return p
}

type receiptJSON struct {
	BlockHash         common.Hash     `json:"blockHash"`
	BlockNumber       *hexutil.Big    `json:"blockNumber"`
	TransactionHash   common.Hash     `json:"transactionHash"`
	TransactionIndex  hexutil.Uint64  `json:"transactionIndex"`
	From              common.Address  `json:"from"`
	To                *common.Address `json:"to"`
	GasUsed           hexutil.Uint64  `json:"gasUsed"`
	CumulativeGasUsed hexutil.Uint64  `json:"cumulativeGasUsed"`
	ContractAddress   *common.Address `json:"contractAddress"`
	Logs              []*types.Log    `json:"logs"`
	LogsBloom         types.Bloom     `json:"logsBloom"`
	Type              hexutil.Uint64  `json:"type"`
	EffectiveGasPrice *hexutil.Big    `json:"effectiveGasPrice"`
	Status            hexutil.Uint64  `json:"status"`
}

func receiptOf(b *block.Block, r *types.Receipt, index int) *receiptJSON {
	tx := b.Transactions[index]
	j := &receiptJSON{
		BlockHash: b.Hash(), BlockNumber: (*hexutil.Big)(b.Header.Number), TransactionHash: tx.Hash(),
		TransactionIndex: hexutil.Uint64(index), From: b.Senders[index], To: tx.To(), GasUsed: hexutil.Uint64(r.GasUsed),
		CumulativeGasUsed: hexutil.Uint64(r.CumulativeGasUsed), Logs: r.Logs, LogsBloom: r.Bloom, Type: hexutil.Uint64(tx.Type()),
		EffectiveGasPrice: (*hexutil.Big)(paidPrice(tx, b.Header.BaseFee)), Status: hexutil.Uint64(r.Status),
	}
	if j.Logs == nil {
		j.Logs = []*types.Log{}
	}
	if r.ContractAddress != (common.Address{}) {
		j.ContractAddress = &r.ContractAddress
	}
	return j
}
