package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/gate"
)

// Admin changes and looks up topics, access and keys, by transactions that the account signs; each call returns when its
// change is final. Groups are asked of the brokers. It is safe for concurrent use; changes are made one at a time.
type Admin struct {
	c   *Client
	eth *ethclient.Client
	mu  sync.Mutex // one transaction at a time: nonces

	kmu    sync.Mutex // guards what follows
	engine *gate.Engine
	kafka  *kgo.Client
	closed bool
}

// Admin makes one.
func (c *Client) Admin() (*Admin, error) {
	if c.cfg.Account == nil {
		return nil, ErrNoAccount
	}
	if c.cfg.Certificate != nil {
		return nil, errors.New("a pseudonym administers nothing: take an account")
	}
	a := &Admin{c: c, eth: newEth(c.rpc)}
	return a, c.hold(a)
}

// CreateTopic makes a topic of a tenant that the account may create topics for, and gives its id.
func (a *Admin) CreateTopic(ctx context.Context, t contracts.NewTopic) (common.Hash, error) {
	data, err := contracts.CreateTopicCall(t)
	if err != nil {
		return common.Hash{}, err
	}
	defer a.c.chain.forget(t.Name)
	if _, err := a.send(ctx, "creating topic "+t.Name, data); err != nil {
		return common.Hash{}, err
	}
	info, err := a.c.chain.lookup(ctx, t.Name)
	return info.ID, err
}

// change sends a call about a topic.
func (a *Admin) change(ctx context.Context, what, name string, call func(common.Hash) ([]byte, error)) error {
	info, err := a.c.chain.lookup(ctx, name)
	if err != nil {
		return err
	}
	data, err := call(info.ID)
	if err != nil {
		return err
	}
	defer a.c.chain.forget(name)
	_, err = a.send(ctx, what+" "+name, data)
	return err
}

// DeleteTopic ends a topic. A topic of the same name made later is another one.
func (a *Admin) DeleteTopic(ctx context.Context, name string) error {
	return a.change(ctx, "deleting topic", name, func(id common.Hash) ([]byte, error) { return contracts.DeleteTopicCall(id), nil })
}

// AddPartitions gives a topic more partitions, total in all.
func (a *Admin) AddPartitions(ctx context.Context, name string, total uint32) error {
	return a.change(ctx, "adding partitions to topic", name, func(id common.Hash) ([]byte, error) { return contracts.AddPartitionsCall(id, total), nil })
}

// Configure gives a topic another configuration.
func (a *Admin) Configure(ctx context.Context, name string, config map[string]string) error {
	return a.change(ctx, "configuring topic", name, func(id common.Hash) ([]byte, error) { return contracts.ConfigureCall(id, config) })
}

// SetOwner gives a topic to another account. Of an encrypted topic, have the new owner call NewEpoch: keys that the old
// one sealed are taken only by clients that pin him.
func (a *Admin) SetOwner(ctx context.Context, name string, owner common.Address) error {
	return a.change(ctx, "giving away topic", name, func(id common.Hash) ([]byte, error) { return contracts.SetOwnerCall(id, owner), nil })
}

// Topic is what the chain says of a topic; ErrUnknownTopic if there is none.
func (a *Admin) Topic(ctx context.Context, name string) (contracts.TopicInfo, error) {
	return a.c.chain.lookup(ctx, name)
}

// Topics are those of a tenant, or all with "". While topics are deleted meanwhile, some may be missing.
func (a *Admin) Topics(ctx context.Context, tenant string) ([]contracts.TopicInfo, error) {
	var all []contracts.TopicInfo
	for from := uint64(0); ; from += PageSize {
		ret, err := a.c.chain.view(ctx, contracts.TopicPageCall(from, PageSize))
		if err != nil {
			return nil, err
		}
		page, total, err := contracts.DecodeTopicPage(ret)
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			if of, err := contracts.TenantOf(t.Name); tenant == "" || err == nil && of == tenant {
				all = append(all, t)
			}
		}
		if len(page) == 0 || from+PageSize >= total {
			return all, nil
		}
	}
}

// Grant adds rules of access to a tenant; Revoke takes them away.
func (a *Admin) Grant(ctx context.Context, tenant string, rules ...contracts.Acl) error {
	return a.acls(ctx, "granting access of tenant ", tenant, rules, contracts.GrantCall)
}

// Revoke takes rules of access away.
func (a *Admin) Revoke(ctx context.Context, tenant string, rules ...contracts.Acl) error {
	return a.acls(ctx, "revoking access of tenant ", tenant, rules, contracts.RevokeCall)
}

func (a *Admin) acls(ctx context.Context, what, tenant string, rules []contracts.Acl, call func(string, []contracts.Acl) ([]byte, error)) error {
	for part := range slices.Chunk(rules, contracts.MaxAclsPerCall) {
		data, err := call(tenant, part)
		if err != nil {
			return err
		}
		if _, err := a.send(ctx, what+tenant, data); err != nil {
			return err
		}
	}
	return nil
}

// Acls are the rules of a tenant.
func (a *Admin) Acls(ctx context.Context, tenant string) ([]contracts.Acl, error) {
	var all []contracts.Acl
	for {
		ret, err := a.c.chain.view(ctx, contracts.AclPageCall(tenant, uint64(len(all)), PageSize))
		if err != nil {
			return nil, err
		}
		page, total, err := contracts.DecodeAclPage(ret)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) == 0 || uint64(len(all)) >= total {
			return all, nil
		}
	}
}

// Brokers are all that ever registered.
func (a *Admin) Brokers(ctx context.Context) ([]contracts.Broker, error) {
	return a.c.chain.allBrokers(ctx)
}

// Groups asks the brokers for groups: kadm's calls, through the engine. franz-go looks for a group's coordinator by asking one
// broker, whichever: when that one is dead, the call fails, and succeeds when it is made again.
func (a *Admin) Groups() (*kadm.Client, error) {
	a.kmu.Lock()
	defer a.kmu.Unlock()
	if a.closed {
		return nil, ErrClosed
	}
	if a.kafka == nil {
		e, err := a.c.engine(nil, nil, nil)
		if err != nil {
			return nil, err
		}
		if a.kafka, err = a.c.kafka(e); err != nil {
			e.Close()
			return nil, err
		}
		a.engine = e
	}
	return kadm.NewClient(a.kafka), nil
}

// Close ends the connections to brokers.
func (a *Admin) Close() {
	a.c.drop(a)
	a.kmu.Lock()
	defer a.kmu.Unlock()
	a.closed = true
	if a.kafka != nil {
		a.kafka.Close()
		a.engine.Close()
		a.kafka = nil
	}
}

// errNoReader says who has no seal key.
func errNoReader(a common.Address) error {
	return fmt.Errorf("%w: account %s; it must call RegisterSealKey first", ErrNoReader, a)
}
