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

// BrokersBroker is an auto generated low-level Go binding around an user-defined struct.
type BrokersBroker struct {
	Id      uint32
	Account common.Address
	Host    string
	Port    uint16
	PeerId  []byte
	Live    bool
}

// LeasesClaim is an auto generated low-level Go binding around an user-defined struct.
type LeasesClaim struct {
	Topic     [32]byte
	Partition uint32
	Epoch     uint32
}

// LeasesHandover is an auto generated low-level Go binding around an user-defined struct.
type LeasesHandover struct {
	Topic     [32]byte
	Partition uint32
	Epoch     uint32
	To        common.Address
}

// LeasesLease is an auto generated low-level Go binding around an user-defined struct.
type LeasesLease struct {
	Leader   common.Address
	Epoch    uint32
	Replicas []common.Address
	Wanted   []common.Address
}

// NotaryCheckpoint is an auto generated low-level Go binding around an user-defined struct.
type NotaryCheckpoint struct {
	Topic  [32]byte
	Seq    uint64
	Root   [32]byte
	Leaves uint64
}

// NotaryOffset is an auto generated low-level Go binding around an user-defined struct.
type NotaryOffset struct {
	Group     [32]byte
	Topic     [32]byte
	Partition uint32
	Offset    int64
}

// NotaryOperations is an auto generated low-level Go binding around an user-defined struct.
type NotaryOperations struct {
	Topic   [32]byte
	Count   uint32
	Entries []byte
}

// NotaryStanding is an auto generated low-level Go binding around an user-defined struct.
type NotaryStanding struct {
	Tenant  [32]byte
	Account common.Address
	Refused uint16
	Honest  uint32
}

// TopicAdminInfo is an auto generated low-level Go binding around an user-defined struct.
type TopicAdminInfo struct {
	Id             [32]byte
	Name           string
	Owner          common.Address
	Auditor        common.Address
	Encrypted      bool
	Deleted        bool
	Created        uint64
	KeyEpoch       uint32
	PseudonymEpoch uint32
	Config         []byte
	Replicas       uint8
	Leases         []LeasesLease
}

// TopicsBaseAcl is an auto generated low-level Go binding around an user-defined struct.
type TopicsBaseAcl struct {
	Resource   uint8
	Pattern    uint8
	Name       string
	Principal  string
	Host       string
	Operation  uint8
	Permission uint8
}

// TopicsBaseTenant is an auto generated low-level Go binding around an user-defined struct.
type TopicsBaseTenant struct {
	Name           string
	Owner          common.Address
	BytesPerSecond uint64
	Connections    uint32
	Topics         uint32
	Partitions     uint32
	TopicsUsed     uint32
	PartitionsUsed uint32
}

// TopicsToken is an auto generated low-level Go binding around an user-defined struct.
type TopicsToken struct {
	Account common.Address
	Issued  uint64
	Expires uint64
	Scope   uint8
	Nonce   [32]byte
}

// TopicsMetaData contains all meta data concerning the Topics contract.
var TopicsMetaData = bind.MetaData{
	ABI: "[{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"id\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"string\",\"name\":\"host\",\"type\":\"string\"},{\"indexed\":false,\"internalType\":\"uint16\",\"name\":\"port\",\"type\":\"uint16\"},{\"indexed\":false,\"internalType\":\"bytes\",\"name\":\"peerId\",\"type\":\"bytes\"},{\"indexed\":false,\"internalType\":\"bool\",\"name\":\"live\",\"type\":\"bool\"}],\"name\":\"BrokerSet\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":true,\"internalType\":\"uint64\",\"name\":\"seq\",\"type\":\"uint64\"},{\"indexed\":false,\"internalType\":\"bytes32\",\"name\":\"root\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"leaves\",\"type\":\"uint64\"},{\"indexed\":false,\"internalType\":\"address\",\"name\":\"broker\",\"type\":\"address\"}],\"name\":\"Checkpointed\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"broker\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"number\",\"type\":\"uint64\"}],\"name\":\"Committed\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"tenant\",\"type\":\"bytes32\"},{\"components\":[{\"internalType\":\"uint8\",\"name\":\"resource\",\"type\":\"uint8\"},{\"internalType\":\"uint8\",\"name\":\"pattern\",\"type\":\"uint8\"},{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"string\",\"name\":\"principal\",\"type\":\"string\"},{\"internalType\":\"string\",\"name\":\"host\",\"type\":\"string\"},{\"internalType\":\"uint8\",\"name\":\"operation\",\"type\":\"uint8\"},{\"internalType\":\"uint8\",\"name\":\"permission\",\"type\":\"uint8\"}],\"indexed\":false,\"internalType\":\"structTopicsBase.Acl\",\"name\":\"entry\",\"type\":\"tuple\"}],\"name\":\"Granted\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"epoch\",\"type\":\"uint32\"},{\"indexed\":true,\"internalType\":\"address\",\"name\":\"reader\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"bytes\",\"name\":\"sealedKey\",\"type\":\"bytes\"}],\"name\":\"KeysSet\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"partition\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"address\",\"name\":\"leader\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"epoch\",\"type\":\"uint32\"}],\"name\":\"LeaseChanged\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"group\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"partition\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"int64\",\"name\":\"offset\",\"type\":\"int64\"}],\"name\":\"OffsetCommitted\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":true,\"internalType\":\"address\",\"name\":\"broker\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"previousHeight\",\"type\":\"uint64\"},{\"indexed\":false,\"internalType\":\"bytes32\",\"name\":\"previousRoot\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"count\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"bytes32\",\"name\":\"root\",\"type\":\"bytes32\"}],\"name\":\"Operated\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"address\",\"name\":\"pseudonym\",\"type\":\"address\"}],\"name\":\"PseudonymRevoked\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"partition\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"address\",\"name\":\"leader\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"epoch\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"address[]\",\"name\":\"replicas\",\"type\":\"address[]\"}],\"name\":\"ReplicasChanged\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"partition\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"address[]\",\"name\":\"replicas\",\"type\":\"address[]\"}],\"name\":\"ReplicasWanted\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"tenant\",\"type\":\"bytes32\"},{\"components\":[{\"internalType\":\"uint8\",\"name\":\"resource\",\"type\":\"uint8\"},{\"internalType\":\"uint8\",\"name\":\"pattern\",\"type\":\"uint8\"},{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"string\",\"name\":\"principal\",\"type\":\"string\"},{\"internalType\":\"string\",\"name\":\"host\",\"type\":\"string\"},{\"internalType\":\"uint8\",\"name\":\"operation\",\"type\":\"uint8\"},{\"internalType\":\"uint8\",\"name\":\"permission\",\"type\":\"uint8\"}],\"indexed\":false,\"internalType\":\"structTopicsBase.Acl\",\"name\":\"entry\",\"type\":\"tuple\"}],\"name\":\"Revoked\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"bytes\",\"name\":\"sealKey\",\"type\":\"bytes\"}],\"name\":\"SealKeySet\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"tenant\",\"type\":\"bytes32\"},{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":true,\"internalType\":\"address\",\"name\":\"broker\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint8\",\"name\":\"reputation\",\"type\":\"uint8\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"time\",\"type\":\"uint64\"},{\"indexed\":false,\"internalType\":\"uint16\",\"name\":\"refused\",\"type\":\"uint16\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"honest\",\"type\":\"uint32\"}],\"name\":\"StandingChanged\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"tenant\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"indexed\":false,\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"bytesPerSecond\",\"type\":\"uint64\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"connections\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"topics\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"partitions\",\"type\":\"uint32\"}],\"name\":\"TenantSet\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint64\",\"name\":\"issuedUntil\",\"type\":\"uint64\"}],\"name\":\"TokensCancelled\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"partitions\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"pseudonymEpoch\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"bytes\",\"name\":\"config\",\"type\":\"bytes\"}],\"name\":\"TopicChanged\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"tenant\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"indexed\":false,\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"address\",\"name\":\"auditor\",\"type\":\"address\"},{\"indexed\":false,\"internalType\":\"bool\",\"name\":\"encrypted\",\"type\":\"bool\"},{\"indexed\":false,\"internalType\":\"uint32\",\"name\":\"partitions\",\"type\":\"uint32\"},{\"indexed\":false,\"internalType\":\"bytes\",\"name\":\"config\",\"type\":\"bytes\"}],\"name\":\"TopicCreated\",\"type\":\"event\"},{\"anonymous\":false,\"inputs\":[{\"indexed\":true,\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"indexed\":false,\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"}],\"name\":\"TopicDeleted\",\"type\":\"event\"},{\"inputs\":[{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"uint256\",\"name\":\"from\",\"type\":\"uint256\"},{\"internalType\":\"uint256\",\"name\":\"n\",\"type\":\"uint256\"}],\"name\":\"aclPage\",\"outputs\":[{\"components\":[{\"internalType\":\"uint8\",\"name\":\"resource\",\"type\":\"uint8\"},{\"internalType\":\"uint8\",\"name\":\"pattern\",\"type\":\"uint8\"},{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"string\",\"name\":\"principal\",\"type\":\"string\"},{\"internalType\":\"string\",\"name\":\"host\",\"type\":\"string\"},{\"internalType\":\"uint8\",\"name\":\"operation\",\"type\":\"uint8\"},{\"internalType\":\"uint8\",\"name\":\"permission\",\"type\":\"uint8\"}],\"internalType\":\"structTopicsBase.Acl[]\",\"name\":\"page\",\"type\":\"tuple[]\"},{\"internalType\":\"uint256\",\"name\":\"total\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"},{\"internalType\":\"uint32\",\"name\":\"total\",\"type\":\"uint32\"}],\"name\":\"addPartitions\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint32\",\"name\":\"time\",\"type\":\"uint32\"}],\"name\":\"attend\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"broker\",\"type\":\"address\"}],\"name\":\"attendsUntil\",\"outputs\":[{\"internalType\":\"uint64\",\"name\":\"\",\"type\":\"uint64\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"brokers\",\"outputs\":[{\"components\":[{\"internalType\":\"uint32\",\"name\":\"id\",\"type\":\"uint32\"},{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"internalType\":\"string\",\"name\":\"host\",\"type\":\"string\"},{\"internalType\":\"uint16\",\"name\":\"port\",\"type\":\"uint16\"},{\"internalType\":\"bytes\",\"name\":\"peerId\",\"type\":\"bytes\"},{\"internalType\":\"bool\",\"name\":\"live\",\"type\":\"bool\"}],\"internalType\":\"structBrokers.Broker[]\",\"name\":\"list\",\"type\":\"tuple[]\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"cancelTokens\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"}],\"name\":\"checkpoint\",\"outputs\":[{\"internalType\":\"uint64\",\"name\":\"seq\",\"type\":\"uint64\"},{\"internalType\":\"bytes32\",\"name\":\"root\",\"type\":\"bytes32\"},{\"internalType\":\"uint64\",\"name\":\"leaves\",\"type\":\"uint64\"},{\"internalType\":\"uint64\",\"name\":\"height\",\"type\":\"uint64\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"components\":[{\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"internalType\":\"uint32\",\"name\":\"partition\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"epoch\",\"type\":\"uint32\"}],\"internalType\":\"structLeases.Claim[]\",\"name\":\"list\",\"type\":\"tuple[]\"}],\"name\":\"claim\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"taken\",\"type\":\"uint256\"}],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint64\",\"name\":\"number\",\"type\":\"uint64\"},{\"components\":[{\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"internalType\":\"uint64\",\"name\":\"seq\",\"type\":\"uint64\"},{\"internalType\":\"bytes32\",\"name\":\"root\",\"type\":\"bytes32\"},{\"internalType\":\"uint64\",\"name\":\"leaves\",\"type\":\"uint64\"}],\"internalType\":\"structNotary.Checkpoint[]\",\"name\":\"checkpoints\",\"type\":\"tuple[]\"},{\"components\":[{\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"internalType\":\"uint32\",\"name\":\"count\",\"type\":\"uint32\"},{\"internalType\":\"bytes\",\"name\":\"entries\",\"type\":\"bytes\"}],\"internalType\":\"structNotary.Operations[]\",\"name\":\"operations_\",\"type\":\"tuple[]\"},{\"components\":[{\"internalType\":\"bytes32\",\"name\":\"tenant\",\"type\":\"bytes32\"},{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"internalType\":\"uint16\",\"name\":\"refused\",\"type\":\"uint16\"},{\"internalType\":\"uint32\",\"name\":\"honest\",\"type\":\"uint32\"}],\"internalType\":\"structNotary.Standing[]\",\"name\":\"standings\",\"type\":\"tuple[]\"},{\"components\":[{\"internalType\":\"bytes32\",\"name\":\"group\",\"type\":\"bytes32\"},{\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"internalType\":\"uint32\",\"name\":\"partition\",\"type\":\"uint32\"},{\"internalType\":\"int64\",\"name\":\"offset\",\"type\":\"int64\"}],\"internalType\":\"structNotary.Offset[]\",\"name\":\"offsets\",\"type\":\"tuple[]\"}],\"name\":\"commit\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"broker\",\"type\":\"address\"}],\"name\":\"commits\",\"outputs\":[{\"internalType\":\"uint64\",\"name\":\"\",\"type\":\"uint64\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"},{\"internalType\":\"bytes\",\"name\":\"config\",\"type\":\"bytes\"}],\"name\":\"configure\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"uint32\",\"name\":\"partitions\",\"type\":\"uint32\"},{\"internalType\":\"uint16\",\"name\":\"replicas\",\"type\":\"uint16\"},{\"internalType\":\"bytes\",\"name\":\"config\",\"type\":\"bytes\"},{\"internalType\":\"address\",\"name\":\"auditor\",\"type\":\"address\"},{\"internalType\":\"bool\",\"name\":\"encrypted\",\"type\":\"bool\"}],\"name\":\"createTopic\",\"outputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"}],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"}],\"name\":\"deleteTopic\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"string\",\"name\":\"name_\",\"type\":\"string\"},{\"components\":[{\"internalType\":\"uint8\",\"name\":\"resource\",\"type\":\"uint8\"},{\"internalType\":\"uint8\",\"name\":\"pattern\",\"type\":\"uint8\"},{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"string\",\"name\":\"principal\",\"type\":\"string\"},{\"internalType\":\"string\",\"name\":\"host\",\"type\":\"string\"},{\"internalType\":\"uint8\",\"name\":\"operation\",\"type\":\"uint8\"},{\"internalType\":\"uint8\",\"name\":\"permission\",\"type\":\"uint8\"}],\"internalType\":\"structTopicsBase.Acl[]\",\"name\":\"entries\",\"type\":\"tuple[]\"}],\"name\":\"grant\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"components\":[{\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"internalType\":\"uint32\",\"name\":\"partition\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"epoch\",\"type\":\"uint32\"},{\"internalType\":\"address\",\"name\":\"to\",\"type\":\"address\"}],\"internalType\":\"structLeases.Handover[]\",\"name\":\"list\",\"type\":\"tuple[]\"}],\"name\":\"handOver\",\"outputs\":[{\"internalType\":\"uint256\",\"name\":\"given\",\"type\":\"uint256\"}],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"}],\"name\":\"keyEpoch\",\"outputs\":[{\"internalType\":\"uint32\",\"name\":\"\",\"type\":\"uint32\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"}],\"name\":\"nextPseudonyms\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"group\",\"type\":\"bytes32\"},{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"},{\"internalType\":\"uint32\",\"name\":\"partition\",\"type\":\"uint32\"}],\"name\":\"offsetOf\",\"outputs\":[{\"internalType\":\"int64\",\"name\":\"offset\",\"type\":\"int64\"},{\"internalType\":\"bool\",\"name\":\"known\",\"type\":\"bool\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"}],\"name\":\"operations\",\"outputs\":[{\"internalType\":\"uint64\",\"name\":\"count\",\"type\":\"uint64\"},{\"internalType\":\"bytes32\",\"name\":\"root\",\"type\":\"bytes32\"},{\"internalType\":\"uint64\",\"name\":\"lastOpHeight\",\"type\":\"uint64\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"}],\"name\":\"pardon\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"}],\"name\":\"pseudonymEpoch\",\"outputs\":[{\"internalType\":\"uint32\",\"name\":\"\",\"type\":\"uint32\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"},{\"internalType\":\"address\",\"name\":\"pseudonym\",\"type\":\"address\"}],\"name\":\"pseudonymRevoked\",\"outputs\":[{\"internalType\":\"bool\",\"name\":\"\",\"type\":\"bool\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes\",\"name\":\"key\",\"type\":\"bytes\"}],\"name\":\"register\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"string\",\"name\":\"host\",\"type\":\"string\"},{\"internalType\":\"uint16\",\"name\":\"port\",\"type\":\"uint16\"},{\"internalType\":\"bytes\",\"name\":\"peerId\",\"type\":\"bytes\"}],\"name\":\"registerBroker\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"components\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"internalType\":\"uint64\",\"name\":\"issued\",\"type\":\"uint64\"},{\"internalType\":\"uint64\",\"name\":\"expires\",\"type\":\"uint64\"},{\"internalType\":\"uint8\",\"name\":\"scope\",\"type\":\"uint8\"},{\"internalType\":\"bytes32\",\"name\":\"nonce\",\"type\":\"bytes32\"}],\"internalType\":\"structTopics.Token\",\"name\":\"t\",\"type\":\"tuple\"},{\"internalType\":\"bytes\",\"name\":\"signature\",\"type\":\"bytes\"},{\"internalType\":\"bytes\",\"name\":\"data\",\"type\":\"bytes\"}],\"name\":\"relay\",\"outputs\":[{\"internalType\":\"bytes\",\"name\":\"\",\"type\":\"bytes\"}],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"tenantId\",\"type\":\"bytes32\"},{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"reputation\",\"outputs\":[{\"internalType\":\"uint8\",\"name\":\"\",\"type\":\"uint8\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[],\"name\":\"retireBroker\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"string\",\"name\":\"name_\",\"type\":\"string\"},{\"components\":[{\"internalType\":\"uint8\",\"name\":\"resource\",\"type\":\"uint8\"},{\"internalType\":\"uint8\",\"name\":\"pattern\",\"type\":\"uint8\"},{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"string\",\"name\":\"principal\",\"type\":\"string\"},{\"internalType\":\"string\",\"name\":\"host\",\"type\":\"string\"},{\"internalType\":\"uint8\",\"name\":\"operation\",\"type\":\"uint8\"},{\"internalType\":\"uint8\",\"name\":\"permission\",\"type\":\"uint8\"}],\"internalType\":\"structTopicsBase.Acl[]\",\"name\":\"entries\",\"type\":\"tuple[]\"}],\"name\":\"revoke\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes\",\"name\":\"peerId\",\"type\":\"bytes\"}],\"name\":\"revokeBroker\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"},{\"internalType\":\"address\",\"name\":\"pseudonym\",\"type\":\"address\"}],\"name\":\"revokePseudonym\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"sealKey\",\"outputs\":[{\"internalType\":\"bytes\",\"name\":\"\",\"type\":\"bytes\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"},{\"internalType\":\"uint32\",\"name\":\"epoch\",\"type\":\"uint32\"},{\"internalType\":\"address\",\"name\":\"reader\",\"type\":\"address\"}],\"name\":\"sealedKey\",\"outputs\":[{\"internalType\":\"bytes\",\"name\":\"\",\"type\":\"bytes\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"},{\"internalType\":\"uint32\",\"name\":\"epoch\",\"type\":\"uint32\"},{\"internalType\":\"address[]\",\"name\":\"readers\",\"type\":\"address[]\"},{\"internalType\":\"bytes[]\",\"name\":\"keys\",\"type\":\"bytes[]\"}],\"name\":\"setKeys\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"},{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"setOwner\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"internalType\":\"uint32\",\"name\":\"partition\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"epoch\",\"type\":\"uint32\"},{\"internalType\":\"address[]\",\"name\":\"replicas\",\"type\":\"address[]\"}],\"name\":\"setReplicas\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"},{\"internalType\":\"uint64\",\"name\":\"bytesPerSecond\",\"type\":\"uint64\"},{\"internalType\":\"uint32\",\"name\":\"connections\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"maxTopics\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"maxPartitions\",\"type\":\"uint32\"}],\"name\":\"setTenant\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"}],\"name\":\"tenant\",\"outputs\":[{\"components\":[{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"},{\"internalType\":\"uint64\",\"name\":\"bytesPerSecond\",\"type\":\"uint64\"},{\"internalType\":\"uint32\",\"name\":\"connections\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"topics\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"partitions\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"topicsUsed\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"partitionsUsed\",\"type\":\"uint32\"}],\"internalType\":\"structTopicsBase.Tenant\",\"name\":\"\",\"type\":\"tuple\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint256\",\"name\":\"from\",\"type\":\"uint256\"},{\"internalType\":\"uint256\",\"name\":\"n\",\"type\":\"uint256\"}],\"name\":\"tenantPage\",\"outputs\":[{\"components\":[{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"},{\"internalType\":\"uint64\",\"name\":\"bytesPerSecond\",\"type\":\"uint64\"},{\"internalType\":\"uint32\",\"name\":\"connections\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"topics\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"partitions\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"topicsUsed\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"partitionsUsed\",\"type\":\"uint32\"}],\"internalType\":\"structTopicsBase.Tenant[]\",\"name\":\"page\",\"type\":\"tuple[]\"},{\"internalType\":\"uint256\",\"name\":\"total\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"components\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"},{\"internalType\":\"uint64\",\"name\":\"issued\",\"type\":\"uint64\"},{\"internalType\":\"uint64\",\"name\":\"expires\",\"type\":\"uint64\"},{\"internalType\":\"uint8\",\"name\":\"scope\",\"type\":\"uint8\"},{\"internalType\":\"bytes32\",\"name\":\"nonce\",\"type\":\"bytes32\"}],\"internalType\":\"structTopics.Token\",\"name\":\"t\",\"type\":\"tuple\"}],\"name\":\"tokenDigest\",\"outputs\":[{\"internalType\":\"bytes32\",\"name\":\"\",\"type\":\"bytes32\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"address\",\"name\":\"account\",\"type\":\"address\"}],\"name\":\"tokensCancelled\",\"outputs\":[{\"internalType\":\"uint64\",\"name\":\"\",\"type\":\"uint64\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"}],\"name\":\"topic\",\"outputs\":[{\"components\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"},{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"},{\"internalType\":\"address\",\"name\":\"auditor\",\"type\":\"address\"},{\"internalType\":\"bool\",\"name\":\"encrypted\",\"type\":\"bool\"},{\"internalType\":\"bool\",\"name\":\"deleted\",\"type\":\"bool\"},{\"internalType\":\"uint64\",\"name\":\"created\",\"type\":\"uint64\"},{\"internalType\":\"uint32\",\"name\":\"keyEpoch\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"pseudonymEpoch\",\"type\":\"uint32\"},{\"internalType\":\"bytes\",\"name\":\"config\",\"type\":\"bytes\"},{\"internalType\":\"uint8\",\"name\":\"replicas\",\"type\":\"uint8\"},{\"components\":[{\"internalType\":\"address\",\"name\":\"leader\",\"type\":\"address\"},{\"internalType\":\"uint32\",\"name\":\"epoch\",\"type\":\"uint32\"},{\"internalType\":\"address[]\",\"name\":\"replicas\",\"type\":\"address[]\"},{\"internalType\":\"address[]\",\"name\":\"wanted\",\"type\":\"address[]\"}],\"internalType\":\"structLeases.Lease[]\",\"name\":\"leases\",\"type\":\"tuple[]\"}],\"internalType\":\"structTopicAdmin.Info\",\"name\":\"\",\"type\":\"tuple\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"}],\"name\":\"topicId\",\"outputs\":[{\"internalType\":\"bytes32\",\"name\":\"\",\"type\":\"bytes32\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"uint256\",\"name\":\"from\",\"type\":\"uint256\"},{\"internalType\":\"uint256\",\"name\":\"n\",\"type\":\"uint256\"}],\"name\":\"topicPage\",\"outputs\":[{\"components\":[{\"internalType\":\"bytes32\",\"name\":\"id\",\"type\":\"bytes32\"},{\"internalType\":\"string\",\"name\":\"name\",\"type\":\"string\"},{\"internalType\":\"address\",\"name\":\"owner\",\"type\":\"address\"},{\"internalType\":\"address\",\"name\":\"auditor\",\"type\":\"address\"},{\"internalType\":\"bool\",\"name\":\"encrypted\",\"type\":\"bool\"},{\"internalType\":\"bool\",\"name\":\"deleted\",\"type\":\"bool\"},{\"internalType\":\"uint64\",\"name\":\"created\",\"type\":\"uint64\"},{\"internalType\":\"uint32\",\"name\":\"keyEpoch\",\"type\":\"uint32\"},{\"internalType\":\"uint32\",\"name\":\"pseudonymEpoch\",\"type\":\"uint32\"},{\"internalType\":\"bytes\",\"name\":\"config\",\"type\":\"bytes\"},{\"internalType\":\"uint8\",\"name\":\"replicas\",\"type\":\"uint8\"},{\"components\":[{\"internalType\":\"address\",\"name\":\"leader\",\"type\":\"address\"},{\"internalType\":\"uint32\",\"name\":\"epoch\",\"type\":\"uint32\"},{\"internalType\":\"address[]\",\"name\":\"replicas\",\"type\":\"address[]\"},{\"internalType\":\"address[]\",\"name\":\"wanted\",\"type\":\"address[]\"}],\"internalType\":\"structLeases.Lease[]\",\"name\":\"leases\",\"type\":\"tuple[]\"}],\"internalType\":\"structTopicAdmin.Info[]\",\"name\":\"page\",\"type\":\"tuple[]\"},{\"internalType\":\"uint256\",\"name\":\"total\",\"type\":\"uint256\"}],\"stateMutability\":\"view\",\"type\":\"function\"},{\"inputs\":[{\"internalType\":\"bytes32\",\"name\":\"topic\",\"type\":\"bytes32\"},{\"internalType\":\"uint32\",\"name\":\"partition\",\"type\":\"uint32\"},{\"internalType\":\"address[]\",\"name\":\"replicas\",\"type\":\"address[]\"}],\"name\":\"wantReplicas\",\"outputs\":[],\"stateMutability\":\"nonpayable\",\"type\":\"function\"}]",
	ID:  "Topics",
}

// Topics is an auto generated Go binding around an Ethereum contract.
type Topics struct {
	abi abi.ABI
}

// GetABI returns the ABI associated with this contract binding.
func (c *Topics) GetABI() abi.ABI {
	return c.abi
}

// NewTopics creates a new instance of Topics.
func NewTopics() *Topics {
	parsed, err := TopicsMetaData.ParseABI()
	if err != nil {
		panic(errors.New("invalid ABI: " + err.Error()))
	}
	return &Topics{abi: *parsed}
}

// Instance creates a wrapper for a deployed contract instance at the given address.
// Use this to create the instance object passed to abigen v2 library functions Call, Transact, etc.
func (c *Topics) Instance(backend bind.ContractBackend, addr common.Address) *bind.BoundContract {
	return bind.NewBoundContract(addr, c.abi, backend, backend, backend)
}

// PackAclPage is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xaddea533.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function aclPage(string name, uint256 from, uint256 n) view returns((uint8,uint8,string,string,string,uint8,uint8)[] page, uint256 total)
func (topics *Topics) PackAclPage(name string, from *big.Int, n *big.Int) []byte {
	enc, err := topics.abi.Pack("aclPage", name, from, n)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackAclPage is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xaddea533.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function aclPage(string name, uint256 from, uint256 n) view returns((uint8,uint8,string,string,string,uint8,uint8)[] page, uint256 total)
func (topics *Topics) TryPackAclPage(name string, from *big.Int, n *big.Int) ([]byte, error) {
	return topics.abi.Pack("aclPage", name, from, n)
}

// AclPageOutput serves as a container for the return parameters of contract
// method AclPage.
type AclPageOutput struct {
	Page  []TopicsBaseAcl
	Total *big.Int
}

// UnpackAclPage is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xaddea533.
//
// Solidity: function aclPage(string name, uint256 from, uint256 n) view returns((uint8,uint8,string,string,string,uint8,uint8)[] page, uint256 total)
func (topics *Topics) UnpackAclPage(data []byte) (AclPageOutput, error) {
	out, err := topics.abi.Unpack("aclPage", data)
	outstruct := new(AclPageOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Page = *abi.ConvertType(out[0], new([]TopicsBaseAcl)).(*[]TopicsBaseAcl)
	outstruct.Total = abi.ConvertType(out[1], new(big.Int)).(*big.Int)
	return *outstruct, nil
}

// PackAddPartitions is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xc195be69.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function addPartitions(bytes32 id, uint32 total) returns()
func (topics *Topics) PackAddPartitions(id [32]byte, total uint32) []byte {
	enc, err := topics.abi.Pack("addPartitions", id, total)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackAddPartitions is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xc195be69.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function addPartitions(bytes32 id, uint32 total) returns()
func (topics *Topics) TryPackAddPartitions(id [32]byte, total uint32) ([]byte, error) {
	return topics.abi.Pack("addPartitions", id, total)
}

// PackAttend is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x5b30feb9.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function attend(uint32 time) returns()
func (topics *Topics) PackAttend(time uint32) []byte {
	enc, err := topics.abi.Pack("attend", time)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackAttend is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x5b30feb9.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function attend(uint32 time) returns()
func (topics *Topics) TryPackAttend(time uint32) ([]byte, error) {
	return topics.abi.Pack("attend", time)
}

// PackAttendsUntil is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x75ae8c50.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function attendsUntil(address broker) view returns(uint64)
func (topics *Topics) PackAttendsUntil(broker common.Address) []byte {
	enc, err := topics.abi.Pack("attendsUntil", broker)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackAttendsUntil is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x75ae8c50.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function attendsUntil(address broker) view returns(uint64)
func (topics *Topics) TryPackAttendsUntil(broker common.Address) ([]byte, error) {
	return topics.abi.Pack("attendsUntil", broker)
}

// UnpackAttendsUntil is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x75ae8c50.
//
// Solidity: function attendsUntil(address broker) view returns(uint64)
func (topics *Topics) UnpackAttendsUntil(data []byte) (uint64, error) {
	out, err := topics.abi.Unpack("attendsUntil", data)
	if err != nil {
		return *new(uint64), err
	}
	out0 := *abi.ConvertType(out[0], new(uint64)).(*uint64)
	return out0, nil
}

// PackBrokers is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xfa33fd29.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function brokers() view returns((uint32,address,string,uint16,bytes,bool)[] list)
func (topics *Topics) PackBrokers() []byte {
	enc, err := topics.abi.Pack("brokers")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackBrokers is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xfa33fd29.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function brokers() view returns((uint32,address,string,uint16,bytes,bool)[] list)
func (topics *Topics) TryPackBrokers() ([]byte, error) {
	return topics.abi.Pack("brokers")
}

// UnpackBrokers is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xfa33fd29.
//
// Solidity: function brokers() view returns((uint32,address,string,uint16,bytes,bool)[] list)
func (topics *Topics) UnpackBrokers(data []byte) ([]BrokersBroker, error) {
	out, err := topics.abi.Unpack("brokers", data)
	if err != nil {
		return *new([]BrokersBroker), err
	}
	out0 := *abi.ConvertType(out[0], new([]BrokersBroker)).(*[]BrokersBroker)
	return out0, nil
}

// PackCancelTokens is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4895cd9c.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function cancelTokens() returns()
func (topics *Topics) PackCancelTokens() []byte {
	enc, err := topics.abi.Pack("cancelTokens")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackCancelTokens is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4895cd9c.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function cancelTokens() returns()
func (topics *Topics) TryPackCancelTokens() ([]byte, error) {
	return topics.abi.Pack("cancelTokens")
}

// PackCheckpoint is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x5b34eba0.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function checkpoint(bytes32 id) view returns(uint64 seq, bytes32 root, uint64 leaves, uint64 height)
func (topics *Topics) PackCheckpoint(id [32]byte) []byte {
	enc, err := topics.abi.Pack("checkpoint", id)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackCheckpoint is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x5b34eba0.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function checkpoint(bytes32 id) view returns(uint64 seq, bytes32 root, uint64 leaves, uint64 height)
func (topics *Topics) TryPackCheckpoint(id [32]byte) ([]byte, error) {
	return topics.abi.Pack("checkpoint", id)
}

// CheckpointOutput serves as a container for the return parameters of contract
// method Checkpoint.
type CheckpointOutput struct {
	Seq    uint64
	Root   [32]byte
	Leaves uint64
	Height uint64
}

// UnpackCheckpoint is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x5b34eba0.
//
// Solidity: function checkpoint(bytes32 id) view returns(uint64 seq, bytes32 root, uint64 leaves, uint64 height)
func (topics *Topics) UnpackCheckpoint(data []byte) (CheckpointOutput, error) {
	out, err := topics.abi.Unpack("checkpoint", data)
	outstruct := new(CheckpointOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Seq = *abi.ConvertType(out[0], new(uint64)).(*uint64)
	outstruct.Root = *abi.ConvertType(out[1], new([32]byte)).(*[32]byte)
	outstruct.Leaves = *abi.ConvertType(out[2], new(uint64)).(*uint64)
	outstruct.Height = *abi.ConvertType(out[3], new(uint64)).(*uint64)
	return *outstruct, nil
}

// PackClaim is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xc4aa2f74.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function claim((bytes32,uint32,uint32)[] list) returns(uint256 taken)
func (topics *Topics) PackClaim(list []LeasesClaim) []byte {
	enc, err := topics.abi.Pack("claim", list)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackClaim is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xc4aa2f74.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function claim((bytes32,uint32,uint32)[] list) returns(uint256 taken)
func (topics *Topics) TryPackClaim(list []LeasesClaim) ([]byte, error) {
	return topics.abi.Pack("claim", list)
}

// UnpackClaim is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xc4aa2f74.
//
// Solidity: function claim((bytes32,uint32,uint32)[] list) returns(uint256 taken)
func (topics *Topics) UnpackClaim(data []byte) (*big.Int, error) {
	out, err := topics.abi.Unpack("claim", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackCommit is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xa7de736b.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function commit(uint64 number, (bytes32,uint64,bytes32,uint64)[] checkpoints, (bytes32,uint32,bytes)[] operations_, (bytes32,address,uint16,uint32)[] standings, (bytes32,bytes32,uint32,int64)[] offsets) returns()
func (topics *Topics) PackCommit(number uint64, checkpoints []NotaryCheckpoint, operations []NotaryOperations, standings []NotaryStanding, offsets []NotaryOffset) []byte {
	enc, err := topics.abi.Pack("commit", number, checkpoints, operations, standings, offsets)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackCommit is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xa7de736b.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function commit(uint64 number, (bytes32,uint64,bytes32,uint64)[] checkpoints, (bytes32,uint32,bytes)[] operations_, (bytes32,address,uint16,uint32)[] standings, (bytes32,bytes32,uint32,int64)[] offsets) returns()
func (topics *Topics) TryPackCommit(number uint64, checkpoints []NotaryCheckpoint, operations []NotaryOperations, standings []NotaryStanding, offsets []NotaryOffset) ([]byte, error) {
	return topics.abi.Pack("commit", number, checkpoints, operations, standings, offsets)
}

// PackCommits is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x7b43a8e6.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function commits(address broker) view returns(uint64)
func (topics *Topics) PackCommits(broker common.Address) []byte {
	enc, err := topics.abi.Pack("commits", broker)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackCommits is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x7b43a8e6.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function commits(address broker) view returns(uint64)
func (topics *Topics) TryPackCommits(broker common.Address) ([]byte, error) {
	return topics.abi.Pack("commits", broker)
}

// UnpackCommits is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x7b43a8e6.
//
// Solidity: function commits(address broker) view returns(uint64)
func (topics *Topics) UnpackCommits(data []byte) (uint64, error) {
	out, err := topics.abi.Unpack("commits", data)
	if err != nil {
		return *new(uint64), err
	}
	out0 := *abi.ConvertType(out[0], new(uint64)).(*uint64)
	return out0, nil
}

// PackConfigure is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x2d8db57c.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function configure(bytes32 id, bytes config) returns()
func (topics *Topics) PackConfigure(id [32]byte, config []byte) []byte {
	enc, err := topics.abi.Pack("configure", id, config)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackConfigure is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x2d8db57c.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function configure(bytes32 id, bytes config) returns()
func (topics *Topics) TryPackConfigure(id [32]byte, config []byte) ([]byte, error) {
	return topics.abi.Pack("configure", id, config)
}

// PackCreateTopic is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf7d2aba8.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function createTopic(string name, uint32 partitions, uint16 replicas, bytes config, address auditor, bool encrypted) returns(bytes32 id)
func (topics *Topics) PackCreateTopic(name string, partitions uint32, replicas uint16, config []byte, auditor common.Address, encrypted bool) []byte {
	enc, err := topics.abi.Pack("createTopic", name, partitions, replicas, config, auditor, encrypted)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackCreateTopic is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf7d2aba8.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function createTopic(string name, uint32 partitions, uint16 replicas, bytes config, address auditor, bool encrypted) returns(bytes32 id)
func (topics *Topics) TryPackCreateTopic(name string, partitions uint32, replicas uint16, config []byte, auditor common.Address, encrypted bool) ([]byte, error) {
	return topics.abi.Pack("createTopic", name, partitions, replicas, config, auditor, encrypted)
}

// UnpackCreateTopic is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xf7d2aba8.
//
// Solidity: function createTopic(string name, uint32 partitions, uint16 replicas, bytes config, address auditor, bool encrypted) returns(bytes32 id)
func (topics *Topics) UnpackCreateTopic(data []byte) ([32]byte, error) {
	out, err := topics.abi.Unpack("createTopic", data)
	if err != nil {
		return *new([32]byte), err
	}
	out0 := *abi.ConvertType(out[0], new([32]byte)).(*[32]byte)
	return out0, nil
}

// PackDeleteTopic is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xebf580e5.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function deleteTopic(bytes32 id) returns()
func (topics *Topics) PackDeleteTopic(id [32]byte) []byte {
	enc, err := topics.abi.Pack("deleteTopic", id)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackDeleteTopic is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xebf580e5.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function deleteTopic(bytes32 id) returns()
func (topics *Topics) TryPackDeleteTopic(id [32]byte) ([]byte, error) {
	return topics.abi.Pack("deleteTopic", id)
}

// PackGrant is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x23a170fa.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function grant(string name_, (uint8,uint8,string,string,string,uint8,uint8)[] entries) returns()
func (topics *Topics) PackGrant(name string, entries []TopicsBaseAcl) []byte {
	enc, err := topics.abi.Pack("grant", name, entries)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackGrant is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x23a170fa.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function grant(string name_, (uint8,uint8,string,string,string,uint8,uint8)[] entries) returns()
func (topics *Topics) TryPackGrant(name string, entries []TopicsBaseAcl) ([]byte, error) {
	return topics.abi.Pack("grant", name, entries)
}

// PackHandOver is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xc21d391e.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function handOver((bytes32,uint32,uint32,address)[] list) returns(uint256 given)
func (topics *Topics) PackHandOver(list []LeasesHandover) []byte {
	enc, err := topics.abi.Pack("handOver", list)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackHandOver is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xc21d391e.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function handOver((bytes32,uint32,uint32,address)[] list) returns(uint256 given)
func (topics *Topics) TryPackHandOver(list []LeasesHandover) ([]byte, error) {
	return topics.abi.Pack("handOver", list)
}

// UnpackHandOver is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xc21d391e.
//
// Solidity: function handOver((bytes32,uint32,uint32,address)[] list) returns(uint256 given)
func (topics *Topics) UnpackHandOver(data []byte) (*big.Int, error) {
	out, err := topics.abi.Unpack("handOver", data)
	if err != nil {
		return new(big.Int), err
	}
	out0 := abi.ConvertType(out[0], new(big.Int)).(*big.Int)
	return out0, nil
}

// PackKeyEpoch is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3b153220.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function keyEpoch(bytes32 id) view returns(uint32)
func (topics *Topics) PackKeyEpoch(id [32]byte) []byte {
	enc, err := topics.abi.Pack("keyEpoch", id)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackKeyEpoch is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3b153220.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function keyEpoch(bytes32 id) view returns(uint32)
func (topics *Topics) TryPackKeyEpoch(id [32]byte) ([]byte, error) {
	return topics.abi.Pack("keyEpoch", id)
}

// UnpackKeyEpoch is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x3b153220.
//
// Solidity: function keyEpoch(bytes32 id) view returns(uint32)
func (topics *Topics) UnpackKeyEpoch(data []byte) (uint32, error) {
	out, err := topics.abi.Unpack("keyEpoch", data)
	if err != nil {
		return *new(uint32), err
	}
	out0 := *abi.ConvertType(out[0], new(uint32)).(*uint32)
	return out0, nil
}

// PackNextPseudonyms is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x72c81148.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function nextPseudonyms(bytes32 id) returns()
func (topics *Topics) PackNextPseudonyms(id [32]byte) []byte {
	enc, err := topics.abi.Pack("nextPseudonyms", id)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackNextPseudonyms is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x72c81148.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function nextPseudonyms(bytes32 id) returns()
func (topics *Topics) TryPackNextPseudonyms(id [32]byte) ([]byte, error) {
	return topics.abi.Pack("nextPseudonyms", id)
}

// PackOffsetOf is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x63e71618.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function offsetOf(bytes32 group, bytes32 id, uint32 partition) view returns(int64 offset, bool known)
func (topics *Topics) PackOffsetOf(group [32]byte, id [32]byte, partition uint32) []byte {
	enc, err := topics.abi.Pack("offsetOf", group, id, partition)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackOffsetOf is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x63e71618.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function offsetOf(bytes32 group, bytes32 id, uint32 partition) view returns(int64 offset, bool known)
func (topics *Topics) TryPackOffsetOf(group [32]byte, id [32]byte, partition uint32) ([]byte, error) {
	return topics.abi.Pack("offsetOf", group, id, partition)
}

// OffsetOfOutput serves as a container for the return parameters of contract
// method OffsetOf.
type OffsetOfOutput struct {
	Offset int64
	Known  bool
}

// UnpackOffsetOf is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x63e71618.
//
// Solidity: function offsetOf(bytes32 group, bytes32 id, uint32 partition) view returns(int64 offset, bool known)
func (topics *Topics) UnpackOffsetOf(data []byte) (OffsetOfOutput, error) {
	out, err := topics.abi.Unpack("offsetOf", data)
	outstruct := new(OffsetOfOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Offset = *abi.ConvertType(out[0], new(int64)).(*int64)
	outstruct.Known = *abi.ConvertType(out[1], new(bool)).(*bool)
	return *outstruct, nil
}

// PackOperations is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xc74f349b.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function operations(bytes32 id) view returns(uint64 count, bytes32 root, uint64 lastOpHeight)
func (topics *Topics) PackOperations(id [32]byte) []byte {
	enc, err := topics.abi.Pack("operations", id)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackOperations is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xc74f349b.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function operations(bytes32 id) view returns(uint64 count, bytes32 root, uint64 lastOpHeight)
func (topics *Topics) TryPackOperations(id [32]byte) ([]byte, error) {
	return topics.abi.Pack("operations", id)
}

// OperationsOutput serves as a container for the return parameters of contract
// method Operations.
type OperationsOutput struct {
	Count        uint64
	Root         [32]byte
	LastOpHeight uint64
}

// UnpackOperations is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xc74f349b.
//
// Solidity: function operations(bytes32 id) view returns(uint64 count, bytes32 root, uint64 lastOpHeight)
func (topics *Topics) UnpackOperations(data []byte) (OperationsOutput, error) {
	out, err := topics.abi.Unpack("operations", data)
	outstruct := new(OperationsOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Count = *abi.ConvertType(out[0], new(uint64)).(*uint64)
	outstruct.Root = *abi.ConvertType(out[1], new([32]byte)).(*[32]byte)
	outstruct.LastOpHeight = *abi.ConvertType(out[2], new(uint64)).(*uint64)
	return *outstruct, nil
}

// PackPardon is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd368aa44.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function pardon(address account, string name) returns()
func (topics *Topics) PackPardon(account common.Address, name string) []byte {
	enc, err := topics.abi.Pack("pardon", account, name)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackPardon is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd368aa44.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function pardon(address account, string name) returns()
func (topics *Topics) TryPackPardon(account common.Address, name string) ([]byte, error) {
	return topics.abi.Pack("pardon", account, name)
}

// PackPseudonymEpoch is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3bf17cf6.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function pseudonymEpoch(bytes32 id) view returns(uint32)
func (topics *Topics) PackPseudonymEpoch(id [32]byte) []byte {
	enc, err := topics.abi.Pack("pseudonymEpoch", id)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackPseudonymEpoch is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3bf17cf6.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function pseudonymEpoch(bytes32 id) view returns(uint32)
func (topics *Topics) TryPackPseudonymEpoch(id [32]byte) ([]byte, error) {
	return topics.abi.Pack("pseudonymEpoch", id)
}

// UnpackPseudonymEpoch is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x3bf17cf6.
//
// Solidity: function pseudonymEpoch(bytes32 id) view returns(uint32)
func (topics *Topics) UnpackPseudonymEpoch(data []byte) (uint32, error) {
	out, err := topics.abi.Unpack("pseudonymEpoch", data)
	if err != nil {
		return *new(uint32), err
	}
	out0 := *abi.ConvertType(out[0], new(uint32)).(*uint32)
	return out0, nil
}

// PackPseudonymRevoked is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x9289b5ed.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function pseudonymRevoked(bytes32 id, address pseudonym) view returns(bool)
func (topics *Topics) PackPseudonymRevoked(id [32]byte, pseudonym common.Address) []byte {
	enc, err := topics.abi.Pack("pseudonymRevoked", id, pseudonym)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackPseudonymRevoked is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x9289b5ed.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function pseudonymRevoked(bytes32 id, address pseudonym) view returns(bool)
func (topics *Topics) TryPackPseudonymRevoked(id [32]byte, pseudonym common.Address) ([]byte, error) {
	return topics.abi.Pack("pseudonymRevoked", id, pseudonym)
}

// UnpackPseudonymRevoked is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x9289b5ed.
//
// Solidity: function pseudonymRevoked(bytes32 id, address pseudonym) view returns(bool)
func (topics *Topics) UnpackPseudonymRevoked(data []byte) (bool, error) {
	out, err := topics.abi.Unpack("pseudonymRevoked", data)
	if err != nil {
		return *new(bool), err
	}
	out0 := *abi.ConvertType(out[0], new(bool)).(*bool)
	return out0, nil
}

// PackRegister is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x82fbdc9c.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function register(bytes key) returns()
func (topics *Topics) PackRegister(key []byte) []byte {
	enc, err := topics.abi.Pack("register", key)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRegister is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x82fbdc9c.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function register(bytes key) returns()
func (topics *Topics) TryPackRegister(key []byte) ([]byte, error) {
	return topics.abi.Pack("register", key)
}

// PackRegisterBroker is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xb04279fb.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function registerBroker(string host, uint16 port, bytes peerId) returns()
func (topics *Topics) PackRegisterBroker(host string, port uint16, peerId []byte) []byte {
	enc, err := topics.abi.Pack("registerBroker", host, port, peerId)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRegisterBroker is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xb04279fb.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function registerBroker(string host, uint16 port, bytes peerId) returns()
func (topics *Topics) TryPackRegisterBroker(host string, port uint16, peerId []byte) ([]byte, error) {
	return topics.abi.Pack("registerBroker", host, port, peerId)
}

// PackRelay is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x37d5f3b6.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function relay((address,uint64,uint64,uint8,bytes32) t, bytes signature, bytes data) returns(bytes)
func (topics *Topics) PackRelay(t TopicsToken, signature []byte, data []byte) []byte {
	enc, err := topics.abi.Pack("relay", t, signature, data)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRelay is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x37d5f3b6.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function relay((address,uint64,uint64,uint8,bytes32) t, bytes signature, bytes data) returns(bytes)
func (topics *Topics) TryPackRelay(t TopicsToken, signature []byte, data []byte) ([]byte, error) {
	return topics.abi.Pack("relay", t, signature, data)
}

// UnpackRelay is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x37d5f3b6.
//
// Solidity: function relay((address,uint64,uint64,uint8,bytes32) t, bytes signature, bytes data) returns(bytes)
func (topics *Topics) UnpackRelay(data []byte) ([]byte, error) {
	out, err := topics.abi.Unpack("relay", data)
	if err != nil {
		return *new([]byte), err
	}
	out0 := *abi.ConvertType(out[0], new([]byte)).(*[]byte)
	return out0, nil
}

// PackReputation is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x9ffbc785.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function reputation(bytes32 tenantId, address account) view returns(uint8)
func (topics *Topics) PackReputation(tenantId [32]byte, account common.Address) []byte {
	enc, err := topics.abi.Pack("reputation", tenantId, account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackReputation is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x9ffbc785.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function reputation(bytes32 tenantId, address account) view returns(uint8)
func (topics *Topics) TryPackReputation(tenantId [32]byte, account common.Address) ([]byte, error) {
	return topics.abi.Pack("reputation", tenantId, account)
}

// UnpackReputation is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x9ffbc785.
//
// Solidity: function reputation(bytes32 tenantId, address account) view returns(uint8)
func (topics *Topics) UnpackReputation(data []byte) (uint8, error) {
	out, err := topics.abi.Unpack("reputation", data)
	if err != nil {
		return *new(uint8), err
	}
	out0 := *abi.ConvertType(out[0], new(uint8)).(*uint8)
	return out0, nil
}

// PackRetireBroker is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4527273b.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function retireBroker() returns()
func (topics *Topics) PackRetireBroker() []byte {
	enc, err := topics.abi.Pack("retireBroker")
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRetireBroker is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x4527273b.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function retireBroker() returns()
func (topics *Topics) TryPackRetireBroker() ([]byte, error) {
	return topics.abi.Pack("retireBroker")
}

// PackRevoke is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x7f6b210a.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function revoke(string name_, (uint8,uint8,string,string,string,uint8,uint8)[] entries) returns()
func (topics *Topics) PackRevoke(name string, entries []TopicsBaseAcl) []byte {
	enc, err := topics.abi.Pack("revoke", name, entries)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRevoke is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x7f6b210a.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function revoke(string name_, (uint8,uint8,string,string,string,uint8,uint8)[] entries) returns()
func (topics *Topics) TryPackRevoke(name string, entries []TopicsBaseAcl) ([]byte, error) {
	return topics.abi.Pack("revoke", name, entries)
}

// PackRevokeBroker is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x51a686b7.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function revokeBroker(bytes peerId) returns()
func (topics *Topics) PackRevokeBroker(peerId []byte) []byte {
	enc, err := topics.abi.Pack("revokeBroker", peerId)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRevokeBroker is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x51a686b7.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function revokeBroker(bytes peerId) returns()
func (topics *Topics) TryPackRevokeBroker(peerId []byte) ([]byte, error) {
	return topics.abi.Pack("revokeBroker", peerId)
}

// PackRevokePseudonym is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf2d72229.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function revokePseudonym(bytes32 id, address pseudonym) returns()
func (topics *Topics) PackRevokePseudonym(id [32]byte, pseudonym common.Address) []byte {
	enc, err := topics.abi.Pack("revokePseudonym", id, pseudonym)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackRevokePseudonym is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf2d72229.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function revokePseudonym(bytes32 id, address pseudonym) returns()
func (topics *Topics) TryPackRevokePseudonym(id [32]byte, pseudonym common.Address) ([]byte, error) {
	return topics.abi.Pack("revokePseudonym", id, pseudonym)
}

// PackSealKey is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xb79aee78.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function sealKey(address account) view returns(bytes)
func (topics *Topics) PackSealKey(account common.Address) []byte {
	enc, err := topics.abi.Pack("sealKey", account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSealKey is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xb79aee78.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function sealKey(address account) view returns(bytes)
func (topics *Topics) TryPackSealKey(account common.Address) ([]byte, error) {
	return topics.abi.Pack("sealKey", account)
}

// UnpackSealKey is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xb79aee78.
//
// Solidity: function sealKey(address account) view returns(bytes)
func (topics *Topics) UnpackSealKey(data []byte) ([]byte, error) {
	out, err := topics.abi.Unpack("sealKey", data)
	if err != nil {
		return *new([]byte), err
	}
	out0 := *abi.ConvertType(out[0], new([]byte)).(*[]byte)
	return out0, nil
}

// PackSealedKey is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x902c32a2.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function sealedKey(bytes32 id, uint32 epoch, address reader) view returns(bytes)
func (topics *Topics) PackSealedKey(id [32]byte, epoch uint32, reader common.Address) []byte {
	enc, err := topics.abi.Pack("sealedKey", id, epoch, reader)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSealedKey is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x902c32a2.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function sealedKey(bytes32 id, uint32 epoch, address reader) view returns(bytes)
func (topics *Topics) TryPackSealedKey(id [32]byte, epoch uint32, reader common.Address) ([]byte, error) {
	return topics.abi.Pack("sealedKey", id, epoch, reader)
}

// UnpackSealedKey is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x902c32a2.
//
// Solidity: function sealedKey(bytes32 id, uint32 epoch, address reader) view returns(bytes)
func (topics *Topics) UnpackSealedKey(data []byte) ([]byte, error) {
	out, err := topics.abi.Unpack("sealedKey", data)
	if err != nil {
		return *new([]byte), err
	}
	out0 := *abi.ConvertType(out[0], new([]byte)).(*[]byte)
	return out0, nil
}

// PackSetKeys is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x56ebb842.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function setKeys(bytes32 id, uint32 epoch, address[] readers, bytes[] keys) returns()
func (topics *Topics) PackSetKeys(id [32]byte, epoch uint32, readers []common.Address, keys [][]byte) []byte {
	enc, err := topics.abi.Pack("setKeys", id, epoch, readers, keys)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSetKeys is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x56ebb842.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function setKeys(bytes32 id, uint32 epoch, address[] readers, bytes[] keys) returns()
func (topics *Topics) TryPackSetKeys(id [32]byte, epoch uint32, readers []common.Address, keys [][]byte) ([]byte, error) {
	return topics.abi.Pack("setKeys", id, epoch, readers, keys)
}

// PackSetOwner is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x5b0fc9c3.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function setOwner(bytes32 id, address account) returns()
func (topics *Topics) PackSetOwner(id [32]byte, account common.Address) []byte {
	enc, err := topics.abi.Pack("setOwner", id, account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSetOwner is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x5b0fc9c3.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function setOwner(bytes32 id, address account) returns()
func (topics *Topics) TryPackSetOwner(id [32]byte, account common.Address) ([]byte, error) {
	return topics.abi.Pack("setOwner", id, account)
}

// PackSetReplicas is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x807de663.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function setReplicas(bytes32 topic, uint32 partition, uint32 epoch, address[] replicas) returns()
func (topics *Topics) PackSetReplicas(topic [32]byte, partition uint32, epoch uint32, replicas []common.Address) []byte {
	enc, err := topics.abi.Pack("setReplicas", topic, partition, epoch, replicas)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSetReplicas is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x807de663.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function setReplicas(bytes32 topic, uint32 partition, uint32 epoch, address[] replicas) returns()
func (topics *Topics) TryPackSetReplicas(topic [32]byte, partition uint32, epoch uint32, replicas []common.Address) ([]byte, error) {
	return topics.abi.Pack("setReplicas", topic, partition, epoch, replicas)
}

// PackSetTenant is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x8da98f61.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function setTenant(string name, address owner, uint64 bytesPerSecond, uint32 connections, uint32 maxTopics, uint32 maxPartitions) returns()
func (topics *Topics) PackSetTenant(name string, owner common.Address, bytesPerSecond uint64, connections uint32, maxTopics uint32, maxPartitions uint32) []byte {
	enc, err := topics.abi.Pack("setTenant", name, owner, bytesPerSecond, connections, maxTopics, maxPartitions)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackSetTenant is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x8da98f61.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function setTenant(string name, address owner, uint64 bytesPerSecond, uint32 connections, uint32 maxTopics, uint32 maxPartitions) returns()
func (topics *Topics) TryPackSetTenant(name string, owner common.Address, bytesPerSecond uint64, connections uint32, maxTopics uint32, maxPartitions uint32) ([]byte, error) {
	return topics.abi.Pack("setTenant", name, owner, bytesPerSecond, connections, maxTopics, maxPartitions)
}

// PackTenant is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x1a138af0.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function tenant(string name) view returns((string,address,uint64,uint32,uint32,uint32,uint32,uint32))
func (topics *Topics) PackTenant(name string) []byte {
	enc, err := topics.abi.Pack("tenant", name)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackTenant is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x1a138af0.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function tenant(string name) view returns((string,address,uint64,uint32,uint32,uint32,uint32,uint32))
func (topics *Topics) TryPackTenant(name string) ([]byte, error) {
	return topics.abi.Pack("tenant", name)
}

// UnpackTenant is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x1a138af0.
//
// Solidity: function tenant(string name) view returns((string,address,uint64,uint32,uint32,uint32,uint32,uint32))
func (topics *Topics) UnpackTenant(data []byte) (TopicsBaseTenant, error) {
	out, err := topics.abi.Unpack("tenant", data)
	if err != nil {
		return *new(TopicsBaseTenant), err
	}
	out0 := *abi.ConvertType(out[0], new(TopicsBaseTenant)).(*TopicsBaseTenant)
	return out0, nil
}

// PackTenantPage is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd4cf5644.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function tenantPage(uint256 from, uint256 n) view returns((string,address,uint64,uint32,uint32,uint32,uint32,uint32)[] page, uint256 total)
func (topics *Topics) PackTenantPage(from *big.Int, n *big.Int) []byte {
	enc, err := topics.abi.Pack("tenantPage", from, n)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackTenantPage is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xd4cf5644.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function tenantPage(uint256 from, uint256 n) view returns((string,address,uint64,uint32,uint32,uint32,uint32,uint32)[] page, uint256 total)
func (topics *Topics) TryPackTenantPage(from *big.Int, n *big.Int) ([]byte, error) {
	return topics.abi.Pack("tenantPage", from, n)
}

// TenantPageOutput serves as a container for the return parameters of contract
// method TenantPage.
type TenantPageOutput struct {
	Page  []TopicsBaseTenant
	Total *big.Int
}

// UnpackTenantPage is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xd4cf5644.
//
// Solidity: function tenantPage(uint256 from, uint256 n) view returns((string,address,uint64,uint32,uint32,uint32,uint32,uint32)[] page, uint256 total)
func (topics *Topics) UnpackTenantPage(data []byte) (TenantPageOutput, error) {
	out, err := topics.abi.Unpack("tenantPage", data)
	outstruct := new(TenantPageOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Page = *abi.ConvertType(out[0], new([]TopicsBaseTenant)).(*[]TopicsBaseTenant)
	outstruct.Total = abi.ConvertType(out[1], new(big.Int)).(*big.Int)
	return *outstruct, nil
}

// PackTokenDigest is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xce27e1e0.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function tokenDigest((address,uint64,uint64,uint8,bytes32) t) view returns(bytes32)
func (topics *Topics) PackTokenDigest(t TopicsToken) []byte {
	enc, err := topics.abi.Pack("tokenDigest", t)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackTokenDigest is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xce27e1e0.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function tokenDigest((address,uint64,uint64,uint8,bytes32) t) view returns(bytes32)
func (topics *Topics) TryPackTokenDigest(t TopicsToken) ([]byte, error) {
	return topics.abi.Pack("tokenDigest", t)
}

// UnpackTokenDigest is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xce27e1e0.
//
// Solidity: function tokenDigest((address,uint64,uint64,uint8,bytes32) t) view returns(bytes32)
func (topics *Topics) UnpackTokenDigest(data []byte) ([32]byte, error) {
	out, err := topics.abi.Unpack("tokenDigest", data)
	if err != nil {
		return *new([32]byte), err
	}
	out0 := *abi.ConvertType(out[0], new([32]byte)).(*[32]byte)
	return out0, nil
}

// PackTokensCancelled is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xfae7c704.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function tokensCancelled(address account) view returns(uint64)
func (topics *Topics) PackTokensCancelled(account common.Address) []byte {
	enc, err := topics.abi.Pack("tokensCancelled", account)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackTokensCancelled is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xfae7c704.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function tokensCancelled(address account) view returns(uint64)
func (topics *Topics) TryPackTokensCancelled(account common.Address) ([]byte, error) {
	return topics.abi.Pack("tokensCancelled", account)
}

// UnpackTokensCancelled is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xfae7c704.
//
// Solidity: function tokensCancelled(address account) view returns(uint64)
func (topics *Topics) UnpackTokensCancelled(data []byte) (uint64, error) {
	out, err := topics.abi.Unpack("tokensCancelled", data)
	if err != nil {
		return *new(uint64), err
	}
	out0 := *abi.ConvertType(out[0], new(uint64)).(*uint64)
	return out0, nil
}

// PackTopic is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf2657bba.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function topic(bytes32 id) view returns((bytes32,string,address,address,bool,bool,uint64,uint32,uint32,bytes,uint8,(address,uint32,address[],address[])[]))
func (topics *Topics) PackTopic(id [32]byte) []byte {
	enc, err := topics.abi.Pack("topic", id)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackTopic is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xf2657bba.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function topic(bytes32 id) view returns((bytes32,string,address,address,bool,bool,uint64,uint32,uint32,bytes,uint8,(address,uint32,address[],address[])[]))
func (topics *Topics) TryPackTopic(id [32]byte) ([]byte, error) {
	return topics.abi.Pack("topic", id)
}

// UnpackTopic is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xf2657bba.
//
// Solidity: function topic(bytes32 id) view returns((bytes32,string,address,address,bool,bool,uint64,uint32,uint32,bytes,uint8,(address,uint32,address[],address[])[]))
func (topics *Topics) UnpackTopic(data []byte) (TopicAdminInfo, error) {
	out, err := topics.abi.Unpack("topic", data)
	if err != nil {
		return *new(TopicAdminInfo), err
	}
	out0 := *abi.ConvertType(out[0], new(TopicAdminInfo)).(*TopicAdminInfo)
	return out0, nil
}

// PackTopicId is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3e4a836f.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function topicId(string name) view returns(bytes32)
func (topics *Topics) PackTopicId(name string) []byte {
	enc, err := topics.abi.Pack("topicId", name)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackTopicId is the Go binding used to pack the parameters required for calling
// the contract method with ID 0x3e4a836f.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function topicId(string name) view returns(bytes32)
func (topics *Topics) TryPackTopicId(name string) ([]byte, error) {
	return topics.abi.Pack("topicId", name)
}

// UnpackTopicId is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0x3e4a836f.
//
// Solidity: function topicId(string name) view returns(bytes32)
func (topics *Topics) UnpackTopicId(data []byte) ([32]byte, error) {
	out, err := topics.abi.Unpack("topicId", data)
	if err != nil {
		return *new([32]byte), err
	}
	out0 := *abi.ConvertType(out[0], new([32]byte)).(*[32]byte)
	return out0, nil
}

// PackTopicPage is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xe62a038d.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function topicPage(uint256 from, uint256 n) view returns((bytes32,string,address,address,bool,bool,uint64,uint32,uint32,bytes,uint8,(address,uint32,address[],address[])[])[] page, uint256 total)
func (topics *Topics) PackTopicPage(from *big.Int, n *big.Int) []byte {
	enc, err := topics.abi.Pack("topicPage", from, n)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackTopicPage is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xe62a038d.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function topicPage(uint256 from, uint256 n) view returns((bytes32,string,address,address,bool,bool,uint64,uint32,uint32,bytes,uint8,(address,uint32,address[],address[])[])[] page, uint256 total)
func (topics *Topics) TryPackTopicPage(from *big.Int, n *big.Int) ([]byte, error) {
	return topics.abi.Pack("topicPage", from, n)
}

// TopicPageOutput serves as a container for the return parameters of contract
// method TopicPage.
type TopicPageOutput struct {
	Page  []TopicAdminInfo
	Total *big.Int
}

// UnpackTopicPage is the Go binding that unpacks the parameters returned
// from invoking the contract method with ID 0xe62a038d.
//
// Solidity: function topicPage(uint256 from, uint256 n) view returns((bytes32,string,address,address,bool,bool,uint64,uint32,uint32,bytes,uint8,(address,uint32,address[],address[])[])[] page, uint256 total)
func (topics *Topics) UnpackTopicPage(data []byte) (TopicPageOutput, error) {
	out, err := topics.abi.Unpack("topicPage", data)
	outstruct := new(TopicPageOutput)
	if err != nil {
		return *outstruct, err
	}
	outstruct.Page = *abi.ConvertType(out[0], new([]TopicAdminInfo)).(*[]TopicAdminInfo)
	outstruct.Total = abi.ConvertType(out[1], new(big.Int)).(*big.Int)
	return *outstruct, nil
}

// PackWantReplicas is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xfffdb3a4.  This method will panic if any
// invalid/nil inputs are passed.
//
// Solidity: function wantReplicas(bytes32 topic, uint32 partition, address[] replicas) returns()
func (topics *Topics) PackWantReplicas(topic [32]byte, partition uint32, replicas []common.Address) []byte {
	enc, err := topics.abi.Pack("wantReplicas", topic, partition, replicas)
	if err != nil {
		panic(err)
	}
	return enc
}

// TryPackWantReplicas is the Go binding used to pack the parameters required for calling
// the contract method with ID 0xfffdb3a4.  This method will return an error
// if any inputs are invalid/nil.
//
// Solidity: function wantReplicas(bytes32 topic, uint32 partition, address[] replicas) returns()
func (topics *Topics) TryPackWantReplicas(topic [32]byte, partition uint32, replicas []common.Address) ([]byte, error) {
	return topics.abi.Pack("wantReplicas", topic, partition, replicas)
}

// TopicsBrokerSet represents a BrokerSet event raised by the Topics contract.
type TopicsBrokerSet struct {
	Account common.Address
	Id      uint32
	Host    string
	Port    uint16
	PeerId  []byte
	Live    bool
	Raw     *types.Log // Blockchain specific contextual infos
}

const TopicsBrokerSetEventName = "BrokerSet"

// ContractEventName returns the user-defined event name.
func (TopicsBrokerSet) ContractEventName() string {
	return TopicsBrokerSetEventName
}

// UnpackBrokerSetEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event BrokerSet(address indexed account, uint32 id, string host, uint16 port, bytes peerId, bool live)
func (topics *Topics) UnpackBrokerSetEvent(log *types.Log) (*TopicsBrokerSet, error) {
	event := "BrokerSet"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsBrokerSet)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsCheckpointed represents a Checkpointed event raised by the Topics contract.
type TopicsCheckpointed struct {
	Topic  [32]byte
	Seq    uint64
	Root   [32]byte
	Leaves uint64
	Broker common.Address
	Raw    *types.Log // Blockchain specific contextual infos
}

const TopicsCheckpointedEventName = "Checkpointed"

// ContractEventName returns the user-defined event name.
func (TopicsCheckpointed) ContractEventName() string {
	return TopicsCheckpointedEventName
}

// UnpackCheckpointedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Checkpointed(bytes32 indexed topic, uint64 indexed seq, bytes32 root, uint64 leaves, address broker)
func (topics *Topics) UnpackCheckpointedEvent(log *types.Log) (*TopicsCheckpointed, error) {
	event := "Checkpointed"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsCheckpointed)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsCommitted represents a Committed event raised by the Topics contract.
type TopicsCommitted struct {
	Broker common.Address
	Number uint64
	Raw    *types.Log // Blockchain specific contextual infos
}

const TopicsCommittedEventName = "Committed"

// ContractEventName returns the user-defined event name.
func (TopicsCommitted) ContractEventName() string {
	return TopicsCommittedEventName
}

// UnpackCommittedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Committed(address indexed broker, uint64 number)
func (topics *Topics) UnpackCommittedEvent(log *types.Log) (*TopicsCommitted, error) {
	event := "Committed"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsCommitted)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsGranted represents a Granted event raised by the Topics contract.
type TopicsGranted struct {
	Tenant [32]byte
	Entry  TopicsBaseAcl
	Raw    *types.Log // Blockchain specific contextual infos
}

const TopicsGrantedEventName = "Granted"

// ContractEventName returns the user-defined event name.
func (TopicsGranted) ContractEventName() string {
	return TopicsGrantedEventName
}

// UnpackGrantedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Granted(bytes32 indexed tenant, (uint8,uint8,string,string,string,uint8,uint8) entry)
func (topics *Topics) UnpackGrantedEvent(log *types.Log) (*TopicsGranted, error) {
	event := "Granted"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsGranted)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsKeysSet represents a KeysSet event raised by the Topics contract.
type TopicsKeysSet struct {
	Topic     [32]byte
	Epoch     uint32
	Reader    common.Address
	SealedKey []byte
	Raw       *types.Log // Blockchain specific contextual infos
}

const TopicsKeysSetEventName = "KeysSet"

// ContractEventName returns the user-defined event name.
func (TopicsKeysSet) ContractEventName() string {
	return TopicsKeysSetEventName
}

// UnpackKeysSetEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event KeysSet(bytes32 indexed topic, uint32 epoch, address indexed reader, bytes sealedKey)
func (topics *Topics) UnpackKeysSetEvent(log *types.Log) (*TopicsKeysSet, error) {
	event := "KeysSet"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsKeysSet)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsLeaseChanged represents a LeaseChanged event raised by the Topics contract.
type TopicsLeaseChanged struct {
	Topic     [32]byte
	Partition uint32
	Leader    common.Address
	Epoch     uint32
	Raw       *types.Log // Blockchain specific contextual infos
}

const TopicsLeaseChangedEventName = "LeaseChanged"

// ContractEventName returns the user-defined event name.
func (TopicsLeaseChanged) ContractEventName() string {
	return TopicsLeaseChangedEventName
}

// UnpackLeaseChangedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event LeaseChanged(bytes32 indexed topic, uint32 partition, address leader, uint32 epoch)
func (topics *Topics) UnpackLeaseChangedEvent(log *types.Log) (*TopicsLeaseChanged, error) {
	event := "LeaseChanged"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsLeaseChanged)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsOffsetCommitted represents a OffsetCommitted event raised by the Topics contract.
type TopicsOffsetCommitted struct {
	Topic     [32]byte
	Group     [32]byte
	Partition uint32
	Offset    int64
	Raw       *types.Log // Blockchain specific contextual infos
}

const TopicsOffsetCommittedEventName = "OffsetCommitted"

// ContractEventName returns the user-defined event name.
func (TopicsOffsetCommitted) ContractEventName() string {
	return TopicsOffsetCommittedEventName
}

// UnpackOffsetCommittedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event OffsetCommitted(bytes32 indexed topic, bytes32 indexed group, uint32 partition, int64 offset)
func (topics *Topics) UnpackOffsetCommittedEvent(log *types.Log) (*TopicsOffsetCommitted, error) {
	event := "OffsetCommitted"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsOffsetCommitted)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsOperated represents a Operated event raised by the Topics contract.
type TopicsOperated struct {
	Topic          [32]byte
	Broker         common.Address
	PreviousHeight uint64
	PreviousRoot   [32]byte
	Count          uint32
	Root           [32]byte
	Raw            *types.Log // Blockchain specific contextual infos
}

const TopicsOperatedEventName = "Operated"

// ContractEventName returns the user-defined event name.
func (TopicsOperated) ContractEventName() string {
	return TopicsOperatedEventName
}

// UnpackOperatedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Operated(bytes32 indexed topic, address indexed broker, uint64 previousHeight, bytes32 previousRoot, uint32 count, bytes32 root)
func (topics *Topics) UnpackOperatedEvent(log *types.Log) (*TopicsOperated, error) {
	event := "Operated"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsOperated)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsPseudonymRevoked represents a PseudonymRevoked event raised by the Topics contract.
type TopicsPseudonymRevoked struct {
	Topic     [32]byte
	Pseudonym common.Address
	Raw       *types.Log // Blockchain specific contextual infos
}

const TopicsPseudonymRevokedEventName = "PseudonymRevoked"

// ContractEventName returns the user-defined event name.
func (TopicsPseudonymRevoked) ContractEventName() string {
	return TopicsPseudonymRevokedEventName
}

// UnpackPseudonymRevokedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event PseudonymRevoked(bytes32 indexed topic, address pseudonym)
func (topics *Topics) UnpackPseudonymRevokedEvent(log *types.Log) (*TopicsPseudonymRevoked, error) {
	event := "PseudonymRevoked"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsPseudonymRevoked)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsReplicasChanged represents a ReplicasChanged event raised by the Topics contract.
type TopicsReplicasChanged struct {
	Topic     [32]byte
	Partition uint32
	Leader    common.Address
	Epoch     uint32
	Replicas  []common.Address
	Raw       *types.Log // Blockchain specific contextual infos
}

const TopicsReplicasChangedEventName = "ReplicasChanged"

// ContractEventName returns the user-defined event name.
func (TopicsReplicasChanged) ContractEventName() string {
	return TopicsReplicasChangedEventName
}

// UnpackReplicasChangedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event ReplicasChanged(bytes32 indexed topic, uint32 partition, address leader, uint32 epoch, address[] replicas)
func (topics *Topics) UnpackReplicasChangedEvent(log *types.Log) (*TopicsReplicasChanged, error) {
	event := "ReplicasChanged"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsReplicasChanged)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsReplicasWanted represents a ReplicasWanted event raised by the Topics contract.
type TopicsReplicasWanted struct {
	Topic     [32]byte
	Partition uint32
	Replicas  []common.Address
	Raw       *types.Log // Blockchain specific contextual infos
}

const TopicsReplicasWantedEventName = "ReplicasWanted"

// ContractEventName returns the user-defined event name.
func (TopicsReplicasWanted) ContractEventName() string {
	return TopicsReplicasWantedEventName
}

// UnpackReplicasWantedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event ReplicasWanted(bytes32 indexed topic, uint32 partition, address[] replicas)
func (topics *Topics) UnpackReplicasWantedEvent(log *types.Log) (*TopicsReplicasWanted, error) {
	event := "ReplicasWanted"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsReplicasWanted)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsRevoked represents a Revoked event raised by the Topics contract.
type TopicsRevoked struct {
	Tenant [32]byte
	Entry  TopicsBaseAcl
	Raw    *types.Log // Blockchain specific contextual infos
}

const TopicsRevokedEventName = "Revoked"

// ContractEventName returns the user-defined event name.
func (TopicsRevoked) ContractEventName() string {
	return TopicsRevokedEventName
}

// UnpackRevokedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event Revoked(bytes32 indexed tenant, (uint8,uint8,string,string,string,uint8,uint8) entry)
func (topics *Topics) UnpackRevokedEvent(log *types.Log) (*TopicsRevoked, error) {
	event := "Revoked"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsRevoked)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsSealKeySet represents a SealKeySet event raised by the Topics contract.
type TopicsSealKeySet struct {
	Account common.Address
	SealKey []byte
	Raw     *types.Log // Blockchain specific contextual infos
}

const TopicsSealKeySetEventName = "SealKeySet"

// ContractEventName returns the user-defined event name.
func (TopicsSealKeySet) ContractEventName() string {
	return TopicsSealKeySetEventName
}

// UnpackSealKeySetEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event SealKeySet(address indexed account, bytes sealKey)
func (topics *Topics) UnpackSealKeySetEvent(log *types.Log) (*TopicsSealKeySet, error) {
	event := "SealKeySet"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsSealKeySet)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsStandingChanged represents a StandingChanged event raised by the Topics contract.
type TopicsStandingChanged struct {
	Tenant     [32]byte
	Account    common.Address
	Broker     common.Address
	Reputation uint8
	Time       uint64
	Refused    uint16
	Honest     uint32
	Raw        *types.Log // Blockchain specific contextual infos
}

const TopicsStandingChangedEventName = "StandingChanged"

// ContractEventName returns the user-defined event name.
func (TopicsStandingChanged) ContractEventName() string {
	return TopicsStandingChangedEventName
}

// UnpackStandingChangedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event StandingChanged(bytes32 indexed tenant, address indexed account, address indexed broker, uint8 reputation, uint64 time, uint16 refused, uint32 honest)
func (topics *Topics) UnpackStandingChangedEvent(log *types.Log) (*TopicsStandingChanged, error) {
	event := "StandingChanged"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsStandingChanged)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsTenantSet represents a TenantSet event raised by the Topics contract.
type TopicsTenantSet struct {
	Tenant         [32]byte
	Name           string
	Owner          common.Address
	BytesPerSecond uint64
	Connections    uint32
	Topics         uint32
	Partitions     uint32
	Raw            *types.Log // Blockchain specific contextual infos
}

const TopicsTenantSetEventName = "TenantSet"

// ContractEventName returns the user-defined event name.
func (TopicsTenantSet) ContractEventName() string {
	return TopicsTenantSetEventName
}

// UnpackTenantSetEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event TenantSet(bytes32 indexed tenant, string name, address owner, uint64 bytesPerSecond, uint32 connections, uint32 topics, uint32 partitions)
func (topics *Topics) UnpackTenantSetEvent(log *types.Log) (*TopicsTenantSet, error) {
	event := "TenantSet"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsTenantSet)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsTokensCancelled represents a TokensCancelled event raised by the Topics contract.
type TopicsTokensCancelled struct {
	Account     common.Address
	IssuedUntil uint64
	Raw         *types.Log // Blockchain specific contextual infos
}

const TopicsTokensCancelledEventName = "TokensCancelled"

// ContractEventName returns the user-defined event name.
func (TopicsTokensCancelled) ContractEventName() string {
	return TopicsTokensCancelledEventName
}

// UnpackTokensCancelledEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event TokensCancelled(address indexed account, uint64 issuedUntil)
func (topics *Topics) UnpackTokensCancelledEvent(log *types.Log) (*TopicsTokensCancelled, error) {
	event := "TokensCancelled"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsTokensCancelled)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsTopicChanged represents a TopicChanged event raised by the Topics contract.
type TopicsTopicChanged struct {
	Topic          [32]byte
	Owner          common.Address
	Partitions     uint32
	PseudonymEpoch uint32
	Config         []byte
	Raw            *types.Log // Blockchain specific contextual infos
}

const TopicsTopicChangedEventName = "TopicChanged"

// ContractEventName returns the user-defined event name.
func (TopicsTopicChanged) ContractEventName() string {
	return TopicsTopicChangedEventName
}

// UnpackTopicChangedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event TopicChanged(bytes32 indexed topic, address owner, uint32 partitions, uint32 pseudonymEpoch, bytes config)
func (topics *Topics) UnpackTopicChangedEvent(log *types.Log) (*TopicsTopicChanged, error) {
	event := "TopicChanged"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsTopicChanged)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsTopicCreated represents a TopicCreated event raised by the Topics contract.
type TopicsTopicCreated struct {
	Topic      [32]byte
	Tenant     [32]byte
	Name       string
	Owner      common.Address
	Auditor    common.Address
	Encrypted  bool
	Partitions uint32
	Config     []byte
	Raw        *types.Log // Blockchain specific contextual infos
}

const TopicsTopicCreatedEventName = "TopicCreated"

// ContractEventName returns the user-defined event name.
func (TopicsTopicCreated) ContractEventName() string {
	return TopicsTopicCreatedEventName
}

// UnpackTopicCreatedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event TopicCreated(bytes32 indexed topic, bytes32 indexed tenant, string name, address owner, address auditor, bool encrypted, uint32 partitions, bytes config)
func (topics *Topics) UnpackTopicCreatedEvent(log *types.Log) (*TopicsTopicCreated, error) {
	event := "TopicCreated"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsTopicCreated)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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

// TopicsTopicDeleted represents a TopicDeleted event raised by the Topics contract.
type TopicsTopicDeleted struct {
	Topic [32]byte
	Name  string
	Raw   *types.Log // Blockchain specific contextual infos
}

const TopicsTopicDeletedEventName = "TopicDeleted"

// ContractEventName returns the user-defined event name.
func (TopicsTopicDeleted) ContractEventName() string {
	return TopicsTopicDeletedEventName
}

// UnpackTopicDeletedEvent is the Go binding that unpacks the event data emitted
// by contract.
//
// Solidity: event TopicDeleted(bytes32 indexed topic, string name)
func (topics *Topics) UnpackTopicDeletedEvent(log *types.Log) (*TopicsTopicDeleted, error) {
	event := "TopicDeleted"
	if len(log.Topics) == 0 {
		return nil, bind.ErrNoEventSignature
	}
	if log.Topics[0] != topics.abi.Events[event].ID {
		return nil, bind.ErrEventSignatureMismatch
	}
	out := new(TopicsTopicDeleted)
	if len(log.Data) > 0 {
		if err := topics.abi.UnpackIntoInterface(out, event, log.Data); err != nil {
			return nil, err
		}
	}
	var indexed abi.Arguments
	for _, arg := range topics.abi.Events[event].Inputs {
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
