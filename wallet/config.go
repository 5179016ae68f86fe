package wallet

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
)

// Config says where keys lie, who reaches them and what is signed.
type Config struct {
	Dir         string        `mapstructure:"dir" comment:"folder of the wallets, mode 0700; ~ is the home folder"`
	Socket      string        `mapstructure:"socket" comment:"Unix socket of the JSON-RPC server, mode 0600; relative paths lie in dir"`
	HTTP        string        `mapstructure:"http" comment:"loopback address that serves JSON-RPC to holders of a token, e.g. 127.0.0.1:8555; empty: off"`
	Confirm     string        `mapstructure:"confirm" comment:"show: log what is signed; ask: ask on the terminal before each signature; policy: sign what the policy file allows"`
	Policy      string        `mapstructure:"policy" comment:"policy file (TOML, or JSON by its ending); relative paths lie in dir"`
	AskTimeout  time.Duration `mapstructure:"ask_timeout" comment:"confirm = ask: no answer for so long is a no"`
	ChainIDs    []uint64      `mapstructure:"chain_ids" comment:"chains that may be signed for; empty: every chain"`
	RawHashes   bool          `mapstructure:"raw_hashes" comment:"eth_sign signs bare 32-byte hashes; dangerous, nobody can read what they stand for"`
	Scrypt      string        `mapstructure:"scrypt" comment:"work to try one password: standard (1 s, 256 MB) or light (0.1 s, 4 MB; for tests)"`
	MaxUnlock   time.Duration `mapstructure:"max_unlock" comment:"longest time a wallet may be unlocked for; 0 seconds in a request stays unlocked until it is locked"`
	Connections int           `mapstructure:"connections" comment:"open connections, socket and HTTP each"`
}

// DefaultConfig serves the socket in ~/.borwallet and logs what it signs.
func DefaultConfig() Config {
	return Config{
		Dir: "~/.borwallet", Socket: "borwallet.sock", Confirm: ConfirmShow, Policy: "policy.toml", AskTimeout: time.Minute,
		Scrypt: "standard", MaxUnlock: 24 * time.Hour, Connections: 64,
	}
}

// Ways to confirm a signature.
const (
	ConfirmShow   = "show"
	ConfirmAsk    = "ask"
	ConfirmPolicy = "policy"
)

// Validate names the first setting that cannot work.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("dir is empty: name the folder of the wallets")
	case c.Socket == "":
		return fmt.Errorf("socket is empty: name the Unix socket, e.g. borwallet.sock")
	case !slices.Contains([]string{ConfirmShow, ConfirmAsk, ConfirmPolicy}, c.Confirm):
		return fmt.Errorf("confirm is %q: use show, ask or policy", c.Confirm)
	case c.Confirm == ConfirmPolicy && c.Policy == "":
		return fmt.Errorf("policy is empty: confirm = policy needs a policy file (docs/wallet.md)")
	case c.Scrypt != "standard" && c.Scrypt != "light":
		return fmt.Errorf("scrypt is %q: use standard or light", c.Scrypt)
	case c.AskTimeout < time.Second || c.AskTimeout > answerTimeout-time.Minute:
		return fmt.Errorf("ask_timeout is %s: use 1s to %s", c.AskTimeout, answerTimeout-time.Minute)
	case c.MaxUnlock < time.Second || c.MaxUnlock > MaxUnlock:
		return fmt.Errorf("max_unlock is %s: use 1s to %s", c.MaxUnlock, MaxUnlock)
	case c.Connections < 1 || c.Connections > 4096:
		return fmt.Errorf("connections is %d: use 1 to 4096", c.Connections)
	}
	if c.HTTP == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(c.HTTP)
	if err != nil {
		return fmt.Errorf("http is %q: use a loopback address with a port, e.g. 127.0.0.1:8555", c.HTTP)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("http is %q, which other hosts can reach: use a loopback address, e.g. 127.0.0.1:8555, and ssh to forward it", c.HTTP)
	}
	return nil
}

// Path resolves a path of the configuration: relative ones lie in Dir.
func (c *Config) Path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.Dir, p)
}

// cost is the work of scrypt for files that the wallet writes.
func (c *Config) cost() (n, p int) {
	if c.Scrypt == "light" {
		return keystore.LightScryptN, keystore.LightScryptP
	}
	return keystore.StandardScryptN, keystore.StandardScryptP
}
