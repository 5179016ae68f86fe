package contracts

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/params"
)

// Where the system contracts live, and who calls them at block ends.
var (
	ProducersAddress = common.Address{18: 0x0b, 19: 0x01}
	MembersAddress   = common.Address{18: 0x0b, 19: 0x02}
	TopicsAddress    = common.Address{18: 0x0b, 19: 0x03}
	SystemAddress    = params.SystemAddress
)

// SystemCallGas is what an end-of-epoch call is given: several times what 128 seats and 256 candidates need.
const SystemCallGas = 500_000_000

//go:embed artifacts/Producers.json
var producersArtefact []byte

//go:embed artifacts/Members.json
var membersArtefact []byte

//go:embed artifacts/Topics.json
var topicsArtefact []byte

type artefact struct {
	ABI     json.RawMessage `json:"abi"`
	Runtime hexutil.Bytes   `json:"runtime"`
	Storage []struct {
		Name   string `json:"name"`
		Slot   uint64 `json:"slot"`
		Offset int    `json:"offset"`
	} `json:"storage"`
}

// The artefacts are part of the binary: what fails here fails in the first test.
func parseArtefact(b []byte) artefact {
	var a artefact
	if err := json.Unmarshal(b, &a); err != nil {
		panic(fmt.Sprintf("contracts: artefact: %v", err))
	}
	return a
}

var (
	producers    = sync.OnceValue(func() artefact { return parseArtefact(producersArtefact) })
	members      = sync.OnceValue(func() artefact { return parseArtefact(membersArtefact) })
	topics       = sync.OnceValue(func() artefact { return parseArtefact(topicsArtefact) })
	producersABI = sync.OnceValue(func() *abi.ABI { return mustABI(ProducersMetaData.ParseABI()) })
	membersABI   = sync.OnceValue(func() *abi.ABI { return mustABI(MembersMetaData.ParseABI()) })
	topicsABI    = sync.OnceValue(func() *abi.ABI { return mustABI(TopicsMetaData.ParseABI()) })
)

func mustABI(a *abi.ABI, err error) *abi.ABI {
	if err != nil {
		panic(fmt.Sprintf("contracts: ABI: %v", err))
	}
	return a
}

// ProducersABI is the ABI of Producers. It is shared: do not change it.
func ProducersABI() *abi.ABI { return producersABI() }

// MembersABI is the ABI of Members. It is shared: do not change it.
func MembersABI() *abi.ABI { return membersABI() }

// ProducersCode is the runtime code of Producers. It is shared: do not change it.
func ProducersCode() []byte { return producers().Runtime }

// MembersCode is the runtime code of Members. It is shared: do not change it.
func MembersCode() []byte { return members().Runtime }

// TopicsABI is the ABI of Topics. It is shared: do not change it.
func TopicsABI() *abi.ABI { return topicsABI() }

// TopicsCode is the runtime code of Topics. It is shared: do not change it.
func TopicsCode() []byte { return topics().Runtime }
