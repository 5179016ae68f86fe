package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"

	"github.com/bornode/bornode/internal/vfs"
)

func accountCommand() *cobra.Command {
	var block string
	at := flags(func(f *pflag.FlagSet) {
		f.StringVar(&block, "block", "latest", "state after which block: a height, latest, safe, finalized, earliest or pending; -1 is the one before the newest")
	})
	return group("account", "Make and look at accounts",
		command("create [WALLET]", "Make an account in a wallet, or as a new key file (--key)", createAccount, arguments(0, 1),
			long("Make an account in a wallet of borwallet (the only one, unless named), or with --key as a new encrypted key file of\n"+
				"mode 0600. The password is asked for, or comes from --password-file or standard input."),
			example("borcli account create treasury", "borcli account create --key alice.json --password-file alice.password")),
		command("list", "List the accounts of the wallet, or of the key file", listAccounts, example("borcli account list")),
		command("show [ADDRESS]", "Show balance, nonce, code, stake, votes and roles", showAccount, arguments(0, 1),
			example("borcli account show 0x52908400098527886E0F7030069857D2E4169EE7", "borcli account show members --json")),
		command("balance [ADDRESS]", "Print a balance", func(ctx context.Context, a *app, args []string) error {
			var v hexutil.Big
			who, err := a.accountState(ctx, &v, "eth_getBalance", args, block)
			if err != nil {
				return err
			}
			return a.show(map[string]any{"account": who, "wei": decimal(v.ToInt())}, func(w io.Writer) { fmt.Fprintln(w, ether(v.ToInt())) })
		}, arguments(0, 1), at, example("borcli account balance 0x52908400098527886E0F7030069857D2E4169EE7 --block finalized")),
		command("nonce [ADDRESS]", "Print an account's next nonce (--block pending: after what waits)", func(ctx context.Context, a *app, args []string) error {
			var v hexutil.Uint64
			who, err := a.accountState(ctx, &v, "eth_getTransactionCount", args, block)
			if err != nil {
				return err
			}
			return a.show(map[string]any{"account": who, "nonce": uint64(v)}, func(w io.Writer) { fmt.Fprintln(w, uint64(v)) })
		}, arguments(0, 1), at))
}

// subject is the account that a reading command is about: the argument, or the one that would sign.
func (a *app) subject(ctx context.Context, args []string) (common.Address, error) {
	if len(args) > 0 {
		addr, err := parseAddress(args[0])
		if err != nil {
			return addr, fail(exitUsage, "ADDRESS: %v", err)
		}
		return addr, nil
	}
	who, err := a.account(ctx)
	if err != nil {
		return common.Address{}, err
	}
	return who.address(), nil
}

func (a *app) accountState(ctx context.Context, result any, method string, args []string, block string) (common.Address, error) {
	who, err := a.subject(ctx, args)
	if err != nil {
		return who, err
	}
	at, err := a.blockArgument(ctx, block)
	if err != nil {
		return who, inFlag("--block", err)
	}
	return who, a.ask(ctx, result, method, who, at)
}

func createAccount(ctx context.Context, a *app, args []string) error {
	if a.Key != "" {
		if len(args) > 0 {
			return fail(exitUsage, "give the name of a wallet or --key, not both")
		}
		return createKeyFile(ctx, a, a.Key)
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	} else {
		var list []walletInfo
		if err := a.askWallet(ctx, &list, "wallet_list"); err != nil {
			return err
		}
		if len(list) != 1 {
			return fail(exitUsage, "the wallet daemon has %s: name one (%s), or make one with borcli wallet create NAME", plural(len(list), "wallet"), strings.Join(walletNames(list), ", "))
		}
		name = list[0].Name
	}
	return walletNew(ctx, a, []string{name})
}

func walletNames(list []walletInfo) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = w.Name
	}
	return out
}

func createKeyFile(ctx context.Context, a *app, path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fail(exitUsage, "%s exists already: a key is never overwritten, choose another name", path)
	}
	noDumps()
	password, err := a.newPassword(ctx, "password for "+path, a.PasswordFile)
	if err != nil {
		return err
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	defer wipe(key)
	addr := crypto.PubkeyToAddress(key.PublicKey)
	k := &keystore.Key{Address: addr, PrivateKey: key}
	_, _ = rand.Read(k.Id[:])
	k.Id[6], k.Id[8] = k.Id[6]&0x0f|0x40, k.Id[8]&0x3f|0x80 // a random UUID
	text, err := keystore.EncryptKey(k, password, keystore.StandardScryptN, keystore.StandardScryptP)
	if err != nil {
		return err
	}
	if err := vfs.CreateFileAt(path, append(text, '\n')); err != nil {
		return fail(exitOther, "%s cannot be written: %v", path, err)
	}
	return a.show(map[string]any{"address": addr, "file": path}, func(w io.Writer) { lines(w, pair{"address", addr.Hex()}, pair{"file", path}) })
}

func listAccounts(ctx context.Context, a *app, _ []string) error {
	type row struct {
		Address common.Address `json:"address"`
		Wallet  string         `json:"wallet,omitempty"`
		File    string         `json:"file,omitempty"`
		Locked  bool           `json:"locked"`
	}
	rows := []row{}
	if a.Key != "" {
		k, err := a.openKey(ctx, a.Key)
		if err != nil {
			return err
		}
		defer wipe(k.plain)
		rows = append(rows, row{Address: k.addr, File: a.Key, Locked: k.keystore != nil})
	} else {
		var list []walletInfo
		if err := a.askWallet(ctx, &list, "wallet_list"); err != nil {
			return err
		}
		for _, w := range list {
			for _, addr := range w.Accounts {
				rows = append(rows, row{Address: addr, Wallet: w.Name, Locked: w.Locked})
			}
		}
	}
	return a.show(rows, func(w io.Writer) {
		if len(rows) == 0 {
			fmt.Fprintln(w, "no accounts: make one with borcli account create")
			return
		}
		text := make([][]string, len(rows))
		for i, r := range rows {
			state := "unlocked"
			if r.Locked {
				state = "locked"
			}
			text[i] = []string{r.Address.Hex(), r.Wallet + r.File, state}
		}
		columns(w, []string{"ADDRESS", "WALLET", ""}, text)
	})
}

// accountView is what the chain knows of an account. Amounts are wei in decimal.
type accountView struct {
	Address   common.Address `json:"address"`
	Balance   string         `json:"balance"`
	Nonce     uint64         `json:"nonce"`
	Waiting   uint64         `json:"waiting"` // transactions in the pool
	CodeBytes int            `json:"codeBytes"`
	Stake     string         `json:"stake"`
	Voted     string         `json:"voted"` // part of the stake
	Leaving   string         `json:"leaving"`
	ReadyAt   uint64         `json:"readyAt,omitempty"` // Unix seconds, of the part that leaves
	Votes     []ballotView   `json:"votes"`
	Candidate bool           `json:"candidate"`
	Received  string         `json:"votesReceived"`
	Active    bool           `json:"producing"`
	MaySend   bool           `json:"maySend"`
	MayDeploy bool           `json:"mayDeploy"`
	Admin     bool           `json:"admin"`
	Nodes     []nodeView     `json:"nodes"`
}

type ballotView struct {
	Producer common.Address `json:"producer"`
	Amount   string         `json:"amount"`
}

type nodeView struct {
	PeerID string   `json:"peerId"`
	Roles  []string `json:"roles"`
}

func showAccount(ctx context.Context, a *app, args []string) error {
	who, err := a.subject(ctx, args)
	if err != nil {
		return err
	}
	v := &accountView{Address: who, Votes: []ballotView{}, Nodes: []nodeView{}}
	var balance hexutil.Big
	var nonce, pending hexutil.Uint64
	var code hexutil.Bytes
	for _, q := range []struct {
		into          any
		method, block string
	}{{&balance, "eth_getBalance", "latest"}, {&nonce, "eth_getTransactionCount", "latest"}, {&pending, "eth_getTransactionCount", "pending"}, {&code, "eth_getCode", "latest"}} {
		if err := a.ask(ctx, q.into, q.method, who, q.block); err != nil {
			return err
		}
	}
	v.Balance, v.Nonce, v.CodeBytes = decimal(balance.ToInt()), uint64(nonce), len(code)
	v.Waiting = uint64(pending) - min(uint64(nonce), uint64(pending))
	if err := a.readStake(ctx, v); err != nil {
		return err
	}
	if err := a.readRoles(ctx, v); err != nil {
		return err
	}
	return a.show(v, v.table)
}

// view calls a view method of a system contract and decodes what it returns.
func view[T any](ctx context.Context, a *app, to common.Address, data []byte, unpack func([]byte) (T, error)) (T, error) {
	raw, err := a.call(ctx, to, data)
	if err != nil {
		var none T
		return none, err
	}
	out, err := unpack(raw)
	if err != nil {
		return out, fail(exitOther, "contract %s answered something unexpected (%v): is the node of borcli's version?", addressName(to), err)
	}
	return out, nil
}

func (a *app) readStake(ctx context.Context, v *accountView) error {
	p, at := contracts.NewProducers(), contracts.ProducersAddress
	s, err := view(ctx, a, at, p.PackStakeOf(v.Address), p.UnpackStakeOf)
	if err != nil {
		return err
	}
	v.Stake, v.Voted, v.Leaving, v.ReadyAt = decimal(s.Stake), decimal(s.Voted), decimal(s.Leaving), s.ReadyAt
	ballots, err := view(ctx, a, at, p.PackBallots(v.Address), p.UnpackBallots)
	if err != nil {
		return err
	}
	for _, b := range ballots {
		v.Votes = append(v.Votes, ballotView{b.Producer, decimal(b.Amount)})
	}
	c, err := view(ctx, a, at, p.PackCandidate(v.Address), p.UnpackCandidate)
	if err != nil {
		return err
	}
	v.Candidate, v.Received = c.Info.Place != 0, decimal(c.Info.Votes)
	v.Active, err = view(ctx, a, at, p.PackIsActive(v.Address), p.UnpackIsActive)
	return err
}

func (a *app) readRoles(ctx context.Context, v *accountView) (err error) {
	m, at := contracts.NewMembers(), contracts.MembersAddress
	if v.MaySend, err = view(ctx, a, at, m.PackMaySend(v.Address), m.UnpackMaySend); err != nil {
		return err
	}
	if v.MayDeploy, err = view(ctx, a, at, m.PackMayDeploy(v.Address), m.UnpackMayDeploy); err != nil {
		return err
	}
	admin, err := view(ctx, a, at, m.PackAdmin(), m.UnpackAdmin)
	if err != nil {
		return err
	}
	v.Admin = admin == v.Address && admin != (common.Address{})
	nodes, err := view(ctx, a, at, contracts.MembersCallData(), contracts.DecodeMembers)
	for _, n := range nodes {
		if n.Account == v.Address {
			v.Nodes = append(v.Nodes, nodeView{n.PeerID, nodeRoles(n.Roles)})
		}
	}
	return err
}

func nodeRoles(bits uint8) (out []string) {
	for _, r := range []struct {
		bit  uint8
		name string
	}{{contracts.RoleProducer, "producer"}, {contracts.RoleObserver, "observer"}, {contracts.RoleBroker, "broker"}} {
		if bits&r.bit != 0 {
			out = append(out, r.name)
		}
	}
	return out
}

// inEther writes decimal wei for people; nothing for 0.
func inEther(wei string) string {
	v, ok := new(big.Int).SetString(wei, 10)
	if !ok || v.Sign() == 0 {
		return ""
	}
	return ether(v)
}

func (v *accountView) table(w io.Writer) {
	balance, _ := new(big.Int).SetString(v.Balance, 10)
	rows := []pair{{"account", addressName(v.Address)}, {"balance", ether(balance)}, {"nonce", fmt.Sprint(v.Nonce)}}
	if v.Waiting > 0 {
		rows = append(rows, pair{"waiting", plural(int(v.Waiting), "transaction")}) //nolint:gosec // a count
	}
	if v.CodeBytes > 0 {
		rows = append(rows, pair{"code", plural(v.CodeBytes, "byte")})
	}
	rows = append(rows, pair{"stake", inEther(v.Stake)}, pair{"voting", inEther(v.Voted)})
	if leaving := inEther(v.Leaving); leaving != "" {
		rows = append(rows, pair{"leaving", leaving + ", from " + clock(v.ReadyAt)})
	}
	for _, b := range v.Votes {
		rows = append(rows, pair{"votes for", b.Producer.Hex() + " with " + inEther(b.Amount)})
	}
	var roles []string
	for _, r := range []struct {
		name string
		has  bool
	}{{"admin", v.Admin}, {"candidate", v.Candidate}, {"producer of this epoch", v.Active}} {
		if r.has {
			roles = append(roles, r.name)
		}
	}
	rows = append(rows, pair{"is", strings.Join(roles, ", ")}, pair{"votes received", inEther(v.Received)})
	for _, n := range v.Nodes {
		rows = append(rows, pair{"node", n.PeerID + " (" + strings.Join(n.Roles, ", ") + ")"})
	}
	switch {
	case !v.MaySend:
		rows = append(rows, pair{"may", "not send transactions"})
	case !v.MayDeploy:
		rows = append(rows, pair{"may", "send transactions, not deploy contracts"})
	}
	lines(w, rows...)
}
