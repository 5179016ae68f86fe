package wallet

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/contracts"
)

// proposals says what the data of a proposal to Members means: a title, and its arguments as "type name". Text that
// the contract keeps as bytes is marked by the type text.
var proposals = map[uint8][]string{
	contracts.ProposeSetNode:           {"adds or changes a member", "text peer", "address account", "uint8 roles"},
	contracts.ProposeRemoveNode:        {"removes a member", "text peer"},
	contracts.ProposeRestrictSenders:   {"lets only listed accounts send transactions", "bool on"},
	contracts.ProposeAllowSender:       {"lists a sender, or not", "address account", "bool allowed"},
	contracts.ProposeRestrictDeployers: {"lets only listed accounts deploy", "bool on"},
	contracts.ProposeAllowDeployer:     {"lists a deployer, or not", "address account", "bool allowed"},
	contracts.ProposeParameter:         {"changes a parameter", "uint64 height", "string name", "bytes value"},
	contracts.ProposeUpgrade:           {"upgrades the network", "uint64 height", "string name", "bytes32 digest"},
	contracts.ProposeSetAdmin:          {"sets the admin", "address account"},
	contracts.ProposeSetTenant: {"makes or changes a tenant of the topic log", "string name", "address owner", "uint64 bytesPerSecond",
		"uint32 connections", "uint32 topics", "uint32 partitions"},
	contracts.ProposePardon: {"gives an account its reputation back in a tenant, in all if no name is given", "address account", "string tenant"},
}

// describeProposal puts the inner data of propose(kind, data) into words.
func describeProposal(kind uint8, data []byte) []string {
	p, ok := proposals[kind]
	if !ok {
		return []string{fmt.Sprintf("  proposes something unknown (kind %d)", kind)}
	}
	lines := []string{"  proposes: " + p[0]}
	var args abi.Arguments
	for _, arg := range p[1:] {
		kind, name, _ := strings.Cut(arg, " ")
		if kind == "text" {
			kind = "bytes"
		}
		t, err := abi.NewType(kind, "", nil)
		if err != nil {
			panic(fmt.Sprintf("wallet: proposals: %v", err)) // part of the binary
		}
		args = append(args, abi.Argument{Name: name, Type: t})
	}
	values, err := args.Unpack(data)
	if err != nil {
		return append(lines, "  its data is not what that needs: "+showBytes(data))
	}
	for i, v := range values {
		shown := showValue(v)
		switch b, isBytes := v.([]byte); {
		case isBytes && strings.HasPrefix(p[i+1], "text "):
			shown = showText(string(b))
		case isBytes:
			name, _ := values[i-1].(string)
			shown = showParameter(name, b)
		}
		lines = append(lines, fmt.Sprintf("    %s = %s", args[i].Name, shown))
	}
	return lines
}

// maxNumber bounds what may be a number, in bytes.
const maxNumber = 32

// showParameter shows a parameter's value: its bytes, and what they mean.
func showParameter(name string, b []byte) string {
	if len(b) == 0 || len(b) > maxNumber {
		return showBytes(b)
	}
	v := new(big.Int).SetBytes(b)
	meaning := v.String()
	if name == "min_stake" || name == "base_fee" { // amounts
		meaning = ether(v)
	}
	return hexutil.Encode(b) + " = " + meaning
}
