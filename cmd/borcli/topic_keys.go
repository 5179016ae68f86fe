package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/seal"
)

func topicKeyCommands() []*cobra.Command {
	var suite string
	return []*cobra.Command{
		command("keys TOPIC [ACCOUNT...]", "Show an encrypted topic's key epoch, and whether accounts were given its key", func(ctx context.Context, a *app, args []string) error {
			return a.topicKeys(ctx, args[0], args[1:])
		}, arguments(1, -1), long("Show an encrypted topic's key epoch, and whether accounts were given its key: ready means that the account has published\n"+
			"a sealing key, so that the topic's owner can give it one. Without accounts it tells of the one that signs (--from, --key).")),
		command("register FILE", "Publish the sealing key of the account, so that it can be given keys of encrypted topics", func(ctx context.Context, a *app, args []string) error {
			return a.publishSealKey(ctx, args[0], suite)
		}, arguments(1, 1), sends, flags(func(f *pflag.FlagSet) {
			f.StringVar(&suite, "suite", "", "of a new key: x25519, or hybrid against quantum computers (the usual one)")
		}), long("Publish the sealing key of the account, so that it can be given keys of encrypted topics. FILE holds the private\n"+
			"part; if there is none yet, it is made, of mode 0600. Keep it: what was sealed to it cannot be opened without.")),
	}
}

// keyState is what an account has of an encrypted topic.
type keyState struct {
	Account common.Address `json:"account"`
	Ready   bool           `json:"ready"`  // has published a sealing key
	Sealed  bool           `json:"sealed"` // was given the key of the newest epoch
}

func (a *app) topicKeys(ctx context.Context, name string, accounts []string) error {
	at, t, err := a.topicOf(ctx, name)
	if err != nil {
		return err
	}
	if !t.Encrypted {
		return fail(exitRefused, "topic %s is not encrypted: everyone who may read it can", t.Name)
	}
	var who []common.Address
	for _, text := range accounts {
		x, err := parseAddress(text)
		if err != nil {
			return fail(exitUsage, "ACCOUNT: %v", err)
		}
		who = append(who, x)
	}
	if len(who) == 0 {
		x, err := a.sender(ctx)
		if err != nil {
			return err
		}
		who = append(who, x)
	}
	keys, sealed := make([][]byte, len(who)), make([][]byte, len(who))
	var list []read
	for i, x := range who {
		list = append(list, ofTopics(&keys[i], contracts.SealKeyOfCall(x), contracts.DecodeSealKeyOf),
			ofTopics(&sealed[i], contracts.SealedKeyCall(t.ID, t.KeyEpoch, x), contracts.DecodeSealedKey))
	}
	if err := a.readAll(ctx, at, list...); err != nil {
		return err
	}
	states := make([]keyState, len(who))
	for i, x := range who {
		states[i] = keyState{x, len(keys[i]) > 0, len(sealed[i]) > 0}
	}
	return a.show(map[string]any{"topic": t.Name, "keyEpoch": t.KeyEpoch, "accounts": states}, func(w io.Writer) {
		lines(w, pair{"topic", t.Name}, pair{"key epoch", epochText(t.KeyEpoch)})
		rows := make([][]string, len(states))
		for i, s := range states {
			rows[i] = []string{s.Account.Hex(), yesNo(s.Ready), yesNo(s.Sealed)}
		}
		columns(w, []string{"ACCOUNT", "READY", "HAS THE KEY"}, rows)
	})
}

func (a *app) publishSealKey(ctx context.Context, path, suite string) error {
	from, err := a.sender(ctx)
	if err != nil {
		return err
	}
	id, err := seal.LoadIdentity(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if id, err = newSealIdentity(path, suite); err != nil {
			return err
		}
		a.note("%s holds a new sealing key; keep it", path)
	case err != nil:
		return fail(exitUsage, "%v", err)
	case suite != "":
		return fail(exitUsage, "%s holds a key already: --suite is for new ones", path)
	}
	at, err := a.newest(ctx)
	if err != nil {
		return err
	}
	var have []byte
	if err := a.readAll(ctx, at, ofTopics(&have, contracts.SealKeyOfCall(from), contracts.DecodeSealKeyOf)); err != nil {
		return err
	}
	if string(have) == string(id.Public()) {
		return fail(exitRefused, "%s has published the sealing key of %s already", from, path)
	}
	data, err := contracts.SealKeyCall(id.Public())
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	what := "publish the sealing key of " + path
	if len(have) > 0 {
		what = "replace the published sealing key by that of " + path
	}
	return a.topicCall(ctx, what, data, "%s", fmt.Sprintf("owners of encrypted topics can give %s keys now; borcli topic keys TOPIC shows whether they did", from))
}

func newSealIdentity(path, suite string) (*seal.Identity, error) {
	s := seal.Hybrid
	if suite != "" {
		var err error
		if s, err = seal.ParseSuite(suite); err != nil {
			return nil, fail(exitUsage, "--suite: %v", err)
		}
	}
	id, err := seal.NewIdentity(s)
	if err != nil {
		return nil, err
	}
	if err := id.Save(path); err != nil {
		return nil, fail(exitOther, "%v", err)
	}
	return id, nil
}
