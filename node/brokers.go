package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/kafka"
	topics "github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
	"github.com/bornode/bornode/transport"
)

// brokerCloseWait bounds an orderly stop of the broker: what it leads goes to others in the meantime.
const brokerCloseWait = 3 * time.Second

// brokers are the parts of a node that serves topics.
type brokers struct {
	log     *zap.Logger
	mirror  *topics.Mirror
	store   *store.Store
	manager *replica.Manager
	broker  *pubsub.Broker
	server  *kafka.Server
	submit  *submitter

	ledgerAge time.Duration // the oldest state that clients are judged by

	evidence    *evidence.Evidence
	auth        pubsub.Auth
	evidenceDir string
	ran         atomic.Bool
}

// openBrokers opens what a broker needs, in the order of their needs. The producer's signer, if any, lends its account.
func (n *Node) openBrokers(producer consensus.Signer) error {
	cfg := n.cfg.PubSub
	if !cfg.Enabled {
		return nil
	}
	signer, err := n.brokerSigner(producer)
	if err != nil {
		return err
	}
	cfg.Dir = n.cfg.Path(cfg.Dir)
	cfg.Store.Dir = filepath.Join(cfg.Dir, cfg.Store.Dir)
	cfg.Kafka.CertFile, cfg.Kafka.KeyFile, cfg.Kafka.ClientCA = n.cfg.Path(cfg.Kafka.CertFile), n.cfg.Path(cfg.Kafka.KeyFile), n.cfg.Path(cfg.Kafka.ClientCA)
	log := n.log.Named("topics")
	b := &brokers{log: log, ledgerAge: cfg.LedgerAge}
	b.mirror = topics.New(topicsSource{n.chain, repairs{n}, ledgerCalls(n.reg)}, log.Named("ledger"))
	off := promauto.With(n.reg).NewGauge(prometheus.GaugeOpts{Name: "bornode_topics_broker_off_state",
		Help: "1 while this node serves no topics though it is configured to, because the store of its topics cannot be opened."})
	if b.store, err = store.Open(cfg.Store, nil, log.Named("store"), n.reg); err != nil {
		off.Set(1)
		log.Error("this node serves no topics: their store cannot be opened; block production and RPC go on; mend the cause and start the node again",
			zap.String("dir", cfg.Store.Dir), zap.Error(err))
		return nil
	}
	n.onClose(b.store.Close)
	if b.submit, err = n.newBrokerSubmitter(signer, log); err != nil {
		return err
	}
	if b.manager, err = replica.New(cfg.Replica, replica.Deps{
		Self: string(n.host.ID()), Store: replica.Disk(b.store), Log: log.Named("replica"), Registry: n.reg, Broker: b.isBroker,
		Lost:        func(l []replica.Lost) { b.broker.Lost(l) },
		OnLead:      func(id replica.ID, epoch int32) { b.broker.Led(id, epoch) },
		OnCommitted: func(id replica.ID, from, to int64) { b.broker.Committed(id, from, to) },
	}); err != nil {
		return err
	}
	if err := n.openEvidence(b, cfg.Evidence, filepath.Join(cfg.Dir, evidenceFolder), signer); err != nil {
		return err
	}
	n.onClose(b.closeEvidence)
	b.store.Hold(func(id store.ID, start int64) int64 {
		if replica.Stash(id) { // nothing of it is proved
			return math.MaxInt64
		}
		return b.evidence.Read(evidence.ID(id), start)
	})
	if b.broker, err = pubsub.New(cfg, pubsub.Deps{
		PeerID: string(n.host.ID()), Account: signer.Account(), ClusterID: clusterID(n.chain.Genesis().Hash()),
		Ledger: b.mirror, Store: b.store, Replicas: b.manager, Submit: b.submit, Final: func() uint64 { return n.chain.FinalHeader().Number.Uint64() }, Evidence: b.evidence, Now: time.Now, Log: log, Registry: n.reg,
	}); err != nil {
		return err
	}
	b.auth = pubsub.Auth{ChainID: n.gen.Parameters().ChainID, Ledger: b.mirror, Now: time.Now}
	b.store.OnDamage(func(id store.ID, err error) { b.manager.Damaged(replica.ID(id), err) })
	if b.server, err = kafka.New(cfg.Kafka, b.broker, b.auth, log.Named("kafka"), n.reg); err != nil {
		return err
	}
	n.onClose(func() error { b.server.Close(); return nil })
	n.brokers = b
	return nil
}

// ledgerRead waits until there is a state to judge clients by, and not one of long ago: a login that is refused before is final to many of them,
// while a connection that is not taken yet waits.
func (b *brokers) ledgerRead(ctx context.Context) bool {
	for told := false; ; {
		changed := b.mirror.Changed()
		if b.mirror.View() != nil && b.mirror.StaleFor() <= b.ledgerAge {
			return true
		}
		if b.mirror.View() != nil && !told {
			told = true
			b.log.Info("clients are served when the chain has caught up")
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// isBroker tells whether a peer is a broker in the final state.
func (b *brokers) isBroker(peer string) bool {
	v := b.mirror.View()
	return v != nil && slices.ContainsFunc(v.Brokers(), func(x topics.Broker) bool { return x.PeerID == peer })
}

// closeEvidence closes what run would have closed, if it was never called.
func (b *brokers) closeEvidence() error {
	if b.ran.Load() {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return part("evidence", b.evidence.Run(ctx))
}

// clusterID is the network's name for Kafka clients.
func clusterID(genesis common.Hash) string { return fmt.Sprintf("bornode-%x", genesis[:8]) }

// brokerSigner is the account of this broker: its own key, or the producer's.
func (n *Node) brokerSigner(producer consensus.Signer) (brokerSigner, error) {
	if path := n.cfg.Path(n.cfg.PubSub.Key); path != "" {
		return loadBrokerKey(path)
	}
	s, ok := producer.(brokerSigner)
	if !ok {
		return nil, errors.New("pubsub.enabled is set but there is no account for the broker: name its key in pubsub.key_file; a producer's own key serves if keys.producer names one")
	}
	return s, nil
}

// newBrokerSubmitter sends the broker's transactions, and shares the account with the duties of a producer.
func (n *Node) newBrokerSubmitter(s brokerSigner, log *zap.Logger) (*submitter, error) {
	a := n.account
	if a == nil || a.self != s.Account() {
		a = newAccount(s.Account(), n.gen.Parameters().ChainID, s)
	}
	exec := dutyExecutor{n.chain}
	out := &sender{account: a, chain: exec, pool: n.pool, to: contracts.TopicsAddress, offer: n.sync.BroadcastTransactions, bump: n.cfg.Pool.PriceBump, log: log}
	return newSubmitter(out, exec, log, n.reg)
}

// addLink hands lane 3 of a peer's link to the replicas.
func (n *Node) addLink(l transport.Link) {
	if b := n.brokers; b != nil {
		b.manager.AddLink(l)
	}
}

// run serves until ctx ends, then hands over what it leads. It ends at once when the node does, whose context is node.
func (b *brokers) run(ctx, node context.Context, watch func(context.Context) error) error {
	b.ran.Store(true)
	base, inner := errgroup.WithContext(node) // what an orderly stop still needs
	inner, stop := context.WithCancel(inner)
	defer stop()
	base.Go(func() error { b.submit.run(inner); return nil })
	base.Go(func() error { return part("ledger of topics", b.mirror.Run(inner)) })
	base.Go(func() error { return part("replicas", b.manager.Run(inner)) })
	base.Go(func() error { return part("evidence", b.evidence.Run(inner)) })
	base.Go(func() error { return part("checkpoints", watch(inner)) })
	serving, quit := context.WithCancel(inner)
	defer quit()
	defer context.AfterFunc(ctx, quit)()
	g, run := errgroup.WithContext(serving)
	g.Go(func() error { return part("broker", b.broker.Run(run)) })
	g.Go(func() error {
		if !b.ledgerRead(run) {
			return nil
		}
		return part("kafka", b.server.Run(run))
	})
	err := g.Wait()
	if err == nil && inner.Err() == nil {
		last, cancel := context.WithTimeout(inner, brokerCloseWait)
		b.broker.HandOver(last)
		cancel()
	}
	stop()
	return errors.Join(err, base.Wait())
}
