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
	call := func(data []byte) ([]byte, error) { return s.Call(ctx, h, contracts.TopicsAddress, data) }
	v := newView(f)
	v.Height, v.Hash = h.Number.Uint64(), h.Hash()
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
	tenants := v.tenants.draft()
	err = pages(tenantPage, func(from, n uint64) (int, uint64, error) {
		ret, err := call(contracts.TenantPageCall(from, n))
		if err != nil {
			return 0, 0, err
		}
		page, total, err := contracts.DecodeTenantPage(ret)
		for _, t := range page {
			tenants.put(contracts.TenantID(t.Name), &tenant{decisions: &decisions{}, Tenant: Tenant{
				t.Name, t.Owner, t.BytesPerSecond, t.Connections, t.Topics, t.Partitions, t.TopicsUsed, t.PartitionsUsed,
			}})
		}
		return len(page), total, err
	})
	if err != nil {
		return nil, fmt.Errorf("tenants: %w", err)
	}
	v.tenants = tenants.t
	for _, t := range v.Tenants() {
		if v.tenant(t.Name).acls, err = loadAcls(t.Name, call); err != nil {
			return nil, fmt.Errorf("entries of tenant %s: %w", t.Name, err)
		}
	}
	if err := v.loadTopics(call); err != nil {
		return nil, fmt.Errorf("topics: %w", err)
	}
	return v, ctx.Err()
}

func loadAcls(name string, call func([]byte) ([]byte, error)) (*acl.Set, error) {
	var list []acl.Entry
	err := pages(aclPage, func(from, n uint64) (int, uint64, error) {
		ret, err := call(contracts.AclPageCall(name, from, n))
		if err != nil {
			return 0, 0, err
		}
		page, total, err := contracts.DecodeAclPage(ret)
		for _, a := range page {
			list = append(list, acl.Entry(a))
		}
		return len(page), total, err
	})
	return acl.New(list), err
}

func (v *View) loadTopics(call func([]byte) ([]byte, error)) error {
	topics, names := v.topics.draft(), v.names.draft()
	err := pages(topicPage, func(from, n uint64) (int, uint64, error) {
		ret, err := call(contracts.TopicPageCall(from, n))
		if err != nil {
			return 0, 0, err
		}
		page, total, err := contracts.DecodeTopicPage(ret)
		if err != nil {
			return 0, 0, err
		}
		for i := range page {
			x := &page[i]
			owner, err := contracts.TenantOf(x.Name)
			if err != nil {
				return 0, 0, err
			}
			t := &Topic{
				ID: x.ID, Name: x.Name, Tenant: owner, Owner: x.Owner, Auditor: x.Auditor, Encrypted: x.Encrypted, Config: topicConfig(x.Config),
				Created: x.Created, KeyEpoch: x.KeyEpoch, PseudonymEpoch: x.PseudonymEpoch, Partitions: make([]Partition, len(x.Leases)),
			}
			for p, l := range x.Leases {
				t.Partitions[p] = Partition{l.Leader, int32(l.Epoch), l.Replicas} //nolint:gosec // bounded by the decoder
			}
			topics.put(t.ID, t)
			names.put(t.Name, t.ID)
		}
		return len(page), total, nil
	})
	v.topics, v.names = topics.t, names.t
	return err
}

// pages reads page after page until all is read. A page that fails is asked for again by half, since one call may cost
// so much and no more.
func pages(size uint64, read func(from, n uint64) (got int, total uint64, err error)) error {
	for from, n := uint64(0), size; ; {
		got, total, err := read(from, n)
		if err != nil {
			if n == 1 {
				return err
			}
			n = (n + 1) / 2
			continue
		}
		from += uint64(got) //nolint:gosec // a length
		if from >= total {
			return nil
		}
		if got == 0 {
			return fmt.Errorf("the page from %d on is empty, and there are %d", from, total)
		}
		n = min(size, n*2)
	}
}
