package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/token"
)

func topicTokenCommand() *cobra.Command {
	q := new(brokerFlags)
	var life time.Duration
	var admin bool
	return command("token", "Make a token that brokers take instead of a password", func(ctx context.Context, a *app, _ []string) error {
		return a.makeToken(ctx, q, life, admin)
	}, flags(func(f *pflag.FlagSet) {
		f.DurationVar(&life, "life", time.Hour, "how long it is good for, at most 24h")
		f.BoolVar(&admin, "admin", false, "let brokers pass on administrative calls (create topics, change access) in the account's name")
		f.StringVar(&q.certificate, "certificate", "", "file with the certificate of a pseudonym; --key is the pseudonym's key then")
	}), long("Make a token that brokers take instead of a password. With SASL/PLAIN the user name is the account and the password\n"+
		"the token; with SASL/OAUTHBEARER it is the bearer token. Whoever has it may use it until it ends: keep it secret."),
		example("borcli topic token --life 8h"))
}

func (a *app) makeToken(ctx context.Context, q *brokerFlags, life time.Duration, admin bool) error {
	if life <= 0 || life > token.MaxLife {
		return fail(exitUsage, "--life is %v: use up to %v", life, token.MaxLife)
	}
	cfg := client.Config{Node: a.Node, Mode: client.Off}
	if err := q.identity(ctx, a, &cfg); err != nil {
		return err
	}
	id, err := a.chainID(ctx)
	if err != nil {
		return err
	}
	scope := token.Data
	if admin {
		scope |= token.Admin
	}
	t := token.New(id.Uint64(), cfg.Account.Address(), time.Now(), life, scope)
	t.Certificate = cfg.Certificate
	sig, err := cfg.Account.SignMessage(ctx, t.Message())
	if err != nil {
		return err
	}
	if err := t.SetSignature(sig); err != nil {
		return fail(exitWallet, "%v", err)
	}
	if err := t.Verify(time.Now(), id.Uint64()); err != nil {
		return fail(exitUsage, "%v", err)
	}
	return a.show(map[string]any{"account": t.Account, "expires": t.ExpiresAt().UTC(), "token": t.String()}, func(w io.Writer) {
		fmt.Fprintln(w, t.String())
	})
}
