// Code generated via abigen V2 - DO NOT EDIT.
// This file is a generated binding and any manual changes will be lost.

package testnet

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

// SampleMetaData contains all meta data concerning the Sample contract.
var SampleMetaData = bind.MetaData{
	ABI: "[{\"inputs\":[{\"internalType\":\"uint256\",\"name\":\"initial\",\"type\":\"uint256\"}],\"stateMutability\":\"nonpayable\",\"type\":\"constructor\"},{\"inputs\":[{\"internalType\":\"uint256\",\"name\":\"value\",\"type\":\"uint256\"},{\"internalType\":\"uint256\",\"name\":\"limit\",\"type\":\"uint256\"}],\"name\":\"TooLarge\",\"type\":\"error\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"by\",\"type\":\"address\"},{\"indexed\":true,\"internalType\":\"uint256\",\"name\":\"value\",\"type\":\"uint256\"},{\"indexed\":false,\"internalType\":\"string\",\"name\":\"note\",\"type\":\"string\"}],\"name\":\"Stored\",\"type\":\"event\"},{\"inputs\":[],\"name\":\"LIMIT\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint256\",\"name\":\"rounds\",\"type\":\"uint256\"}],\"name\":\"burn\",\"outputs\":[{\"internalType\":\"bytes32\",\"name\":\"h\",\"type\":\"bytes32\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint256\",\"name\":\"v\",\"type\":\"uint256\"},{\"internalType\":\"string\",\"name\":\"note\",\"type\":\"string\"}],\"name\":\"store\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"old\",\"type\":\"uint256\"}],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint256[]\",\"name\":\"xs\",\"type\":\"uint256[]\"}],\"name\":\"sum\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"s\",\"type\":\"uint256\"}],\"stateMutability\":\"pure\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"value\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"}]",
	ID:  "Sample",
	Bin: "0x6080604052348015600e575f5ffd5b506040516103f33803806103f3833981016040819052602b916031565b5f556047565b5f602082840312156040575f5ffd5b5051919050565b61039f806100545f395ff3fe608060405234801561000f575f5ffd5b5060043610610055575f3560e01c80630194db8e146100595780633fa4f2451461007e57806342966c6814610086578063af8214ef14610099578063e1ff178a146100a2575b5f5ffd5b61006c610067366004610211565b6100b5565b60405190815260200160405180910390f35b61006c5f5481565b61006c610094366004610282565b6100f5565b61006c6103e881565b61006c6100b0366004610299565b61014a565b5f805b828110156100ee578383828181106100d2576100d2610310565b90506020020135826100e49190610338565b91506001016100b8565b5092915050565b5f610101600143610351565b4090505f5b8281101561014457604080516020810184905290810182905260600160408051601f1981840301815291905280516020909101209150600101610106565b50919050565b5f6103e884111561017e5760405163677fd0e360e01b8152600481018590526103e860248201526044015b60405180910390fd5b83600d036101c45760405162461bcd60e51b81526020600482015260136024820152721d1a1a5c9d19595b881a5cc81c99599d5cd959606a1b6044820152606401610175565b505f805490849055604051849033907f1746da8bb29191d72160235494a0cf8c57a155580d02593e1f14f9a4ddd525f5906102029087908790610364565b60405180910390a39392505050565b5f5f60208385031215610222575f5ffd5b823567ffffffffffffffff811115610238575f5ffd5b8301601f81018513610248575f5ffd5b803567ffffffffffffffff81111561025e575f5ffd5b8560208260051b8401011115610272575f5ffd5b6020919091019590945092505050565b5f60208284031215610292575f5ffd5b5035919050565b5f5f5f604084860312156102ab575f5ffd5b83359250602084013567ffffffffffffffff8111156102c8575f5ffd5b8401601f810186136102d8575f5ffd5b803567ffffffffffffffff8111156102ee575f5ffd5b8660208284010111156102ff575f5ffd5b939660209190910195509293505050565b634e487b7160e01b5f52603260045260245ffd5b634e487b7160e01b5f52601160045260245ffd5b8082018082111561034b5761034b610324565b92915050565b8181038181111561034b5761034b610324565b60208152816020820152818360408301375f818301604090810191909152601f909201601f1916010191905056fea164736f6c6343000825000a",
}

// Sample is an auto generated Go binding around an Ethereum contract.
type Sample struct {
	abi abi.ABI
}

// GetABI returns the ABI associated with this contract binding.
func (c *Sample) GetABI() abi.ABI {
	return c.abi
}

// NewSample creates a new instance of Sample.
func NewSample() *Sample {
	parsed, err := SampleMetaData.ParseABI()
	if err != nil {
		panic(errors.New("invalid ABI: " + err.Error()))
	}
	return &Sample{abi: *parsed}
}

// Instance creates a wrapper for a deployed contract instance at the given address.
// Use this to create the instance object passed to abigen v2 library functions Call, Transact, etc.
func (c *Sample) Instance(backend bind.ContractBackend, addr common.Address) *bind.BoundContract {
	return bind.NewBoundContract(addr, c.abi, backend, backend, backend)
}

// PackConstructor is the Go binding used to pack the parameters required for
// contract deployment.
//
// Solidity: constructor(uint256 initial) returns()
func (sample *Sample) PackConstructor(initial *big.Int) []byte {
	enc, err := sample.abi.Pack("", initial)
	if err != nil {
		panic(err)
	}
	return enc
}

// PackLIMIT is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xaf8214ef.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function LIMIT() view returns(uint256)
func (sample *Sample) PackLIMIT() []byte {
	enc, err := sample.abi.Pack("LIMIT")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackLIMIT is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xaf8214ef.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function LIMIT() view returns(uint256)
func (sample *Sample) TryPackLIMIT() ([]byte, error) {
	return sample.abi.Pack("LIMIT")
}

// UnpackLIMIT is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xaf8214ef.
//
// Solidity: function LIMIT() view returns(uint256)
func (sample *Sample) UnpackLIMIT(data []byte) (*big.Int, error) {
	out, err := sample.abi.Unpack("LIMIT", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackBurn is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x42966c68.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function burn(uint256 rounds) view returns(bytes32 h)
func (sample *Sample) PackBurn(rounds *big.Int) []byte {
	enc, err := sample.abi.Pack("burn", rounds)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackBurn is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x42966c68.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function burn(uint256 rounds) view returns(bytes32 h)
func (sample *Sample) TryPackBurn(rounds *big.Int) ([]byte, error) {
	return sample.abi.Pack("burn", rounds)
}

// UnpackBurn is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x42966c68.
//
// Solidity: function burn(uint256 rounds) view returns(bytes32 h)
func (sample *Sample) UnpackBurn(data []byte) ([32]byte, error) {
	out, err := sample.abi.Unpack("burn", data)
	if err != nil {
		return *new([32]byte), err
	}
	out0 := *abi.ConvertType(out[0], new([32]byte)).(*[32]byte)
	return out0, nil
}

// PackStore is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xe1ff178a.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function store(uint256 v, string note) returns(uint256 old)
func (sample *Sample) PackStore(v *big.Int, note string) []byte {
	enc, err := sample.abi.Pack("store", v, note)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackStore is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xe1ff178a.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function store(uint256 v, string note) returns(uint256 old)
func (sample *Sample) TryPackStore(v *big.Int, note string) ([]byte, error) {
	return sample.abi.Pack("store", v, note)
}

// UnpackStore is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xe1ff178a.
//
// Solidity: function store(uint256 v, string note) returns(uint256 old)
func (sample *Sample) UnpackStore(data []byte) (*big.Int, error) {
	out, err := sample.abi.Unpack("store", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackSum is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x0194db8e.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function sum(uint256[] xs) pure returns(uint256 s)
func (sample *Sample) PackSum(xs []*big.Int) []byte {
	enc, err := sample.abi.Pack("sum", xs)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSum is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x0194db8e.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function sum(uint256[] xs) pure returns(uint256 s)
func (sample *Sample) TryPackSum(xs []*big.Int) ([]byte, error) {
	return sample.abi.Pack("sum", xs)
}

// UnpackSum is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x0194db8e.
//
// Solidity: function sum(uint256[] xs) pure returns(uint256 s)
func (sample *Sample) UnpackSum(data []byte) (*big.Int, error) {
	out, err := sample.abi.Unpack("sum", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackValue is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3fa4f245.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function value() view returns(uint256)
func (sample *Sample) PackValue() []byte {
	enc, err := sample.abi.Pack("value")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackValue is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3fa4f245.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function value() view returns(uint256)
func (sample *Sample) TryPackValue() ([]byte, error) {
	return sample.abi.Pack("value")
}

// UnpackValue is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x3fa4f245.
//
// Solidity: function value() view returns(uint256)
func (sample *Sample) UnpackValue(data []byte) (*big.Int, error) {
	out, err := sample.abi.Unpack("value", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// SampleStored represents a Stored event raised by the Sample contract.
type SampleStored struct {
	By    common.Address
	Value *big.Int
	Note  string
	Raw   *types.Log // Blockchain specific contextual infos
}

const SampleStoredEventName = "Stored"

// ContractEventName returns the user-defined event name.
func (SampleStored) ContractEventName() string {
	return SampleStoredEventName
}

// UnpackStoredEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Stored(address indexed by, uint256 indexed value, string note)
func (sample *Sample) UnpackStoredEvent(log *types.Log) (*SampleStored, error) {
	event := "Stored"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != sample.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(SampleStored)
	if len(log.Data) > 0 {
		if err := sample.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range sample.abi.Events[event].Inputs {
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

// UnpackError attempts to decode the provided error data using user-defined
// error definitions.
func (sample *Sample) UnpackError(raw []byte) (any, error) {
	if bytes.Equal(raw[:4], sample.abi.Errors["TooLarge"].ID.Bytes()[:4]) {
		return sample.UnpackTooLargeError(raw[4:])
	}
	return nil, errors.New("Unknown error")
}

// SampleTooLarge represents a TooLarge error raised by the Sample contract.
type SampleTooLarge struct {
	Value *big.Int
	Limit *big.Int
}

// ErrorID returns the hash of canonical representation of the error's signature.
//
// Solidity: error TooLarge(uint256 value, uint256 limit)
func SampleTooLargeErrorID() common.Hash {
	return common.HexToHash("0x677fd0e3f4f83d4759a1f945b4c645d6c03436adaaeb7ec379e4cbef2765483b")
}

// UnpackTooLargeError is the Go binding used to decode the provided
// error data into the corresponding Go error struct.
//
// Solidity: error TooLarge(uint256 value, uint256 limit)
func (sample *Sample) UnpackTooLargeError(raw []byte) (*SampleTooLarge, error) {
	out := new(SampleTooLarge)
	if err := sample.abi.UnpackIntoInterface(out, "TooLarge", raw); err != nil {
		return nil, err
	}
	return out, nil
}
