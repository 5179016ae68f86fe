package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
)

func tenantCommand() *cobra.Command {
	var q tenantFlags
	var in tenantFlag
	return group("tenant", "To whom topics belong, and what they may use",
		command("list", "List the tenants", func(ctx context.Context, a *app, _ []string) error { return a.listTenants(ctx) }),
		command("show NAME", "Show a tenant, its quotas and what it uses", func(ctx context.Context, a *app, args []string) error {
			t, err := a.tenant(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(t, t.table)
		}, arguments(1, 1)),
		command("set NAME", "Propose a tenant, or other quotas or another owner of one", func(ctx context.Context, a *app, args []string) error {
			return a.setTenant(ctx, args[0], &q)
		}, arguments(1, 1), sends, flags(q.add), long("Propose a tenant, or other quotas or another owner of one. What is not named stays as it is; a new tenant needs\n"+
			"--owner. Names of its topics and groups begin with NAME and a dot. The proposal takes effect when a quorum of the\n"+
			"producers in the schedule has approved it. Quotas below what is in use take nothing away."),
			example("borcli tenant set acme --owner 0x5290... --bytes-per-second 10000000 --topics 50", "borcli tenant set acme --connections 500")),
		command("reputation ACCOUNT", "Show an account's reputation in the tenants", func(ctx context.Context, a *app, args []string) error {
			return a.reputation(ctx, args[0], in.name)
		}, arguments(1, 1), flags(in.add), long("Show an account's reputation in the tenants: where it has lost some, or in the one that --tenant names. Each kind of\n"+
			"operation that a tenant's rules refuse costs the account 5 of 100 points there, once in a minute at most; each full\n"+
			"minute gives a quarter of what was lost back. Below 20 brokers refuse the account in that tenant, in no other."),
			example("borcli tenant reputation 0x5290...", "borcli tenant reputation 0x5290... --tenant acme")),
		command("pardon ACCOUNT", "Propose that an account gets its reputation back", func(ctx context.Context, a *app, args []string) error {
			return a.pardon(ctx, args[0], in.name)
		}, arguments(1, 1), sends, flags(in.add), long("Propose that an account gets its reputation back, in the tenant that --tenant names or in all.")),
	)
}

// tenantFlag names one tenant; empty: all.
type tenantFlag struct{ name string }

func (q *tenantFlag) add(f *pflag.FlagSet) {
	f.StringVar(&q.name, "tenant", "", "in this tenant alone")
}

func (a *app) pardon(ctx context.Context, account, tenant string) error {
	who, err := parseAddress(account)
	if err != nil {
		return fail(exitUsage, "ACCOUNT: %v", err)
	}
	what := "pardon " + who.Hex()
	if tenant != "" {
		if _, err := a.tenant(ctx, tenant); err != nil {
			return err
		}
		what += " in " + tenant
	}
	data, err := contracts.PardonCall(who, tenant)
	if err != nil {
		return err
	}
	return a.propose(ctx, what, data)
}

// tenantFlags are what a proposal changes; the flags' usual values are those of a new tenant.
type tenantFlags struct {
	owner                          string
	rate                           uint64
	connections, topics, partitons uint32
}

func (q *tenantFlags) add(f *pflag.FlagSet) {
	f.StringVar(&q.owner, "owner", "", "account that creates its topics and sets its rules; none: nobody does")
	f.Uint64Var(&q.rate, "bytes-per-second", 10<<20, "to and from its clients at each broker")
	f.Uint32Var(&q.connections, "connections", 100, "of its clients at each broker")
	f.Uint32Var(&q.topics, "topics", 100, "it may have")
	f.Uint32Var(&q.partitons, "partitions", 1000, "of all its topics together")
}

// apply changes a tenant by the flags that were given, or by all if it is new.
func (q *tenantFlags) apply(a *app, t *contracts.Tenant, isNew bool) error {
	given := func(name string) bool { return isNew || a.flags.Changed(name) }
	if given("owner") {
		switch q.owner {
		case "none":
			t.Owner = common.Address{}
		case "":
			return fail(exitUsage, "a new tenant needs an owner: name an account with --owner, or none")
		default:
			who, err := parseAddress(q.owner)
			if err != nil {
				return fail(exitUsage, "--owner: %v", err)
			}
			t.Owner = who
		}
	}
	if given("bytes-per-second") {
		t.BytesPerSecond = q.rate
	}
	if given("connections") {
		t.Connections = q.connections
	}
	if given("topics") {
		t.Topics = q.topics
	}
	if given("partitions") {
		t.Partitions = q.partitons
	}
	return nil
}

func (a *app) setTenant(ctx context.Context, name string, q *tenantFlags) error {
	if err := contracts.CheckTenantName(name); err != nil {
		return fail(exitUsage, "%v", err)
	}
	at, err := a.newest(ctx)
	if err != nil {
		return err
	}
	var t contracts.Tenant
	if err := a.readAll(ctx, at, ofTopics(&t, contracts.TenantCall(name), contracts.DecodeTenant)); err != nil {
		return err
	}
	before, isNew := t, t.Connections == 0
	t.Name = name
	if err := q.apply(a, &t, isNew); err != nil {
		return err
	}
	if !isNew && t == before {
		return fail(exitRefused, "tenant %s is as you ask for already", name)
	}
	data, err := contracts.SetTenantCall(t)
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	return a.propose(ctx, "tenant "+name, data)
}

// tenantInfo is a tenant.
type tenantInfo struct {
	Name           string         `json:"name"`
	Owner          common.Address `json:"owner"`
	BytesPerSecond uint64         `json:"bytesPerSecond"`
	Connections    uint32         `json:"connections"`
	Topics         uint32         `json:"topics"`
	Partitions     uint32         `json:"partitions"`
	TopicsUsed     uint32         `json:"topicsUsed"`
	PartitionsUsed uint32         `json:"partitionsUsed"`
	Reputation     *uint8         `json:"ownerReputation,omitempty"`
}

func tenantOf(t contracts.Tenant) tenantInfo {
	return tenantInfo{t.Name, t.Owner, t.BytesPerSecond, t.Connections, t.Topics, t.Partitions, t.TopicsUsed, t.PartitionsUsed, nil}
}

func (t *tenantInfo) table(w io.Writer) {
	owner := "nobody"
	if t.Owner != (common.Address{}) {
		owner = fmt.Sprintf("%s, reputation %d", t.Owner, *t.Reputation)
	}
	lines(w, pair{"tenant", t.Name}, pair{"owner", owner}, pair{"bytes per second", fmt.Sprint(t.BytesPerSecond)},
		pair{"connections", fmt.Sprint(t.Connections)}, pair{"topics", usedOf(t.TopicsUsed, t.Topics)},
		pair{"partitions", usedOf(t.PartitionsUsed, t.Partitions)})
}

func usedOf(used, most uint32) string { return fmt.Sprintf("%d of %d", used, most) }

func (a *app) tenant(ctx context.Context, name string) (*tenantInfo, error) {
	at, err := a.newest(ctx)
	if err != nil {
		return nil, err
	}
	var t contracts.Tenant
	if err := a.readAll(ctx, at, ofTopics(&t, contracts.TenantCall(name), contracts.DecodeTenant)); err != nil {
		return nil, err
	}
	if t.Connections == 0 {
		return nil, noTenant(name)
	}
	x := tenantOf(t)
	x.Reputation = new(uint8)
	return &x, a.readAll(ctx, at, ofTopics(x.Reputation, contracts.ReputationCall(contracts.TenantID(name), t.Owner), contracts.DecodeReputation))
}

func noTenant(name string) error {
	return fail(exitNotFound, "there is no tenant %.80q; borcli tenant list shows them, borcli tenant set proposes one", name)
}

func (a *app) listTenants(ctx context.Context) error {
	call, _, err := a.topicsAt(ctx)
	if err != nil {
		return err
	}
	list, err := contracts.ReadTenants(call)
	if err != nil {
		return notUnderstood(err)
	}
	out := make([]tenantInfo, len(list))
	for i, t := range list {
		out[i] = tenantOf(t)
	}
	return a.show(out, func(w io.Writer) {
		rows := make([][]string, len(out))
		for i, t := range out {
			rows[i] = []string{t.Name, accountText(t.Owner), usedOf(t.TopicsUsed, t.Topics), usedOf(t.PartitionsUsed, t.Partitions),
				fmt.Sprint(t.BytesPerSecond), fmt.Sprint(t.Connections)}
		}
		columns(w, []string{"TENANT", "OWNER", "TOPICS", "PARTITIONS", "BYTES/S", "CONNECTIONS"}, rows)
	})
}

// reputationInfo is an account's reputation in a tenant.
type reputationInfo struct {
	Tenant      string `json:"tenant"`
	Reputation  uint8  `json:"reputation"`
	Blacklisted bool   `json:"blacklisted"`
}

// reputation shows an account's reputation in one tenant, or where it is not whole.
func (a *app) reputation(ctx context.Context, text, tenant string) error {
	who, err := parseAddress(text)
	if err != nil {
		return fail(exitUsage, "ACCOUNT: %v", err)
	}
	call, at, err := a.topicsAt(ctx)
	if err != nil {
		return err
	}
	list, err := contracts.ReadTenants(call)
	if err != nil {
		return notUnderstood(err)
	}
	if tenant != "" {
		list = slices.DeleteFunc(list, func(t contracts.Tenant) bool { return t.Name != tenant })
		if len(list) == 0 {
			return noTenant(tenant)
		}
	}
	points, reads := make([]uint8, len(list)), make([]read, len(list))
	for i, t := range list {
		reads[i] = ofTopics(&points[i], contracts.ReputationCall(contracts.TenantID(t.Name), who), contracts.DecodeReputation)
	}
	if err := a.readAll(ctx, at, reads...); err != nil {
		return err
	}
	shown := []reputationInfo{}
	for i, t := range list {
		if tenant != "" || points[i] < contracts.Reputation {
			shown = append(shown, reputationInfo{t.Name, points[i], points[i] < contracts.MinReputation})
		}
	}
	return a.show(map[string]any{"account": who, "tenants": shown}, func(w io.Writer) {
		lines(w, pair{"account", who.Hex()})
		if len(shown) == 0 {
			lines(w, pair{"reputation", fmt.Sprintf("%d of %d in every tenant", contracts.Reputation, contracts.Reputation)})
		}
		for _, r := range shown {
			state := fmt.Sprintf("%d of %d in tenant %s", r.Reputation, contracts.Reputation, r.Tenant)
			if r.Blacklisted {
				state += ": brokers refuse it there until time gives some back; borcli tenant pardon proposes to forgive"
			}
			lines(w, pair{"reputation", state})
		}
	})
}

// ofTopics reads a view of Topics and decodes it.
func ofTopics[T any](out *T, data []byte, unpack func([]byte) (T, error)) read {
	return readOf(contracts.TopicsAddress, out, data, unpack)
}

// topicsAt makes calls to Topics at the newest block, always the same one.
func (a *app) topicsAt(ctx context.Context) (contracts.Caller, *place, error) {
	at, err := a.newest(ctx)
	if err != nil {
		return nil, nil, err
	}
	return func(data []byte) ([]byte, error) {
		var answer hexutil.Bytes
		raw := func(b []byte) (hexutil.Bytes, error) { return b, nil }
		return answer, a.readAll(ctx, at, ofTopics(&answer, data, raw))
	}, at, nil
}

// notUnderstood explains pages that were not what the contract should answer.
func notUnderstood(err error) error {
	if errors.Is(err, contracts.ErrReturn) {
		return fail(exitOther, "the contract at %s answers what borcli does not understand; use a borcli of the node's version: %w", contracts.TopicsAddress, err)
	}
	return err
}
