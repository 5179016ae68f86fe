package ledger

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/acl"
)

// Source is where final blocks come from.
type Source interface {
	// Final is the header of the last final block.
	Final() *types.Header
	// Call reads a contract on the state after a block.
	Call(ctx context.Context, h *types.Header, to common.Address, data []byte) ([]byte, error)
	// Logs are those of the contract Topics in the final blocks from..to, in order.
	Logs(ctx context.Context, from, to uint64) ([]*types.Log, error)
}

// load reads the whole state after block h, by pages.
func load(ctx context.Context, s Source, h *types.Header, f *facts) (*View, error) {
	call := func(data []byte) ([]byte, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return s.Call(ctx, h, contracts.TopicsAddress, data)
	}
	v := newView(f)
	v.Height, v.Time, v.Hash = h.Number.Uint64(), h.Time, h.Hash()
	ret, err := call(contracts.BrokersCall())
	if err != nil {
		return nil, err
	}
	brokers, err := contracts.DecodeBrokers(ret)
	if err != nil {
		return nil, err
	}
	for _, b := range brokers {
		v.brokers = append(v.brokers, Broker{b.ID, b.Account, b.Host, int32(b.Port), b.PeerID, b.Live})
	}
	tenants, err := contracts.ReadTenants(call)
	if err != nil {
		return nil, fmt.Errorf("tenants: %w", err)
	}
	draft := v.tenants.draft()
	for _, t := range tenants {
		rules, err := contracts.ReadAcls(call, t.Name)
		if err != nil {
			return nil, fmt.Errorf("entries of tenant %s: %w", t.Name, err)
		}
		entries := make([]acl.Entry, len(rules))
		for i := range rules {
			entries[i] = acl.Entry(rules[i])
		}
		draft.put(contracts.TenantID(t.Name), &tenant{acls: acl.New(entries), decisions: &decisions{}, Tenant: Tenant{
			t.Name, t.Owner, t.BytesPerSecond, t.Connections, t.Topics, t.Partitions, t.TopicsUsed, t.PartitionsUsed,
		}})
	}
	v.tenants = draft.t
	topics, err := contracts.ReadTopics(call)
	if err != nil {
		return nil, fmt.Errorf("topics: %w", err)
	}
	return v, v.setTopics(topics)
}

// clip makes an empty list nil, as it is without an event.
func clip(l []common.Address) []common.Address {
	if len(l) == 0 {
		return nil
	}
	return l
}

// setTopics takes the topics that were read.
func (v *View) setTopics(list []contracts.TopicInfo) error {
	topics, names := v.topics.draft(), v.names.draft()
	for i := range list {
		x := &list[i]
		owner, err := contracts.TenantOf(x.Name)
		if err != nil {
			return err
		}
		t := &Topic{
			ID: x.ID, Name: x.Name, Tenant: owner, Owner: x.Owner, Auditor: x.Auditor, Encrypted: x.Encrypted, Config: topicConfig(x.Config),
			Created: x.Created, KeyEpoch: x.KeyEpoch, PseudonymEpoch: x.PseudonymEpoch, Replicas: int(x.Replicas), Partitions: make([]Partition, len(x.Leases)),
		}
		for p, l := range x.Leases {
			t.Partitions[p] = Partition{l.Leader, int32(l.Epoch), l.Replicas, clip(l.Wanted)} //nolint:gosec // bounded by the decoder
		}
		topics.put(t.ID, t)
		names.put(t.Name, t.ID)
	}
	v.topics, v.names = topics.t, names.t
	return nil
}
