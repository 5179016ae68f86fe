package forge

import (
	"crypto/ecdsa"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"
)

const (
	tokenGas       = 120_000   // of one transfer of tokens, at most
	deploymentGas  = 1_000_000 // of the token contract
	tokensAtFirst  = 1_000_000 // tokens that every account gets
	selectorBytes  = 4         // of a call's data, then words of 32 bytes
	selectorOffset = 28        // of the selector in a word
)

var (
	transferSelector = crypto.Keccak256([]byte("transfer(address,uint256)"))[:selectorBytes]
	transferEvent    = crypto.Keccak256([]byte("Transfer(address,address,uint256)"))
)

// tokenCode is the code that deploys a token: transfer(address,uint256) of ERC-20 with its event Transfer, balances in a
// mapping at slot 0, as compilers lay it out. Who deploys it owns all tokens.
func tokenCode() []byte {
	p := program.New()
	p.Push(transferSelector).Push0().Op(vm.CALLDATALOAD).Push(8*selectorOffset).Op(vm.SHR, vm.EQ)
	// balance of the sender, less the amount
	p.Op(vm.CALLER).Push0().Op(vm.MSTORE).Push(64).Push0().Op(vm.KECCAK256) // selector's check, slot
	p.Op(vm.DUP1, vm.SLOAD)                                                 // check, slot, balance
	p.Push(36).Op(vm.CALLDATALOAD, vm.DUP1, vm.DUP3, vm.LT, vm.ISZERO)      // check, slot, balance, amount, enough
	p.Op(vm.DUP5, vm.AND)
	jump := p.Size() + 5 // PUSH1 target, JUMPI, PUSH0 PUSH0 REVERT
	p.Push(jump+1).Op(vm.JUMPI, vm.PUSH0, vm.PUSH0, vm.REVERT)
	p.Jumpdest()
	p.Op(vm.SWAP1, vm.SUB, vm.SWAP1, vm.SSTORE) // check
	// balance of the recipient, and the amount
	p.Push(selectorBytes).Op(vm.CALLDATALOAD).Push0().Op(vm.MSTORE).Push(64).Push0().Op(vm.KECCAK256)
	p.Op(vm.DUP1, vm.SLOAD).Push(36).Op(vm.CALLDATALOAD, vm.ADD, vm.SWAP1, vm.SSTORE)
	// Transfer(sender, recipient, amount), and true
	p.Push(36).Op(vm.CALLDATALOAD).Push0().Op(vm.MSTORE)
	p.Push(selectorBytes).Op(vm.CALLDATALOAD, vm.CALLER).Push(transferEvent).Push(32).Push0().Op(vm.LOG3)
	p.Push(1).Push0().Op(vm.MSTORE).Return(0, 32)

	d := program.New()
	d.Op(vm.CALLER).Push0().Op(vm.MSTORE).Push(128).Push(1).Op(vm.SWAP1, vm.SHL).Push(64).Push0().Op(vm.KECCAK256, vm.SSTORE)
	return d.ReturnViaCodeCopy(p.Bytes()).Bytes()
}

// transferCall is the call data of transfer(to, amount).
func transferCall(to common.Address, amount int64) []byte {
	data := append([]byte(nil), transferSelector...)
	data = append(data, common.LeftPadBytes(to[:], 32)...)
	return append(data, common.LeftPadBytes(big.NewInt(amount).Bytes(), 32)...)
}

// tokenOf is the address of the token that the key deploys with its first transaction.
func tokenOf(deployer *ecdsa.PrivateKey) common.Address {
	return crypto.CreateAddress(crypto.PubkeyToAddress(deployer.PublicKey), 0)
}

// deployToken are the blocks that begin a history of tokens: the contract, then tokens for every account.
func deployToken(p Plan, deployer *ecdsa.PrivateKey, accounts []common.Address) (blocks [][]*types.Transaction) {
	signer, token := types.LatestSignerForChainID(big.NewInt(ChainID)), tokenOf(deployer)
	sign := func(nonce uint64, gas uint64, to *common.Address, data []byte) *types.Transaction {
		tx, _ := types.SignNewTx(deployer, signer, &types.LegacyTx{Nonce: nonce, GasPrice: new(big.Int), Gas: gas, To: to, Data: data}) // a valid key signs
		return tx
	}
	blocks = append(blocks, []*types.Transaction{sign(0, deploymentGas, nil, tokenCode())})
	for i := range accounts {
		if i%p.Txs == 0 {
			blocks = append(blocks, nil)
		}
		last := len(blocks) - 1
		blocks[last] = append(blocks[last], sign(uint64(i)+1, tokenGas, &token, transferCall(accounts[i], tokensAtFirst))) //nolint:gosec // an index
	}
	return blocks
}
