// Code generated via abigen V2 - DO NOT EDIT.
// This file is a generated binding and any manual changes will be lost.

package contracts

import (
	"bytes"
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/accounts/abi/bind/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// Reference imports to suppress errors if they are not otherwise used.
var (
	_ = bytes.Equal
	_ = errors.New
	_ = big.NewInt
	_ = common.Big1
	_ = types.BloomLookup
	_ = abi.ConvertType
)

// BaseAccount is an auto generated low-level Go binding around an user-defined struct.
type BaseAccount struct {
	Stake   *big.Int
	Voted   *big.Int
	Leaving *big.Int
	ReadyAt uint64
}

// BaseBallot is an auto generated low-level Go binding around an user-defined struct.
type BaseBallot struct {
	Producer common.Address
	Amount   *big.Int
}

// BaseCandidate is an auto generated low-level Go binding around an user-defined struct.
type BaseCandidate struct {
	Key         uint32
	Place       uint32
	Seated      uint8
	Resigned    bool
	Guilty      bool
	JailedUntil uint64
	Reported    uint64
	Votes       *big.Int
	LeftAt      uint64
	Missed      uint64
}

// BaseSettings is an auto generated low-level Go binding around an user-defined struct.
type BaseSettings struct {
	GenesisTime     uint64
	SlotMillis      uint64
	EpochBlocks     uint64
	Seats           uint16
	MinProducers    uint16
	JailTurns       uint16
	SlashPercent    uint8
	EvidenceSeconds uint64
	WithdrawSeconds uint64
	UnjailSeconds   uint64
	MinStake        *big.Int
}

// VotesVote is an auto generated low-level Go binding around an user-defined struct.
type VotesVote struct {
	Kind       uint8
	SourceSlot uint64
	SourceHash [32]byte
	TargetSlot uint64
	TargetHash [32]byte
	Signature  []byte
}

// ProducersMetaData contains all meta data concerning the Producers contract.
var ProducersMetaData = bind.MetaData{
	ABI: "[{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint256\",\"name\":\"amount\",\"type\":\"uint256\"}],\"name\":\"Deposited\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"epoch\",\"type\":\"uint64\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"emptyTurns\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"until\",\"type\":\"uint64\"}],\"name\":\"Jailed\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"top\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"bytes32\",\"name\":\"next\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"topSlot\",\"type\":\"uint64\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"lowSlot\",\"type\":\"uint64\"}],\"name\":\"PathProven\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"Pruned\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"bytes\",\"name\":\"key\",\"type\":\"bytes\"}],\"name\":\"Registered\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"Rejoined\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"epoch\",\"type\":\"uint64\"}],\"name\":\"Reported\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"Resigned\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"Revoked\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"uint64\",\"name\":\"epoch\",\"type\":\"uint64\"},{\"indexed\":false,\"internalType\":\"address[]\",\"name\":\"accounts\",\"type\":\"address[]\"}],\"name\":\"ScheduleChosen\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint8\",\"name\":\"rule\",\"type\":\"uint8\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"slot\",\"type\":\"uint64\"},{\"indexed\":false,\"internalType\":\"uint256\",\"name\":\"amount\",\"type\":\"uint256\"}],\"name\":\"Slashed\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"Unjailed\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":true,\"internalType\":\"address\",\"name\":\"producer\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint256\",\"name\":\"amount\",\"type\":\"uint256\"}],\"name\":\"Unvoted\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":true,\"internalType\":\"address\",\"name\":\"producer\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint256\",\"name\":\"amount\",\"type\":\"uint256\"}],\"name\":\"Voted\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint256\",\"name\":\"amount\",\"type\":\"uint256\"},{\"indexed\":false,\"internalType\":\"uint256\",\"name\":\"readyAt\",\"type\":\"uint256\"}],\"name\":\"WithdrawalRequested\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint256\",\"name\":\"amount\",\"type\":\"uint256\"}],\"name\":\"Withdrawn\",\"type\":\"event\"},{\"inputs\":[],\"name\":\"MAX_BALLOTS\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"MAX_CANDIDATES\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"active\",\"outputs\":[{\"internalType\":\"address[]\",\"name\":\"accounts\",\"type\":\"address[]\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"}],\"name\":\"ballots\",\"outputs\":[{\"components\":[{\"internalType\":\"address\",\"name\":\"producer\",\"type\":\"address\"},{\"internalType\":\"uint96\",\"name\":\"amount\",\"type\":\"uint96\"}],\"internalType\":\"structBase.Ballot[]\",\"name\":\"\",\"type\":\"tuple[]\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"candidate\",\"outputs\":[{\"components\":[{\"internalType\":\"uint32\",\"name\":\"key\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"place\",\"type\":\"uint32\"},{\"internalType\":\"uint8\",\"name\":\"seated\",\"type\":\"uint8\"},{\"internalType\":\"bool\",\"name\":\"resigned\",\"type\":\"bool\"},{\"internalType\":\"bool\",\"name\":\"guilty\",\"type\":\"bool\"},{\"internalType\":\"uint64\",\"name\":\"jailedUntil\",\"type\":\"uint64\"},{\"internalType\":\"uint64\",\"name\":\"reported\",\"type\":\"uint64\"},{\"internalType\":\"uint96\",\"name\":\"votes\",\"type\":\"uint96\"},{\"internalType\":\"uint64\",\"name\":\"leftAt\",\"type\":\"uint64\"},{\"internalType\":\"uint64\",\"name\":\"missed\",\"type\":\"uint64\"}],\"internalType\":\"structBase.Candidate\",\"name\":\"info\",\"type\":\"tuple\"},{\"internalType\":\"bytes\",\"name\":\"key\",\"type\":\"bytes\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"candidates\",\"outputs\":[{\"internalType\":\"address[]\",\"name\":\"\",\"type\":\"address[]\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"deposit\",\"outputs\":[],\"stateMutability\":\"payable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint64\",\"name\":\"ended\",\"type\":\"uint64\"},{\"internalType\":\"bytes\",\"name\":\"missed\",\"type\":\"bytes\"}],\"name\":\"endEpoch\",\"outputs\":[{\"internalType\":\"address[]\",\"name\":\"accounts\",\"type\":\"address[]\"},{\"internalType\":\"bytes[]\",\"name\":\"keys\",\"type\":\"bytes[]\"}],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"epoch\",\"outputs\":[{\"internalType\":\"uint64\",\"name\":\"\",\"type\":\"uint64\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes\",\"name\":\"header1\",\"type\":\"bytes\"},{\"internalType\":\"bytes\",\"name\":\"seal1\",\"type\":\"bytes\"},{\"internalType\":\"bytes\",\"name\":\"header2\",\"type\":\"bytes\"},{\"internalType\":\"bytes\",\"name\":\"seal2\",\"type\":\"bytes\"},{\"internalType\":\"bytes\",\"name\":\"record1\",\"type\":\"bytes\"},{\"internalType\":\"bytes\",\"name\":\"record2\",\"type\":\"bytes\"}],\"name\":\"evidenceSeal\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes\",\"name\":\"key128\",\"type\":\"bytes\"},{\"components\":[{\"internalType\":\"uint8\",\"name\":\"kind\",\"type\":\"uint8\"},{\"internalType\":\"uint64\",\"name\":\"sourceSlot\",\"type\":\"uint64\"},{\"internalType\":\"bytes32\",\"name\":\"sourceHash\",\"type\":\"bytes32\"},{\"internalType\":\"uint64\",\"name\":\"targetSlot\",\"type\":\"uint64\"},{\"internalType\":\"bytes32\",\"name\":\"targetHash\",\"type\":\"bytes32\"},{\"internalType\":\"bytes\",\"name\":\"signature\",\"type\":\"bytes\"}],\"internalType\":\"structVotes.Vote\",\"name\":\"first\",\"type\":\"tuple\"},{\"components\":[{\"internalType\":\"uint8\",\"name\":\"kind\",\"type\":\"uint8\"},{\"internalType\":\"uint64\",\"name\":\"sourceSlot\",\"type\":\"uint64\"},{\"internalType\":\"bytes32\",\"name\":\"sourceHash\",\"type\":\"bytes32\"},{\"internalType\":\"uint64\",\"name\":\"targetSlot\",\"type\":\"uint64\"},{\"internalType\":\"bytes32\",\"name\":\"targetHash\",\"type\":\"bytes32\"},{\"internalType\":\"bytes\",\"name\":\"signature\",\"type\":\"bytes\"}],\"internalType\":\"structVotes.Vote\",\"name\":\"second\",\"type\":\"tuple\"},{\"internalType\":\"bytes[]\",\"name\":\"headers\",\"type\":\"bytes[]\"},{\"internalType\":\"bytes[]\",\"name\":\"records\",\"type\":\"bytes[]\"}],\"name\":\"evidenceVotes\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"genesisHash\",\"outputs\":[{\"internalType\":\"bytes32\",\"name\":\"\",\"type\":\"bytes32\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"isActive\",\"outputs\":[{\"internalType\":\"bool\",\"name\":\"\",\"type\":\"bool\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes\",\"name\":\"key48\",\"type\":\"bytes\"}],\"name\":\"keyOwner\",\"outputs\":[{\"internalType\":\"address\",\"name\":\"\",\"type\":\"address\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"},{\"internalType\":\"bytes\",\"name\":\"key48\",\"type\":\"bytes\"}],\"name\":\"possessionDigest\",\"outputs\":[{\"internalType\":\"bytes32\",\"name\":\"\",\"type\":\"bytes32\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes[]\",\"name\":\"headers\",\"type\":\"bytes[]\"},{\"internalType\":\"bytes[]\",\"name\":\"records\",\"type\":\"bytes[]\"}],\"name\":\"provePath\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"prune\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"quorum\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes\",\"name\":\"key48\",\"type\":\"bytes\"},{\"internalType\":\"bytes\",\"name\":\"key128\",\"type\":\"bytes\"},{\"internalType\":\"bytes\",\"name\":\"proof\",\"type\":\"bytes\"}],\"name\":\"register\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"rejoin\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"reportStandby\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint96\",\"name\":\"amount\",\"type\":\"uint96\"}],\"name\":\"requestWithdrawal\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"resign\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"revoke\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"schedule\",\"outputs\":[{\"internalType\":\"address[]\",\"name\":\"accounts\",\"type\":\"address[]\"},{\"internalType\":\"bytes[]\",\"name\":\"keys\",\"type\":\"bytes[]\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"settings\",\"outputs\":[{\"components\":[{\"internalType\":\"uint64\",\"name\":\"genesisTime\",\"type\":\"uint64\"},{\"internalType\":\"uint64\",\"name\":\"slotMillis\",\"type\":\"uint64\"},{\"internalType\":\"uint64\",\"name\":\"epochBlocks\",\"type\":\"uint64\"},{\"internalType\":\"uint16\",\"name\":\"seats\",\"type\":\"uint16\"},{\"internalType\":\"uint16\",\"name\":\"minProducers\",\"type\":\"uint16\"},{\"internalType\":\"uint16\",\"name\":\"jailTurns\",\"type\":\"uint16\"},{\"internalType\":\"uint8\",\"name\":\"slashPercent\",\"type\":\"uint8\"},{\"internalType\":\"uint64\",\"name\":\"evidenceSeconds\",\"type\":\"uint64\"},{\"internalType\":\"uint64\",\"name\":\"withdrawSeconds\",\"type\":\"uint64\"},{\"internalType\":\"uint64\",\"name\":\"unjailSeconds\",\"type\":\"uint64\"},{\"internalType\":\"uint96\",\"name\":\"minStake\",\"type\":\"uint96\"}],\"internalType\":\"structBase.Settings\",\"name\":\"\",\"type\":\"tuple\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"}],\"name\":\"stakeOf\",\"outputs\":[{\"components\":[{\"internalType\":\"uint96\",\"name\":\"stake\",\"type\":\"uint96\"},{\"internalType\":\"uint96\",\"name\":\"voted\",\"type\":\"uint96\"},{\"internalType\":\"uint96\",\"name\":\"leaving\",\"type\":\"uint96\"},{\"internalType\":\"uint64\",\"name\":\"readyAt\",\"type\":\"uint64\"}],\"internalType\":\"structBase.Account\",\"name\":\"\",\"type\":\"tuple\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"totals\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"staked\",\"type\":\"uint256\"},{\"internalType\":\"uint256\",\"name\":\"slashed\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"unjail\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"producer\",\"type\":\"address\"},{\"internalType\":\"uint96\",\"name\":\"amount\",\"type\":\"uint96\"}],\"name\":\"unvote\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes\",\"name\":\"key128\",\"type\":\"bytes\"},{\"internalType\":\"bytes32\",\"name\":\"digest\",\"type\":\"bytes32\"},{\"internalType\":\"bytes\",\"name\":\"signature\",\"type\":\"bytes\"}],\"name\":\"verify\",\"outputs\":[{\"internalType\":\"bool\",\"name\":\"\",\"type\":\"bool\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"producer\",\"type\":\"address\"},{\"internalType\":\"uint96\",\"name\":\"amount\",\"type\":\"uint96\"}],\"name\":\"vote\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"components\":[{\"internalType\":\"uint8\",\"name\":\"kind\",\"type\":\"uint8\"},{\"internalType\":\"uint64\",\"name\":\"sourceSlot\",\"type\":\"uint64\"},{\"internalType\":\"bytes32\",\"name\":\"sourceHash\",\"type\":\"bytes32\"},{\"internalType\":\"uint64\",\"name\":\"targetSlot\",\"type\":\"uint64\"},{\"internalType\":\"bytes32\",\"name\":\"targetHash\",\"type\":\"bytes32\"},{\"internalType\":\"bytes\",\"name\":\"signature\",\"type\":\"bytes\"}],\"internalType\":\"structVotes.Vote\",\"name\":\"v\",\"type\":\"tuple\"}],\"name\":\"voteDigest\",\"outputs\":[{\"internalType\":\"bytes32\",\"name\":\"\",\"type\":\"bytes32\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"withdraw\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"}]",
	ID:  "Producers",
}

// Producers is an auto generated Go binding around an Ethereum contract.
type Producers struct {
	abi abi.ABI
}

// GetABI returns the ABI associated with this contract binding.
func (c *Producers) GetABI() abi.ABI {
	return c.abi
}

// NewProducers creates a new instance of Producers.
func NewProducers() *Producers {
	parsed, err := ProducersMetaData.ParseABI()
	if err != nil {
		panic(errors.New("invalid ABI: " + err.Error()))
	}
	return &Producers{abi: *parsed}
}

// Instance creates a wrapper for a deployed contract instance at the given address.
// Use this to create the instance object passed to abigen v2 library functions Call, Transact, etc.
func (c *Producers) Instance(backend bind.ContractBackend, addr common.Address) *bind.BoundContract {
	return bind.NewBoundContract(addr, c.abi, backend, backend, backend)
}

// PackMAXBALLOTS is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x8a26dbea.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function MAX_BALLOTS() view returns(uint256)
func (producers *Producers) PackMAXBALLOTS() []byte {
	enc, err := producers.abi.Pack("MAX_BALLOTS")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMAXBALLOTS is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x8a26dbea.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function MAX_BALLOTS() view returns(uint256)
func (producers *Producers) TryPackMAXBALLOTS() ([]byte, error) {
	return producers.abi.Pack("MAX_BALLOTS")
}

// UnpackMAXBALLOTS is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x8a26dbea.
//
// Solidity: function MAX_BALLOTS() view returns(uint256)
func (producers *Producers) UnpackMAXBALLOTS(data []byte) (*big.Int, error) {
	out, err := producers.abi.Unpack("MAX_BALLOTS", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackMAXCANDIDATES is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf0786096.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function MAX_CANDIDATES() view returns(uint256)
func (producers *Producers) PackMAXCANDIDATES() []byte {
	enc, err := producers.abi.Pack("MAX_CANDIDATES")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMAXCANDIDATES is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf0786096.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function MAX_CANDIDATES() view returns(uint256)
func (producers *Producers) TryPackMAXCANDIDATES() ([]byte, error) {
	return producers.abi.Pack("MAX_CANDIDATES")
}

// UnpackMAXCANDIDATES is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xf0786096.
//
// Solidity: function MAX_CANDIDATES() view returns(uint256)
func (producers *Producers) UnpackMAXCANDIDATES(data []byte) (*big.Int, error) {
	out, err := producers.abi.Unpack("MAX_CANDIDATES", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackActive is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x02fb0c5e.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function active() view returns(address[] accounts)
func (producers *Producers) PackActive() []byte {
	enc, err := producers.abi.Pack("active")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackActive is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x02fb0c5e.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function active() view returns(address[] accounts)
func (producers *Producers) TryPackActive() ([]byte, error) {
	return producers.abi.Pack("active")
}

// UnpackActive is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x02fb0c5e.
//
// Solidity: function active() view returns(address[] accounts)
func (producers *Producers) UnpackActive(data []byte) ([]common.Address, error) {
	out, err := producers.abi.Unpack("active", data)
	if err != nil {
		return *new([]common.Address), err
	}
	out0 := *abi.ConvertType(out[0], new([]common.Address)).(*[]common.Address)
	return out0, nil
}

// PackBallots is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x27cf3844.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function ballots(address owner) view returns((address,uint96)[])
func (producers *Producers) PackBallots(owner common.Address) []byte {
	enc, err := producers.abi.Pack("ballots", owner)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackBallots is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x27cf3844.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function ballots(address owner) view returns((address,uint96)[])
func (producers *Producers) TryPackBallots(owner common.Address) ([]byte, error) {
	return producers.abi.Pack("ballots", owner)
}

// UnpackBallots is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x27cf3844.
//
// Solidity: function ballots(address owner) view returns((address,uint96)[])
func (producers *Producers) UnpackBallots(data []byte) ([]BaseBallot, error) {
	out, err := producers.abi.Unpack("ballots", data)
	if err != nil {
		return *new([]BaseBallot), err
	}
	out0 := *abi.ConvertType(out[0], new([]BaseBallot)).(*[]BaseBallot)
	return out0, nil
}

// PackCandidate is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xbf4c988e.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function candidate(address account) view returns((uint32,uint32,uint8,bool,bool,uint64,uint64,uint96,uint64,uint64) info, bytes key)
func (producers *Producers) PackCandidate(account common.Address) []byte {
	enc, err := producers.abi.Pack("candidate", account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackCandidate is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xbf4c988e.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function candidate(address account) view returns((uint32,uint32,uint8,bool,bool,uint64,uint64,uint96,uint64,uint64) info, bytes key)
func (producers *Producers) TryPackCandidate(account common.Address) ([]byte, error) {
	return producers.abi.Pack("candidate", account)
}

// CandidateOutput serves as a container for the return parameters of contract
// method Candidate.
type CandidateOutput struct {
	Info BaseCandidate
	Key  []byte
}

// UnpackCandidate is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xbf4c988e.
//
// Solidity: function candidate(address account) view returns((uint32,uint32,uint8,bool,bool,uint64,uint64,uint96,uint64,uint64) info, bytes key)
func (producers *Producers) UnpackCandidate(data []byte) (CandidateOutput, error) {
	out, err := producers.abi.Unpack("candidate", data)
	outstruct := new(CandidateOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Info = *abi.ConvertType(out[0], new(BaseCandidate)).(*BaseCandidate)
	outstruct.Key = *abi.ConvertType(out[1], new([]byte)).(*[]byte)
	return *outstruct, nil
}

// PackCandidates is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x6f0470aa.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function candidates() view returns(address[])
func (producers *Producers) PackCandidates() []byte {
	enc, err := producers.abi.Pack("candidates")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackCandidates is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x6f0470aa.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function candidates() view returns(address[])
func (producers *Producers) TryPackCandidates() ([]byte, error) {
	return producers.abi.Pack("candidates")
}

// UnpackCandidates is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x6f0470aa.
//
// Solidity: function candidates() view returns(address[])
func (producers *Producers) UnpackCandidates(data []byte) ([]common.Address, error) {
	out, err := producers.abi.Unpack("candidates", data)
	if err != nil {
		return *new([]common.Address), err
	}
	out0 := *abi.ConvertType(out[0], new([]common.Address)).(*[]common.Address)
	return out0, nil
}

// PackDeposit is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd0e30db0.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function deposit() payable returns()
func (producers *Producers) PackDeposit() []byte {
	enc, err := producers.abi.Pack("deposit")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackDeposit is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd0e30db0.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function deposit() payable returns()
func (producers *Producers) TryPackDeposit() ([]byte, error) {
	return producers.abi.Pack("deposit")
}

// PackEndEpoch is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3ea265cd.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function endEpoch(uint64 ended, bytes missed) returns(address[] accounts, bytes[] keys)
func (producers *Producers) PackEndEpoch(ended uint64, missed []byte) []byte {
	enc, err := producers.abi.Pack("endEpoch", ended, missed)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackEndEpoch is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3ea265cd.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function endEpoch(uint64 ended, bytes missed) returns(address[] accounts, bytes[] keys)
func (producers *Producers) TryPackEndEpoch(ended uint64, missed []byte) ([]byte, error) {
	return producers.abi.Pack("endEpoch", ended, missed)
}

// EndEpochOutput serves as a container for the return parameters of contract
// method EndEpoch.
type EndEpochOutput struct {
	Accounts []common.Address
	Keys     [][]byte
}

// UnpackEndEpoch is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x3ea265cd.
//
// Solidity: function endEpoch(uint64 ended, bytes missed) returns(address[] accounts, bytes[] keys)
func (producers *Producers) UnpackEndEpoch(data []byte) (EndEpochOutput, error) {
	out, err := producers.abi.Unpack("endEpoch", data)
	outstruct := new(EndEpochOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Accounts = *abi.ConvertType(out[0], new([]common.Address)).(*[]common.Address)
	outstruct.Keys = *abi.ConvertType(out[1], new([][]byte)).(*[][]byte)
	return *outstruct, nil
}

// PackEpoch is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x900cf0cf.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function epoch() view returns(uint64)
func (producers *Producers) PackEpoch() []byte {
	enc, err := producers.abi.Pack("epoch")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackEpoch is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x900cf0cf.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function epoch() view returns(uint64)
func (producers *Producers) TryPackEpoch() ([]byte, error) {
	return producers.abi.Pack("epoch")
}

// UnpackEpoch is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x900cf0cf.
//
// Solidity: function epoch() view returns(uint64)
func (producers *Producers) UnpackEpoch(data []byte) (uint64, error) {
	out, err := producers.abi.Unpack("epoch", data)
	if err != nil {
		return *new(uint64), err
	}
	out0 := *abi.ConvertType(out[0], new(uint64)).(*uint64)
	return out0, nil
}

// PackEvidenceSeal is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xb6d33b69.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function evidenceSeal(bytes header1, bytes seal1, bytes header2, bytes seal2, bytes record1, bytes record2) returns()
func (producers *Producers) PackEvidenceSeal(header1 []byte, seal1 []byte, header2 []byte, seal2 []byte, record1 []byte, record2 []byte) []byte {
	enc, err := producers.abi.Pack("evidenceSeal", header1, seal1, header2, seal2, record1, record2)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackEvidenceSeal is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xb6d33b69.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function evidenceSeal(bytes header1, bytes seal1, bytes header2, bytes seal2, bytes record1, bytes record2) returns()
func (producers *Producers) TryPackEvidenceSeal(header1 []byte, seal1 []byte, header2 []byte, seal2 []byte, record1 []byte, record2 []byte) ([]byte, error) {
	return producers.abi.Pack("evidenceSeal", header1, seal1, header2, seal2, record1, record2)
}

// PackEvidenceVotes is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4ce69a33.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function evidenceVotes(bytes key128, (uint8,uint64,bytes32,uint64,bytes32,bytes) first, (uint8,uint64,bytes32,uint64,bytes32,bytes) second, bytes[] headers, bytes[] records) returns()
func (producers *Producers) PackEvidenceVotes(key128 []byte, first VotesVote, second VotesVote, headers [][]byte, records [][]byte) []byte {
	enc, err := producers.abi.Pack("evidenceVotes", key128, first, second, headers, records)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackEvidenceVotes is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4ce69a33.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function evidenceVotes(bytes key128, (uint8,uint64,bytes32,uint64,bytes32,bytes) first, (uint8,uint64,bytes32,uint64,bytes32,bytes) second, bytes[] headers, bytes[] records) returns()
func (producers *Producers) TryPackEvidenceVotes(key128 []byte, first VotesVote, second VotesVote, headers [][]byte, records [][]byte) ([]byte, error) {
	return producers.abi.Pack("evidenceVotes", key128, first, second, headers, records)
}

// PackGenesisHash is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x94391a6d.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function genesisHash() view returns(bytes32)
func (producers *Producers) PackGenesisHash() []byte {
	enc, err := producers.abi.Pack("genesisHash")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackGenesisHash is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x94391a6d.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function genesisHash() view returns(bytes32)
func (producers *Producers) TryPackGenesisHash() ([]byte, error) {
	return producers.abi.Pack("genesisHash")
}

// UnpackGenesisHash is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x94391a6d.
//
// Solidity: function genesisHash() view returns(bytes32)
func (producers *Producers) UnpackGenesisHash(data []byte) ([32]byte, error) {
	out, err := producers.abi.Unpack("genesisHash", data)
	if err != nil {
		return *new([32]byte), err
	}
	out0 := *abi.ConvertType(out[0], new([32]byte)).(*[32]byte)
	return out0, nil
}

// PackIsActive is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x9f8a13d7.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function isActive(address account) view returns(bool)
func (producers *Producers) PackIsActive(account common.Address) []byte {
	enc, err := producers.abi.Pack("isActive", account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackIsActive is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x9f8a13d7.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function isActive(address account) view returns(bool)
func (producers *Producers) TryPackIsActive(account common.Address) ([]byte, error) {
	return producers.abi.Pack("isActive", account)
}

// UnpackIsActive is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x9f8a13d7.
//
// Solidity: function isActive(address account) view returns(bool)
func (producers *Producers) UnpackIsActive(data []byte) (bool, error) {
	out, err := producers.abi.Unpack("isActive", data)
	if err != nil {
		return *new(bool), err
	}
	out0 := *abi.ConvertType(out[0], new(bool)).(*bool)
	return out0, nil
}

// PackKeyOwner is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x467d64c9.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function keyOwner(bytes key48) view returns(address)
func (producers *Producers) PackKeyOwner(key48 []byte) []byte {
	enc, err := producers.abi.Pack("keyOwner", key48)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackKeyOwner is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x467d64c9.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function keyOwner(bytes key48) view returns(address)
func (producers *Producers) TryPackKeyOwner(key48 []byte) ([]byte, error) {
	return producers.abi.Pack("keyOwner", key48)
}

// UnpackKeyOwner is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x467d64c9.
//
// Solidity: function keyOwner(bytes key48) view returns(address)
func (producers *Producers) UnpackKeyOwner(data []byte) (common.Address, error) {
	out, err := producers.abi.Unpack("keyOwner", data)
	if err != nil {
		return *new(common.Address), err
	}
	out0 := *abi.ConvertType(out[0], new(common.Address)).(*common.Address)
	return out0, nil
}

// PackPossessionDigest is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x5ea84070.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function possessionDigest(address owner, bytes key48) view returns(bytes32)
func (producers *Producers) PackPossessionDigest(owner common.Address, key48 []byte) []byte {
	enc, err := producers.abi.Pack("possessionDigest", owner, key48)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackPossessionDigest is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x5ea84070.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function possessionDigest(address owner, bytes key48) view returns(bytes32)
func (producers *Producers) TryPackPossessionDigest(owner common.Address, key48 []byte) ([]byte, error) {
	return producers.abi.Pack("possessionDigest", owner, key48)
}

// UnpackPossessionDigest is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x5ea84070.
//
// Solidity: function possessionDigest(address owner, bytes key48) view returns(bytes32)
func (producers *Producers) UnpackPossessionDigest(data []byte) ([32]byte, error) {
	out, err := producers.abi.Unpack("possessionDigest", data)
	if err != nil {
		return *new([32]byte), err
	}
	out0 := *abi.ConvertType(out[0], new([32]byte)).(*[32]byte)
	return out0, nil
}

// PackProvePath is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x741efc0b.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function provePath(bytes[] headers, bytes[] records) returns()
func (producers *Producers) PackProvePath(headers [][]byte, records [][]byte) []byte {
	enc, err := producers.abi.Pack("provePath", headers, records)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackProvePath is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x741efc0b.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function provePath(bytes[] headers, bytes[] records) returns()
func (producers *Producers) TryPackProvePath(headers [][]byte, records [][]byte) ([]byte, error) {
	return producers.abi.Pack("provePath", headers, records)
}

// PackPrune is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x0f3cca49.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function prune(address account) returns()
func (producers *Producers) PackPrune(account common.Address) []byte {
	enc, err := producers.abi.Pack("prune", account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackPrune is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x0f3cca49.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function prune(address account) returns()
func (producers *Producers) TryPackPrune(account common.Address) ([]byte, error) {
	return producers.abi.Pack("prune", account)
}

// PackQuorum is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x1703a018.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function quorum() view returns(uint256)
func (producers *Producers) PackQuorum() []byte {
	enc, err := producers.abi.Pack("quorum")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackQuorum is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x1703a018.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function quorum() view returns(uint256)
func (producers *Producers) TryPackQuorum() ([]byte, error) {
	return producers.abi.Pack("quorum")
}

// UnpackQuorum is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x1703a018.
//
// Solidity: function quorum() view returns(uint256)
func (producers *Producers) UnpackQuorum(data []byte) (*big.Int, error) {
	out, err := producers.abi.Unpack("quorum", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackRegister is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd4380353.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function register(bytes key48, bytes key128, bytes proof) returns()
func (producers *Producers) PackRegister(key48 []byte, key128 []byte, proof []byte) []byte {
	enc, err := producers.abi.Pack("register", key48, key128, proof)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRegister is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd4380353.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function register(bytes key48, bytes key128, bytes proof) returns()
func (producers *Producers) TryPackRegister(key48 []byte, key128 []byte, proof []byte) ([]byte, error) {
	return producers.abi.Pack("register", key48, key128, proof)
}

// PackRejoin is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x19f6c845.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function rejoin() returns()
func (producers *Producers) PackRejoin() []byte {
	enc, err := producers.abi.Pack("rejoin")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRejoin is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x19f6c845.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function rejoin() returns()
func (producers *Producers) TryPackRejoin() ([]byte, error) {
	return producers.abi.Pack("rejoin")
}

// PackReportStandby is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x2aa0f087.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function reportStandby() returns()
func (producers *Producers) PackReportStandby() []byte {
	enc, err := producers.abi.Pack("reportStandby")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackReportStandby is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x2aa0f087.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function reportStandby() returns()
func (producers *Producers) TryPackReportStandby() ([]byte, error) {
	return producers.abi.Pack("reportStandby")
}

// PackRequestWithdrawal is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xb15780a0.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function requestWithdrawal(uint96 amount) returns()
func (producers *Producers) PackRequestWithdrawal(amount *big.Int) []byte {
	enc, err := producers.abi.Pack("requestWithdrawal", amount)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRequestWithdrawal is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xb15780a0.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function requestWithdrawal(uint96 amount) returns()
func (producers *Producers) TryPackRequestWithdrawal(amount *big.Int) ([]byte, error) {
	return producers.abi.Pack("requestWithdrawal", amount)
}

// PackResign is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x69652fcf.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function resign() returns()
func (producers *Producers) PackResign() []byte {
	enc, err := producers.abi.Pack("resign")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackResign is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x69652fcf.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function resign() returns()
func (producers *Producers) TryPackResign() ([]byte, error) {
	return producers.abi.Pack("resign")
}

// PackRevoke is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x74a8f103.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function revoke(address account) returns()
func (producers *Producers) PackRevoke(account common.Address) []byte {
	enc, err := producers.abi.Pack("revoke", account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRevoke is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x74a8f103.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function revoke(address account) returns()
func (producers *Producers) TryPackRevoke(account common.Address) ([]byte, error) {
	return producers.abi.Pack("revoke", account)
}

// PackSchedule is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xb0604a26.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function schedule() view returns(address[] accounts, bytes[] keys)
func (producers *Producers) PackSchedule() []byte {
	enc, err := producers.abi.Pack("schedule")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSchedule is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xb0604a26.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function schedule() view returns(address[] accounts, bytes[] keys)
func (producers *Producers) TryPackSchedule() ([]byte, error) {
	return producers.abi.Pack("schedule")
}

// ScheduleOutput serves as a container for the return parameters of contract
// method Schedule.
type ScheduleOutput struct {
	Accounts []common.Address
	Keys     [][]byte
}

// UnpackSchedule is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xb0604a26.
//
// Solidity: function schedule() view returns(address[] accounts, bytes[] keys)
func (producers *Producers) UnpackSchedule(data []byte) (ScheduleOutput, error) {
	out, err := producers.abi.Unpack("schedule", data)
	outstruct := new(ScheduleOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Accounts = *abi.ConvertType(out[0], new([]common.Address)).(*[]common.Address)
	outstruct.Keys = *abi.ConvertType(out[1], new([][]byte)).(*[][]byte)
	return *outstruct, nil
}

// PackSettings is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xe06174e4.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function settings() view returns((uint64,uint64,uint64,uint16,uint16,uint16,uint8,uint64,uint64,uint64,uint96))
func (producers *Producers) PackSettings() []byte {
	enc, err := producers.abi.Pack("settings")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSettings is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xe06174e4.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function settings() view returns((uint64,uint64,uint64,uint16,uint16,uint16,uint8,uint64,uint64,uint64,uint96))
func (producers *Producers) TryPackSettings() ([]byte, error) {
	return producers.abi.Pack("settings")
}

// UnpackSettings is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xe06174e4.
//
// Solidity: function settings() view returns((uint64,uint64,uint64,uint16,uint16,uint16,uint8,uint64,uint64,uint64,uint96))
func (producers *Producers) UnpackSettings(data []byte) (BaseSettings, error) {
	out, err := producers.abi.Unpack("settings", data)
	if err != nil {
		return *new(BaseSettings), err
	}
	out0 := *abi.ConvertType(out[0], new(BaseSettings)).(*BaseSettings)
	return out0, nil
}

// PackStakeOf is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x42623360.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function stakeOf(address owner) view returns((uint96,uint96,uint96,uint64))
func (producers *Producers) PackStakeOf(owner common.Address) []byte {
	enc, err := producers.abi.Pack("stakeOf", owner)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackStakeOf is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x42623360.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function stakeOf(address owner) view returns((uint96,uint96,uint96,uint64))
func (producers *Producers) TryPackStakeOf(owner common.Address) ([]byte, error) {
	return producers.abi.Pack("stakeOf", owner)
}

// UnpackStakeOf is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x42623360.
//
// Solidity: function stakeOf(address owner) view returns((uint96,uint96,uint96,uint64))
func (producers *Producers) UnpackStakeOf(data []byte) (BaseAccount, error) {
	out, err := producers.abi.Unpack("stakeOf", data)
	if err != nil {
		return *new(BaseAccount), err
	}
	out0 := *abi.ConvertType(out[0], new(BaseAccount)).(*BaseAccount)
	return out0, nil
}

// PackTotals is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xc038a38e.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function totals() view returns(uint256 staked, uint256 slashed)
func (producers *Producers) PackTotals() []byte {
	enc, err := producers.abi.Pack("totals")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackTotals is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xc038a38e.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function totals() view returns(uint256 staked, uint256 slashed)
func (producers *Producers) TryPackTotals() ([]byte, error) {
	return producers.abi.Pack("totals")
}

// TotalsOutput serves as a container for the return parameters of contract
// method Totals.
type TotalsOutput struct {
	Staked  *big.Int
	Slashed *big.Int
}

// UnpackTotals is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xc038a38e.
//
// Solidity: function totals() view returns(uint256 staked, uint256 slashed)
func (producers *Producers) UnpackTotals(data []byte) (TotalsOutput, error) {
	out, err := producers.abi.Unpack("totals", data)
	outstruct := new(TotalsOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Staked = abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	outstruct.Slashed = abi.ConvertType(out[1], new(big.Int)).(*big.Int)
	return *outstruct, nil
}

// PackUnjail is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf679d305.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function unjail() returns()
func (producers *Producers) PackUnjail() []byte {
	enc, err := producers.abi.Pack("unjail")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackUnjail is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf679d305.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function unjail() returns()
func (producers *Producers) TryPackUnjail() ([]byte, error) {
	return producers.abi.Pack("unjail")
}

// PackUnvote is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x7f40f7fa.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function unvote(address producer, uint96 amount) returns()
func (producers *Producers) PackUnvote(producer common.Address, amount *big.Int) []byte {
	enc, err := producers.abi.Pack("unvote", producer, amount)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackUnvote is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x7f40f7fa.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function unvote(address producer, uint96 amount) returns()
func (producers *Producers) TryPackUnvote(producer common.Address, amount *big.Int) ([]byte, error) {
	return producers.abi.Pack("unvote", producer, amount)
}

// PackVerify is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x024ad318.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function verify(bytes key128, bytes32 digest, bytes signature) view returns(bool)
func (producers *Producers) PackVerify(key128 []byte, digest [32]byte, signature []byte) []byte {
	enc, err := producers.abi.Pack("verify", key128, digest, signature)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackVerify is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x024ad318.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function verify(bytes key128, bytes32 digest, bytes signature) view returns(bool)
func (producers *Producers) TryPackVerify(key128 []byte, digest [32]byte, signature []byte) ([]byte, error) {
	return producers.abi.Pack("verify", key128, digest, signature)
}

// UnpackVerify is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x024ad318.
//
// Solidity: function verify(bytes key128, bytes32 digest, bytes signature) view returns(bool)
func (producers *Producers) UnpackVerify(data []byte) (bool, error) {
	out, err := producers.abi.Unpack("verify", data)
	if err != nil {
		return *new(bool), err
	}
	out0 := *abi.ConvertType(out[0], new(bool)).(*bool)
	return out0, nil
}

// PackVote is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd2b980fa.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function vote(address producer, uint96 amount) returns()
func (producers *Producers) PackVote(producer common.Address, amount *big.Int) []byte {
	enc, err := producers.abi.Pack("vote", producer, amount)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackVote is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd2b980fa.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function vote(address producer, uint96 amount) returns()
func (producers *Producers) TryPackVote(producer common.Address, amount *big.Int) ([]byte, error) {
	return producers.abi.Pack("vote", producer, amount)
}

// PackVoteDigest is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x32731b36.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function voteDigest((uint8,uint64,bytes32,uint64,bytes32,bytes) v) view returns(bytes32)
func (producers *Producers) PackVoteDigest(v VotesVote) []byte {
	enc, err := producers.abi.Pack("voteDigest", v)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackVoteDigest is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x32731b36.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function voteDigest((uint8,uint64,bytes32,uint64,bytes32,bytes) v) view returns(bytes32)
func (producers *Producers) TryPackVoteDigest(v VotesVote) ([]byte, error) {
	return producers.abi.Pack("voteDigest", v)
}

// UnpackVoteDigest is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x32731b36.
//
// Solidity: function voteDigest((uint8,uint64,bytes32,uint64,bytes32,bytes) v) view returns(bytes32)
func (producers *Producers) UnpackVoteDigest(data []byte) ([32]byte, error) {
	out, err := producers.abi.Unpack("voteDigest", data)
	if err != nil {
		return *new([32]byte), err
	}
	out0 := *abi.ConvertType(out[0], new([32]byte)).(*[32]byte)
	return out0, nil
}

// PackWithdraw is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3ccfd60b.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function withdraw() returns()
func (producers *Producers) PackWithdraw() []byte {
	enc, err := producers.abi.Pack("withdraw")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackWithdraw is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3ccfd60b.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function withdraw() returns()
func (producers *Producers) TryPackWithdraw() ([]byte, error) {
	return producers.abi.Pack("withdraw")
}

// ProducersDeposited represents a Deposited event raised by the Producers contract.
type ProducersDeposited struct {
	Account common.Address
	Amount  *big.Int
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersDepositedEventName = "Deposited"

// ContractEventName returns the user-defined event name.
func (ProducersDeposited) ContractEventName() string {
	return ProducersDepositedEventName
}

// UnpackDepositedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Deposited(address indexed account, uint256 amount)
func (producers *Producers) UnpackDepositedEvent(log *types.Log) (*ProducersDeposited, error) {
	event := "Deposited"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersDeposited)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersJailed represents a Jailed event raised by the Producers contract.
type ProducersJailed struct {
	Account    common.Address
	Epoch      uint64
	EmptyTurns uint32
	Until      uint64
	Raw        *types.Log // Blockchain specific contextual infos
}

const ProducersJailedEventName = "Jailed"

// ContractEventName returns the user-defined event name.
func (ProducersJailed) ContractEventName() string {
	return ProducersJailedEventName
}

// UnpackJailedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Jailed(address indexed account, uint64 epoch, uint32 emptyTurns, uint64 until)
func (producers *Producers) UnpackJailedEvent(log *types.Log) (*ProducersJailed, error) {
	event := "Jailed"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersJailed)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersPathProven represents a PathProven event raised by the Producers contract.
type ProducersPathProven struct {
	Account common.Address
	Top     [32]byte
	Next    [32]byte
	TopSlot uint64
	LowSlot uint64
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersPathProvenEventName = "PathProven"

// ContractEventName returns the user-defined event name.
func (ProducersPathProven) ContractEventName() string {
	return ProducersPathProvenEventName
}

// UnpackPathProvenEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event PathProven(address indexed account, bytes32 indexed top, bytes32 next, uint64 topSlot, uint64 lowSlot)
func (producers *Producers) UnpackPathProvenEvent(log *types.Log) (*ProducersPathProven, error) {
	event := "PathProven"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersPathProven)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersPruned represents a Pruned event raised by the Producers contract.
type ProducersPruned struct {
	Account common.Address
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersPrunedEventName = "Pruned"

// ContractEventName returns the user-defined event name.
func (ProducersPruned) ContractEventName() string {
	return ProducersPrunedEventName
}

// UnpackPrunedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Pruned(address indexed account)
func (producers *Producers) UnpackPrunedEvent(log *types.Log) (*ProducersPruned, error) {
	event := "Pruned"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersPruned)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersRegistered represents a Registered event raised by the Producers contract.
type ProducersRegistered struct {
	Account common.Address
	Key     []byte
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersRegisteredEventName = "Registered"

// ContractEventName returns the user-defined event name.
func (ProducersRegistered) ContractEventName() string {
	return ProducersRegisteredEventName
}

// UnpackRegisteredEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Registered(address indexed account, bytes key)
func (producers *Producers) UnpackRegisteredEvent(log *types.Log) (*ProducersRegistered, error) {
	event := "Registered"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersRegistered)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersRejoined represents a Rejoined event raised by the Producers contract.
type ProducersRejoined struct {
	Account common.Address
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersRejoinedEventName = "Rejoined"

// ContractEventName returns the user-defined event name.
func (ProducersRejoined) ContractEventName() string {
	return ProducersRejoinedEventName
}

// UnpackRejoinedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Rejoined(address indexed account)
func (producers *Producers) UnpackRejoinedEvent(log *types.Log) (*ProducersRejoined, error) {
	event := "Rejoined"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersRejoined)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersReported represents a Reported event raised by the Producers contract.
type ProducersReported struct {
	Account common.Address
	Epoch   uint64
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersReportedEventName = "Reported"

// ContractEventName returns the user-defined event name.
func (ProducersReported) ContractEventName() string {
	return ProducersReportedEventName
}

// UnpackReportedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Reported(address indexed account, uint64 epoch)
func (producers *Producers) UnpackReportedEvent(log *types.Log) (*ProducersReported, error) {
	event := "Reported"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersReported)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersResigned represents a Resigned event raised by the Producers contract.
type ProducersResigned struct {
	Account common.Address
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersResignedEventName = "Resigned"

// ContractEventName returns the user-defined event name.
func (ProducersResigned) ContractEventName() string {
	return ProducersResignedEventName
}

// UnpackResignedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Resigned(address indexed account)
func (producers *Producers) UnpackResignedEvent(log *types.Log) (*ProducersResigned, error) {
	event := "Resigned"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersResigned)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersRevoked represents a Revoked event raised by the Producers contract.
type ProducersRevoked struct {
	Account common.Address
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersRevokedEventName = "Revoked"

// ContractEventName returns the user-defined event name.
func (ProducersRevoked) ContractEventName() string {
	return ProducersRevokedEventName
}

// UnpackRevokedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Revoked(address indexed account)
func (producers *Producers) UnpackRevokedEvent(log *types.Log) (*ProducersRevoked, error) {
	event := "Revoked"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersRevoked)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersScheduleChosen represents a ScheduleChosen event raised by the Producers contract.
type ProducersScheduleChosen struct {
	Epoch    uint64
	Accounts []common.Address
	Raw      *types.Log // Blockchain specific contextual infos
}

const ProducersScheduleChosenEventName = "ScheduleChosen"

// ContractEventName returns the user-defined event name.
func (ProducersScheduleChosen) ContractEventName() string {
	return ProducersScheduleChosenEventName
}

// UnpackScheduleChosenEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event ScheduleChosen(uint64 indexed epoch, address[] accounts)
func (producers *Producers) UnpackScheduleChosenEvent(log *types.Log) (*ProducersScheduleChosen, error) {
	event := "ScheduleChosen"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersScheduleChosen)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersSlashed represents a Slashed event raised by the Producers contract.
type ProducersSlashed struct {
	Account common.Address
	Rule    uint8
	Slot    uint64
	Amount  *big.Int
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersSlashedEventName = "Slashed"

// ContractEventName returns the user-defined event name.
func (ProducersSlashed) ContractEventName() string {
	return ProducersSlashedEventName
}

// UnpackSlashedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Slashed(address indexed account, uint8 rule, uint64 slot, uint256 amount)
func (producers *Producers) UnpackSlashedEvent(log *types.Log) (*ProducersSlashed, error) {
	event := "Slashed"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersSlashed)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersUnjailed represents a Unjailed event raised by the Producers contract.
type ProducersUnjailed struct {
	Account common.Address
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersUnjailedEventName = "Unjailed"

// ContractEventName returns the user-defined event name.
func (ProducersUnjailed) ContractEventName() string {
	return ProducersUnjailedEventName
}

// UnpackUnjailedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Unjailed(address indexed account)
func (producers *Producers) UnpackUnjailedEvent(log *types.Log) (*ProducersUnjailed, error) {
	event := "Unjailed"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersUnjailed)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersUnvoted represents a Unvoted event raised by the Producers contract.
type ProducersUnvoted struct {
	Account  common.Address
	Producer common.Address
	Amount   *big.Int
	Raw      *types.Log // Blockchain specific contextual infos
}

const ProducersUnvotedEventName = "Unvoted"

// ContractEventName returns the user-defined event name.
func (ProducersUnvoted) ContractEventName() string {
	return ProducersUnvotedEventName
}

// UnpackUnvotedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Unvoted(address indexed account, address indexed producer, uint256 amount)
func (producers *Producers) UnpackUnvotedEvent(log *types.Log) (*ProducersUnvoted, error) {
	event := "Unvoted"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersUnvoted)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersVoted represents a Voted event raised by the Producers contract.
type ProducersVoted struct {
	Account  common.Address
	Producer common.Address
	Amount   *big.Int
	Raw      *types.Log // Blockchain specific contextual infos
}

const ProducersVotedEventName = "Voted"

// ContractEventName returns the user-defined event name.
func (ProducersVoted) ContractEventName() string {
	return ProducersVotedEventName
}

// UnpackVotedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Voted(address indexed account, address indexed producer, uint256 amount)
func (producers *Producers) UnpackVotedEvent(log *types.Log) (*ProducersVoted, error) {
	event := "Voted"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersVoted)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersWithdrawalRequested represents a WithdrawalRequested event raised by the Producers contract.
type ProducersWithdrawalRequested struct {
	Account common.Address
	Amount  *big.Int
	ReadyAt *big.Int
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersWithdrawalRequestedEventName = "WithdrawalRequested"

// ContractEventName returns the user-defined event name.
func (ProducersWithdrawalRequested) ContractEventName() string {
	return ProducersWithdrawalRequestedEventName
}

// UnpackWithdrawalRequestedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event WithdrawalRequested(address indexed account, uint256 amount, uint256 readyAt)
func (producers *Producers) UnpackWithdrawalRequestedEvent(log *types.Log) (*ProducersWithdrawalRequested, error) {
	event := "WithdrawalRequested"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersWithdrawalRequested)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}

// ProducersWithdrawn represents a Withdrawn event raised by the Producers contract.
type ProducersWithdrawn struct {
	Account common.Address
	Amount  *big.Int
	Raw     *types.Log // Blockchain specific contextual infos
}

const ProducersWithdrawnEventName = "Withdrawn"

// ContractEventName returns the user-defined event name.
func (ProducersWithdrawn) ContractEventName() string {
	return ProducersWithdrawnEventName
}

// UnpackWithdrawnEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Withdrawn(address indexed account, uint256 amount)
func (producers *Producers) UnpackWithdrawnEvent(log *types.Log) (*ProducersWithdrawn, error) {
	event := "Withdrawn"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != producers.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(ProducersWithdrawn)
	if len(log.Data) > 0 {
		if err := producers.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range producers.abi.Events[event].Inputs {
		if arg.Indexed {
			indexed = append(indexed, arg)
		}
	}
	if err := abi.ParseTopics(out, indexed, log.Topics[1:]); err != nil {
		return nil, err
	}
	out.Raw = log
	return out, nil
}
