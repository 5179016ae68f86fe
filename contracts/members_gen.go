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

// MembersChange is an auto generated low-level Go binding around an user-defined struct.
type MembersChange struct {
	Height uint64
	Kind   uint8
	Number uint64
	Name   string
	Value  []byte
}

// MembersProposal is an auto generated low-level Go binding around an user-defined struct.
type MembersProposal struct {
	Proposer  common.Address
	CreatedAt uint64
	Kind      uint8
	Done      bool
	Data      []byte
	Approvals []common.Address
}

// MembersMetaData contains all meta data concerning the Members contract.
var MembersMetaData = bind.MetaData{
	ABI: "[{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"AdminSet\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"uint256\",\"name\":\"id\",\"type\":\"uint256\"},{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint256\",\"name\":\"approvals\",\"type\":\"uint256\"},{\"indexed\":false,\"internalType\":\"uint256\",\"name\":\"quorum\",\"type\":\"uint256\"}],\"name\":\"Approved\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"uint64\",\"name\":\"height\",\"type\":\"uint64\"},{\"indexed\":false,\"internalType\":\"uint8\",\"name\":\"kind\",\"type\":\"uint8\"},{\"indexed\":false,\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"indexed\":false,\"internalType\":\"bytes\",\"name\":\"value\",\"type\":\"bytes\"}],\"name\":\"ChangeDecided\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"bool\",\"name\":\"allowed\",\"type\":\"bool\"}],\"name\":\"DeployerAllowed\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":false,\"internalType\":\"bool\",\"name\":\"on\",\"type\":\"bool\"}],\"name\":\"DeployersRestricted\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"uint256\",\"name\":\"id\",\"type\":\"uint256\"}],\"name\":\"Executed\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":false,\"internalType\":\"bytes\",\"name\":\"peerId\",\"type\":\"bytes\"},{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"NodeRemoved\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":false,\"internalType\":\"bytes\",\"name\":\"peerId\",\"type\":\"bytes\"},{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint8\",\"name\":\"roles\",\"type\":\"uint8\"}],\"name\":\"NodeSet\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"uint256\",\"name\":\"id\",\"type\":\"uint256\"},{\"indexed\":true,\"internalType\":\"address\",\"name\":\"proposer\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint8\",\"name\":\"kind\",\"type\":\"uint8\"},{\"indexed\":false,\"internalType\":\"bytes\",\"name\":\"data\",\"type\":\"bytes\"}],\"name\":\"Proposed\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"bool\",\"name\":\"allowed\",\"type\":\"bool\"}],\"name\":\"SenderAllowed\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":false,\"internalType\":\"bool\",\"name\":\"on\",\"type\":\"bool\"}],\"name\":\"SendersRestricted\",\"type\":\"event\"},{\"inputs\":[],\"name\":\"ALLOW_DEPLOYER\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"ALLOW_SENDER\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"BROKER\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"MAX_CHANGES\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"MAX_DATA\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"MAX_LISTED\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"MAX_NAME\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"MAX_NODES\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"MAX_VALUE\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"NOTICE\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"OBSERVER\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"PARAMETER\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"PARDON\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"PRODUCER\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"REMOVE_NODE\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"RESTRICT_DEPLOYERS\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"RESTRICT_SENDERS\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"SET_ADMIN\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"SET_NODE\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"SET_TENANT\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"UPGRADE\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"UPGRADE_PLACES\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"admin\",\"outputs\":[{\"internalType\":\"address\",\"name\":\"\",\"type\":\"address\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint256\",\"name\":\"id\",\"type\":\"uint256\"},{\"internalType\":\"bytes32\",\"name\":\"content\",\"type\":\"bytes32\"}],\"name\":\"approve\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"changes\",\"outputs\":[{\"components\":[{\"internalType\":\"uint64\",\"name\":\"height\",\"type\":\"uint64\"},{\"internalType\":\"uint8\",\"name\":\"kind\",\"type\":\"uint8\"},{\"internalType\":\"uint64\",\"name\":\"number\",\"type\":\"uint64\"},{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"bytes\",\"name\":\"value\",\"type\":\"bytes\"}],\"internalType\":\"structMembers.Change[]\",\"name\":\"\",\"type\":\"tuple[]\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"deployers\",\"outputs\":[{\"internalType\":\"address[]\",\"name\":\"\",\"type\":\"address[]\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"list\",\"outputs\":[{\"internalType\":\"bytes[]\",\"name\":\"peerIds\",\"type\":\"bytes[]\"},{\"internalType\":\"address[]\",\"name\":\"accounts\",\"type\":\"address[]\"},{\"internalType\":\"uint8[]\",\"name\":\"roles\",\"type\":\"uint8[]\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"mayDeploy\",\"outputs\":[{\"internalType\":\"bool\",\"name\":\"\",\"type\":\"bool\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"mayProduce\",\"outputs\":[{\"internalType\":\"bool\",\"name\":\"\",\"type\":\"bool\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"maySend\",\"outputs\":[{\"internalType\":\"bool\",\"name\":\"\",\"type\":\"bool\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes\",\"name\":\"peerId\",\"type\":\"bytes\"}],\"name\":\"node\",\"outputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"internalType\":\"uint8\",\"name\":\"roles\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint256\",\"name\":\"id\",\"type\":\"uint256\"}],\"name\":\"proposal\",\"outputs\":[{\"components\":[{\"internalType\":\"address\",\"name\":\"proposer\",\"type\":\"address\"},{\"internalType\":\"uint64\",\"name\":\"createdAt\",\"type\":\"uint64\"},{\"internalType\":\"uint8\",\"name\":\"kind\",\"type\":\"uint8\"},{\"internalType\":\"bool\",\"name\":\"done\",\"type\":\"bool\"},{\"internalType\":\"bytes\",\"name\":\"data\",\"type\":\"bytes\"},{\"internalType\":\"address[]\",\"name\":\"approvals\",\"type\":\"address[]\"}],\"internalType\":\"structMembers.Proposal\",\"name\":\"p\",\"type\":\"tuple\"},{\"internalType\":\"uint256\",\"name\":\"approvals\",\"type\":\"uint256\"},{\"internalType\":\"bool\",\"name\":\"open\",\"type\":\"bool\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"proposalCount\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"proposalSeconds\",\"outputs\":[{\"internalType\":\"uint64\",\"name\":\"\",\"type\":\"uint64\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint8\",\"name\":\"kind\",\"type\":\"uint8\"},{\"internalType\":\"bytes\",\"name\":\"data\",\"type\":\"bytes\"}],\"name\":\"propose\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"id\",\"type\":\"uint256\"}],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"restrictions\",\"outputs\":[{\"internalType\":\"bool\",\"name\":\"senders_\",\"type\":\"bool\"},{\"internalType\":\"bool\",\"name\":\"deployers_\",\"type\":\"bool\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"senders\",\"outputs\":[{\"internalType\":\"address[]\",\"name\":\"\",\"type\":\"address[]\"}],\"stateMutability\":\"view\",\"type\":\"function\"}]",
	ID:  "Members",
}

// Members is an auto generated Go binding around an Ethereum contract.
type Members struct {
	abi abi.ABI
}

// GetABI returns the ABI associated with this contract binding.
func (c *Members) GetABI() abi.ABI {
	return c.abi
}

// NewMembers creates a new instance of Members.
func NewMembers() *Members {
	parsed, err := MembersMetaData.ParseABI()
	if err != nil {
		panic(errors.New("invalid ABI: " + err.Error()))
	}
	return &Members{abi: *parsed}
}

// Instance creates a wrapper for a deployed contract instance at the given address.
// Use this to create the instance object passed to abigen v2 library functions Call, Transact, etc.
func (c *Members) Instance(backend bind.ContractBackend, addr common.Address) *bind.BoundContract {
	return bind.NewBoundContract(addr, c.abi, backend, backend, backend)
}

// PackALLOWDEPLOYER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x686b0be5.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function ALLOW_DEPLOYER() view returns(uint8)
func (members *Members) PackALLOWDEPLOYER() []byte {
	enc, err := members.abi.Pack("ALLOW_DEPLOYER")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackALLOWDEPLOYER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x686b0be5.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function ALLOW_DEPLOYER() view returns(uint8)
func (members *Members) TryPackALLOWDEPLOYER() ([]byte, error) {
	return members.abi.Pack("ALLOW_DEPLOYER")
}

// UnpackALLOWDEPLOYER is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x686b0be5.
//
// Solidity: function ALLOW_DEPLOYER() view returns(uint8)
func (members *Members) UnpackALLOWDEPLOYER(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("ALLOW_DEPLOYER", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackALLOWSENDER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xaff6c54e.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function ALLOW_SENDER() view returns(uint8)
func (members *Members) PackALLOWSENDER() []byte {
	enc, err := members.abi.Pack("ALLOW_SENDER")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackALLOWSENDER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xaff6c54e.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function ALLOW_SENDER() view returns(uint8)
func (members *Members) TryPackALLOWSENDER() ([]byte, error) {
	return members.abi.Pack("ALLOW_SENDER")
}

// UnpackALLOWSENDER is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xaff6c54e.
//
// Solidity: function ALLOW_SENDER() view returns(uint8)
func (members *Members) UnpackALLOWSENDER(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("ALLOW_SENDER", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackBROKER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xeae2396f.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function BROKER() view returns(uint8)
func (members *Members) PackBROKER() []byte {
	enc, err := members.abi.Pack("BROKER")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackBROKER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xeae2396f.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function BROKER() view returns(uint8)
func (members *Members) TryPackBROKER() ([]byte, error) {
	return members.abi.Pack("BROKER")
}

// UnpackBROKER is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xeae2396f.
//
// Solidity: function BROKER() view returns(uint8)
func (members *Members) UnpackBROKER(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("BROKER", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackMAXCHANGES is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x05ed0b9c.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function MAX_CHANGES() view returns(uint256)
func (members *Members) PackMAXCHANGES() []byte {
	enc, err := members.abi.Pack("MAX_CHANGES")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMAXCHANGES is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x05ed0b9c.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function MAX_CHANGES() view returns(uint256)
func (members *Members) TryPackMAXCHANGES() ([]byte, error) {
	return members.abi.Pack("MAX_CHANGES")
}

// UnpackMAXCHANGES is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x05ed0b9c.
//
// Solidity: function MAX_CHANGES() view returns(uint256)
func (members *Members) UnpackMAXCHANGES(data []byte) (*big.Int, error) {
	out, err := members.abi.Unpack("MAX_CHANGES", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackMAXDATA is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xa0b0607f.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function MAX_DATA() view returns(uint256)
func (members *Members) PackMAXDATA() []byte {
	enc, err := members.abi.Pack("MAX_DATA")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMAXDATA is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xa0b0607f.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function MAX_DATA() view returns(uint256)
func (members *Members) TryPackMAXDATA() ([]byte, error) {
	return members.abi.Pack("MAX_DATA")
}

// UnpackMAXDATA is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xa0b0607f.
//
// Solidity: function MAX_DATA() view returns(uint256)
func (members *Members) UnpackMAXDATA(data []byte) (*big.Int, error) {
	out, err := members.abi.Unpack("MAX_DATA", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackMAXLISTED is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x8d643114.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function MAX_LISTED() view returns(uint256)
func (members *Members) PackMAXLISTED() []byte {
	enc, err := members.abi.Pack("MAX_LISTED")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMAXLISTED is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x8d643114.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function MAX_LISTED() view returns(uint256)
func (members *Members) TryPackMAXLISTED() ([]byte, error) {
	return members.abi.Pack("MAX_LISTED")
}

// UnpackMAXLISTED is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x8d643114.
//
// Solidity: function MAX_LISTED() view returns(uint256)
func (members *Members) UnpackMAXLISTED(data []byte) (*big.Int, error) {
	out, err := members.abi.Unpack("MAX_LISTED", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackMAXNAME is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x756bf254.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function MAX_NAME() view returns(uint256)
func (members *Members) PackMAXNAME() []byte {
	enc, err := members.abi.Pack("MAX_NAME")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMAXNAME is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x756bf254.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function MAX_NAME() view returns(uint256)
func (members *Members) TryPackMAXNAME() ([]byte, error) {
	return members.abi.Pack("MAX_NAME")
}

// UnpackMAXNAME is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x756bf254.
//
// Solidity: function MAX_NAME() view returns(uint256)
func (members *Members) UnpackMAXNAME(data []byte) (*big.Int, error) {
	out, err := members.abi.Unpack("MAX_NAME", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackMAXNODES is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x8f16e1cd.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function MAX_NODES() view returns(uint256)
func (members *Members) PackMAXNODES() []byte {
	enc, err := members.abi.Pack("MAX_NODES")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMAXNODES is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x8f16e1cd.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function MAX_NODES() view returns(uint256)
func (members *Members) TryPackMAXNODES() ([]byte, error) {
	return members.abi.Pack("MAX_NODES")
}

// UnpackMAXNODES is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x8f16e1cd.
//
// Solidity: function MAX_NODES() view returns(uint256)
func (members *Members) UnpackMAXNODES(data []byte) (*big.Int, error) {
	out, err := members.abi.Unpack("MAX_NODES", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackMAXVALUE is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x063bde24.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function MAX_VALUE() view returns(uint256)
func (members *Members) PackMAXVALUE() []byte {
	enc, err := members.abi.Pack("MAX_VALUE")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMAXVALUE is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x063bde24.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function MAX_VALUE() view returns(uint256)
func (members *Members) TryPackMAXVALUE() ([]byte, error) {
	return members.abi.Pack("MAX_VALUE")
}

// UnpackMAXVALUE is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x063bde24.
//
// Solidity: function MAX_VALUE() view returns(uint256)
func (members *Members) UnpackMAXVALUE(data []byte) (*big.Int, error) {
	out, err := members.abi.Unpack("MAX_VALUE", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackNOTICE is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4bfee686.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function NOTICE() view returns(uint256)
func (members *Members) PackNOTICE() []byte {
	enc, err := members.abi.Pack("NOTICE")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackNOTICE is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4bfee686.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function NOTICE() view returns(uint256)
func (members *Members) TryPackNOTICE() ([]byte, error) {
	return members.abi.Pack("NOTICE")
}

// UnpackNOTICE is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x4bfee686.
//
// Solidity: function NOTICE() view returns(uint256)
func (members *Members) UnpackNOTICE(data []byte) (*big.Int, error) {
	out, err := members.abi.Unpack("NOTICE", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackOBSERVER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x528021b8.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function OBSERVER() view returns(uint8)
func (members *Members) PackOBSERVER() []byte {
	enc, err := members.abi.Pack("OBSERVER")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackOBSERVER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x528021b8.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function OBSERVER() view returns(uint8)
func (members *Members) TryPackOBSERVER() ([]byte, error) {
	return members.abi.Pack("OBSERVER")
}

// UnpackOBSERVER is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x528021b8.
//
// Solidity: function OBSERVER() view returns(uint8)
func (members *Members) UnpackOBSERVER(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("OBSERVER", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackPARAMETER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x2330bf8f.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function PARAMETER() view returns(uint8)
func (members *Members) PackPARAMETER() []byte {
	enc, err := members.abi.Pack("PARAMETER")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackPARAMETER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x2330bf8f.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function PARAMETER() view returns(uint8)
func (members *Members) TryPackPARAMETER() ([]byte, error) {
	return members.abi.Pack("PARAMETER")
}

// UnpackPARAMETER is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x2330bf8f.
//
// Solidity: function PARAMETER() view returns(uint8)
func (members *Members) UnpackPARAMETER(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("PARAMETER", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackPARDON is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x1dee983a.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function PARDON() view returns(uint8)
func (members *Members) PackPARDON() []byte {
	enc, err := members.abi.Pack("PARDON")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackPARDON is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x1dee983a.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function PARDON() view returns(uint8)
func (members *Members) TryPackPARDON() ([]byte, error) {
	return members.abi.Pack("PARDON")
}

// UnpackPARDON is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x1dee983a.
//
// Solidity: function PARDON() view returns(uint8)
func (members *Members) UnpackPARDON(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("PARDON", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackPRODUCER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd2e1da1e.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function PRODUCER() view returns(uint8)
func (members *Members) PackPRODUCER() []byte {
	enc, err := members.abi.Pack("PRODUCER")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackPRODUCER is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd2e1da1e.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function PRODUCER() view returns(uint8)
func (members *Members) TryPackPRODUCER() ([]byte, error) {
	return members.abi.Pack("PRODUCER")
}

// UnpackPRODUCER is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xd2e1da1e.
//
// Solidity: function PRODUCER() view returns(uint8)
func (members *Members) UnpackPRODUCER(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("PRODUCER", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackREMOVENODE is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4401e68e.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function REMOVE_NODE() view returns(uint8)
func (members *Members) PackREMOVENODE() []byte {
	enc, err := members.abi.Pack("REMOVE_NODE")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackREMOVENODE is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4401e68e.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function REMOVE_NODE() view returns(uint8)
func (members *Members) TryPackREMOVENODE() ([]byte, error) {
	return members.abi.Pack("REMOVE_NODE")
}

// UnpackREMOVENODE is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x4401e68e.
//
// Solidity: function REMOVE_NODE() view returns(uint8)
func (members *Members) UnpackREMOVENODE(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("REMOVE_NODE", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackRESTRICTDEPLOYERS is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x16213004.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function RESTRICT_DEPLOYERS() view returns(uint8)
func (members *Members) PackRESTRICTDEPLOYERS() []byte {
	enc, err := members.abi.Pack("RESTRICT_DEPLOYERS")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRESTRICTDEPLOYERS is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x16213004.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function RESTRICT_DEPLOYERS() view returns(uint8)
func (members *Members) TryPackRESTRICTDEPLOYERS() ([]byte, error) {
	return members.abi.Pack("RESTRICT_DEPLOYERS")
}

// UnpackRESTRICTDEPLOYERS is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x16213004.
//
// Solidity: function RESTRICT_DEPLOYERS() view returns(uint8)
func (members *Members) UnpackRESTRICTDEPLOYERS(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("RESTRICT_DEPLOYERS", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackRESTRICTSENDERS is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd7f90119.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function RESTRICT_SENDERS() view returns(uint8)
func (members *Members) PackRESTRICTSENDERS() []byte {
	enc, err := members.abi.Pack("RESTRICT_SENDERS")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRESTRICTSENDERS is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd7f90119.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function RESTRICT_SENDERS() view returns(uint8)
func (members *Members) TryPackRESTRICTSENDERS() ([]byte, error) {
	return members.abi.Pack("RESTRICT_SENDERS")
}

// UnpackRESTRICTSENDERS is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xd7f90119.
//
// Solidity: function RESTRICT_SENDERS() view returns(uint8)
func (members *Members) UnpackRESTRICTSENDERS(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("RESTRICT_SENDERS", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackSETADMIN is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4d592c6a.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function SET_ADMIN() view returns(uint8)
func (members *Members) PackSETADMIN() []byte {
	enc, err := members.abi.Pack("SET_ADMIN")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSETADMIN is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4d592c6a.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function SET_ADMIN() view returns(uint8)
func (members *Members) TryPackSETADMIN() ([]byte, error) {
	return members.abi.Pack("SET_ADMIN")
}

// UnpackSETADMIN is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x4d592c6a.
//
// Solidity: function SET_ADMIN() view returns(uint8)
func (members *Members) UnpackSETADMIN(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("SET_ADMIN", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackSETNODE is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x6f18ad54.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function SET_NODE() view returns(uint8)
func (members *Members) PackSETNODE() []byte {
	enc, err := members.abi.Pack("SET_NODE")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSETNODE is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x6f18ad54.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function SET_NODE() view returns(uint8)
func (members *Members) TryPackSETNODE() ([]byte, error) {
	return members.abi.Pack("SET_NODE")
}

// UnpackSETNODE is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x6f18ad54.
//
// Solidity: function SET_NODE() view returns(uint8)
func (members *Members) UnpackSETNODE(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("SET_NODE", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackSETTENANT is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x26ad99ea.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function SET_TENANT() view returns(uint8)
func (members *Members) PackSETTENANT() []byte {
	enc, err := members.abi.Pack("SET_TENANT")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSETTENANT is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x26ad99ea.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function SET_TENANT() view returns(uint8)
func (members *Members) TryPackSETTENANT() ([]byte, error) {
	return members.abi.Pack("SET_TENANT")
}

// UnpackSETTENANT is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x26ad99ea.
//
// Solidity: function SET_TENANT() view returns(uint8)
func (members *Members) UnpackSETTENANT(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("SET_TENANT", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackUPGRADE is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x37852d99.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function UPGRADE() view returns(uint8)
func (members *Members) PackUPGRADE() []byte {
	enc, err := members.abi.Pack("UPGRADE")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackUPGRADE is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x37852d99.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function UPGRADE() view returns(uint8)
func (members *Members) TryPackUPGRADE() ([]byte, error) {
	return members.abi.Pack("UPGRADE")
}

// UnpackUPGRADE is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x37852d99.
//
// Solidity: function UPGRADE() view returns(uint8)
func (members *Members) UnpackUPGRADE(data []byte) (uint8, error) {
	out, err := members.abi.Unpack("UPGRADE", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackUPGRADEPLACES is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4118f802.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function UPGRADE_PLACES() view returns(uint256)
func (members *Members) PackUPGRADEPLACES() []byte {
	enc, err := members.abi.Pack("UPGRADE_PLACES")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackUPGRADEPLACES is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4118f802.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function UPGRADE_PLACES() view returns(uint256)
func (members *Members) TryPackUPGRADEPLACES() ([]byte, error) {
	return members.abi.Pack("UPGRADE_PLACES")
}

// UnpackUPGRADEPLACES is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x4118f802.
//
// Solidity: function UPGRADE_PLACES() view returns(uint256)
func (members *Members) UnpackUPGRADEPLACES(data []byte) (*big.Int, error) {
	out, err := members.abi.Unpack("UPGRADE_PLACES", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackAdmin is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf851a440.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function admin() view returns(address)
func (members *Members) PackAdmin() []byte {
	enc, err := members.abi.Pack("admin")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackAdmin is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf851a440.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function admin() view returns(address)
func (members *Members) TryPackAdmin() ([]byte, error) {
	return members.abi.Pack("admin")
}

// UnpackAdmin is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xf851a440.
//
// Solidity: function admin() view returns(address)
func (members *Members) UnpackAdmin(data []byte) (common.Address, error) {
	out, err := members.abi.Unpack("admin", data)
	if err != nil {
		return *new(common.Address), err
	}
	out0 := *abi.ConvertType(out[0], new(common.Address)).(*common.Address)
	return out0, nil
}

// PackApprove is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x93cdd68b.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function approve(uint256 id, bytes32 content) returns()
func (members *Members) PackApprove(id *big.Int, content [32]byte) []byte {
	enc, err := members.abi.Pack("approve", id, content)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackApprove is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x93cdd68b.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function approve(uint256 id, bytes32 content) returns()
func (members *Members) TryPackApprove(id *big.Int, content [32]byte) ([]byte, error) {
	return members.abi.Pack("approve", id, content)
}

// PackChanges is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x7bbbc35e.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function changes() view returns((uint64,uint8,uint64,string,bytes)[])
func (members *Members) PackChanges() []byte {
	enc, err := members.abi.Pack("changes")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackChanges is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x7bbbc35e.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function changes() view returns((uint64,uint8,uint64,string,bytes)[])
func (members *Members) TryPackChanges() ([]byte, error) {
	return members.abi.Pack("changes")
}

// UnpackChanges is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x7bbbc35e.
//
// Solidity: function changes() view returns((uint64,uint8,uint64,string,bytes)[])
func (members *Members) UnpackChanges(data []byte) ([]MembersChange, error) {
	out, err := members.abi.Unpack("changes", data)
	if err != nil {
		return *new([]MembersChange), err
	}
	out0 := *abi.ConvertType(out[0], new([]MembersChange)).(*[]MembersChange)
	return out0, nil
}

// PackDeployers is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x20bdd485.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function deployers() view returns(address[])
func (members *Members) PackDeployers() []byte {
	enc, err := members.abi.Pack("deployers")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackDeployers is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x20bdd485.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function deployers() view returns(address[])
func (members *Members) TryPackDeployers() ([]byte, error) {
	return members.abi.Pack("deployers")
}

// UnpackDeployers is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x20bdd485.
//
// Solidity: function deployers() view returns(address[])
func (members *Members) UnpackDeployers(data []byte) ([]common.Address, error) {
	out, err := members.abi.Unpack("deployers", data)
	if err != nil {
		return *new([]common.Address), err
	}
	out0 := *abi.ConvertType(out[0], new([]common.Address)).(*[]common.Address)
	return out0, nil
}

// PackList is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x0f560cd7.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function list() view returns(bytes[] peerIds, address[] accounts, uint8[] roles)
func (members *Members) PackList() []byte {
	enc, err := members.abi.Pack("list")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackList is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x0f560cd7.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function list() view returns(bytes[] peerIds, address[] accounts, uint8[] roles)
func (members *Members) TryPackList() ([]byte, error) {
	return members.abi.Pack("list")
}

// ListOutput serves as a container for the return parameters of contract
// method List.
type ListOutput struct {
	PeerIds  [][]byte
	Accounts []common.Address
	Roles    []uint8
}

// UnpackList is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x0f560cd7.
//
// Solidity: function list() view returns(bytes[] peerIds, address[] accounts, uint8[] roles)
func (members *Members) UnpackList(data []byte) (ListOutput, error) {
	out, err := members.abi.Unpack("list", data)
	outstruct := new(ListOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.PeerIds = *abi.ConvertType(out[0], new([][]byte)).(*[][]byte)
	outstruct.Accounts = *abi.ConvertType(out[1], new([]common.Address)).(*[]common.Address)
	outstruct.Roles = *abi.ConvertType(out[2], new([]uint8)).(*[]uint8)
	return *outstruct, nil
}

// PackMayDeploy is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x56e54f59.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function mayDeploy(address account) view returns(bool)
func (members *Members) PackMayDeploy(account common.Address) []byte {
	enc, err := members.abi.Pack("mayDeploy", account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMayDeploy is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x56e54f59.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function mayDeploy(address account) view returns(bool)
func (members *Members) TryPackMayDeploy(account common.Address) ([]byte, error) {
	return members.abi.Pack("mayDeploy", account)
}

// UnpackMayDeploy is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x56e54f59.
//
// Solidity: function mayDeploy(address account) view returns(bool)
func (members *Members) UnpackMayDeploy(data []byte) (bool, error) {
	out, err := members.abi.Unpack("mayDeploy", data)
	if err != nil {
		return *new(bool), err
	}
	out0 := *abi.ConvertType(out[0], new(bool)).(*bool)
	return out0, nil
}

// PackMayProduce is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xbb26677b.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function mayProduce(address account) view returns(bool)
func (members *Members) PackMayProduce(account common.Address) []byte {
	enc, err := members.abi.Pack("mayProduce", account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMayProduce is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xbb26677b.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function mayProduce(address account) view returns(bool)
func (members *Members) TryPackMayProduce(account common.Address) ([]byte, error) {
	return members.abi.Pack("mayProduce", account)
}

// UnpackMayProduce is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xbb26677b.
//
// Solidity: function mayProduce(address account) view returns(bool)
func (members *Members) UnpackMayProduce(data []byte) (bool, error) {
	out, err := members.abi.Unpack("mayProduce", data)
	if err != nil {
		return *new(bool), err
	}
	out0 := *abi.ConvertType(out[0], new(bool)).(*bool)
	return out0, nil
}

// PackMaySend is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x50c52c56.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function maySend(address account) view returns(bool)
func (members *Members) PackMaySend(account common.Address) []byte {
	enc, err := members.abi.Pack("maySend", account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackMaySend is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x50c52c56.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function maySend(address account) view returns(bool)
func (members *Members) TryPackMaySend(account common.Address) ([]byte, error) {
	return members.abi.Pack("maySend", account)
}

// UnpackMaySend is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x50c52c56.
//
// Solidity: function maySend(address account) view returns(bool)
func (members *Members) UnpackMaySend(data []byte) (bool, error) {
	out, err := members.abi.Unpack("maySend", data)
	if err != nil {
		return *new(bool), err
	}
	out0 := *abi.ConvertType(out[0], new(bool)).(*bool)
	return out0, nil
}

// PackNode is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4d678b57.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function node(bytes peerId) view returns(address account, uint8 roles)
func (members *Members) PackNode(peerId []byte) []byte {
	enc, err := members.abi.Pack("node", peerId)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackNode is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4d678b57.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function node(bytes peerId) view returns(address account, uint8 roles)
func (members *Members) TryPackNode(peerId []byte) ([]byte, error) {
	return members.abi.Pack("node", peerId)
}

// NodeOutput serves as a container for the return parameters of contract
// method Node.
type NodeOutput struct {
	Account common.Address
	Roles   uint8
}

// UnpackNode is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x4d678b57.
//
// Solidity: function node(bytes peerId) view returns(address account, uint8 roles)
func (members *Members) UnpackNode(data []byte) (NodeOutput, error) {
	out, err := members.abi.Unpack("node", data)
	outstruct := new(NodeOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Account = *abi.ConvertType(out[0], new(common.Address)).(*common.Address)
	outstruct.Roles = *abi.ConvertType(out[1], new(uint8)).(*uint8)
	return *outstruct, nil
}

// PackProposal is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x30326c17.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function proposal(uint256 id) view returns((address,uint64,uint8,bool,bytes,address[]) p, uint256 approvals, bool open)
func (members *Members) PackProposal(id *big.Int) []byte {
	enc, err := members.abi.Pack("proposal", id)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackProposal is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x30326c17.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function proposal(uint256 id) view returns((address,uint64,uint8,bool,bytes,address[]) p, uint256 approvals, bool open)
func (members *Members) TryPackProposal(id *big.Int) ([]byte, error) {
	return members.abi.Pack("proposal", id)
}

// ProposalOutput serves as a container for the return parameters of contract
// method Proposal.
type ProposalOutput struct {
	P         MembersProposal
	Approvals *big.Int
	Open      bool
}

// UnpackProposal is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x30326c17.
//
// Solidity: function proposal(uint256 id) view returns((address,uint64,uint8,bool,bytes,address[]) p, uint256 approvals, bool open)
func (members *Members) UnpackProposal(data []byte) (ProposalOutput, error) {
	out, err := members.abi.Unpack("proposal", data)
	outstruct := new(ProposalOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.P = *abi.ConvertType(out[0], new(MembersProposal)).(*MembersProposal)
	outstruct.Approvals = abi.ConvertType(out[1], new(big.Int)).(*big.Int)
	outstruct.Open = *abi.ConvertType(out[2], new(bool)).(*bool)
	return *outstruct, nil
}

// PackProposalCount is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xda35c664.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function proposalCount() view returns(uint256)
func (members *Members) PackProposalCount() []byte {
	enc, err := members.abi.Pack("proposalCount")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackProposalCount is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xda35c664.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function proposalCount() view returns(uint256)
func (members *Members) TryPackProposalCount() ([]byte, error) {
	return members.abi.Pack("proposalCount")
}

// UnpackProposalCount is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xda35c664.
//
// Solidity: function proposalCount() view returns(uint256)
func (members *Members) UnpackProposalCount(data []byte) (*big.Int, error) {
	out, err := members.abi.Unpack("proposalCount", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackProposalSeconds is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x2d62059a.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function proposalSeconds() view returns(uint64)
func (members *Members) PackProposalSeconds() []byte {
	enc, err := members.abi.Pack("proposalSeconds")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackProposalSeconds is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x2d62059a.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function proposalSeconds() view returns(uint64)
func (members *Members) TryPackProposalSeconds() ([]byte, error) {
	return members.abi.Pack("proposalSeconds")
}

// UnpackProposalSeconds is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x2d62059a.
//
// Solidity: function proposalSeconds() view returns(uint64)
func (members *Members) UnpackProposalSeconds(data []byte) (uint64, error) {
	out, err := members.abi.Unpack("proposalSeconds", data)
	if err != nil {
		return *new(uint64), err
	}
	out0 := *abi.ConvertType(out[0], new(uint64)).(*uint64)
	return out0, nil
}

// PackPropose is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xa3cd4dbe.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function propose(uint8 kind, bytes data) returns(uint256 id)
func (members *Members) PackPropose(kind uint8, data []byte) []byte {
	enc, err := members.abi.Pack("propose", kind, data)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackPropose is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xa3cd4dbe.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function propose(uint8 kind, bytes data) returns(uint256 id)
func (members *Members) TryPackPropose(kind uint8, data []byte) ([]byte, error) {
	return members.abi.Pack("propose", kind, data)
}

// UnpackPropose is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xa3cd4dbe.
//
// Solidity: function propose(uint8 kind, bytes data) returns(uint256 id)
func (members *Members) UnpackPropose(data []byte) (*big.Int, error) {
	out, err := members.abi.Unpack("propose", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackRestrictions is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xa077b298.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function restrictions() view returns(bool senders_, bool deployers_)
func (members *Members) PackRestrictions() []byte {
	enc, err := members.abi.Pack("restrictions")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRestrictions is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xa077b298.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function restrictions() view returns(bool senders_, bool deployers_)
func (members *Members) TryPackRestrictions() ([]byte, error) {
	return members.abi.Pack("restrictions")
}

// RestrictionsOutput serves as a container for the return parameters of contract
// method Restrictions.
type RestrictionsOutput struct {
	Senders   bool
	Deployers bool
}

// UnpackRestrictions is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xa077b298.
//
// Solidity: function restrictions() view returns(bool senders_, bool deployers_)
func (members *Members) UnpackRestrictions(data []byte) (RestrictionsOutput, error) {
	out, err := members.abi.Unpack("restrictions", data)
	outstruct := new(RestrictionsOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Senders = *abi.ConvertType(out[0], new(bool)).(*bool)
	outstruct.Deployers = *abi.ConvertType(out[1], new(bool)).(*bool)
	return *outstruct, nil
}

// PackSenders is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xa3f0ff20.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function senders() view returns(address[])
func (members *Members) PackSenders() []byte {
	enc, err := members.abi.Pack("senders")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSenders is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xa3f0ff20.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function senders() view returns(address[])
func (members *Members) TryPackSenders() ([]byte, error) {
	return members.abi.Pack("senders")
}

// UnpackSenders is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xa3f0ff20.
//
// Solidity: function senders() view returns(address[])
func (members *Members) UnpackSenders(data []byte) ([]common.Address, error) {
	out, err := members.abi.Unpack("senders", data)
	if err != nil {
		return *new([]common.Address), err
	}
	out0 := *abi.ConvertType(out[0], new([]common.Address)).(*[]common.Address)
	return out0, nil
}

// MembersAdminSet represents a AdminSet event raised by the Members contract.
type MembersAdminSet struct {
	Account common.Address
	Raw     *types.Log // Blockchain specific contextual infos
}

const MembersAdminSetEventName = "AdminSet"

// ContractEventName returns the user-defined event name.
func (MembersAdminSet) ContractEventName() string {
	return MembersAdminSetEventName
}

// UnpackAdminSetEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event AdminSet(address indexed account)
func (members *Members) UnpackAdminSetEvent(log *types.Log) (*MembersAdminSet, error) {
	event := "AdminSet"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersAdminSet)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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

// MembersApproved represents a Approved event raised by the Members contract.
type MembersApproved struct {
	Id        *big.Int
	Account   common.Address
	Approvals *big.Int
	Quorum    *big.Int
	Raw       *types.Log // Blockchain specific contextual infos
}

const MembersApprovedEventName = "Approved"

// ContractEventName returns the user-defined event name.
func (MembersApproved) ContractEventName() string {
	return MembersApprovedEventName
}

// UnpackApprovedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Approved(uint256 indexed id, address indexed account, uint256 approvals, uint256 quorum)
func (members *Members) UnpackApprovedEvent(log *types.Log) (*MembersApproved, error) {
	event := "Approved"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersApproved)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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

// MembersChangeDecided represents a ChangeDecided event raised by the Members contract.
type MembersChangeDecided struct {
	Height uint64
	Kind   uint8
	Name   string
	Value  []byte
	Raw    *types.Log // Blockchain specific contextual infos
}

const MembersChangeDecidedEventName = "ChangeDecided"

// ContractEventName returns the user-defined event name.
func (MembersChangeDecided) ContractEventName() string {
	return MembersChangeDecidedEventName
}

// UnpackChangeDecidedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event ChangeDecided(uint64 indexed height, uint8 kind, string name, bytes value)
func (members *Members) UnpackChangeDecidedEvent(log *types.Log) (*MembersChangeDecided, error) {
	event := "ChangeDecided"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersChangeDecided)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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

// MembersDeployerAllowed represents a DeployerAllowed event raised by the Members contract.
type MembersDeployerAllowed struct {
	Account common.Address
	Allowed bool
	Raw     *types.Log // Blockchain specific contextual infos
}

const MembersDeployerAllowedEventName = "DeployerAllowed"

// ContractEventName returns the user-defined event name.
func (MembersDeployerAllowed) ContractEventName() string {
	return MembersDeployerAllowedEventName
}

// UnpackDeployerAllowedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event DeployerAllowed(address indexed account, bool allowed)
func (members *Members) UnpackDeployerAllowedEvent(log *types.Log) (*MembersDeployerAllowed, error) {
	event := "DeployerAllowed"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersDeployerAllowed)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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

// MembersDeployersRestricted represents a DeployersRestricted event raised by the Members contract.
type MembersDeployersRestricted struct {
	On  bool
	Raw *types.Log // Blockchain specific contextual infos
}

const MembersDeployersRestrictedEventName = "DeployersRestricted"

// ContractEventName returns the user-defined event name.
func (MembersDeployersRestricted) ContractEventName() string {
	return MembersDeployersRestrictedEventName
}

// UnpackDeployersRestrictedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event DeployersRestricted(bool on)
func (members *Members) UnpackDeployersRestrictedEvent(log *types.Log) (*MembersDeployersRestricted, error) {
	event := "DeployersRestricted"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersDeployersRestricted)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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

// MembersExecuted represents a Executed event raised by the Members contract.
type MembersExecuted struct {
	Id  *big.Int
	Raw *types.Log // Blockchain specific contextual infos
}

const MembersExecutedEventName = "Executed"

// ContractEventName returns the user-defined event name.
func (MembersExecuted) ContractEventName() string {
	return MembersExecutedEventName
}

// UnpackExecutedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Executed(uint256 indexed id)
func (members *Members) UnpackExecutedEvent(log *types.Log) (*MembersExecuted, error) {
	event := "Executed"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersExecuted)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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

// MembersNodeRemoved represents a NodeRemoved event raised by the Members contract.
type MembersNodeRemoved struct {
	PeerId  []byte
	Account common.Address
	Raw     *types.Log // Blockchain specific contextual infos
}

const MembersNodeRemovedEventName = "NodeRemoved"

// ContractEventName returns the user-defined event name.
func (MembersNodeRemoved) ContractEventName() string {
	return MembersNodeRemovedEventName
}

// UnpackNodeRemovedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event NodeRemoved(bytes peerId, address indexed account)
func (members *Members) UnpackNodeRemovedEvent(log *types.Log) (*MembersNodeRemoved, error) {
	event := "NodeRemoved"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersNodeRemoved)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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

// MembersNodeSet represents a NodeSet event raised by the Members contract.
type MembersNodeSet struct {
	PeerId  []byte
	Account common.Address
	Roles   uint8
	Raw     *types.Log // Blockchain specific contextual infos
}

const MembersNodeSetEventName = "NodeSet"

// ContractEventName returns the user-defined event name.
func (MembersNodeSet) ContractEventName() string {
	return MembersNodeSetEventName
}

// UnpackNodeSetEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event NodeSet(bytes peerId, address indexed account, uint8 roles)
func (members *Members) UnpackNodeSetEvent(log *types.Log) (*MembersNodeSet, error) {
	event := "NodeSet"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersNodeSet)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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

// MembersProposed represents a Proposed event raised by the Members contract.
type MembersProposed struct {
	Id       *big.Int
	Proposer common.Address
	Kind     uint8
	Data     []byte
	Raw      *types.Log // Blockchain specific contextual infos
}

const MembersProposedEventName = "Proposed"

// ContractEventName returns the user-defined event name.
func (MembersProposed) ContractEventName() string {
	return MembersProposedEventName
}

// UnpackProposedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Proposed(uint256 indexed id, address indexed proposer, uint8 kind, bytes data)
func (members *Members) UnpackProposedEvent(log *types.Log) (*MembersProposed, error) {
	event := "Proposed"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersProposed)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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

// MembersSenderAllowed represents a SenderAllowed event raised by the Members contract.
type MembersSenderAllowed struct {
	Account common.Address
	Allowed bool
	Raw     *types.Log // Blockchain specific contextual infos
}

const MembersSenderAllowedEventName = "SenderAllowed"

// ContractEventName returns the user-defined event name.
func (MembersSenderAllowed) ContractEventName() string {
	return MembersSenderAllowedEventName
}

// UnpackSenderAllowedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event SenderAllowed(address indexed account, bool allowed)
func (members *Members) UnpackSenderAllowedEvent(log *types.Log) (*MembersSenderAllowed, error) {
	event := "SenderAllowed"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersSenderAllowed)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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

// MembersSendersRestricted represents a SendersRestricted event raised by the Members contract.
type MembersSendersRestricted struct {
	On  bool
	Raw *types.Log // Blockchain specific contextual infos
}

const MembersSendersRestrictedEventName = "SendersRestricted"

// ContractEventName returns the user-defined event name.
func (MembersSendersRestricted) ContractEventName() string {
	return MembersSendersRestrictedEventName
}

// UnpackSendersRestrictedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event SendersRestricted(bool on)
func (members *Members) UnpackSendersRestrictedEvent(log *types.Log) (*MembersSendersRestricted, error) {
	event := "SendersRestricted"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != members.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(MembersSendersRestricted)
	if len(log.Data) > 0 {
		if err := members.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range members.abi.Events[event].Inputs {
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
