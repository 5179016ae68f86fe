package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/spf13/cobra"

	"github.com/bornode/bornode/contracts"
)

// The bindings of the system contracts; they hold no state.
var (
	producersABI = contracts.NewProducers() //nolint:gochecknoglobals // a constant
	membersABI   = contracts.NewMembers()   //nolint:gochecknoglobals // a constant
)

// governanceCommands are the commands about producers, members, proposals, parameters and upgrades, and chain.
func governanceCommands() []*cobra.Command {
	return []*cobra.Command{producerCommand(), memberCommand(), proposalCommand(), parameterCommand(), upgradeCommand(),
		accessCommand(), adminCommand(), chainCommand()}
}

// place is a block at which several reads are made, so that they fit together.
type place struct {
	Number hexutil.Uint64 `json:"number"`
	Time   hexutil.Uint64 `json:"timestamp"`
}

func (a *app) newest(ctx context.Context) (*place, error) {
	p := new(place)
	return p, a.ask(ctx, p, "eth_getBlockByNumber", "latest", false)
}

// read is one view of a system contract.
type read struct {
	to   common.Address
	data []byte
	take func(answer []byte) error
}

// ofProducers and ofMembers read a view and decode it.
func ofProducers[T any](out *T, data []byte, unpack func([]byte) (T, error)) read {
	return readOf(contracts.ProducersAddress, out, data, unpack)
}

func ofMembers[T any](out *T, data []byte, unpack func([]byte) (T, error)) read {
	return readOf(contracts.MembersAddress, out, data, unpack)
}

func readOf[T any](to common.Address, out *T, data []byte, unpack func([]byte) (T, error)) read {
	return read{to, data, func(answer []byte) (err error) {
		*out, err = unpack(answer)
		return err
	}}
}

// readAll makes all reads at one block, many in one request.
func (a *app) readAll(ctx context.Context, at *place, list ...read) error {
	c, err := a.rpc(ctx)
	if err != nil {
		return err
	}
	for len(list) > 0 {
		n := min(len(list), maxBatchCalls)
		answers := make([]hexutil.Bytes, n)
		batch := make([]gethrpc.BatchElem, n)
		for i, r := range list[:n] {
			call := map[string]any{"to": r.to, "input": hexutil.Bytes(r.data)}
			batch[i] = gethrpc.BatchElem{Method: "eth_call", Args: []any{call, at.Number}, Result: &answers[i]}
		}
		if err := c.BatchCallContext(ctx, batch); err != nil {
			return a.explain(err)
		}
		for i := range batch {
			if err := batch[i].Error; err != nil {
				return a.explain(err)
			}
			if len(answers[i]) == 0 {
				return fail(exitOther, "there is no contract at %s: the node's chain is none of bornode's", list[i].to)
			}
			if err := list[i].take(answers[i]); err != nil {
				return fail(exitOther, "the contract at %s answers what borcli does not understand; use a borcli of the node's version: %w", list[i].to, err)
			}
		}
		list = list[n:]
	}
	return nil
}

// when writes a time for people: as it is, and how far away.
func when(seconds, now uint64) string {
	t := time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339) //nolint:gosec // a block's time
	if seconds > now {
		return t + " (in " + span(seconds-now) + ")"
	}
	return t + " (" + span(now-seconds) + " ago)"
}

// span writes seconds as days, hours, minutes, seconds: the two largest that are not 0.
func span(seconds uint64) string {
	var parts []string
	for _, u := range []struct {
		name    string
		seconds uint64
	}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}} {
		if n := seconds / u.seconds; n > 0 && len(parts) < 2 {
			parts = append(parts, fmt.Sprint(n, " ", u.name))
			seconds %= u.seconds
		}
	}
	if len(parts) == 0 {
		return "0 s"
	}
	return strings.Join(parts, " ")
}

// remedies say what to do about a refusal of the system contracts. The first that fits counts.
var remedies = []struct{ text, remedy string }{ //nolint:gochecknoglobals // a constant table
	{"no node of the caller has the producer role", "have the node admitted first: borcli member add PEER --roles producer --account ACCOUNT"},
	{"deposit at least the minimum stake", "deposit it: borcli producer stake AMOUNT"},
	{"this key was registered before", "make new keys with bornode init --producer in a new folder"},
	{"the proof of possession is not", "the proof is for another account or chain: sign as the account of the key file, or make the proof with bornode init --producer --genesis FILE"},
	{"the caller has not resigned", "nothing is to be done: the candidacy stands"},
	{"the caller is no candidate", "register first: borcli producer register"},
	{"all places are taken", "free one: borcli producer prune ACCOUNT"},
	{"more stake than can be counted", "deposit less"},
	{"no such candidate", "borcli producer list shows the candidates"},
	{"the caller's free stake is smaller", "borcli producer show shows it; deposit more or take votes back"},
	{"votes for too many", "take votes back from one: borcli producer unvote ACCOUNT AMOUNT"},
	{"gave fewer votes", "borcli producer show shows the votes given"},
	{"does not vote for this producer", "borcli producer show shows the votes given"},
	{"a candidate keeps the minimum stake", "resign first, or withdraw less: borcli producer resign"},
	{"nothing was requested", "request it first: borcli producer withdraw AMOUNT"},
	{"the delay is not over", "borcli producer show says when it is"},
	{"is still in a schedule", "wait until the next epochs have begun; borcli producer show tells"},
	{"takes no payment", "the account is a contract that refuses payments"},
	{"not in jail, can report", "borcli producer show tells what is missing: votes, stake, or the way out of jail (borcli producer unjail)"},
	{"the caller has a seat", "nothing is to be done: who has a seat does not report"},
	{"the caller is not in jail", "nothing is to be done"},
	{"was proven guilty and never produces again", "register another account with another key"},
	{"was proven guilty before", "nothing is to be done: it was slashed already"},
	{"the evidence is too old", "it can no longer be used"},
	{"the headers end above", "the path of headers is too short: it must reach down past the first vote's slot"},
	{"can be pruned", "borcli producer list shows who resigned or is guilty"},
	{"only a producer of the schedule or the admin proposes", "sign as the account of a producer that has a seat; borcli producer list shows them"},
	{"only a producer of the schedule approves", "sign as the account of a producer that has a seat; borcli producer list shows them"},
	{"the proposal took effect before", "nothing is to be done; borcli proposal show tells"},
	{"the proposal has expired", "propose it again"},
	{"the caller approved before", "another producer must approve it; borcli proposal show tells who did not"},
	{"no such proposal", "borcli proposal list shows them"},
	{"no such node", "borcli member list shows the members"},
	{"the list of nodes is full", "remove a member first"},
	{"a producer node needs an account", "name it with --account"},
	{"the list of accounts is full", "remove an account first"},
	{"blocks after", "choose a greater --height"},
	{"no such tenant", "borcli tenant list shows them; borcli tenant set proposes one"},
	{"there is a topic of this name", "borcli topic describe shows it"},
	{"no such topic", "borcli topic list shows them"},
	{"fewer live brokers than replicas", "borcli topic brokers shows them; ask for fewer with --replicas"},
	{"who it allows CREATE on all its topics", "sign as the tenant's owner (borcli tenant show), or have it run: borcli topic grant ACCOUNT create --topic TENANT. --prefix"},
	{"the topic's or the tenant's owner does this", "borcli topic describe shows the owner, borcli tenant show the tenant's"},
	{"a topic's owner those of his topic", "sign as the tenant's owner; borcli tenant show names it"},
	{"the tenant has as many topics", "delete one, or have more allowed: borcli tenant set TENANT --topics N"},
	{"not as many partitions left", "delete a topic, or have more allowed: borcli tenant set TENANT --partitions N"},
	{"their number never falls", "borcli topic describe shows how many there are"},
	{"reputation in this tenant is below 20", "borcli tenant reputation ACCOUNT shows it; wait, or have the account pardoned: borcli tenant pardon ACCOUNT"},
}

// advise adds to a refusal of a system contract what to do about it.
func advise(err error) error {
	e, ok := err.(*exitError) //nolint:errorlint // what wraps one has words of its own
	if !ok || e.code != exitReverted {
		return err
	}
	for _, r := range remedies {
		if strings.Contains(e.msg, r.text) {
			return &exitError{e.code, e.msg + "; " + r.remedy, e.cause}
		}
	}
	return err
}

// sender is the account that signs what the command sends.
func (a *app) sender(ctx context.Context) (common.Address, error) {
	who, err := a.account(ctx)
	if err != nil {
		return common.Address{}, err
	}
	return who.address(), nil
}

// govern sends a call of a system contract and waits as --wait says. The receipt is nil if nothing was waited for. It
// prints nothing.
func (a *app) govern(ctx context.Context, r txRequest) (*sent, error) {
	s, err := a.submit(ctx, r)
	if err != nil {
		return s, advise(err)
	}
	return s, nil
}

// tell prints a transaction and what follows from it.
func (a *app) tell(s *sent, format string, args ...any) error {
	next := fmt.Sprintf(format, args...)
	return a.show(struct {
		*sent
		Next string `json:"next,omitempty"`
	}{s, next}, func(w io.Writer) {
		s.table(w)
		if next != "" {
			fmt.Fprintln(w, clean(next))
		}
	})
}
