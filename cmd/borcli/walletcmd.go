package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/internal/vfs"
)

// secretsHelp tells how passwords and keys reach the program.
const secretsHelp = "Passwords, keys and word lists are asked for on the terminal without echo, or read line by line from standard input;\n" +
	"the wallet's password may come from --password-file. They are never arguments: those can be seen by other users."

func walletCommand() *cobra.Command {
	var seconds time.Duration
	cmd := group("wallet", "Manage the wallets of borwallet and sign with them",
		command("create NAME", "Make a wallet", walletCreate, arguments(1, 1), long("Make a wallet.\n\n"+secretsHelp), example("borcli wallet create treasury")),
		command("list", "List wallets and accounts", walletList, example("borcli wallet list --json")),
		command("unlock NAME", "Unlock a wallet for some time", func(ctx context.Context, a *app, args []string) error {
			if seconds < 0 || seconds%time.Second != 0 {
				return fail(exitUsage, "--for is %s: use whole seconds, such as 10m", seconds)
			}
			return walletUnlock(ctx, a, args[0], uint64(seconds/time.Second))
		}, arguments(1, 1), flags(func(f *pflag.FlagSet) {
			f.DurationVar(&seconds, "for", 5*time.Minute, "how long; 0: until it is locked")
		}), example("borcli wallet unlock treasury --for 10m")),
		command("lock NAME", "Lock a wallet and clear its keys from memory", func(ctx context.Context, a *app, args []string) error {
			return a.walletDo(ctx, "locked wallet "+args[0], "wallet_lock", args[0])
		}, arguments(1, 1)),
		command("lock-all", "Lock all wallets", func(ctx context.Context, a *app, _ []string) error {
			return a.walletDo(ctx, "locked all wallets", "wallet_lockAll")
		}),
		command("new NAME", "Make an account in a wallet", walletNew, arguments(1, 1), example("borcli wallet new treasury")))
	cmd.AddCommand(importCommands()...)
	cmd.AddCommand(secretCommands()...)
	cmd.AddCommand(signCommands()...)
	return cmd
}

// walletDo calls a method of the wallet that returns nothing worth showing.
func (a *app) walletDo(ctx context.Context, done, method string, args ...any) error {
	if err := a.askWallet(ctx, nil, method, args...); err != nil {
		return err
	}
	return a.show(map[string]bool{"ok": true}, func(w io.Writer) { fmt.Fprintln(w, done) })
}

func walletCreate(ctx context.Context, a *app, args []string) error {
	password, err := a.newPassword(ctx, "password for wallet "+args[0], a.PasswordFile)
	if err != nil {
		return err
	}
	return a.walletDo(ctx, "made wallet "+args[0]+"; make an account in it: borcli wallet new "+args[0], "wallet_create", args[0], password)
}

// walletPassword is the password of a wallet that exists.
func (a *app) walletPassword(ctx context.Context, name string) (string, error) {
	return a.password(ctx, "password of wallet "+name, a.PasswordFile)
}

func walletUnlock(ctx context.Context, a *app, name string, seconds uint64) error {
	password, err := a.walletPassword(ctx, name)
	if err != nil {
		return err
	}
	done := "unlocked wallet " + name
	if seconds > 0 {
		done += fmt.Sprintf(" for %s", time.Duration(min(seconds, 1<<31))*time.Second) //nolint:gosec // bounded
	} else {
		done += " until it is locked"
	}
	return a.walletDo(ctx, done, "wallet_unlock", name, password, seconds)
}

func walletList(ctx context.Context, a *app, _ []string) error {
	list := []walletInfo{}
	if err := a.askWallet(ctx, &list, "wallet_list"); err != nil {
		return err
	}
	return a.show(list, func(w io.Writer) {
		if len(list) == 0 {
			fmt.Fprintln(w, "no wallets: make one with borcli wallet create NAME")
			return
		}
		var rows [][]string
		for _, x := range list {
			state := "locked"
			if !x.Locked {
				state = "unlocked"
				if x.Until != nil {
					state += " until " + fmt.Sprint(x.Until)
				}
			}
			if len(x.Accounts) == 0 {
				rows = append(rows, []string{x.Name, state, "(none)"})
			}
			for i, addr := range x.Accounts {
				if i > 0 {
					rows = append(rows, []string{"", "", addr.Hex()})
					continue
				}
				rows = append(rows, []string{x.Name, state, addr.Hex()})
			}
		}
		columns(w, []string{"WALLET", "STATE", "ACCOUNT"}, rows)
	})
}

func walletNew(ctx context.Context, a *app, args []string) error {
	password, err := a.walletPassword(ctx, args[0])
	if err != nil {
		return err
	}
	var addr common.Address
	if err := a.askWallet(ctx, &addr, "wallet_newAccount", args[0], password); err != nil {
		return err
	}
	return a.showAddresses(addr)
}

func (a *app) showAddresses(list ...common.Address) error {
	return a.show(map[string]any{"accounts": list}, func(w io.Writer) {
		for _, x := range list {
			fmt.Fprintln(w, x.Hex())
		}
	})
}

func importCommands() []*cobra.Command {
	var filePassword, path string
	var count uint32
	var withPassphrase bool
	return []*cobra.Command{
		command("import-key NAME", "Take a raw key into a wallet", importKey, arguments(1, 1),
			long("Take a raw secp256k1 key into a wallet: from the file --key (hexadecimal, or a node's keys/producer.json), else asked for.\n\n"+secretsHelp),
			example("borcli wallet import-key treasury --key old.key")),
		command("import-keystore NAME FILE", "Take a geth keystore into a wallet", func(ctx context.Context, a *app, args []string) error {
			return importKeystore(ctx, a, args[0], args[1], filePassword)
		}, arguments(2, 2), flags(func(f *pflag.FlagSet) {
			f.StringVar(&filePassword, "keystore-password-file", "", "file with the keystore's own password (mode 0600)")
		}), long("Take a geth keystore into a wallet. The wallet's password comes first, then the keystore's.\n\n"+secretsHelp),
			example("borcli wallet import-keystore treasury UTC--2026-01-01T00-00-00Z--52908400098527886e0f7030069857d2e4169ee7")),
		command("import-mnemonic NAME", "Take accounts of a BIP-39 word list into a wallet", func(ctx context.Context, a *app, args []string) error {
			return importMnemonic(ctx, a, args[0], path, count, withPassphrase)
		}, arguments(1, 1), flags(func(f *pflag.FlagSet) {
			f.StringVar(&path, "path", "m/44'/60'/0'/0/0", "BIP-32 path of the first account")
			f.Uint32Var(&count, "count", 1, "how many accounts, from the path on")
			f.BoolVar(&withPassphrase, "passphrase", false, "the list has a passphrase (asked for)")
		}), long("Take accounts of a BIP-39 word list into a wallet. The wallet's password comes first, then the words, then the passphrase.\n\n"+secretsHelp),
			example("borcli wallet import-mnemonic treasury --count 3")),
		command("new-mnemonic", "Print a new BIP-39 word list (anyone who has it has its accounts)", func(ctx context.Context, a *app, _ []string) error {
			noDumps()
			var words string
			if err := a.askWallet(ctx, &words, "wallet_newMnemonic"); err != nil {
				return err
			}
			return a.show(map[string]string{"words": words}, func(w io.Writer) { fmt.Fprintln(w, words) })
		}),
	}
}

func importKey(ctx context.Context, a *app, args []string) error {
	password, err := a.walletPassword(ctx, args[0])
	if err != nil {
		return err
	}
	noDumps()
	var text string
	if a.Key != "" {
		if text, err = a.rawKey(ctx); err != nil {
			return err
		}
	} else if text, err = a.password(ctx, "key in hexadecimal", ""); err != nil {
		return err
	}
	var addr common.Address
	if err := a.askWallet(ctx, &addr, "wallet_importKey", args[0], password, strings.TrimSpace(text)); err != nil {
		return err
	}
	return a.showAddresses(addr)
}

func importKeystore(ctx context.Context, a *app, name, file, filePassword string) error {
	text, err := secretFile(file, maxKeyFileBytes)
	if err != nil {
		return fail(exitWallet, "keystore: %v", err)
	}
	password, err := a.walletPassword(ctx, name)
	if err != nil {
		return err
	}
	own, err := a.password(ctx, "password of "+file, filePassword)
	if err != nil {
		return err
	}
	var addr common.Address
	if err := a.askWallet(ctx, &addr, "wallet_importKeystore", name, password, string(text), own); err != nil {
		return err
	}
	return a.showAddresses(addr)
}

func importMnemonic(ctx context.Context, a *app, name, path string, count uint32, withPassphrase bool) error {
	password, err := a.walletPassword(ctx, name)
	if err != nil {
		return err
	}
	words, err := a.password(ctx, "words", "")
	if err != nil {
		return err
	}
	passphrase := ""
	if withPassphrase {
		if passphrase, err = a.password(ctx, "passphrase of the words", ""); err != nil {
			return err
		}
	}
	var list []common.Address
	if err := a.askWallet(ctx, &list, "wallet_importMnemonic", name, password, words, passphrase, path, count); err != nil {
		return err
	}
	return a.showAddresses(list...)
}

func secretCommands() []*cobra.Command {
	var form, out, newFile string
	return []*cobra.Command{
		command("export NAME ADDRESS", "Write an account's key to a new file", func(ctx context.Context, a *app, args []string) error {
			return walletExport(ctx, a, args[0], args[1], form, out)
		}, arguments(2, 2), flags(func(f *pflag.FlagSet) {
			f.StringVar(&form, "form", "keystore", "keystore (encrypted with the wallet's password) or key (plain hexadecimal)")
			f.StringVar(&out, "out", "", "file to make (mode 0600); - prints it")
		}), long("Write an account's key to a new file of mode 0600: as a geth keystore, encrypted with the wallet's password, or plain."),
			example("borcli wallet export treasury 0x52908400098527886E0F7030069857D2E4169EE7 --out backup.json")),
		command("change-password NAME", "Change a wallet's password", func(ctx context.Context, a *app, args []string) error {
			password, err := a.walletPassword(ctx, args[0])
			if err != nil {
				return err
			}
			changed, err := a.newPassword(ctx, "new password", newFile)
			if err != nil {
				return err
			}
			return a.walletDo(ctx, "changed the password of wallet "+args[0], "wallet_changePassword", args[0], password, changed)
		}, arguments(1, 1), flags(func(f *pflag.FlagSet) {
			f.StringVar(&newFile, "new-password-file", "", "file with the new password (mode 0600)")
		}), long("Change a wallet's password. The old one comes first.\n\n"+secretsHelp)),
		command("delete NAME", "Delete a wallet with all its keys", func(ctx context.Context, a *app, args []string) error {
			if err := a.confirm(ctx, false, "Wallet %s and all its keys will be gone for good.", args[0]); err != nil {
				return err
			}
			password, err := a.walletPassword(ctx, args[0])
			if err != nil {
				return err
			}
			return a.walletDo(ctx, "deleted wallet "+args[0], "wallet_delete", args[0], password)
		}, arguments(1, 1), example("borcli wallet delete old --yes --password-file old.password")),
	}
}

func walletExport(ctx context.Context, a *app, name, address, form, out string) error {
	addr, err := parseAddress(address)
	if err != nil {
		return fail(exitUsage, "ADDRESS: %v", err)
	}
	if form != "keystore" && form != "key" {
		return fail(exitUsage, "--form is %q: use keystore or key", form)
	}
	if out == "" {
		return fail(exitUsage, "name the file to make by --out (- prints the key)")
	}
	noDumps()
	password, err := a.walletPassword(ctx, name)
	if err != nil {
		return err
	}
	var text string
	if err := a.askWallet(ctx, &text, "wallet_export", name, password, addr, form); err != nil {
		return err
	}
	if out == "-" {
		_, err := fmt.Fprintln(a.out, text)
		return err
	}
	if err := vfs.CreateFileAt(out, []byte(text+"\n")); err != nil {
		return fail(exitOther, "%s cannot be written: %v", out, err)
	}
	return a.show(map[string]any{"address": addr, "file": out}, func(w io.Writer) { lines(w, pair{"address", addr.Hex()}, pair{"file", out}) })
}

func signCommands() []*cobra.Command {
	return []*cobra.Command{
		command("sign-message TEXT", "Sign a message (EIP-191)", func(ctx context.Context, a *app, args []string) error {
			who, err := a.walletSigner(ctx)
			if err != nil {
				return err
			}
			text := []byte(args[0])
			if strings.HasPrefix(args[0], "0x") {
				if text, err = parseBytes(args[0]); err != nil {
					return fail(exitUsage, "TEXT: %v", err)
				}
			}
			return a.signature(ctx, who, "personal_sign", hexutil.Bytes(text), who)
		}, arguments(1, 1), long("Sign a message as wallets do (EIP-191, personal_sign). A text that begins with 0x is taken as bytes."),
			example("borcli wallet sign-message 'I own this account' --from 0x52908400098527886E0F7030069857D2E4169EE7")),
		command("sign-typed FILE", "Sign typed data (EIP-712)", func(ctx context.Context, a *app, args []string) error {
			b, err := readFile(args[0], maxFileBytes)
			if err != nil {
				return fail(exitUsage, "typed data: %v", err)
			}
			if !json.Valid(b) {
				return fail(exitUsage, "%s is not valid JSON: give typed data as EIP-712 writes it", args[0])
			}
			who, err := a.walletSigner(ctx)
			if err != nil {
				return err
			}
			return a.signature(ctx, who, "eth_signTypedData_v4", who, json.RawMessage(b))
		}, arguments(1, 1), example("borcli wallet sign-typed permit.json")),
	}
}

// walletSigner is the wallet's account that signs a message.
func (a *app) walletSigner(ctx context.Context) (common.Address, error) {
	if a.Key != "" {
		return common.Address{}, fail(exitUsage, "messages are signed by the wallet alone: leave --key out, or take the key into a wallet with borcli wallet import-key")
	}
	who, err := a.account(ctx)
	if err != nil {
		return common.Address{}, err
	}
	return who.address(), nil
}

func (a *app) signature(ctx context.Context, who common.Address, method string, args ...any) error {
	var sig hexutil.Bytes
	if err := a.askWallet(ctx, &sig, method, args...); err != nil {
		return err
	}
	return a.show(map[string]any{"account": who, "signature": sig}, func(w io.Writer) { fmt.Fprintln(w, hexutil.Encode(sig)) })
}
