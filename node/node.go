package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/ownclock"
	"github.com/bornode/bornode/internal/scrub"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/pubsub"
	topicproof "github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/rpc"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/detect"
	"github.com/bornode/bornode/transport/tcp"
)

// Version of the programs.
const Version = "0.3.0"

// Node is one bornode. New opens it, Run runs it to its end; a Node runs once.
type Node struct {
	cfg       *config.Config
	gen       *genesis.Genesis
	recovered recoveries    // by the operator, as the folder holds them at the start
	book      *recoveryBook // with what peers show since
	log       *zap.Logger
	reg       *prometheus.Registry
	store     *blockstore.Store
	chain     *chain.Chain
	pool      *latePool
	ready     chan struct{} // closed when the newest state is there: see resume.go
	healing   atomic.Bool   // the replay waits for a damaged block: see heal.go; awaitsRepair shows it
	host      transport.Host
	driver    *consensus.Driver
	sync      *blocksync.Manager
	rpc       *rpc.Server
	members   *members
	links     *producerLinks // nil: it does not produce
	duties    *duties        // of a producer; nil: an observer
	account   *account       // of a producer
	brokers   *brokers       // nil: the node serves no topics
	pruner    *historyPruner // nil: all history is kept
	scrub     *scrub.Scrubber
	closers   []func() error // in order of opening
	ran       atomic.Bool

	awaitsRepair prometheus.Gauge
}

// ErrRanBefore answers a second Run: what the first one closed cannot be used again.
var ErrRanBefore = errors.New("this node ran before; open it again with New")

// New opens every part. On an error what was opened is closed again.
func New(ctx context.Context, cfg *config.Config, log *zap.Logger, reg *prometheus.Registry) (*Node, error) {
	n := newNode(cfg, log, reg)
	if err := n.open(ctx); err != nil {
		if u, ok := missing(err); ok {
			err = u
		}
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func newNode(cfg *config.Config, log *zap.Logger, reg *prometheus.Registry) *Node {
	return &Node{cfg: cfg, log: log, reg: reg, ready: make(chan struct{}), awaitsRepair: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
		Name: "bornode_node_replay_awaits_repair_state",
		Help: "1 while a node that executes blocks again after its last stop waits for a damaged block that is fetched again from a peer",
	})}
}

// LoadGenesis reads the genesis file that a node's settings name. The error for a missing one says how to get it there.
func LoadGenesis(cfg *config.Config) (*genesis.Genesis, error) {
	path := cfg.Path(cfg.Genesis)
	gen, err := genesis.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no genesis file %s: copy the network's there, with bornode init --dir %s --genesis FILE (%w)", path, cfg.DataDir, fs.ErrNotExist)
	}
	return gen, err
}

func (n *Node) open(ctx context.Context) (err error) {
	if n.gen, err = LoadGenesis(n.cfg); err != nil {
		return err
	}
	if err := n.openStorage(ctx); err != nil {
		return err
	}
	if err := n.openNetwork(); err != nil {
		return err
	}
	if err := n.openConsensus(); err != nil {
		return err
	}
	n.openScrub()
	return n.openRPC()
}

func (n *Node) onClose(f func() error) { n.closers = append(n.closers, f) }

// openStorage opens store, chain and pool; the pool is left to resume if the chain has blocks to execute again first.
// Folders of a format that this program does not know are refused before anything of them is touched.
func (n *Node) openStorage(ctx context.Context) (err error) {
	if err := CheckFormats(n.cfg); err != nil {
		return err
	}
	if err := format.StampFolder(n.cfg.DataDir, format.Node, vfs.Private); err != nil {
		return err
	}
	storeCfg := n.cfg.Store
	storeCfg.Dir = n.cfg.Path(storeCfg.Dir)
	if n.store, err = blockstore.Open(storeCfg, n.log.Named("store"), n.reg); err != nil {
		return err
	}
	n.onClose(n.store.Close)
	// Under the store's lock, which bornode recover apply takes too: a node that read them before might sign in a domain that has ended.
	if n.recovered, err = loadRecoveries(n.cfg, n.gen); err != nil {
		return err
	}
	if err := restoreBlockZero(n.store, n.gen, n.log); err != nil {
		return err
	}
	chainCfg := n.cfg.Chain
	chainCfg.Dir, chainCfg.Recoveries = n.cfg.Path(chainCfg.Dir), n.recovered.forChain()
	if n.chain, err = chain.OpenBeforeReplay(ctx, chainCfg, n.gen, n.store, n.log.Named("chain"), n.reg); err != nil {
		return storeFault(storeCfg.Dir, err)
	}
	n.onClose(n.chain.Close)
	if n.pruner, err = newHistoryPruner(n.cfg, n.gen.Parameters(), n.store, n.chain, n.log.Named("store")); err != nil {
		return err
	}
	n.pool = newLatePool(n.notReady)
	n.onClose(n.pool.Close)
	if _, replaying := n.chain.Replaying(); replaying {
		return nil // Run does the rest
	}
	if err := n.openPool(); err != nil {
		return err
	}
	close(n.ready)
	return nil
}

func (n *Node) openNetwork() (err error) {
	for _, addr := range n.cfg.P2P.Peers {
		if _, err := peer.AddrInfoFromString(addr); err != nil {
			return fmt.Errorf("p2p.peers: %q is no peer's address; write it as /ip4/ADDRESS/tcp/PORT/p2p/PEER: %w", addr, err)
		}
	}
	path := n.cfg.Path(n.cfg.Keys.Identity)
	if err := vfs.OS(filepath.Dir(path), vfs.Private).Mkdir("."); err != nil {
		return err
	}
	_, lost := os.Stat(path)
	key, err := tcp.LoadOrCreateIdentity(path)
	if err != nil {
		return err
	}
	if lib, _ := n.store.LIB(); lib > 0 && errors.Is(lost, fs.ErrNotExist) {
		n.log.Warn("this node had no identity key though its folder has blocks, and has made a new one: other nodes know it by the old one; restore the file from a copy and start again, or give the new id to the network's peers and members",
			zap.String("file", path), zap.String("new_id", string(key.ID())))
	}
	cfg := n.cfg.P2P.TCP
	if cfg.Upgrader, err = n.openUpgrader(); err != nil {
		return err
	}
	host, err := tcp.New(cfg, key, n.log.Named("tcp"), n.reg)
	if err != nil {
		return err
	}
	n.host = host
	n.onClose(n.host.Close)
	n.members = newMembers(n.cfg.P2P.Peers, n.host.ID(), n.store, n.log)
	if n.isReady() {
		n.members.refresh(n.chain, true)
	} else {
		n.members.loadKept()
	}
	n.host.SetGate(n.members.Check)
	return nil
}

func (n *Node) openConsensus() (err error) {
	cfg := n.cfg.Consensus
	cfg.Dir = n.cfg.Path(cfg.Dir)
	net := new(network)
	deps := consensus.Deps{
		Params: n.gen.Parameters(), Genesis: n.chain.Genesis().Hash(), Schedule: n.gen.Schedule(),
		Recoveries: n.recovered.forMachine(), Chain: n.chain, Store: n.store, Network: net, Ready: n.ready, Log: n.log.Named("consensus"), Registry: n.reg,
		Txs: n.transactions, Repaired: n.store.Repaired, Now: ownclock.Now, Clocks: net.Clocks,
		FinalHeader: n.store.HeaderByHeight,
		OnEvidence: func(e dpos.Evidence) {
			if n.duties != nil {
				n.duties.accuse(e, n.chain.Sealed)
			}
		},
	}
	if p := n.cfg.Path(n.cfg.Keys.Producer); p != "" {
		s, err := signer.Load(p)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; put the file back from a copy, or empty keys.producer to run an observer", err)
		}
		if err != nil {
			return err
		}
		deps.Signer = s
	}
	if n.driver, err = consensus.Open(cfg, deps); err != nil {
		return err
	}
	n.onClose(n.driver.Close)
	identity := blocksync.Identity{Upgrades: n.gen.UpgradesDigest(), Pull: n.cfg.RDMA.Detect.Mode != detect.Off}
	if s := deps.Signer; s != nil {
		identity.Account = s.Account()
		identity.Sign = func(h common.Hash) ([]byte, error) {
			sig, err := s.SignSeal(h)
			return sig[:], err
		}
		identity.SignerStart = n.driver.Status().Started
	}
	point, err := parseCheckpoint(n.cfg.P2P.Checkpoint)
	if err != nil {
		return err
	}
	if point != nil && n.driver.Status().LIB.Height >= point.height {
		if h, err := n.store.HeaderByHeight(point.height); err == nil && h.Hash() != point.hash {
			return fmt.Errorf("%w: the stored block %d is %s; delete the node's blocks and state and join again", errCheckpoint, point.height, h.Hash())
		}
	}
	if n.book, err = newRecoveryBook(n.cfg, n.gen, n.recovered, n.log.Named("recovery")); err != nil {
		return err
	}
	syncParams := n.gen.Parameters()
	syncParams.MaxBlockBytes = block.MaxBlockBytes // what a vote may allow later
	syncDeps := blocksync.Deps{
		Host: n.host, Blocks: n.store, Pool: n.pool, Members: n.members,
		Params: syncParams, Genesis: n.chain.Genesis().Hash(), Identity: identity, Repairs: repairs{n}, Receipts: n.store,
		OnLink: n.addLink, Now: ownclock.Now, Recoveries: n.book,
		Log: n.log.Named("sync"), Registry: n.reg,
	}
	adaptConsensus(&syncDeps, n.driver, point)
	n.sync, err = blocksync.New(n.cfg.Sync, syncDeps)
	net.m.Store(n.sync)
	if err != nil {
		return err
	}
	if deps.Signer != nil {
		if n.links, err = newProducerLinks(deps.Signer.Account(), n.log, n.reg); err != nil {
			return err
		}
		if err := n.openDuties(deps.Signer); err != nil {
			return err
		}
	}
	return n.openBrokers(deps.Signer)
}

// openDuties prepares what a producer's node sends by itself.
func (n *Node) openDuties(s consensus.Signer) (err error) {
	signs, _ := s.(txSigner)
	p := n.gen.Parameters()
	n.account = newAccount(s.Account(), p.ChainID, signs)
	n.duties, err = newDuties(dutyDeps{
		cfg: n.cfg.Duties, self: s.Account(), params: p,
		chain: dutyExecutor{n.chain}, pool: n.pool, consensus: n.driver, signer: signs, account: n.account,
		synced: func() bool { return n.sync.Status().State == blocksync.InSync },
		offer:  n.sync.BroadcastTransactions, bump: n.cfg.Pool.PriceBump,
		file: n.cfg.Path(DutiesFile), log: n.log.Named("duties"), reg: n.reg,
	})
	return err
}

// transactions orders the pool for a block on this parent.
func (n *Node) transactions(parent common.Hash) chain.TxSource {
	h, err := n.chain.HeaderByHash(parent)
	if h == nil || err != nil { // a head is in memory
		return nil
	}
	params, err := n.chain.ParamsAt(h)
	if err != nil {
		n.log.Warn("the block is built without transactions", zap.Uint64("parent", h.Number.Uint64()), zap.Error(err))
		return nil
	}
	return n.pool.Source(chain.BaseFee(&params, n.chain.Config(), h))
}

func (n *Node) openRPC() (err error) {
	cfg := n.cfg.RPC
	cfg.IPCPath, cfg.JWTSecret, cfg.LogIndex = n.cfg.Path(cfg.IPCPath), n.cfg.Path(cfg.JWTSecret), n.cfg.Path(cfg.LogIndex)
	back := rpc.Backend{
		Chain: n.chain, Pool: n.pool, Consensus: rpcConsensus{n}, Sync: rpcSync{n}, Network: rpcNetwork{n}, Admin: rpcAdmin{n}, Scrub: rpcScrub{n},
		Topics: n.chain, Repairs: repairs{n}, NotReady: n.notReady, Version: "bornode/v" + Version,
	}
	if back.Trust, err = topicproof.TrustGenesis(n.gen); err != nil {
		return err
	}
	back.Trust.Recoveries = n.recovered.applied
	if n.brokers != nil {
		back.Broker, back.Readers = n.brokers.evidence, pubsub.Readers{Auth: n.brokers.auth, Evidence: n.brokers.evidence}
	}
	n.rpc, err = rpc.New(cfg, back, n.log.Named("rpc"), n.reg)
	if err != nil {
		return err
	}
	n.onClose(n.rpc.Close)
	return nil
}

// Run serves until ctx ends or a part fails, then closes everything. A nil error is an orderly end. A node runs once: a
// second call is refused with ErrRanBefore.
func (n *Node) Run(ctx context.Context) error {
	if n.ran.Swap(true) {
		return ErrRanBefore
	}
	head := n.chain.CurrentHeader()
	n.log.Info("bornode starts", zap.String("version", Version), zap.Uint64("chain_id", n.gen.Parameters().ChainID),
		zap.Stringer("genesis", n.chain.Genesis().Hash()), zap.String("peer", string(n.host.ID())),
		zap.Uint64("height", head.Number.Uint64()), zap.Uint64("final", n.chain.FinalHeader().Number.Uint64()),
		zap.Strings("listen", n.host.Addrs()))
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, run := errgroup.WithContext(inner)
	g.Go(func() error { return part("consensus", n.driver.Run(run)) })
	g.Go(func() error { return part("sync", n.sync.Run(run)) })
	g.Go(func() error { return part("json-rpc", n.rpc.Run(run)) })
	g.Go(func() error { return part("chain", n.resume(run)) })
	g.Go(func() error { return n.store.AwaitFailure(run) })
	watches := []func(context.Context){n.watchHead, n.watchFinal, n.gossip}
	if n.pruner != nil {
		if n.brokers != nil {
			n.keepUnread(0) // until it says what it has read
		}
		watches = append(watches, n.watchPruning) // the replay reads what is below the newest irreversible block
	}
	watches = append(watches, n.scrub.Run)
	for _, watch := range watches {
		g.Go(func() error {
			if n.waitReady(run, run) {
				watch(run)
			}
			return nil
		})
	}
	if n.links != nil {
		g.Go(func() error { n.watchLinks(run); return nil })
	}
	if n.duties != nil {
		g.Go(func() error {
			if n.waitReady(run, run) {
				n.duties.run(run)
			}
			return nil
		})
	}
	if n.brokers != nil { // what it leads goes to others while the chain still runs
		g.Go(func() error {
			defer stop()
			if !n.waitReady(ctx, run) {
				return nil
			}
			return n.brokers.run(ctx, run, n.watchCheckpoints)
		})
	} else {
		defer context.AfterFunc(ctx, stop)()
	}
	g.Go(func() error { n.dialPeers(run); return nil })
	err := g.Wait()
	if n.duties != nil {
		n.duties.finish()
	}
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = nil
	}
	if u, ok := missing(err); ok {
		n.log.Error("bornode stops before an upgrade that it does not know", zap.String("upgrade", u.Name), zap.Stringer("digest", u.Digest),
			zap.Uint64("block", u.Height), zap.Uint64("height", n.chain.CurrentHeader().Number.Uint64()))
		return errors.Join(u, n.close())
	}
	err = errors.Join(err, n.close())
	if err != nil {
		n.log.Error("bornode ends after a failure", zap.Error(err))
		return err
	}
	n.log.Info("bornode ends")
	return nil
}

// missing is the upgrade that a node cannot go on without: its sentence says all that an operator needs.
func missing(err error) (u chain.ErrUnknownUpgrade, ok bool) {
	ok = errors.As(err, &u)
	return u, ok
}

func part(name string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (n *Node) close() error {
	var errs []error
	for i := len(n.closers) - 1; i >= 0; i-- {
		errs = append(errs, n.closers[i]())
	}
	n.closers = nil
	return errors.Join(errs...)
}
