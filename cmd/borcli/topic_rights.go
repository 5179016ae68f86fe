package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/proof"
)

// judged is what the rules of their time say of a topic's operations.
type judged struct {
	Rules     int `json:"rules"`   // in force now, each found in the events
	Changes   int `json:"changes"` // of rules and owners ever
	Lawful    int `json:"lawful"`
	Unlawful  int `json:"unlawful"`  // served, and nothing allowed it
	Withheld  int `json:"withheld"`  // refused for want of rights, and allowed
	NotJudged int `json:"notJudged"` // of pseudonyms, of several hosts, or refused for another reason
}

var verdicts = map[proof.Verdict]string{proof.Lawful: "lawful", proof.Unlawful: "unlawful", proof.Withheld: "withheld", proof.NotJudged: "not judged"} //nolint:gochecknoglobals // a constant table

// judgeRights holds the operations against what the chain's events say of rules, owners and reputations.
func (a *app) judgeRights(ctx context.Context, r *auditResult, ops []proof.Operation) error {
	at := new(place)
	if err := a.ask(ctx, at, "eth_getBlockByNumber", "finalized", false); err != nil {
		return err
	}
	topic := new(contracts.TopicInfo)
	if err := a.readAll(ctx, at, ofTopics(topic, contracts.TopicCall(r.Topic), contracts.DecodeTopic)); err != nil {
		return err
	}
	tenant, err := contracts.TenantOf(topic.Name)
	if err != nil {
		return fail(exitNotFound, "there is no topic %s as of the last irreversible block", r.Topic)
	}
	h := &rightsHistory{a: a, topic: r.Topic, tenant: crypto.Keccak256Hash([]byte(tenant))}
	if err := h.read(ctx, uint64(at.Number), ops); err != nil {
		return err
	}
	state, err := a.rulesAt(ctx, at, tenant)
	if err != nil {
		return err
	}
	if err := proof.CheckRights(h.tenant, h.rights, state); err != nil {
		return fail(exitVerify, "the rules of tenant %s do not follow from the events that the node shows: %w", tenant, err)
	}
	law := proof.NewLaw(topic.Name, h.changes)
	r.Rights = &judged{Rules: len(state), Changes: len(h.changes)}
	for i := range ops {
		v := law.Judge(&ops[i], rightsLag)
		r.Operations[i].Verdict = verdicts[v]
		switch v {
		case proof.Lawful:
			r.Rights.Lawful++
		case proof.Unlawful:
			r.Rights.Unlawful++
		case proof.Withheld:
			r.Rights.Withheld++
		default:
			r.Rights.NotJudged++
		}
	}
	return nil
}

// rulesAt are a tenant's rules at a block.
func (a *app) rulesAt(ctx context.Context, at *place, tenant string) ([]proof.Right, error) {
	list, err := contracts.ReadAcls(func(data []byte) ([]byte, error) {
		var answer hexutil.Bytes
		raw := func(b []byte) (hexutil.Bytes, error) { return b, nil }
		return answer, a.readAll(ctx, at, ofTopics(&answer, data, raw))
	}, tenant)
	if err != nil {
		return nil, notUnderstood(err)
	}
	out := make([]proof.Right, len(list))
	for i, r := range list {
		out[i] = rightOf(r)
	}
	return out, nil
}

func rightOf(r contracts.Acl) proof.Right {
	return proof.Right{Resource: r.Resource, Pattern: r.Pattern, Name: r.Name, Principal: r.Principal, Host: r.Host, Operation: r.Operation, Permission: r.Permission}
}

// rightsHistory reads the events that decide who may do what with a topic.
type rightsHistory struct {
	a             *app
	topic, tenant common.Hash
	rights        []proof.RightChange
	changes       []proof.LawChange
	times         map[uint64]int64 // ms, of blocks
}

// read reads the events up to a block, oldest first.
func (h *rightsHistory) read(ctx context.Context, head uint64, ops []proof.Operation) error {
	seen, accounts := map[common.Address]bool{}, []common.Hash{}
	for i := range ops {
		if who := ops[i].Operator; !seen[who] {
			seen[who] = true
			accounts = append(accounts, common.BytesToHash(who[:]))
		}
	}
	filters := [][]any{
		{[]common.Hash{contracts.EventGranted, contracts.EventRevoked, contracts.EventTenantSet}, h.tenant},
		{[]common.Hash{contracts.EventTopicCreated, contracts.EventTopicChanged}, h.topic},
	}
	for part := range slices.Chunk(accounts, rightsAccounts) {
		filters = append(filters, []any{contracts.EventStandingChanged, []common.Hash{h.tenant, {}}, part}) // the zero tenant: a pardon in all
	}
	h.times = map[uint64]int64{}
	line := h.a.progress()
	defer line.end()
	for from := uint64(0); from <= head; from += rightsBlocks {
		to := min(from+rightsBlocks-1, head)
		var all []types.Log
		for _, f := range filters {
			var logs []types.Log
			if err := h.a.ask(ctx, &logs, "eth_getLogs", map[string]any{"address": contracts.TopicsAddress, "topics": f,
				"fromBlock": hexutil.Uint64(from), "toBlock": hexutil.Uint64(to)}); err != nil {
				return err
			}
			all = append(all, logs...)
		}
		slices.SortStableFunc(all, func(x, y types.Log) int {
			if x.BlockNumber != y.BlockNumber {
				return int(int64(x.BlockNumber) - int64(y.BlockNumber)) //nolint:gosec // heights
			}
			return int(x.Index) - int(y.Index) //nolint:gosec // of logs in a block
		})
		for i := range all {
			if err := h.event(ctx, &all[i]); err != nil {
				return err
			}
		}
		line.set("rights: block %d of %d", to, head)
	}
	return nil
}

// event takes one event.
func (h *rightsHistory) event(ctx context.Context, l *types.Log) error {
	e, err := contracts.DecodeTopicsEvent(l)
	if err != nil {
		return notUnderstood(err)
	}
	ms, err := h.time(ctx, l.BlockNumber)
	if err != nil {
		return err
	}
	right := func(x contracts.Acl, revoked bool) {
		c := proof.RightChange{Right: rightOf(x), Revoked: revoked, Height: l.BlockNumber}
		h.rights = append(h.rights, c)
		h.changes = append(h.changes, proof.LawChange{Height: l.BlockNumber, Time: ms, Right: &c})
	}
	switch x := e.(type) {
	case *contracts.Granted:
		right(x.Entry, false)
	case *contracts.Revoked:
		right(x.Entry, true)
	case *contracts.TenantSet:
		h.changes = append(h.changes, proof.LawChange{Height: l.BlockNumber, Time: ms, TenantOwner: &x.Owner})
	case *contracts.TopicCreated:
		h.changes = append(h.changes, proof.LawChange{Height: l.BlockNumber, Time: ms, TopicOwner: &x.Owner})
	case *contracts.TopicChanged:
		h.changes = append(h.changes, proof.LawChange{Height: l.BlockNumber, Time: ms, TopicOwner: &x.Owner})
	case *contracts.StandingChanged:
		h.changes = append(h.changes, proof.LawChange{Height: l.BlockNumber, Time: ms, Standing: &proof.Standing{Account: x.Account, Reputation: x.Reputation}})
	}
	return nil
}

// time is that of a block.
func (h *rightsHistory) time(ctx context.Context, height uint64) (int64, error) {
	if ms, ok := h.times[height]; ok {
		return ms, nil
	}
	var b struct {
		Time hexutil.Uint64 `json:"timestamp"`
	}
	if err := h.a.ask(ctx, &b, "eth_getBlockByNumber", hexutil.Uint64(height), false); err != nil {
		return 0, err
	}
	h.times[height] = time.Unix(int64(b.Time), 0).UnixMilli() //nolint:gosec // a header's time
	return h.times[height], nil
}

// table tells what was found.
func (j *judged) table(w io.Writer) {
	fmt.Fprintf(w, "rights: %s as the rules of the time say", plural(j.Lawful, "operation"))
	if j.NotJudged > 0 {
		fmt.Fprintf(w, ", %d not judged (pseudonyms, several hosts, or refused for another reason)", j.NotJudged)
	}
	fmt.Fprintf(w, "; %s in force, all granted by events that the node shows\n", plural(j.Rules, "rule"))
}

// err says that operations do not fit the rules of their time.
func (j *judged) err(r *auditResult) error {
	if j.Unlawful+j.Withheld == 0 {
		return nil
	}
	var brokers []string
	for _, o := range r.Operations {
		if b := o.Broker.Hex(); (o.Verdict == verdicts[proof.Unlawful] || o.Verdict == verdicts[proof.Withheld]) && !slices.Contains(brokers, b) {
			brokers = append(brokers, b)
		}
	}
	return fail(exitVerify, "%s that nothing allowed, and %s that the rules allowed: ask the operators of the brokers that put them on record (%s)",
		served(j.Unlawful, "served"), served(j.Withheld, "refused"), strings.Join(brokers, ", "))
}

func served(n int, how string) string {
	if n == 1 {
		return "one operation was " + how
	}
	return fmt.Sprintf("%d operations were %s", n, how)
}
