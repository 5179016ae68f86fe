package testnet

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/node"
)

// testChainID is the chain id of local networks.
const testChainID = 71_337

// fundedEther is what each funded account starts with.
const fundedEther = 1_000_000

// makeKeys makes the keys of a node and notes their public parts.
func makeKeys(x *Node) error {
	keys, err := node.MakeKeys(x.Dir, x.Role == "producer", testChainID)
	if err != nil {
		return err
	}
	x.PeerID, x.Account = keys.PeerID, keys.Account
	return nil
}

func newAccount() (Account, error) {
	k, err := crypto.GenerateKey()
	if err != nil {
		return Account{}, err
	}
	return Account{Address: crypto.PubkeyToAddress(k.PublicKey), Key: hex.EncodeToString(crypto.FromECDSA(k))}, nil
}

// writeAccountKeys writes the keys of the admin and of the accounts that are shown, as programs take them.
func (n *Network) writeAccountKeys() error {
	if err := os.MkdirAll(filepath.Dir(n.accountKeyFile("admin")), 0o700); err != nil {
		return err
	}
	keys := map[string]Account{"admin": n.Admin}
	for i, a := range n.Accounts[:shownAccounts] {
		keys[strconv.Itoa(i)] = a
	}
	for name, a := range keys {
		if err := os.WriteFile(n.accountKeyFile(name), []byte(a.Key+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// accountKeyFile is the file with an account's key: name is its number among those shown, or admin.
func (n *Network) accountKeyFile(name string) string {
	return filepath.Join(n.Dir, "accounts", name+".key")
}

// writeGenesis makes the network's accounts and its genesis file.
func (n *Network) writeGenesis(spec Spec) error {
	n.ChainID = testChainID
	var err error
	if n.Admin, err = newAccount(); err != nil {
		return err
	}
	ether := new(big.Int).Mul(big.NewInt(fundedEther), big.NewInt(1e18))
	o := genesis.Options{
		ChainID: n.ChainID, GenesisTime: uint64(time.Now().Unix()), //nolint:gosec // now is after 1970
		Slot: spec.Slot, TurnSlots: uint64(spec.Turn), EpochBlocks: uint64(spec.EpochBlocks), MaxReversible: uint64(spec.MaxReversible), //nolint:gosec // checked by genesis
		MaxBlockBytes: uint64(spec.MaxBlockBytes), MinProducers: spec.MinProducers, Settings: spec.Settings, ProposalTime: spec.ProposalTime, //nolint:gosec // checked by genesis
		Fees: spec.Fees, Admin: n.Admin.Address, Alloc: map[common.Address]*big.Int{n.Admin.Address: ether},
	}
	for range fundedCount {
		a, err := newAccount()
		if err != nil {
			return err
		}
		n.Accounts = append(n.Accounts, a)
		o.Alloc[a.Address] = ether
	}
	if err := n.writeAccountKeys(); err != nil {
		return err
	}
	o.Members = append(o.Members, spec.Members...)
	for _, x := range n.Nodes {
		role := genesis.RoleObserver
		if x.Role == "producer" {
			keys, err := node.MakeKeys(x.Dir, true, n.ChainID)
			if err != nil {
				return err
			}
			o.Producers = append(o.Producers, genesis.Producer{Account: keys.Account, BLSKey: [48]byte(keys.BLSKey), Proof: [96]byte(keys.Proof)})
			o.Alloc[keys.Account] = ether
			role = genesis.RoleProducer
		} else if x.Broker != "" {
			o.Alloc[x.Account] = ether
		}
		if x.Broker != "" {
			role |= genesis.RoleBroker
		}
		o.Members = append(o.Members, genesis.Member{PeerID: x.PeerID, Account: x.Account, Roles: role})
	}
	g, err := genesis.New(o)
	if err != nil {
		return err
	}
	return g.Write(n.genesisFile())
}

// writeConfig writes bornode.toml of a node: addresses, keys, peers and the network's own settings.
func (n *Network) writeConfig(x *Node) error {
	c := config.Default()
	c.Genesis = n.genesisFile()
	c.Log.Format = "json"
	c.Metrics.Listen, c.Metrics.Profile = x.Metrics, true
	c.RPC.HTTPAddr, c.RPC.WSAddr = hostOf(x.HTTP), hostOf(x.WS)
	c.RPC.Namespaces = append(c.RPC.Namespaces, "debug")
	c.RPC.IPCPath = filepath.Join(x.Dir, "ipc")
	if len(c.RPC.IPCPath) > 100 { // what a Unix socket's name may take
		c.RPC.IPCPath = ""
	}
	if x.Role == "producer" {
		c.Keys.Producer = node.ProducerFile
		c.Consensus.NewKey = x.Process.PID == 0 // its first start
	}
	n.setBroker(c, x)
	c.Sync.Mode = x.SyncMode
	c.P2P.TCP.Listen = []string{multiaddr(x.P2P)}
	c.P2P.TCP.Link.BackoffMax = time.Second // a healed partition is noticed soon
	for _, y := range n.Nodes {
		if y != x {
			c.P2P.Peers = append(c.P2P.Peers, multiaddr(n.route(x.Index, y.Index))+"/p2p/"+y.PeerID)
		}
	}
	for _, s := range n.Settings {
		if err := config.Set(c, s); err != nil {
			return err
		}
	}
	return config.Write(filepath.Join(x.Dir, config.FileName), c, true)
}

// hostOf is host and port of a URL of ours.
func hostOf(url string) string {
	_, host, _ := strings.Cut(url, "://")
	return host
}

func multiaddr(hostPort string) string {
	host, port, _ := net.SplitHostPort(hostPort)
	return "/ip4/" + host + "/tcp/" + port
}

// admit makes a node a member in the role it has here, and returns when that is final.
func (n *Network) admit(ctx context.Context, url string, x *Node) error {
	c, err := ethclient.DialContext(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close()
	role := contracts.RoleObserver
	if x.Role == "producer" {
		role = contracts.RoleProducer
	}
	data, err := contracts.AddMemberCall(x.PeerID, x.Account, role)
	if err != nil {
		return err
	}
	if _, err := n.decide(ctx, c, data); err != nil {
		return fmt.Errorf("testnet: node %d is not a member yet: %w", x.Index, err)
	}
	return nil
}
