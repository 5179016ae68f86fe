package ledger

import (
	"fmt"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/acl"
)

// Rights of a pseudonym's certificate, as bits.
const (
	rightRead     = 1
	rightWrite    = 2
	rightDescribe = 4
)

// Principal is who asks: an account, or a pseudonym whose certificate was found good.
type Principal struct {
	Account   common.Address
	Pseudonym bool
	Topic     [32]byte // of the certificate
	Rights    uint8    // of the certificate: 1 read, 2 write, 4 describe
}

// Name is the principal as entries name it.
func (p Principal) Name() string {
	if p.Pseudonym {
		return contracts.PseudonymPrincipal(p.Account)
	}
	return contracts.UserPrincipal(p.Account)
}

// decisions remembers what was decided while nothing it depends on changed.
type decisions struct {
	mu   sync.RWMutex
	made map[question]decision
}

type question struct {
	who                 Principal
	host                string
	operation, resource uint8
	name                string
}

type decision struct {
	allowed bool
	reason  string
	height  uint64
}

func (d *decisions) find(q question, height uint64) (decision, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	x, ok := d.made[q]
	return x, ok && height < x.height+cacheBlocks
}

func (d *decisions) keep(q question, x decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made == nil || len(d.made) >= maxDecisions {
		d.made = map[question]decision{}
	}
	q.name, q.host = strings.Clone(q.name), strings.Clone(q.host) // they may be parts of a request
	d.made[q] = x
}

// Authorize decides whether the principal, from that host, may do the operation on the topic or group of that name
// (numbers of package acl), and says why. What the rules allow (Allows) is refused to an account that is blacklisted in the
// tenant; what it lost in other tenants does not count.
func (v *View) Authorize(p Principal, host string, operation, resource uint8, name string) (allowed bool, reason string) {
	if allowed, reason = v.Allows(p, host, operation, resource, name); !allowed {
		return false, reason
	}
	tenant, _, _ := strings.Cut(name, ".")
	if v.Blacklisted(tenant, p.Account) {
		return false, fmt.Sprintf("%s has a reputation below %d in tenant %s, or it cannot be read; it rises again within minutes, and the governance can pardon it",
			p.Name(), contracts.MinReputation, tenant)
	}
	return true, reason
}

// Allows is Authorize by the rules alone, whatever the principal's reputation: the owners of the tenant and of the topic
// may do everything; for all others the tenant's list decides. A pseudonym may do in its own topic what its
// certificate says, and read in groups named after that topic ("topic.anything"), unless the list denies it.
func (v *View) Allows(p Principal, host string, operation, resource uint8, name string) (allowed bool, reason string) {
	tenantName, rest, _ := strings.Cut(name, ".")
	t := v.tenant(tenantName)
	if t == nil || rest == "" && resource != acl.Cluster {
		return false, fmt.Sprintf("%.260q names no tenant's topic or group: a name is tenant.rest, and tenants come by governance", name)
	}
	q := question{p, host, operation, resource, name}
	if d, ok := t.decisions.find(q, v.Height); ok {
		return d.allowed, d.reason
	}
	d := v.decide(t, q)
	d.height = v.Height
	t.decisions.keep(q, d)
	return d.allowed, d.reason
}

func (v *View) decide(t *tenant, q question) decision {
	ask := acl.Question{Principal: q.who.Name(), Host: q.host, Operation: q.operation, Resource: q.resource, Name: q.name}
	if q.who.Pseudonym {
		return v.decidePseudonym(t, q, ask)
	}
	nobody := common.Address{}
	ask.Owner = t.Owner != nobody && t.Owner == q.who.Account
	if topic := v.Topic(q.name); q.resource == acl.Topic && topic != nil && topic.Owner != nobody && topic.Owner == q.who.Account {
		ask.Owner = true
	}
	d := t.acls.Check(ask)
	return decision{allowed: d.Allowed, reason: d.Reason}
}

func (v *View) decidePseudonym(t *tenant, q question, ask acl.Question) decision {
	d := t.acls.Check(ask)
	if d.Allowed || d.By.Permission == acl.Deny {
		return decision{allowed: d.Allowed, reason: d.Reason}
	}
	own := v.TopicByID(q.who.Topic)
	if own == nil {
		return decision{reason: "the topic of the pseudonym's certificate is gone"}
	}
	needs := uint8(0)
	switch {
	case q.resource == acl.Topic && q.name == own.Name:
		switch q.operation {
		case acl.Read:
			needs = rightRead
		case acl.Write:
			needs = rightWrite
		case acl.Describe, acl.DescribeConfigs:
			needs = rightRead | rightWrite | rightDescribe
		}
	case q.resource == acl.Group && strings.HasPrefix(q.name, own.Name+".") && (q.operation == acl.Read || q.operation == acl.Describe):
		needs = rightRead
	}
	if q.who.Rights&needs != 0 {
		return decision{allowed: true, reason: fmt.Sprintf("%s may %s here by the certificate of the topic's auditor", q.who.Name(), acl.OperationName(q.operation))}
	}
	return decision{reason: fmt.Sprintf("%s may not %s %.260q: neither its certificate nor an entry allows it", q.who.Name(), acl.OperationName(q.operation), q.name)}
}

// Knows tells whether anybody who matters vouched for the principal: it owns a tenant or a topic, audits one, is a broker,
// or an entry allows something to it by name. Accounts of which none of this holds can be made without end. A pseudonym's
// certificate is an auditor's word.
func (v *View) Knows(p Principal) bool {
	if p.Pseudonym || v.BrokerByAccount(p.Account) != nil {
		return true
	}
	name, known := p.Name(), false
	v.tenants.each(func(_ common.Hash, t *tenant) {
		known = known || t.Owner == p.Account || t.acls.Names(name)
	})
	if known {
		return true
	}
	v.topics.each(func(_ common.Hash, t *Topic) { known = known || t.Owner == p.Account || t.Auditor == p.Account })
	return known
}
