package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
)

func proposalCommand() *cobra.Command {
	var open bool
	var last uint64
	var content string
	return group("proposal", "What is proposed to the producers, and who approves",
		command("list", "List proposals, the newest first", func(ctx context.Context, a *app, _ []string) error {
			return a.listProposals(ctx, open, last)
		}, flags(func(f *pflag.FlagSet) {
			f.BoolVar(&open, "open", false, "only those that can still be approved")
			f.Uint64Var(&last, "last", 50, "how many of the newest are looked at")
		})),
		command("show ID", "Show one proposal: what it would do, who approves, what is missing", func(ctx context.Context, a *app, args []string) error {
			id, err := parseProposal(args[0])
			if err != nil {
				return err
			}
			p, err := a.proposal(ctx, id)
			if err != nil {
				return err
			}
			return a.show(p, p.table)
		}, arguments(1, 1)),
		command("approve ID", "Approve a proposal as a producer of the schedule", func(ctx context.Context, a *app, args []string) error {
			id, err := parseProposal(args[0])
			if err != nil {
				return err
			}
			return a.approve(ctx, id, content)
		}, arguments(1, 1), sends, flags(func(f *pflag.FlagSet) {
			f.StringVar(&content, "content", "", "approve only if this is its content, as borcli proposal show prints it")
		}), long("Approve a proposal as a producer of the schedule. It takes effect with the approval that completes a quorum of the schedule as it is then.\n"+
			"The approval is of what is shown: if another proposal gets the number on the branch that becomes final, it does nothing.")),
	)
}

func parseProposal(text string) (uint64, error) {
	id, err := strconv.ParseUint(strings.TrimPrefix(text, "#"), 10, 63)
	if err != nil {
		return 0, fail(exitUsage, "%q is no proposal's number; borcli proposal list shows them", text)
	}
	return id, nil
}

// proposalInfo is a proposal in words.
type proposalInfo struct {
	ID        uint64            `json:"id"`
	Kind      string            `json:"kind"`
	What      string            `json:"what"` // in words
	Arguments map[string]string `json:"arguments"`
	Proposer  common.Address    `json:"proposer"`
	Created   uint64            `json:"createdAt"` // Unix seconds
	Until     uint64            `json:"openUntil"` // Unix seconds
	State     string            `json:"state"`     // open, done, expired
	Approvals uint64            `json:"approvals"` // of accounts with a seat
	Quorum    uint64            `json:"quorum"`
	Approved  []common.Address  `json:"approvedBy"` // also accounts that lost their seat meanwhile
	Missing   []common.Address  `json:"notApprovedBy"`
	Content   common.Hash       `json:"content"` // what an approval is of: keccak256(abi.encode(kind, data))
	now       uint64
}

// proposalKinds names the kinds and their arguments, by the order of their ABI types.
var proposalKinds = map[uint8]struct { //nolint:gochecknoglobals // a constant table
	name  string
	types string
	args  []string
	words func(arg []string) string
}{
	contracts.ProposeSetNode: {"set-node", "bytes,address,uint8", []string{"peer", "account", "roles"}, func(x []string) string {
		if x[1] == (common.Address{}).Hex() {
			return fmt.Sprintf("admit node %s as %s", x[0], x[2])
		}
		return fmt.Sprintf("admit node %s as %s for %s", x[0], x[2], x[1])
	}},
	contracts.ProposeRemoveNode: {"remove-node", "bytes", []string{"peer"}, func(x []string) string { return "remove node " + x[0] }},
	contracts.ProposeRestrictSenders: {"restrict-senders", "bool", []string{"on"}, func(x []string) string {
		return onOff(x[0], "only listed accounts may send transactions", "every account may send transactions")
	}},
	contracts.ProposeAllowSender: {"allow-sender", "address,bool", []string{"account", "allowed"}, func(x []string) string {
		return onOff(x[1], "list "+x[0]+" as a sender", "take "+x[0]+" off the list of senders")
	}},
	contracts.ProposeRestrictDeployers: {"restrict-deployers", "bool", []string{"on"}, func(x []string) string {
		return onOff(x[0], "only listed accounts may deploy contracts", "every account may deploy contracts")
	}},
	contracts.ProposeAllowDeployer: {"allow-deployer", "address,bool", []string{"account", "allowed"}, func(x []string) string {
		return onOff(x[1], "list "+x[0]+" as a deployer", "take "+x[0]+" off the list of deployers")
	}},
	contracts.ProposeParameter: {"parameter", "uint64,string,bytes", []string{"height", "name", "value"}, func(x []string) string {
		return fmt.Sprintf("set %s to %s from block %s on", x[1], x[2], x[0])
	}},
	contracts.ProposeUpgrade: {"upgrade", "uint64,string,bytes32", []string{"height", "name", "digest"}, func(x []string) string {
		if x[2] == (common.Hash{}).Hex() {
			return fmt.Sprintf("withdraw upgrade %s from block %s on", x[1], x[0])
		}
		return fmt.Sprintf("upgrade %s (%s) from block %s on", x[1], x[2], x[0])
	}},
	contracts.ProposeSetAdmin: {"set-admin", "address", []string{"account"}, func(x []string) string {
		if x[0] == (common.Address{}).Hex() {
			return "no admin any more"
		}
		return "make " + x[0] + " the admin"
	}},
	contracts.ProposeSetTenant: {"set-tenant", "string,address,uint64,uint32,uint32,uint32",
		[]string{"name", "owner", "bytesPerSecond", "connections", "topics", "partitions"}, func(x []string) string {
			owner := x[1]
			if owner == (common.Address{}).Hex() {
				owner = "nobody"
			}
			return fmt.Sprintf("tenant %s of %s with %s bytes per second, %s connections, %s topics and %s partitions", x[0], owner, x[2], x[3], x[4], x[5])
		}},
	contracts.ProposePardon: {"pardon", "address,string", []string{"account", "tenant"}, func(x []string) string {
		if x[1] == `""` { // as empty texts are shown
			return "give " + x[0] + " its reputation back in all tenants"
		}
		return "give " + x[0] + " its reputation back in tenant " + x[1]
	}},
}

func onOff(v, on, off string) string {
	if v == "true" {
		return on
	}
	return off
}

// explainProposal decodes a proposal's data. Data that is not what the kind asks for is shown as it is: anyone in the
// schedule can propose anything, and such a proposal is reverted when it would take effect.
func explainProposal(kind uint8, data []byte) (name, what string, arguments map[string]string) {
	k, ok := proposalKinds[kind]
	if !ok {
		return fmt.Sprint("kind ", kind), "nothing: no contract of this version knows this kind", map[string]string{"data": hexutil.Encode(data)}
	}
	values, err := unpackArguments(k.types, data)
	if err != nil {
		return k.name, "nothing: its data cannot be decoded", map[string]string{"data": hexutil.Encode(data)}
	}
	texts := make([]string, len(values))
	arguments = make(map[string]string, len(values))
	for i, v := range values {
		texts[i] = argumentText(v)
		if raw, ok := v.([]byte); ok && kind == contracts.ProposeParameter {
			name, _ := values[i-1].(string)
			texts[i] = parameterText(name, raw)
			arguments[k.args[i]] = hexutil.Encode(raw)
			if n, err := genesis.DecodeParameter(name, raw, false); err == nil {
				arguments[k.args[i]] = n.String() // amounts in JSON are wei
			}
			continue
		}
		arguments[k.args[i]] = texts[i]
	}
	return k.name, k.words(texts), arguments
}

func unpackArguments(list string, data []byte) ([]any, error) {
	var args abi.Arguments
	for _, name := range strings.Split(list, ",") {
		t, err := abi.NewType(name, "", nil)
		if err != nil {
			return nil, err
		}
		args = append(args, abi.Argument{Type: t})
	}
	return args.Unpack(data)
}

// argumentText writes an argument for people. Names of parameters and peers are texts that a producer chose.
func argumentText(v any) string {
	switch x := v.(type) {
	case uint8:
		return rolesText(x)
	case []byte:
		return quoteOdd(string(x))
	case [32]byte:
		return common.Hash(x).Hex()
	case string:
		return quoteOdd(x)
	case common.Address:
		return x.Hex()
	}
	return fmt.Sprint(v)
}

// quoteOdd is a text as it is, or quoted if it holds more than letters, digits and a few signs.
func quoteOdd(s string) string {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r))
	}
	if s == "" || strings.ContainsFunc(s, odd) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

// parameterText is a parameter's value, amounts with their unit; a value that would have no effect as its bytes.
func parameterText(name string, raw []byte) string {
	v, err := genesis.DecodeParameter(name, raw, false)
	switch {
	case err != nil:
		return hexutil.Encode(raw)
	case name == genesis.MinStake:
		return ether(v)
	case name == genesis.BaseFee:
		return gwei(v)
	}
	return v.String()
}

func (p *proposalInfo) table(w io.Writer) {
	pairs := []pair{{"proposal", fmt.Sprint(p.ID)}, {"what", p.What}, {"kind", p.Kind}, {"content", p.Content.Hex()}, {"state", p.State},
		{"approved", fmt.Sprintf("by %d of %d", p.Approvals, p.Quorum)}, {"proposed by", p.Proposer.Hex()}, {"on", when(p.Created, p.now)}}
	if p.State == "open" {
		pairs = append(pairs, pair{"open until", when(p.Until, p.now)})
	}
	for _, x := range p.Approved {
		pairs = append(pairs, pair{"approves", x.Hex()})
	}
	if p.State == "open" {
		for _, x := range p.Missing {
			pairs = append(pairs, pair{"does not yet", x.Hex()})
		}
	}
	lines(w, pairs...)
	if p.State == "open" {
		fmt.Fprintln(w, p.next())
	}
}

// next says what is missing.
func (p *proposalInfo) next() string {
	switch p.State {
	case "done":
		if p.Kind == "parameter" || p.Kind == "upgrade" { // at a block that is still to come
			return fmt.Sprintf("proposal %d is decided: %s", p.ID, p.What)
		}
		return fmt.Sprintf("proposal %d has taken effect: %s", p.ID, p.What)
	case "expired":
		return fmt.Sprintf("proposal %d has expired without a quorum: propose it again", p.ID)
	}
	return fmt.Sprintf("proposal %d (%s) is approved by %d of %d; others run: borcli proposal approve %d", p.ID, p.What, p.Approvals, p.Quorum, p.ID)
}

// council is who decides, at one block.
type council struct {
	at      *place
	seats   []common.Address
	quorum  *big.Int
	admin   common.Address
	seconds uint64 // a proposal stays open
}

func (a *app) council(ctx context.Context, more ...func(at *place) read) (*council, error) {
	c := new(council)
	var err error
	if c.at, err = a.newest(ctx); err != nil {
		return nil, err
	}
	list := []read{
		ofProducers(&c.seats, producersABI.PackActive(), producersABI.UnpackActive),
		ofProducers(&c.quorum, producersABI.PackQuorum(), producersABI.UnpackQuorum),
		ofMembers(&c.admin, membersABI.PackAdmin(), membersABI.UnpackAdmin),
		ofMembers(&c.seconds, membersABI.PackProposalSeconds(), membersABI.UnpackProposalSeconds),
	}
	for _, m := range more {
		list = append(list, m(c.at))
	}
	return c, a.readAll(ctx, c.at, list...)
}

// proposalCount is a read of how many proposals there are.
func proposalCount(out **big.Int) func(*place) read {
	return func(*place) read {
		return ofMembers(out, membersABI.PackProposalCount(), membersABI.UnpackProposalCount)
	}
}

// proposals reads those with these numbers.
func (a *app) proposals(ctx context.Context, c *council, ids []uint64) ([]*proposalInfo, error) {
	out := make([]*proposalInfo, len(ids))
	list := make([]read, len(ids))
	for i, id := range ids {
		list[i] = read{contracts.MembersAddress, membersABI.PackProposal(new(big.Int).SetUint64(id)), func(answer []byte) error {
			x, err := membersABI.UnpackProposal(answer)
			if err != nil {
				return err
			}
			out[i] = c.info(id, &x)
			return nil
		}}
	}
	return out, a.readAll(ctx, c.at, list...)
}

func (c *council) info(id uint64, x *contracts.ProposalOutput) *proposalInfo {
	p := &proposalInfo{ID: id, Proposer: x.P.Proposer, Created: x.P.CreatedAt, Until: x.P.CreatedAt + c.seconds,
		Approvals: x.Approvals.Uint64(), Quorum: c.quorum.Uint64(), Approved: x.P.Approvals, now: uint64(c.at.Time), State: "expired"}
	p.Kind, p.What, p.Arguments = explainProposal(x.P.Kind, x.P.Data)
	p.Content = contracts.ProposalContent(x.P.Kind, x.P.Data)
	switch {
	case x.P.Done:
		p.State = "done"
	case x.Open:
		p.State = "open"
	}
	p.Missing = []common.Address{}
	for _, s := range c.seats {
		if !slices.Contains(p.Approved, s) {
			p.Missing = append(p.Missing, s)
		}
	}
	return p
}

func (a *app) proposal(ctx context.Context, id uint64) (*proposalInfo, error) {
	var count *big.Int
	c, err := a.council(ctx, proposalCount(&count))
	if err != nil {
		return nil, err
	}
	if count.Cmp(new(big.Int).SetUint64(id)) <= 0 {
		return nil, fail(exitNotFound, "there is no proposal %d; %s", id, knownProposals(count))
	}
	list, err := a.proposals(ctx, c, []uint64{id})
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

func knownProposals(count *big.Int) string {
	if count.Sign() == 0 {
		return "none was made yet"
	}
	return fmt.Sprintf("they are numbered from 0 to %d", new(big.Int).Sub(count, big.NewInt(1)))
}

func (a *app) listProposals(ctx context.Context, open bool, last uint64) error {
	if last == 0 || last > maxProposalsShown {
		return fail(exitUsage, "--last is %d: use 1 to %d", last, maxProposalsShown)
	}
	var count *big.Int
	c, err := a.council(ctx, proposalCount(&count))
	if err != nil {
		return err
	}
	var ids []uint64
	for id := count.Uint64(); id > 0 && uint64(len(ids)) < last; id-- {
		ids = append(ids, id-1)
	}
	list, err := a.proposals(ctx, c, ids)
	if err != nil {
		return err
	}
	if open {
		list = slices.DeleteFunc(list, func(p *proposalInfo) bool { return p.State != "open" })
	}
	return a.show(list, func(w io.Writer) {
		rows := make([][]string, len(list))
		for i, p := range list {
			rows[i] = []string{fmt.Sprint(p.ID), p.State, fmt.Sprintf("%d of %d", p.Approvals, p.Quorum), when(p.Created, p.now), p.What}
		}
		columns(w, []string{"ID", "STATE", "APPROVED", "PROPOSED", "WHAT"}, rows)
	})
}

// approve approves a proposal, unless it can be seen beforehand that this leads nowhere.
func (a *app) approve(ctx context.Context, id uint64, content string) error {
	var want common.Hash
	if content != "" && want.UnmarshalText([]byte(content)) != nil {
		return fail(exitUsage, "--content %q is no hash of 32 bytes; borcli proposal show %d prints it", content, id)
	}
	from, err := a.sender(ctx)
	if err != nil {
		return err
	}
	p, err := a.proposal(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case content != "" && want != p.Content:
		return fail(exitRefused, "proposal %d has content %s, not %s: %s; borcli proposal list shows all", id, p.Content, want, p.What)
	case p.State != "open":
		return fail(exitRefused, "%s", p.next())
	case slices.Contains(p.Approved, from):
		return fail(exitRefused, "%s approved proposal %d before; it waits for %d more", from, id, p.Quorum-min(p.Approvals, p.Quorum))
	case !slices.Contains(p.Missing, from):
		return fail(exitRefused, "%s has no seat in the schedule, so it cannot approve; sign as one of: %s", from, addressList(p.Missing))
	}
	done, err := a.govern(ctx, txRequest{To: &contracts.MembersAddress, Data: contracts.ApproveCall(id, p.Content),
		What: fmt.Sprintf("approve proposal %d: %s", id, p.What)})
	if err != nil {
		return err
	}
	return a.tellProposal(ctx, done, id)
}

func addressList(list []common.Address) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = x.Hex()
	}
	return strings.Join(texts, ", ")
}

// propose makes a proposal and tells its number and what is missing for a quorum.
func (a *app) propose(ctx context.Context, what string, data []byte) error {
	from, err := a.sender(ctx)
	if err != nil {
		return err
	}
	c, err := a.council(ctx)
	if err != nil {
		return err
	}
	if from != c.admin && !slices.Contains(c.seats, from) {
		return fail(exitRefused, "%s has no seat in the schedule%s, so it cannot propose; sign as one of: %s", from, notAdmin(c.admin), addressList(c.seats))
	}
	s, err := a.govern(ctx, txRequest{To: &contracts.MembersAddress, Data: data, What: "propose: " + what})
	if err != nil {
		return err
	}
	id, err := proposalOf(s)
	if err != nil {
		return err
	}
	return a.tellProposal(ctx, s, id)
}

func notAdmin(admin common.Address) string {
	if admin == (common.Address{}) {
		return ""
	}
	return " and is not the admin"
}

var errNoProposal = errors.New("the receipt tells of no proposal")

// proposalOf finds the number of the proposal that a transaction made; 0 if its receipt was not waited for.
func proposalOf(s *sent) (uint64, error) {
	if s.Receipt == nil {
		return 0, nil
	}
	for _, l := range s.Receipt.Logs {
		if l.Address != contracts.MembersAddress {
			continue
		}
		if e, err := membersABI.UnpackProposedEvent(l); err == nil && e.Id.IsUint64() {
			return e.Id.Uint64(), nil
		}
	}
	return 0, fail(exitOther, "transaction %s: %w; borcli proposal list shows all", s.Hash, errNoProposal)
}

// tellProposal prints how a proposal stands after our transaction.
func (a *app) tellProposal(ctx context.Context, s *sent, id uint64) error {
	if s.Receipt == nil {
		return a.tell(s, "borcli proposal list shows what becomes of it")
	}
	p, err := a.proposal(ctx, id)
	if err != nil {
		return err
	}
	return a.show(struct {
		*sent
		Proposal *proposalInfo `json:"proposal"`
	}{s, p}, func(w io.Writer) {
		s.table(w)
		fmt.Fprintln(w, clean(p.next()))
	})
}
