package evidence

import (
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
)

// The structs of the contract's commit.
type (
	abiCheckpoint struct {
		Topic  [32]byte
		Seq    uint64
		Root   [32]byte
		Leaves uint64
	}
	abiOperations struct {
		Topic   [32]byte
		Count   uint32
		Entries []byte
	}
	abiStanding struct {
		Account common.Address
		Refused uint32
		Honest  uint32
	}
	abiOffset struct {
		Group     [32]byte
		Topic     [32]byte
		Partition uint32
		Offset    int64
	}
)

// commitABI is the one function that evidence calls.
var commitABI = func() abi.ABI {
	a, err := abi.JSON(strings.NewReader(`[{"type":"function","name":"commit","inputs":[
		{"name":"number","type":"uint64"},
		{"name":"checkpoints","type":"tuple[]","components":[{"name":"topic","type":"bytes32"},{"name":"seq","type":"uint64"},{"name":"root","type":"bytes32"},{"name":"leaves","type":"uint64"}]},
		{"name":"operations","type":"tuple[]","components":[{"name":"topic","type":"bytes32"},{"name":"count","type":"uint32"},{"name":"entries","type":"bytes"}]},
		{"name":"standings","type":"tuple[]","components":[{"name":"account","type":"address"},{"name":"refused","type":"uint32"},{"name":"honest","type":"uint32"}]},
		{"name":"offsets","type":"tuple[]","components":[{"name":"group","type":"bytes32"},{"name":"topic","type":"bytes32"},{"name":"partition","type":"uint32"},{"name":"offset","type":"int64"}]}]}]`))
	if err != nil {
		panic("evidence: ABI of commit: " + err.Error()) // a constant
	}
	return a
}()

// UnpackOperations reads the operations of one topic from the call data of a commit, in order.
func UnpackOperations(data []byte, topic [32]byte) (counts []uint32, entries [][]byte, err error) {
	m := commitABI.Methods["commit"]
	if len(data) < 4 || string(data[:4]) != string(m.ID) {
		return nil, nil, ErrUnknown
	}
	args, err := m.Inputs.Unpack(data[4:])
	if err != nil {
		return nil, nil, err
	}
	list := *abi.ConvertType(args[2], new([]abiOperations)).(*[]abiOperations)
	for _, o := range list {
		if o.Topic == topic {
			counts, entries = append(counts, o.Count), append(entries, o.Entries)
		}
	}
	return counts, entries, nil
}
