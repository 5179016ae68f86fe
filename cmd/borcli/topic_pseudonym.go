package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/token"

	"github.com/bornode/bornode/internal/vfs"
)

// rightNames are what --rights takes.
var rightNames = map[string]uint8{"read": token.Read, "write": token.Write, "describe": token.Describe}

func topicPseudonymCommand() *cobra.Command {
	var out string
	var rights []string
	var life time.Duration
	rightsFlag := func(f *pflag.FlagSet) {
		f.StringSliceVar(&rights, "rights", []string{"read", "write", "describe"}, "of read, write and describe")
	}
	return group("pseudonym", "Work with a topic under a name that only its auditor can tell",
		command("request TOPIC", "Make a key for a pseudonym, and the request for its certificate", func(ctx context.Context, a *app, args []string) error {
			return a.requestPseudonym(ctx, args[0], out, rights)
		}, arguments(1, 1), flags(func(f *pflag.FlagSet) {
			f.StringVar(&out, "out", "", "new file for the pseudonym's key")
			rightsFlag(f)
		}), long("Make a key for a pseudonym, and the request for its certificate, signed by the account. The request tells the auditor\n"+
			"whose the pseudonym is: send it to him alone. Use a new key for every topic and every epoch of its pseudonyms."),
			example("borcli topic pseudonym request acme.votes --out nym.key --rights write")),
		command("admit TOPIC FILE", "Answer a request as the topic's auditor: check it and sign the certificate", func(ctx context.Context, a *app, args []string) error {
			return a.admitPseudonym(ctx, args[0], args[1], rights, life)
		}, arguments(2, 2), flags(func(f *pflag.FlagSet) {
			f.DurationVar(&life, "life", 30*24*time.Hour, "how long the certificate is good for")
			rightsFlag(f)
		}), long("Answer a request (FILE) as the topic's auditor: check it against the chain and sign the certificate. Whether the account\n"+
			"may take part is your decision. Keep the request: it is the only record of whose the pseudonym is."),
			example("borcli topic pseudonym admit acme.votes request.txt --rights write")),
	)
}

func parseRights(names []string) (r uint8, err error) {
	for _, n := range names {
		bit, ok := rightNames[n]
		if !ok {
			return 0, fail(exitUsage, "--rights has %q: use read, write and describe", n)
		}
		r |= bit
	}
	return r, nil
}

func (a *app) requestPseudonym(ctx context.Context, topic, out string, names []string) error {
	rights, err := parseRights(names)
	if err != nil {
		return err
	}
	if out == "" {
		return fail(exitUsage, "name a new file for the pseudonym's key by --out")
	}
	q := new(brokerFlags)
	c, _, err := q.admin(ctx, a)
	if err != nil {
		return err
	}
	defer c.Close()
	noDumps()
	key, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	defer wipe(key)
	r, err := c.RequestPseudonym(ctx, topic, client.KeySigner(key), rights)
	if err != nil {
		return explainClient(err)
	}
	raw := crypto.FromECDSA(key)
	defer clear(raw)
	if err := vfs.CreateFileAt(out, []byte(hex.EncodeToString(raw)+"\n")); err != nil {
		return fail(exitUsage, "--out: %v", err)
	}
	a.note("%s holds the key of pseudonym %s; send the request to the topic's auditor alone", out, r.Pseudonym)
	return a.show(map[string]any{"pseudonym": r.Pseudonym, "epoch": r.Epoch, "request": r.Text()}, func(w io.Writer) { fmt.Fprintln(w, r.Text()) })
}

func (a *app) admitPseudonym(ctx context.Context, topic, path string, names []string, life time.Duration) error {
	rights, err := parseRights(names)
	if err != nil {
		return err
	}
	text, err := readSmall(path)
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	r, err := client.ParseRequest(text)
	if err != nil {
		return fail(exitUsage, "%s: %v", path, err)
	}
	q := new(brokerFlags)
	c, _, err := q.admin(ctx, a)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := a.confirm(ctx, true, "Admit account %s under pseudonym %s to topic %s?", r.Account, r.Pseudonym, topic); err != nil {
		return err
	}
	cert, err := c.Admit(ctx, topic, r, rights, time.Now().Add(life))
	if errors.Is(err, client.ErrRequest) {
		return fail(exitVerify, "%v", err)
	}
	if err != nil {
		return explainClient(err)
	}
	return a.show(map[string]any{"account": r.Account, "pseudonym": r.Pseudonym, "certificate": cert.String()}, func(w io.Writer) { fmt.Fprintln(w, cert.String()) })
}
