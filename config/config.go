package config

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/internal/scrub"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/pubsub"
	"github.com/bornode/bornode/rpc"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/transport/rdma"
	"github.com/bornode/bornode/transport/rdma/detect"
	"github.com/bornode/bornode/transport/rdma/shm"
	"github.com/bornode/bornode/transport/rdma/verbs"
	"github.com/bornode/bornode/transport/tcp"
	"github.com/bornode/bornode/txpool"
)

// FileName is the configuration file in a node's folder.
const FileName = "bornode.toml"

// Config is everything a node can be told.
type Config struct {
	DataDir string `mapstructure:"data_dir" comment:"the node's folder; relative paths below lie in it"`
	Genesis string `mapstructure:"genesis" comment:"genesis file of the network"`

	Keys      Keys                    `mapstructure:"keys" comment:"files with the node's keys; mode 0600"`
	Log       telemetry.LogConfig     `mapstructure:"log" comment:"what is logged, on standard error"`
	Metrics   telemetry.MetricsConfig `mapstructure:"metrics" comment:"Prometheus metrics (docs/metrics.md)"`
	P2P       P2P                     `mapstructure:"p2p" comment:"peers"`
	RDMA      RDMA                    `mapstructure:"rdma" comment:"faster paths than tcp to peers that have them too (docs/rdma.md)"`
	Sync      blocksync.Config        `mapstructure:"sync" comment:"synchronisation with peers"`
	Consensus consensus.Config        `mapstructure:"consensus" comment:"voting and production"`
	Chain     chain.Config            `mapstructure:"chain" comment:"execution and state"`
	Store     blockstore.Config       `mapstructure:"store" comment:"blocks on disk"`
	Scrub     scrub.Config            `mapstructure:"scrub" comment:"reading of blocks and topics in the background (docs/storage.md)"`
	Pool      txpool.Config           `mapstructure:"pool" comment:"transactions that wait"`
	Duties    Duties                  `mapstructure:"duties" comment:"transactions that a producer's node sends for its account by itself"`
	PubSub    pubsub.Config           `mapstructure:"pubsub" comment:"topics for Kafka clients (docs/topics.md)"`
	RPC       rpc.Config              `mapstructure:"rpc" comment:"JSON-RPC for wallets and tools (docs/rpc.md)"`
}

// Keys are files with secrets.
type Keys struct {
	Identity string `mapstructure:"identity" comment:"libp2p identity; made at the first start if it is missing"`
	Producer string `mapstructure:"producer" comment:"seal and vote keys of a producer; empty: the node is an observer"`
}

// P2P says where peers are met.
type P2P struct {
	Peers      []string   `mapstructure:"peers" comment:"addresses to stay connected with: /ip4/10.0.0.1/tcp/30303/p2p/12D3KooW... A producer lists all other producers"`
	Checkpoint string     `mapstructure:"checkpoint" comment:"height:hash of a block known from a trusted source; guards a joining node against a rewritten history; empty: none"`
	TCP        tcp.Config `mapstructure:"tcp" comment:"links over TCP"`
}

// Duties are what a producer's node does without its operator. They cost fees of the producer's account where the chain
// has a base fee; an observer has none.
type Duties struct {
	Enabled bool `mapstructure:"enabled" comment:"report as a standby once in an epoch while the account is a candidate without a seat, and submit evidence of broken rules of consensus; the account pays the fees, if the chain has any"`
	Unjail  bool `mapstructure:"unjail" comment:"leave jail as soon as the delay is over. Off: an operator looks first why the node was jailed, then sends borcli producer unjail"`
}

// RDMA says how links leave tcp.
type RDMA struct {
	Detect  detect.Config `mapstructure:",squash"`
	Device  verbs.Config  `mapstructure:"device" comment:"the network device; without settings every port that can carry a peer is offered"`
	SHM     shm.Config    `mapstructure:"shm" comment:"shared memory with processes of this host"`
	Channel rdma.Config   `mapstructure:"channel" comment:"rings and memory of the connection with each peer"`
}

// Validate names the first setting that cannot work.
func (r *RDMA) Validate() error {
	if err := r.Detect.Validate(); err != nil {
		return err
	}
	if err := r.Device.Validate(); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	if err := r.SHM.Validate(); err != nil {
		return fmt.Errorf("shm: %w", err)
	}
	return r.Channel.Validate()
}

// Default is the configuration of a node that was told nothing.
func Default() *Config {
	c := &Config{
		DataDir: ".", Genesis: "genesis.json",
		Keys:      Keys{Identity: "keys/identity.key"},
		Log:       telemetry.DefaultLogConfig(),
		P2P:       P2P{TCP: tcp.DefaultConfig()},
		RDMA:      RDMA{Detect: detect.DefaultConfig(), Device: verbs.DefaultConfig(), SHM: shm.DefaultConfig(), Channel: rdma.DefaultConfig()},
		Sync:      blocksync.DefaultConfig(),
		Consensus: consensus.DefaultConfig(),
		Chain:     chain.DefaultConfig(),
		Store:     blockstore.DefaultConfig(),
		Scrub:     scrub.DefaultConfig(),
		Pool:      txpool.DefaultConfig(),
		Duties:    Duties{Enabled: true},
		PubSub:    pubsub.DefaultConfig(),
		RPC:       rpc.DefaultConfig(),
	}
	c.Store.Dir = "blocks"
	c.Pool.Journal = "pool.journal"
	c.RPC.IPCPath, c.RPC.LogIndex = "bornode.ipc", "log_index"
	return c
}

// Validate names the first setting that cannot work.
func (c *Config) Validate() error {
	if c.DataDir == "" {
		return errors.New("data_dir is empty: name the node's folder")
	}
	if c.Genesis == "" {
		return errors.New("genesis is empty: name the genesis file of the network")
	}
	if c.Keys.Identity == "" {
		return errors.New("keys.identity is empty: name the file of the node's identity")
	}
	for _, part := range []struct {
		name string
		v    interface{ Validate() error }
	}{
		{"log", c.Log}, {"p2p.tcp", &c.P2P.TCP}, {"rdma", &c.RDMA}, {"sync", &c.Sync}, {"consensus", c.Consensus}, {"chain", &c.Chain},
		{"store", &c.Store}, {"scrub", &c.Scrub}, {"pool", &c.Pool}, {"pubsub", &c.PubSub}, {"rpc", &c.RPC},
	} {
		if err := part.v.Validate(); err != nil {
			return fmt.Errorf("[%s] %w", part.name, err)
		}
	}
	return nil
}

// Path resolves a path of the configuration: relative ones lie in the node's folder.
func (c *Config) Path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.DataDir, p)
}
