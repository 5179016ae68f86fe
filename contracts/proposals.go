package contracts

import (
	"bytes"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Kinds of proposals to Members.
const (
	ProposeSetNode           uint8 = 1
	ProposeRemoveNode        uint8 = 2
	ProposeRestrictSenders   uint8 = 3
	ProposeAllowSender       uint8 = 4
	ProposeRestrictDeployers uint8 = 5
	ProposeAllowDeployer     uint8 = 6
	ProposeParameter         uint8 = 7
	ProposeUpgrade           uint8 = 8
	ProposeSetAdmin          uint8 = 9
	ProposeSetTenant         uint8 = 10
	ProposePardon            uint8 = 11
)

// propose packs a proposal whose arguments have the given ABI types.
func propose(kind uint8, types string, args ...any) ([]byte, error) {
	data, err := packArguments(types, args...)
	if err != nil {
		return nil, fmt.Errorf("proposal of kind %d: %w", kind, err)
	}
	return NewMembers().PackPropose(kind, data), nil
}

func packArguments(types string, args ...any) ([]byte, error) {
	var list abi.Arguments
	for _, name := range strings.Split(types, ",") {
		t, err := abi.NewType(name, "", nil)
		if err != nil {
			return nil, err
		}
		list = append(list, abi.Argument{Type: t})
	}
	return list.Pack(args...)
}

// RemoveMemberCall proposes that a node is no longer a member.
func RemoveMemberCall(peerID string) ([]byte, error) {
	return propose(ProposeRemoveNode, "bytes", []byte(peerID))
}

// RestrictSendersCall proposes that only listed accounts send transactions, or that all may again.
func RestrictSendersCall(on bool) ([]byte, error) { return propose(ProposeRestrictSenders, "bool", on) }

// AllowSenderCall proposes to list an account as a sender, or to take it off the list.
func AllowSenderCall(account common.Address, allowed bool) ([]byte, error) {
	return propose(ProposeAllowSender, "address,bool", account, allowed)
}

// RestrictDeployersCall proposes that only listed accounts deploy contracts, or that all may again.
func RestrictDeployersCall(on bool) ([]byte, error) {
	return propose(ProposeRestrictDeployers, "bool", on)
}

// AllowDeployerCall proposes to list an account as a deployer, or to take it off the list.
func AllowDeployerCall(account common.Address, allowed bool) ([]byte, error) {
	return propose(ProposeAllowDeployer, "address,bool", account, allowed)
}

// ParameterCall proposes a parameter's value from a height on.
func ParameterCall(height uint64, name string, value []byte) ([]byte, error) {
	return propose(ProposeParameter, "uint64,string,bytes", height, name, value)
}

// UpgradeCall proposes an upgrade, named by the digest of its description, from a height on.
func UpgradeCall(height uint64, name string, digest common.Hash) ([]byte, error) {
	return propose(ProposeUpgrade, "uint64,string,bytes32", height, name, digest)
}

// SetAdminCall proposes another admin; the zero account means none.
func SetAdminCall(account common.Address) ([]byte, error) {
	return propose(ProposeSetAdmin, "address", account)
}

// SetTenantCall proposes that a tenant of the topic log exists with this owner and these quotas. Topics and Partitions
// may be 0; the used counts are not looked at. The error says what Topics would refuse.
func SetTenantCall(t Tenant) ([]byte, error) {
	if err := CheckTenantName(t.Name); err != nil {
		return nil, err
	}
	if t.BytesPerSecond == 0 || t.Connections == 0 {
		return nil, fmt.Errorf("tenant %s: at least one byte per second and one connection must be allowed", t.Name)
	}
	return propose(ProposeSetTenant, "string,address,uint64,uint32,uint32,uint32",
		t.Name, t.Owner, t.BytesPerSecond, t.Connections, t.Topics, t.Partitions)
}

// PardonCall proposes that an account gets its default reputation back in a tenant, or in all if tenant is empty.
func PardonCall(account common.Address, tenant string) ([]byte, error) {
	return propose(ProposePardon, "address,string", account, tenant)
}

// ProposalContent names what a proposal would do: keccak256(abi.encode(kind, data)).
func ProposalContent(kind uint8, data []byte) common.Hash {
	b, err := packArguments("uint8,bytes", kind, data)
	if err != nil {
		panic(err) // constant types and arguments of them
	}
	return crypto.Keccak256Hash(b)
}

// ProposedContent is the ProposalContent of what a call such as ParameterCall proposes.
func ProposedContent(call []byte) (common.Hash, error) {
	const selector = 4
	parsed, err := MembersMetaData.ParseABI()
	if err != nil {
		return common.Hash{}, err
	}
	m := parsed.Methods["propose"]
	if len(call) < selector || !bytes.Equal(call[:selector], m.ID) {
		return common.Hash{}, fmt.Errorf("the call is none of Members.propose")
	}
	args, err := m.Inputs.Unpack(call[selector:])
	if err != nil {
		return common.Hash{}, fmt.Errorf("arguments of Members.propose: %w", err)
	}
	return ProposalContent(args[0].(uint8), args[1].([]byte)), nil
}

// ApproveCall approves the proposal of a number if its content is this one; see ProposalContent.
func ApproveCall(id uint64, content common.Hash) []byte {
	return NewMembers().PackApprove(new(big.Int).SetUint64(id), content)
}
