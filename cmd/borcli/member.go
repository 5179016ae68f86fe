package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
)

func memberCommand() *cobra.Command {
	var roles, account string
	accountFlag := flags(func(f *pflag.FlagSet) {
		f.StringVar(&account, "account", "", "account of a producer's node, or of who answers for the node")
	})
	return group("member", "Nodes that may connect, and as what",
		command("list", "List the members", func(ctx context.Context, a *app, _ []string) error { return a.listMembers(ctx) }),
		command("add PEER", "Propose a node as a member", func(ctx context.Context, a *app, args []string) error {
			return a.addMember(ctx, args[0], roles, account)
		}, arguments(1, 1), sends, accountFlag, flags(func(f *pflag.FlagSet) {
			f.StringVar(&roles, "roles", "observer", "what the node may be: producer, observer, broker, joined by commas")
		}), long("Propose a node as a member. PEER is the peer id that bornode init prints (12D3KooW...). The proposal takes\n"+
			"effect when a quorum of the producers in the schedule has approved it."),
			example("borcli member add 12D3KooW... --roles producer --account 0x5290...", "borcli member add 12D3KooW... --roles observer,broker")),
		command("roles PEER [ROLES]", "Show a member's roles, or propose others", func(ctx context.Context, a *app, args []string) error {
			return a.memberRoles(ctx, args)
		}, arguments(1, 2), sends, example("borcli member roles 12D3KooW...", "borcli member roles 12D3KooW... observer,broker")),
		command("remove PEER", "Propose that a node is no longer a member", func(ctx context.Context, a *app, args []string) error {
			return a.removeMember(ctx, args[0])
		}, arguments(1, 1), sends, long("Propose that a node is no longer a member. Its links are closed when the block that decides it is final. An\n"+
			"account without any producer's node left gives up its candidacy.")),
	)
}

// roleNames are the roles by bit.
var roleNames = []struct { //nolint:gochecknoglobals // a constant table
	bit  uint8
	name string
}{{contracts.RoleProducer, "producer"}, {contracts.RoleObserver, "observer"}, {contracts.RoleBroker, "broker"}}

func rolesText(roles uint8) string {
	var names []string
	for _, r := range roleNames {
		if roles&r.bit != 0 {
			names = append(names, r.name)
		}
		roles &^= r.bit
	}
	if roles != 0 || len(names) == 0 {
		names = append(names, fmt.Sprintf("unknown roles %d", roles))
	}
	return strings.Join(names, ",")
}

func parseRoles(text string) (uint8, error) {
	var roles uint8
	for _, part := range strings.Split(text, ",") {
		part = strings.ToLower(strings.TrimSpace(part))
		known := []string{}
		bit := uint8(0)
		for _, r := range roleNames {
			known = append(known, r.name)
			if r.name == part {
				bit = r.bit
			}
		}
		if bit == 0 {
			return 0, fail(exitUsage, "roles %q: %q is no role%s", text, part, didYouMean(part, known))
		}
		roles |= bit
	}
	return roles, nil
}

func parsePeer(text string) (string, error) {
	id, err := peer.Decode(strings.TrimSpace(text))
	if err != nil {
		return "", fail(exitUsage, "%q is no peer id: give what bornode init prints, beginning with 12D3KooW", text)
	}
	return id.String(), nil
}

// memberInfo is one member.
type memberInfo struct {
	PeerID  string         `json:"peerId"`
	Roles   string         `json:"roles"`
	Account common.Address `json:"account"`
	roles   uint8
}

func (a *app) members(ctx context.Context) ([]memberInfo, error) {
	at, err := a.newest(ctx)
	if err != nil {
		return nil, err
	}
	var list []contracts.MemberEntry
	if err := a.readAll(ctx, at, ofMembers(&list, contracts.MembersCallData(), contracts.DecodeMembers)); err != nil {
		return nil, err
	}
	out := make([]memberInfo, len(list))
	for i, m := range list {
		out[i] = memberInfo{m.PeerID, rolesText(m.Roles), m.Account, m.Roles}
	}
	return out, nil
}

func (a *app) listMembers(ctx context.Context) error {
	list, err := a.members(ctx)
	if err != nil {
		return err
	}
	return a.show(list, func(w io.Writer) {
		if len(list) == 0 {
			fmt.Fprintln(w, "the chain has no list of members: every node may connect")
			return
		}
		rows := make([][]string, len(list))
		for i, m := range list {
			rows[i] = []string{m.PeerID, m.Roles, accountText(m.Account)}
		}
		columns(w, []string{"PEER", "ROLES", "ACCOUNT"}, rows)
	})
}

func accountText(x common.Address) string {
	if x == (common.Address{}) {
		return "-"
	}
	return x.Hex()
}

// member finds a member; nil if the peer is none.
func (a *app) member(ctx context.Context, id string) (*memberInfo, error) {
	list, err := a.members(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list, func(m memberInfo) bool { return m.PeerID == id }); i >= 0 {
		return &list[i], nil
	}
	return nil, nil //nolint:nilnil // no member
}

func (a *app) mustMember(ctx context.Context, id string) (*memberInfo, error) {
	m, err := a.member(ctx, id)
	if err == nil && m == nil {
		err = fail(exitNotFound, "%s is no member; borcli member list shows them", id)
	}
	return m, err
}

func (a *app) addMember(ctx context.Context, text, roles, account string) error {
	id, err := parsePeer(text)
	if err != nil {
		return err
	}
	bits, err := parseRoles(roles)
	if err != nil {
		return err
	}
	var owner common.Address
	if account != "" {
		if owner, err = parseAddress(account); err != nil {
			return fail(exitUsage, "--account: %v", err)
		}
	}
	if m, err := a.member(ctx, id); err != nil {
		return err
	} else if m != nil && m.roles == bits && m.Account == owner {
		return fail(exitRefused, "%s is a member with these roles already", id)
	}
	return a.setMember(ctx, id, owner, bits)
}

func (a *app) setMember(ctx context.Context, id string, owner common.Address, bits uint8) error {
	if bits&contracts.RoleProducer != 0 && owner == (common.Address{}) {
		return fail(exitUsage, "a producer's node needs the account that it signs for: name it with --account")
	}
	data, err := contracts.AddMemberCall(id, owner, bits)
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	return a.propose(ctx, fmt.Sprintf("node %s as %s", id, rolesText(bits)), data)
}

func (a *app) memberRoles(ctx context.Context, args []string) error {
	id, err := parsePeer(args[0])
	if err != nil {
		return err
	}
	m, err := a.mustMember(ctx, id)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		return a.show(m, func(w io.Writer) {
			lines(w, pair{"peer", m.PeerID}, pair{"roles", m.Roles}, pair{"account", accountText(m.Account)})
		})
	}
	bits, err := parseRoles(args[1])
	if err != nil {
		return err
	}
	if bits == m.roles {
		return fail(exitRefused, "%s has these roles already", id)
	}
	return a.setMember(ctx, id, m.Account, bits)
}

func (a *app) removeMember(ctx context.Context, text string) error {
	id, err := parsePeer(text)
	if err != nil {
		return err
	}
	m, err := a.mustMember(ctx, id)
	if err != nil {
		return err
	}
	data, err := contracts.RemoveMemberCall(m.PeerID)
	if err != nil {
		return err
	}
	return a.propose(ctx, "remove node "+id, data)
}
