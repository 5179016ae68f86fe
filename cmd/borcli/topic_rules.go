package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
)

// ruleFlags say on what a rule is.
type ruleFlags struct {
	topic, group string
	prefix, deny bool
	host         string
}

func (q *ruleFlags) add(f *pflag.FlagSet) {
	f.StringVar(&q.topic, "topic", "", "topic that the rule is on")
	f.StringVar(&q.group, "group", "", "consumer group that the rule is on")
	f.BoolVar(&q.prefix, "prefix", false, "on all whose names begin with that: TENANT. is on everything of a tenant")
	f.BoolVar(&q.deny, "deny", false, "a rule that denies; it beats those that allow")
	f.StringVar(&q.host, "host", "*", "address that the client comes from; *: any")
}

const ruleText = "\nPRINCIPAL is an account's address, everyone, or Pseudonym:0x... of a pseudonym. OPERATION is one or more of read,\n" +
	"write, create, delete, alter, describe, describe-configs, alter-configs, idempotent-write or all, joined by commas. The\n" +
	"tenant's owner sets rules, and a topic's owner those of his topic."

func topicRuleCommands() []*cobra.Command {
	var q, r ruleFlags
	change := func(use, short string, q *ruleFlags, make func(string, []contracts.Acl) ([]byte, error), examples ...string) *cobra.Command {
		return command(use+" PRINCIPAL OPERATION", short, func(ctx context.Context, a *app, args []string) error {
			return a.changeRules(ctx, use, args[0], args[1], q, make)
		}, arguments(2, 2), sends, flags(q.add), long(short+"."+ruleText), example(examples...))
	}
	return []*cobra.Command{
		change("grant", "Add rules about who may do what with topics and groups", &q, contracts.GrantCall,
			"borcli topic grant 0x5290... read,describe --topic acme.orders", "borcli topic grant 0x5290... read --group acme.readers", "borcli topic grant everyone write --topic acme. --prefix --deny"),
		change("revoke", "Take rules away", &r, contracts.RevokeCall, "borcli topic revoke 0x5290... write --topic acme.orders"),
		command("acls TENANT", "List a tenant's rules about who may do what", func(ctx context.Context, a *app, args []string) error {
			return a.listRules(ctx, args[0])
		}, arguments(1, 1)),
	}
}

var ruleOperations = []struct { //nolint:gochecknoglobals // a constant table
	number uint8
	name   string
}{
	{contracts.OperationAll, "all"}, {contracts.OperationRead, "read"}, {contracts.OperationWrite, "write"}, {contracts.OperationCreate, "create"},
	{contracts.OperationDelete, "delete"}, {contracts.OperationAlter, "alter"}, {contracts.OperationDescribe, "describe"},
	{contracts.OperationDescribeConfigs, "describe-configs"}, {contracts.OperationAlterConfigs, "alter-configs"},
	{contracts.OperationIdempotentWrite, "idempotent-write"},
}

func operationName(n uint8) string {
	for _, o := range ruleOperations {
		if o.number == n {
			return o.name
		}
	}
	return fmt.Sprint("operation ", n)
}

func parseOperation(text string) (uint8, error) {
	var known []string
	for _, o := range ruleOperations {
		if o.name == text {
			return o.number, nil
		}
		known = append(known, o.name)
	}
	return 0, fail(exitUsage, "%.40q is no operation%s", text, didYouMean(text, known))
}

func parsePrincipal(text string) (string, error) {
	if strings.EqualFold(text, "everyone") || text == contracts.EveryUser {
		return contracts.EveryUser, nil
	}
	principal := contracts.UserPrincipal
	digits, isPseudonym := strings.CutPrefix(text, "Pseudonym:")
	if isPseudonym {
		principal = contracts.PseudonymPrincipal
	}
	who, err := parseAddress(strings.TrimPrefix(digits, "User:"))
	if err != nil {
		return "", fail(exitUsage, "PRINCIPAL: %v; or write everyone, or Pseudonym:0x...", err)
	}
	return principal(who), nil
}

// rules are those that the arguments mean, one per operation, and their tenant.
func (q *ruleFlags) rules(principal, operations string) (tenant string, list []contracts.Acl, err error) {
	r := contracts.Acl{Resource: contracts.ResourceTopic, Pattern: contracts.PatternLiteral, Name: q.topic, Host: q.host, Permission: contracts.PermissionAllow}
	if (q.topic == "") == (q.group == "") {
		return "", nil, fail(exitUsage, "name what the rule is on: --topic or --group, one of them")
	}
	if q.group != "" {
		r.Resource, r.Name = contracts.ResourceGroup, q.group
	}
	if q.prefix {
		r.Pattern = contracts.PatternPrefixed
	}
	if q.deny {
		r.Permission = contracts.PermissionDeny
	}
	if r.Principal, err = parsePrincipal(principal); err != nil {
		return "", nil, err
	}
	tenant, _, _ = strings.Cut(r.Name, ".")
	for _, o := range strings.Split(operations, ",") {
		if r.Operation, err = parseOperation(strings.ToLower(strings.TrimSpace(o))); err != nil {
			return "", nil, err
		}
		if err := contracts.CheckAcl(tenant, r); err != nil {
			return "", nil, fail(exitUsage, "%v", err)
		}
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return tenant, list, nil
}

// changeRules adds rules or takes them away. Rules that change nothing are told instead of sent.
func (a *app) changeRules(ctx context.Context, use, principal, operations string, q *ruleFlags, make func(string, []contracts.Acl) ([]byte, error)) error {
	tenant, list, err := q.rules(principal, operations)
	if err != nil {
		return err
	}
	call, _, err := a.topicsAt(ctx)
	if err != nil {
		return err
	}
	have, err := contracts.ReadAcls(call, tenant)
	if err != nil {
		return notUnderstood(err)
	}
	list = slices.DeleteFunc(list, func(r contracts.Acl) bool { return slices.Contains(have, r) == (use == "grant") })
	if len(list) == 0 {
		return fail(exitRefused, "nothing is to be changed: tenant %s %s; borcli topic acls %s shows them", tenant,
			map[bool]string{true: "has these rules already", false: "has no such rules"}[use == "grant"], tenant)
	}
	data, err := make(tenant, list)
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	texts := []string{}
	for _, r := range list {
		texts = append(texts, ruleLine(r))
	}
	verb := map[string]string{"grant": "add", "revoke": "take away"}[use]
	return a.topicCall(ctx, verb+": "+strings.Join(texts, "; "), data, "brokers follow when the block is final")
}

// ruleLine is a rule in words.
func ruleLine(r contracts.Acl) string {
	where := ""
	if r.Host != "*" {
		where = " from " + quoteHost(r.Host)
	}
	return fmt.Sprintf("%s may %s%s %s%s", principalText(r.Principal), map[bool]string{true: "not "}[r.Permission == contracts.PermissionDeny],
		operationName(r.Operation), resourceText(r), where)
}

func principalText(p string) string {
	if p == contracts.EveryUser {
		return "everyone"
	}
	if digits, ok := strings.CutPrefix(p, "User:"); ok && common.IsHexAddress(digits) {
		return common.HexToAddress(digits).Hex()
	}
	return clean(p)
}

func resourceText(r contracts.Acl) string {
	kind := map[bool]string{true: "group ", false: "topic "}[r.Resource == contracts.ResourceGroup]
	if r.Pattern == contracts.PatternPrefixed {
		return kind + quoteOdd(r.Name) + "..."
	}
	return kind + quoteOdd(r.Name)
}

func quoteHost(s string) string { return clean(s) }

// ruleInfo is a rule for programs: the names that Kafka's tools use.
type ruleInfo struct {
	Principal  string `json:"principal"`
	Permission string `json:"permission"`
	Operation  string `json:"operation"`
	Resource   string `json:"resource"`
	Pattern    string `json:"pattern"`
	Name       string `json:"name"`
	Host       string `json:"host"`
}

func ruleOf(r contracts.Acl) ruleInfo {
	return ruleInfo{
		r.Principal, map[bool]string{true: "deny", false: "allow"}[r.Permission == contracts.PermissionDeny], operationName(r.Operation),
		map[bool]string{true: "group", false: "topic"}[r.Resource == contracts.ResourceGroup],
		map[bool]string{true: "prefixed", false: "literal"}[r.Pattern == contracts.PatternPrefixed], r.Name, r.Host,
	}
}

func (a *app) listRules(ctx context.Context, tenant string) error {
	if _, err := a.tenant(ctx, tenant); err != nil {
		return err
	}
	call, _, err := a.topicsAt(ctx)
	if err != nil {
		return err
	}
	list, err := contracts.ReadAcls(call, tenant)
	if err != nil {
		return notUnderstood(err)
	}
	slices.SortFunc(list, func(x, y contracts.Acl) int { return strings.Compare(x.Name+x.Principal, y.Name+y.Principal) })
	out := make([]ruleInfo, len(list))
	for i, r := range list {
		out[i] = ruleOf(r)
	}
	return a.show(out, func(w io.Writer) {
		if len(list) == 0 {
			fmt.Fprintln(w, "there are no rules: only the owners use the tenant's topics")
			return
		}
		rows := make([][]string, len(list))
		for i, r := range list {
			rows[i] = []string{principalText(r.Principal), out[i].Permission, out[i].Operation, resourceText(r), clean(r.Host)}
		}
		columns(w, []string{"WHO", "RULE", "OPERATION", "ON", "FROM"}, rows)
	})
}
