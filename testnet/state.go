package testnet

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/testnet/proxy"
)

const stateFile = "network.json"

// Node is one process of a network.
type Node struct {
	Index    int            `json:"index"`
	Role     string         `json:"role"` // producer or observer
	Account  common.Address `json:"account"`
	PeerID   string         `json:"peer_id"`
	Dir      string         `json:"dir"`
	HTTP     string         `json:"http"`
	WS       string         `json:"ws"`
	Metrics  string         `json:"metrics"`
	P2P      string         `json:"p2p"`              // host:port it listens on
	Broker   string         `json:"broker,omitempty"` // host:port for Kafka clients; empty: it serves no topics
	Process  Process        `json:"process"`
	SyncMode string         `json:"sync_mode"`
}

// LogFile is where the process writes.
func (n *Node) LogFile() string { return filepath.Join(n.Dir, "bornode.log") }

// Account is a key with money.
type Account struct {
	Address common.Address `json:"address"`
	Key     string         `json:"private_key"` // hex; a test network's only
}

// Private is the account's key.
func (a Account) Private() *ecdsa.PrivateKey {
	k, err := crypto.HexToECDSA(a.Key)
	if err != nil {
		panic(fmt.Sprintf("testnet: key of %s in %s: %v", a.Address, stateFile, err)) // we wrote it
	}
	return k
}

// Network is a network in a folder.
type Network struct {
	Dir       string        `json:"dir"`
	Binary    string        `json:"binary"`
	ChainID   uint64        `json:"chain_id"`
	BasePort  int           `json:"base_port"`
	SlotMS    int64         `json:"slot_ms"`
	Nodes     []*Node       `json:"nodes"`
	Accounts  []Account     `json:"accounts"`
	Admin     Account       `json:"admin"`
	Proxy     Process       `json:"proxy"`
	Direct    bool          `json:"direct"`
	Routes    []proxy.Route `json:"routes"`
	Settings  []string      `json:"settings"`
	NodeEnv   []string      `json:"node_env"`
	portsLock *os.File
}

// Open reads the network of a folder.
func Open(dir string) (*Network, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("testnet: there is no network in %s; start one with `bornode testnet up --dir %s`", dir, dir)
	}
	if err != nil {
		return nil, err
	}
	n := new(Network)
	if err := json.Unmarshal(b, n); err != nil {
		return nil, fmt.Errorf("testnet: %s: %w", filepath.Join(dir, stateFile), err)
	}
	return n, nil
}

func (n *Network) save() error {
	b, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	tmp := filepath.Join(n.Dir, stateFile+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(n.Dir, stateFile))
}

// Node is the node of this index.
func (n *Network) Node(i int) (*Node, error) {
	if i < 0 || i >= len(n.Nodes) {
		return nil, fmt.Errorf("testnet: there is no node %d; the network has nodes 0 to %d", i, len(n.Nodes)-1)
	}
	return n.Nodes[i], nil
}

func (n *Network) genesisFile() string { return filepath.Join(n.Dir, "genesis.json") }
func (n *Network) proxySocket() string { return filepath.Join(n.Dir, "proxy.sock") }

// Endpoints are the JSON-RPC URLs of the nodes whose processes live.
func (n *Network) Endpoints() []string {
	var out []string
	for _, x := range n.Nodes {
		if x.Process.Alive() {
			out = append(out, x.HTTP)
		}
	}
	return out
}
