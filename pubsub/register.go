package pubsub

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/pubsub/group"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// register keeps the broker on the chain: its address, and the brokers' own topic once there are brokers.
func (b *Broker) register(ctx context.Context) {
	host, port, err := b.cfg.Address()
	if err != nil {
		b.deps.Log.Error("the broker is not registered", zap.Error(err))
		return
	}
	for {
		changed := b.deps.Ledger.Changed()
		v := b.deps.Ledger.View()
		kind, data := b.due(v, host, port)
		if data != nil {
			err := b.submit(ctx, kind, data)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				b.deps.Log.Warn("not done on the chain yet: "+kind, zap.Error(err))
			} else {
				b.deps.Log.Info("done on the chain: "+kind, zap.String("host", host), zap.Uint16("port", port))
			}
			if !pause.For(ctx, registerAgain) {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// due is the call that the chain lacks from this broker; nil: none.
func (b *Broker) due(v *ledger.View, host string, port uint16) (kind string, data []byte) {
	if v == nil {
		return "", nil
	}
	me := v.BrokerByAccount(b.deps.Account)
	if me == nil || !me.Live || me.Host != host || me.Port != int32(port) || me.PeerID != b.deps.PeerID {
		if data, err := contracts.RegisterBrokerCall(host, port, b.deps.PeerID); err == nil {
			return "register broker", data
		}
		return "", nil // Validate looked at the address
	}
	if v.Topic(offsetsTopic) == nil {
		live, first := 0, me.ID
		for _, n := range v.Brokers() {
			if n.Live {
				live++
				first = min(first, n.ID)
			}
		}
		if first == me.ID && live >= b.cfg.OffsetReplicas { // one of them is enough; the others wait for it
			data, _ := contracts.CreateTopicCall(contracts.NewTopic{Name: offsetsTopic, Partitions: group.Partitions, Replicas: uint16(b.cfg.OffsetReplicas)}) //nolint:gosec // few
			return "create topic " + offsetsTopic, data
		}
	}
	return "", nil
}

func live(v *ledger.View, a common.Address) bool {
	n := v.BrokerByAccount(a)
	return n != nil && n.Live
}

func (b *Broker) submit(ctx context.Context, kind string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	return b.deps.Submit.Submit(ctx, kind, data)
}

// attend says on the ledger that this broker is there, as long as it can write: whom the ledger misses may lose what it
// keeps to others.
func (b *Broker) attend(ctx context.Context) {
	lasts := b.cfg.attendance()
	data, err := contracts.AttendCall(uint32(lasts / time.Second))
	if err != nil {
		b.deps.Log.Error("the broker does not attend", zap.Error(err))
		return
	}
	for {
		changed := b.deps.Ledger.Changed()
		if v := b.deps.Ledger.View(); v == nil || !live(v, b.deps.Account) {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			continue
		}
		wait := lasts / attendTimes
		if b.deps.Store.Writable() == nil {
			if err := b.submit(ctx, "attend", data); err != nil && ctx.Err() == nil {
				b.deps.Log.Warn("the ledger was not told that this broker is there; it is tried again", zap.Error(err))
				wait = min(wait, registerAgain)
			}
		}
		if !pause.For(ctx, wait) {
			return
		}
	}
}

// HandOver gives the leases of this broker to other live replicas, for an orderly stop: clients go on at once.
func (b *Broker) HandOver(ctx context.Context) {
	v := b.deps.Ledger.View()
	if v == nil {
		return
	}
	b.handOver(ctx, v, maxPartitionsServed, func(t *ledger.Topic, p int32) (common.Address, bool) { return b.successor(v, t, p) })
}

// balance gives leases back to the first replica of their partitions, where leaders were placed in turn: after brokers
// stopped and came back, others lead more than their share.
func (b *Broker) balance(ctx context.Context) {
	v := b.deps.Ledger.View()
	if v == nil {
		return
	}
	b.handOver(ctx, v, maxClaims, func(t *ledger.Topic, p int32) (common.Address, bool) {
		first := t.Partitions[p].Replicas[0]
		to, ok := b.successor(v, t, p)
		return to, ok && to == first
	})
}

// handOver gives every lease of this broker to whom a choice names, at most so many. Those of a transaction that fails are
// claimed when this broker is silent.
func (b *Broker) handOver(ctx context.Context, v *ledger.View, most int, choose func(t *ledger.Topic, partition int32) (common.Address, bool)) {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	var list []contracts.Handover
	for _, t := range v.Topics("") {
		for p := range t.Partitions {
			part := &t.Partitions[p]
			if part.Leader != b.deps.Account || len(list) >= most {
				continue
			}
			if to, ok := choose(t, int32(p)); ok { //nolint:gosec // few
				list = append(list, contracts.Handover{Topic: t.ID, Partition: uint32(p), Epoch: uint32(part.Epoch), To: to}) //nolint:gosec // not negative
			}
		}
	}
	var g errgroup.Group
	g.SetLimit(handOversUnderWay)
	var failed atomic.Int64
	for part := range slices.Chunk(list, maxClaims) {
		g.Go(func() error {
			data, err := contracts.HandOverCall(part)
			if err == nil {
				err = b.deps.Submit.Submit(ctx, "hand over", data)
			}
			if err != nil {
				failed.Add(int64(len(part)))
				b.deps.Log.Warn("partitions were not handed over; their replicas claim them when this broker is silent", zap.Int("partitions", len(part)), zap.Error(err))
			}
			return nil
		})
	}
	_ = g.Wait()
	if given := len(list) - int(failed.Load()); given > 0 {
		b.deps.Log.Info("handed partitions over", zap.Int("partitions", given))
	}
}

// successor is the first live replica of a partition that is in sync.
func (b *Broker) successor(v *ledger.View, t *ledger.Topic, partition int32) (to common.Address, ok bool) {
	id := store.ID{Topic: t.ID, Partition: partition}
	insync := make(map[string]bool)
	for _, p := range b.deps.Replicas.InSync(replica.ID(id)) {
		insync[p] = true
	}
	for _, a := range t.Partitions[partition].Replicas {
		n := v.BrokerByAccount(a)
		if n != nil && n.Live && a != b.deps.Account && insync[n.PeerID] {
			return a, true
		}
	}
	return to, false
}

// ownAddress is where a client reaches this broker: one that came without TLS, from this host, does so again.
func (x *call) ownAddress(n ledger.Broker) (string, int32) {
	if x.conn.Listener() == "plain" {
		for _, l := range x.b.cfg.Kafka.Listen {
			addr, ok := strings.CutPrefix(l, "plain://")
			if !ok {
				continue
			}
			host, text, err := net.SplitHostPort(addr)
			port, e := strconv.ParseUint(text, 10, 16)
			if err == nil && e == nil && port > 0 {
				return host, int32(port) //nolint:gosec // 16 bits
			}
		}
	}
	return n.Host, n.Port
}
