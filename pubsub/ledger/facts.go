package ledger

import (
	"context"
	"maps"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
)

// memory keeps what the contract says per key without a list of keys: asked for once, then kept true by events.
type memory[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]V
	era   uint64 // counts the times it forgot everything
}

func (m *memory[K, V]) get(k K) (v V, era uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok = m.known[k]
	return v, m.era, ok
}

// learn takes an answer that was asked for in that era. An event that came meanwhile is newer and stays.
func (m *memory[K, V]) learn(k K, v V, era uint64) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now, ok := m.known[k]; ok {
		return now
	}
	if era == m.era {
		m.set(k, v)
	}
	return v
}

// event takes what an event says.
func (m *memory[K, V]) event(k K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(k, v)
}

func (m *memory[K, V]) set(k K, v V) {
	if m.known == nil || len(m.known) >= maxFacts {
		m.known = map[K]V{}
		m.era++
	}
	m.known[k] = v
}

func (m *memory[K, V]) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.era = nil, m.era+1
}

// forgetIf forgets the keys of which f is true. What is being asked for meanwhile is not remembered.
func (m *memory[K, V]) forgetIf(f func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.known, func(k K, _ V) bool { return f(k) })
	m.era++
}

type pseudonym struct {
	topic   common.Hash
	account common.Address
}

// member is an account in a tenant.
type member struct {
	tenant  common.Hash
	account common.Address
}

// loss is what an account has lost of its reputation in a tenant as of a time, in Unix seconds.
type loss struct {
	points uint8
	since  uint64
}

// facts are what is known of accounts and pseudonyms.
type facts struct {
	// call reads the newest final state, and tells the time of its block.
	call     func(ctx context.Context, data []byte) (ret []byte, seconds uint64, err error)
	log      *zap.Logger
	standing memory[member, loss]
	tokens   memory[common.Address, uint64]
	revoked  memory[pseudonym, bool]
	deleted  memory[common.Hash, bool]
}

func (f *facts) forget() {
	f.standing.forget()
	f.tokens.forget()
	f.revoked.forget()
	f.deleted.forget()
}

// ask is what m knows of k, or what the contract answers to the call that data makes of it.
func ask[K comparable, V any](f *facts, m *memory[K, V], k K, data func(K) []byte, decode func([]byte) (V, error)) (V, error) {
	return askAt(f, m, k, data, func(ret []byte, _ uint64) (V, error) { return decode(ret) })
}

// askAt is ask for answers that count from the time of the block that gave them.
func askAt[K comparable, V any](f *facts, m *memory[K, V], k K, data func(K) []byte, decode func(ret []byte, seconds uint64) (V, error)) (V, error) {
	v, era, ok := m.get(k)
	if ok {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	ret, seconds, err := f.call(ctx, data(k))
	if err == nil {
		v, err = decode(ret, seconds)
	}
	if err != nil {
		f.log.Error("the ledger's state of an account could not be read; it is refused until it can", zap.Any("account", k), zap.Error(err))
		return v, err
	}
	return m.learn(k, v, era), nil
}

// Standing is an account's reputation in a tenant as of the view's time, 0 to contracts.Reputation.
func (v *View) Standing(tenant string, account common.Address) (int, error) {
	l, err := askAt(v.facts, &v.facts.standing, member{contracts.TenantID(tenant), account}, func(m member) []byte { return contracts.ReputationCall(m.tenant, m.account) },
		func(ret []byte, seconds uint64) (loss, error) {
			r, err := contracts.DecodeReputation(ret)
			return loss{contracts.Reputation - r, seconds}, err
		})
	return contracts.Reputation - int(contracts.RemainingLoss(l.points, l.since, v.Time)), err
}

// Blacklisted tells whether the account's reputation in a tenant is too low to be served there, or cannot be read.
func (v *View) Blacklisted(tenant string, account common.Address) bool {
	s, err := v.Standing(tenant, account)
	return err != nil || s < contracts.MinReputation
}

// TokensCancelled is the time, in Unix seconds, up to which the account's tokens are void; 0: it cancelled none.
func (v *View) TokensCancelled(account common.Address) (uint64, error) {
	return ask(v.facts, &v.facts.tokens, account, contracts.TokensCancelledCall, contracts.DecodeTokensCancelled)
}

// PseudonymRevoked tells whether a topic's pseudonym was revoked, or whether that cannot be read.
func (v *View) PseudonymRevoked(topic [32]byte, account common.Address) bool {
	r, err := ask(v.facts, &v.facts.revoked, pseudonym{topic, account}, func(p pseudonym) []byte { return contracts.PseudonymRevokedCall(p.topic, p.account) }, contracts.DecodePseudonymRevoked)
	return err != nil || r
}

// TopicDeleted tells whether the contract knows the topic and that it was deleted. It is false for an id that no topic
// ever had, for one that is not known yet on a chain that is catching up, and where it cannot be read.
func (v *View) TopicDeleted(id [32]byte) bool {
	d, err := ask(v.facts, &v.facts.deleted, common.Hash(id), func(id common.Hash) []byte { return contracts.TopicCall(id) }, func(ret []byte) (bool, error) {
		t, err := contracts.DecodeTopic(ret)
		return t.Deleted, err
	})
	return err == nil && d
}
