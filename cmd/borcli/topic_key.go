package main

import (
	"context"
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/pubsub/client"
)

func topicKeyCommand() *cobra.Command {
	q := new(brokerFlags)
	var past bool
	seals := func(f *pflag.FlagSet) {
		f.StringVar(&q.sealKey, "seal-key", "", "file with the sealing key of the account that signs (borcli topic register)")
	}
	return group("key", "Keys of encrypted topics: who may read and write",
		command("next TOPIC [ACCOUNT...]", "Start the next epoch of an encrypted topic, with a new key for these accounts alone", func(ctx context.Context, a *app, args []string) error {
			return a.nextEpoch(ctx, q, args[0], args[1:])
		}, arguments(1, -1), flags(seals), long("Start the next epoch of an encrypted topic, with a new key for these accounts and the one that signs alone. Others can\n"+
			"read what was written before, if they had its key, and nothing from now on. It waits until that is final."),
			example("borcli topic key next acme.salaries 0x52908400098527886E0F7030069857D2E4169EE7 --seal-key seal.json")),
		command("give TOPIC ACCOUNT...", "Give accounts the key of an encrypted topic's present epoch", func(ctx context.Context, a *app, args []string) error {
			return a.giveKey(ctx, q, args[0], args[1:], past)
		}, arguments(2, -1), flags(seals), flags(func(f *pflag.FlagSet) {
			f.BoolVar(&past, "past", false, "give them the keys of all earlier epochs too")
		}), example("borcli topic key give acme.salaries 0x52908400098527886E0F7030069857D2E4169EE7 --seal-key seal.json")))
}

func parseAccounts(list []string) (out []common.Address, err error) {
	for _, text := range list {
		x, err := parseAddress(text)
		if err != nil {
			return nil, fail(exitUsage, "ACCOUNT: %v", err)
		}
		out = append(out, x)
	}
	return out, nil
}

// admin opens a client for transactions alone: it believes the node, as every sending command does.
func (q *brokerFlags) admin(ctx context.Context, a *app) (*client.Client, *client.Admin, error) {
	cfg := client.Config{Node: a.Node, Mode: client.Off}
	if err := q.identity(ctx, a, &cfg); err != nil {
		return nil, nil, err
	}
	if _, err := a.chainID(ctx); err != nil {
		return nil, nil, err
	}
	c, err := client.Open(ctx, cfg)
	if err != nil {
		return nil, nil, explainClient(err)
	}
	x, err := c.Admin()
	if err != nil {
		c.Close()
		return nil, nil, explainClient(err)
	}
	return c, x, nil
}

func (a *app) nextEpoch(ctx context.Context, q *brokerFlags, topic string, list []string) error {
	readers, err := parseAccounts(list)
	if err != nil {
		return err
	}
	c, x, err := q.admin(ctx, a)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := a.confirm(ctx, true, "Start a new key epoch of topic %s for %s beside %s?", topic, plural(len(readers), "account"), c.Account()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	epoch, err := x.NewEpoch(ctx, topic, readers...)
	if err != nil {
		return explainClient(err)
	}
	return a.show(map[string]any{"topic": topic, "epoch": epoch, "readers": len(readers) + 1}, func(w io.Writer) {
		fmt.Fprintf(w, "topic %s is in key epoch %d\n", topic, epoch)
	})
}

func (a *app) giveKey(ctx context.Context, q *brokerFlags, topic string, list []string, past bool) error {
	readers, err := parseAccounts(list)
	if err != nil {
		return err
	}
	if q.sealKey == "" {
		return fail(exitUsage, "the key is opened first: name your sealing key by --seal-key")
	}
	c, x, err := q.admin(ctx, a)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := a.confirm(ctx, true, "Give %s the key of topic %s?", plural(len(readers), "account"), topic); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	if err := x.AddReaders(ctx, topic, past, readers...); err != nil {
		return explainClient(err)
	}
	return a.show(map[string]any{"topic": topic, "readers": readers}, func(w io.Writer) {
		fmt.Fprintf(w, "%s can open topic %s now\n", plural(len(readers), "account"), topic)
	})
}
