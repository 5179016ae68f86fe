package contracts

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
)

// Numbers of the Kafka protocol that rules of access are made of.
const (
	ResourceTopic uint8 = 2
	ResourceGroup uint8 = 3

	PatternLiteral  uint8 = 3
	PatternPrefixed uint8 = 4

	OperationAll             uint8 = 2
	OperationRead            uint8 = 3
	OperationWrite           uint8 = 4
	OperationCreate          uint8 = 5
	OperationDelete          uint8 = 6
	OperationAlter           uint8 = 7
	OperationDescribe        uint8 = 8
	OperationClusterAction   uint8 = 9
	OperationDescribeConfigs uint8 = 10
	OperationAlterConfigs    uint8 = 11
	OperationIdempotentWrite uint8 = 12

	PermissionDeny  uint8 = 2
	PermissionAllow uint8 = 3
)

// Principals of rules.
const (
	EveryUser       = "User:*"
	userPrefix      = "User:0x"
	pseudonymPrefix = "Pseudonym:0x"
)

// ErrAcl is wrapped by every error about a rule of access that Topics would refuse.
var ErrAcl = errors.New("rule of access")

// UserPrincipal names an account in a rule: "User:0x" and 40 lower-case digits.
func UserPrincipal(a common.Address) string { return userPrefix + hex.EncodeToString(a[:]) }

// PseudonymPrincipal names a pseudonym in a rule: "Pseudonym:0x" and 40 lower-case digits.
func PseudonymPrincipal(a common.Address) string { return pseudonymPrefix + hex.EncodeToString(a[:]) }

// CheckAcl says what Topics would refuse of a rule of this tenant. Errors wrap ErrAcl.
func CheckAcl(tenant string, a Acl) error {
	switch {
	case a.Resource != ResourceTopic && a.Resource != ResourceGroup:
		return fmt.Errorf("%w: resource %d is neither a topic (2) nor a group (3)", ErrAcl, a.Resource)
	case a.Pattern != PatternLiteral && a.Pattern != PatternPrefixed:
		return fmt.Errorf("%w: pattern %d is neither literal (3) nor prefixed (4)", ErrAcl, a.Pattern)
	case a.Operation < OperationAll || a.Operation > OperationIdempotentWrite || a.Operation == OperationClusterAction:
		return fmt.Errorf("%w: there is no operation %d on a topic or a group", ErrAcl, a.Operation)
	case a.Permission != PermissionDeny && a.Permission != PermissionAllow:
		return fmt.Errorf("%w: permission %d neither denies (2) nor allows (3)", ErrAcl, a.Permission)
	case !strings.HasPrefix(a.Name, tenant+".") || len(a.Name) > MaxTopicName || !nameChars(a.Name, true):
		return fmt.Errorf("%w: the name %.80q must begin with %q and have at most %d name characters", ErrAcl, a.Name, tenant+".", MaxTopicName)
	case a.Host == "" || len(a.Host) > MaxAclHost || !hostChars(a.Host):
		return fmt.Errorf("%w: the host %.80q is neither * nor an address of at most %d characters", ErrAcl, a.Host, MaxAclHost)
	case !principal(a.Principal):
		return fmt.Errorf("%w: the principal %.80q is not %s, %s... or %s... with 40 lower-case digits", ErrAcl, a.Principal, EveryUser, userPrefix, pseudonymPrefix)
	}
	return nil
}

func hostChars(s string) bool {
	for i := range len(s) {
		if !nameChars(s[i:i+1], true) && !strings.ContainsRune("*/:", rune(s[i])) {
			return false
		}
	}
	return true
}

func principal(s string) bool {
	if s == EveryUser {
		return true
	}
	digits, ok := strings.CutPrefix(s, userPrefix)
	if !ok {
		digits, ok = strings.CutPrefix(s, pseudonymPrefix)
	}
	_, err := hex.DecodeString(digits)
	return ok && err == nil && len(digits) == 2*common.AddressLength && digits == strings.ToLower(digits)
}
