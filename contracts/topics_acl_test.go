package contracts

import (
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

func (w *topicWorld) acls(tenant string) []Acl {
	w.t.Helper()
	var all []Acl
	for {
		page, total, err := DecodeAclPage(w.readFrom(TopicsAddress, AclPageCall(tenant, uint64(len(all)), 7)))
		require.NoError(w.t, err)
		all = append(all, page...)
		if uint64(len(all)) == total {
			return all
		}
		require.NotEmpty(w.t, page)
	}
}

func TestAcls(t *testing.T) {
	w := newTopicWorld(t, 1)
	var rules []Acl
	for i := range 10 {
		a := common.HexToAddress(fmt.Sprintf("0xAbCdEf00000000000000000000000000000000%02x", i))
		rules = append(rules,
			Acl{ResourceTopic, PatternLiteral, "acme.orders", UserPrincipal(a), "10.0.0.1", OperationWrite, PermissionAllow},
			Acl{ResourceGroup, PatternPrefixed, "acme.", PseudonymPrincipal(a), "*", OperationRead, PermissionDeny})
	}
	rules = append(rules, Acl{ResourceTopic, PatternLiteral, "acme." + longText(244), EveryUser, "fe80::1", OperationAll, PermissionAllow})
	data, err := GrantCall("acme", rules)
	w.must(w.owner, data, err)
	t.Logf("%d rules: %d gas", len(rules), w.gas)
	granted := eventsOf[Granted](w)
	require.Len(t, granted, len(rules))
	require.Equal(t, rules[0], granted[0].Entry)
	require.Equal(t, [32]byte(TenantID("acme")), granted[0].Tenant)
	require.Equal(t, rules, w.acls("acme"))

	w.must(w.owner, data, nil)
	require.Empty(t, w.events(), "rules that are there already change nothing")
	require.Equal(t, rules, w.acls("acme"))

	gone := []Acl{rules[0], rules[9], rules[len(rules)-1]}
	data, err = RevokeCall("acme", append([]Acl{}, gone...))
	w.must(w.owner, data, err)
	require.Len(t, eventsOf[Revoked](w), 3)
	w.must(w.owner, data, nil)
	require.Empty(t, w.events(), "rules that are gone already change nothing")
	var left []Acl
	for _, r := range rules {
		if r != gone[0] && r != gone[1] && r != gone[2] {
			left = append(left, r)
		}
	}
	require.ElementsMatch(t, left, w.acls("acme"))
	data, err = RevokeCall("acme", left)
	w.must(w.owner, data, err)
	require.Empty(t, w.acls("acme"))
}

// What Go refuses of a rule the contract refuses too, and the other way round.
func TestMalformedAcls(t *testing.T) {
	w := newTopicWorld(t, 1)
	good := Acl{ResourceTopic, PatternLiteral, "acme.orders", UserPrincipal(w.writer.account), "*", OperationRead, PermissionAllow}
	user := UserPrincipal(common.HexToAddress("0xabcdef"))
	cases := []struct {
		change func(*Acl)
		words  string
	}{
		{func(a *Acl) { a.Resource = 4 }, "topics (2) and groups (3)"},
		{func(a *Acl) { a.Resource = 0 }, "topics (2) and groups (3)"},
		{func(a *Acl) { a.Pattern = 2 }, "literal (3) or prefixed (4)"},
		{func(a *Acl) { a.Pattern = 5 }, "literal (3) or prefixed (4)"},
		{func(a *Acl) { a.Operation = 1 }, "no such operation"},
		{func(a *Acl) { a.Operation = 9 }, "no such operation"},
		{func(a *Acl) { a.Operation = 13 }, "no such operation"},
		{func(a *Acl) { a.Permission = 1 }, "denies (2) or allows (3)"},
		{func(a *Acl) { a.Permission = 4 }, "denies (2) or allows (3)"},
		{func(a *Acl) { a.Name = "acme" }, "begins with its tenant and a dot"},
		{func(a *Acl) { a.Name = "" }, "begins with its tenant and a dot"},
		{func(a *Acl) { a.Name = "*" }, "begins with its tenant and a dot"},
		{func(a *Acl) { a.Name = "other.orders" }, "begins with its tenant and a dot"},
		{func(a *Acl) { a.Name = "acmeorders" }, "begins with its tenant and a dot"},
		{func(a *Acl) { a.Name = "acme.or*" }, "begins with its tenant and a dot"},
		{func(a *Acl) { a.Name = "acme." + longText(245) }, "begins with its tenant and a dot"},
		{func(a *Acl) { a.Host = "" }, "the host of a rule"},
		{func(a *Acl) { a.Host = "a b" }, "the host of a rule"},
		{func(a *Acl) { a.Host = longText(65) }, "the host of a rule"},
		{func(a *Acl) { a.Principal = "" }, "a principal is"},
		{func(a *Acl) { a.Principal = "User:" }, "a principal is"},
		{func(a *Acl) { a.Principal = "Group:*" }, "a principal is"},
		{func(a *Acl) { a.Principal = "Pseudonym:*" }, "a principal is"},
		{func(a *Acl) { a.Principal = user[:46] }, "a principal is"},
		{func(a *Acl) { a.Principal = user + "0" }, "a principal is"},
		{func(a *Acl) { a.Principal = user[:46] + "A" }, "lower-case"},
		{func(a *Acl) { a.Principal = user[:46] + "g" }, "lower-case"},
	}
	for i, c := range cases {
		a := good
		c.change(&a)
		require.ErrorIs(t, CheckAcl("acme", a), ErrAcl, "case %d", i)
		w.no(c.words, w.owner, bpsTopics().PackGrant("acme", []Acl{a}), nil)
		w.no(c.words, w.owner, bpsTopics().PackRevoke("acme", []Acl{a}), nil)
	}
	for _, change := range []func(*Acl){
		func(a *Acl) { a.Name = "acme." }, func(a *Acl) { a.Operation = 12 }, func(a *Acl) { a.Host = "10.0.0.0/8" },
		func(a *Acl) { a.Name = "acme." + longText(244) }, func(a *Acl) { a.Host = longText(64) },
	} {
		a := good
		change(&a)
		require.NoError(t, CheckAcl("acme", a))
		w.must(w.owner, bpsTopics().PackGrant("acme", []Acl{a}), nil)
	}
	w.no("no such tenant", w.owner, bpsTopics().PackGrant("nobody", []Acl{good}), nil)
	many := make([]Acl, MaxAclsPerCall+1)
	w.no("more than 128 rules", w.owner, bpsTopics().PackGrant("acme", many), nil)
	_, err := GrantCall("acme", many)
	require.Error(t, err)
}

// Two tenants never share a rule, whatever it says.
func TestAclsOfTenantsAreApart(t *testing.T) {
	w := newTopicWorld(t, 1)
	w.tenant("acme-two", w.writer, 1, 1)
	rule := func(tenant string) Acl {
		return Acl{ResourceTopic, PatternPrefixed, tenant + ".", EveryUser, "*", OperationRead, PermissionAllow}
	}
	w.must(w.owner, bpsTopics().PackGrant("acme", []Acl{rule("acme")}), nil)
	w.no("only the tenant's owner", w.owner, bpsTopics().PackGrant("acme-two", []Acl{rule("acme-two")}), nil)
	w.no("begins with its tenant", w.writer, bpsTopics().PackGrant("acme-two", []Acl{rule("acme")}), nil)
	w.no("begins with its tenant", w.writer, bpsTopics().PackRevoke("acme-two", []Acl{rule("acme")}), nil)
	w.must(w.writer, bpsTopics().PackGrant("acme-two", []Acl{rule("acme-two")}), nil)
	require.Len(t, w.acls("acme"), 1)
	require.Len(t, w.acls("acme-two"), 1)
}
