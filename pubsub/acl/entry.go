package acl

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kinds of resources.
const (
	Topic   = uint8(kmsg.ACLResourceTypeTopic)
	Group   = uint8(kmsg.ACLResourceTypeGroup)
	Cluster = uint8(kmsg.ACLResourceTypeCluster)
)

// How a name matches.
const (
	Literal  = uint8(kmsg.ACLResourcePatternTypeLiteral)
	Prefixed = uint8(kmsg.ACLResourcePatternTypePrefixed)
)

// Operations.
const (
	All             = uint8(kmsg.ACLOperationAll)
	Read            = uint8(kmsg.ACLOperationRead)
	Write           = uint8(kmsg.ACLOperationWrite)
	Create          = uint8(kmsg.ACLOperationCreate)
	Delete          = uint8(kmsg.ACLOperationDelete)
	Alter           = uint8(kmsg.ACLOperationAlter)
	Describe        = uint8(kmsg.ACLOperationDescribe)
	ClusterAction   = uint8(kmsg.ACLOperationClusterAction)
	DescribeConfigs = uint8(kmsg.ACLOperationDescribeConfigs)
	AlterConfigs    = uint8(kmsg.ACLOperationAlterConfigs)
	IdempotentWrite = uint8(kmsg.ACLOperationIdempotentWrite)
)

// What an entry says.
const (
	Deny  = uint8(kmsg.ACLPermissionTypeDeny)
	Allow = uint8(kmsg.ACLPermissionTypeAllow)
)

const (
	// Any is a name or a host that matches everything.
	Any = "*"
	// Everybody is the principal that every principal is.
	Everybody = "User:*"
	// ClusterName is Kafka's name of the one resource of kind Cluster; here it means the tenant.
	ClusterName = "kafka-cluster"
)

// ErrEntry is wrapped by every error about an entry that cannot be.
var ErrEntry = errors.New("no access control entry")

// Entry is one rule. It is comparable; two equal entries are one.
type Entry struct {
	Resource   uint8
	Pattern    uint8
	Name       string
	Principal  string // User:0x.., User:*, Pseudonym:0x..
	Host       string // an address or *
	Operation  uint8
	Permission uint8
}

var (
	principal = regexp.MustCompile(`^(User|Pseudonym):0x[0-9a-f]{40}$`)
	sentence  = regexp.MustCompile(`^Principal (\S+) is (Allowed|Denied) Operation (\S+) From Host (\S+) on Resource ([A-Z_]+):(.+) matching Pattern ([A-Z_]+)$`)
)

// Principal is p as entries name it: addresses in lower case. The error wraps ErrEntry.
func Principal(p string) (string, error) {
	if p == Everybody {
		return p, nil
	}
	if kind, address, ok := strings.Cut(p, ":"); ok {
		p = kind + ":" + strings.ToLower(address)
	}
	if !principal.MatchString(p) {
		return "", fmt.Errorf("%w: principal %.80q: it is User:0x<40 hex digits>, Pseudonym:0x<40 hex digits> or User:*", ErrEntry, p)
	}
	return p, nil
}

// Host is h as entries name it: one spelling per address, IPv4 never inside IPv6. The error wraps ErrEntry.
func Host(h string) (string, error) {
	if h == Any {
		return h, nil
	}
	a, err := netip.ParseAddr(h)
	if err != nil {
		return "", fmt.Errorf("%w: host %.80q: it is an address or *", ErrEntry, h)
	}
	return a.Unmap().WithZone("").String(), nil
}

// Normal is the entry with principal and host in their one spelling, or an error that wraps ErrEntry and says which
// part cannot be.
func (e Entry) Normal() (Entry, error) {
	var err error
	if e.Principal, err = Principal(e.Principal); err != nil {
		return e, err
	}
	if e.Host, err = Host(e.Host); err != nil {
		return e, err
	}
	switch {
	case e.Resource != Topic && e.Resource != Group && e.Resource != Cluster:
		return e, fmt.Errorf("%w: resource %d: it is TOPIC (2), GROUP (3) or CLUSTER (4)", ErrEntry, e.Resource)
	case e.Pattern != Literal && e.Pattern != Prefixed:
		return e, fmt.Errorf("%w: pattern %d: it is LITERAL (3) or PREFIXED (4)", ErrEntry, e.Pattern)
	case e.Operation < All || e.Operation > IdempotentWrite:
		return e, fmt.Errorf("%w: operation %d: it is one of 2 (ALL) to 12 (IDEMPOTENT_WRITE)", ErrEntry, e.Operation)
	case e.Permission != Deny && e.Permission != Allow:
		return e, fmt.Errorf("%w: permission %d: it is DENY (2) or ALLOW (3)", ErrEntry, e.Permission)
	}
	return e, checkName(e.Name)
}

func checkName(name string) error {
	switch {
	case name == "" || len(name) > MaxName:
		return fmt.Errorf("%w: a resource's name of %d bytes: 1 to %d are allowed", ErrEntry, len(name), MaxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%w: the resource's name %q holds what cannot be printed", ErrEntry, name)
	}
	return nil
}

// String is the entry as a sentence, which Parse reads.
func (e Entry) String() string {
	verb := "Denied"
	if e.Permission == Allow {
		verb = "Allowed"
	}
	return fmt.Sprintf("Principal %s is %s Operation %s From Host %s on Resource %s:%s matching Pattern %s",
		e.Principal, verb, OperationName(e.Operation), e.Host, kmsg.ACLResourceType(int8(e.Resource)), e.Name,
		kmsg.ACLResourcePatternType(int8(e.Pattern)))
}

// OperationName is Kafka's word, such as READ.
func OperationName(op uint8) string { return kmsg.ACLOperation(int8(op)).String() }

// Parse reads what String wrote. The error wraps ErrEntry.
func Parse(text string) (Entry, error) {
	m := sentence.FindStringSubmatch(text)
	if m == nil {
		return Entry{}, fmt.Errorf("%w: %.300q: write \"Principal P is Allowed Operation O From Host H on Resource TOPIC:name matching Pattern LITERAL\"", ErrEntry, text)
	}
	op, err := kmsg.ParseACLOperation(m[3])
	if err != nil {
		return Entry{}, fmt.Errorf("%w: unknown operation %.40q", ErrEntry, m[3])
	}
	resource, err := kmsg.ParseACLResourceType(m[5])
	if err != nil {
		return Entry{}, fmt.Errorf("%w: unknown resource %.40q", ErrEntry, m[5])
	}
	pattern, err := kmsg.ParseACLResourcePatternType(m[7])
	if err != nil {
		return Entry{}, fmt.Errorf("%w: unknown pattern %.40q", ErrEntry, m[7])
	}
	e := Entry{Resource: uint8(resource), Pattern: uint8(pattern), Name: m[6], Principal: m[1], Host: m[4], Operation: uint8(op), Permission: Deny}
	if m[2] == "Allowed" {
		e.Permission = Allow
	}
	return e.Normal()
}

// Filter picks entries, as DescribeAcls and DeleteAcls do: 0, 1 (ANY) and nil match everything. Pattern MATCH (2)
// with a name picks all entries that bear on a resource of that name.
type Filter struct {
	Resource, Pattern     uint8
	Name, Principal, Host *string
	Operation, Permission uint8
}

// Matches tells whether the filter picks the entry.
func (f Filter) Matches(e Entry) bool {
	any := func(want, is uint8) bool { return want <= 1 || want == is }
	text := func(want *string, is string) bool { return want == nil || *want == is }
	if !any(f.Resource, e.Resource) || !any(f.Operation, e.Operation) || !any(f.Permission, e.Permission) ||
		!text(f.Principal, e.Principal) || !text(f.Host, e.Host) {
		return false
	}
	if f.Pattern == uint8(kmsg.ACLResourcePatternTypeMatch) {
		return f.Name == nil || e.covers(*f.Name)
	}
	return any(f.Pattern, e.Pattern) && text(f.Name, e.Name)
}

// covers tells whether the entry bears on the resource of that name.
func (e Entry) covers(name string) bool {
	if e.Pattern == Prefixed {
		return strings.HasPrefix(name, e.Name)
	}
	return e.Name == Any || e.Name == name
}
