package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
)

func upgradeCommand() *cobra.Command {
	var file, name string
	var height uint64
	var force bool
	return group("upgrade", "Upgrades of the chain's rules",
		command("propose", "Propose an upgrade that the genesis file describes", func(ctx context.Context, a *app, _ []string) error {
			return a.proposeUpgrade(ctx, file, name, force)
		}, sends, flags(func(f *pflag.FlagSet) {
			f.StringVar(&file, "genesis", "", "the network's genesis file with the upgrade in its list of upgrades")
			f.StringVar(&name, "name", "", "name of the upgrade; may be left out if the file has only one that is still to come")
			f.BoolVar(&force, "force", false, "propose even though the node that is asked does not know the upgrade")
		}), long("Propose an upgrade that the genesis file describes. Give the same file to every operator first: a node without\n"+
			"the description stops before the upgrade's height and says so. An upgrade that the node here does not know is\n"+
			"refused: a vote for a digest that nobody can describe would end the chain at its height."),
			example("borcli upgrade propose --genesis genesis.json --name osaka-2")),
		command("withdraw", "Propose to call off an upgrade that was decided", func(ctx context.Context, a *app, _ []string) error {
			return a.withdrawUpgrade(ctx, name, height)
		}, sends, flags(func(f *pflag.FlagSet) {
			f.StringVar(&name, "name", "", "name of the upgrade, as borcli upgrade list shows it")
			f.Uint64Var(&height, "height", 0, "block from which it would count, as borcli upgrade list shows it")
		}), long("Propose to call off an upgrade that was decided. The last approval must come before the last block below the height."),
			example("borcli upgrade withdraw --name osaka-2 --height 120000")),
		command("list", "List the upgrades that were decided, and those that the node knows", func(ctx context.Context, a *app, _ []string) error {
			r, err := a.rules(ctx)
			if err != nil {
				return err
			}
			return a.show(r.upgrades(), func(w io.Writer) { upgradesTable(w, r) })
		}))
}

func (a *app) proposeUpgrade(ctx context.Context, file, name string, force bool) error {
	if file == "" {
		return fail(exitUsage, "name the genesis file that describes the upgrade with --genesis")
	}
	gen, err := genesis.Load(file)
	if err != nil {
		return fail(exitUsage, "%w", err)
	}
	if err := a.sameChain(ctx, gen); err != nil {
		return err
	}
	at, err := a.newest(ctx)
	if err != nil {
		return err
	}
	u, err := findUpgrade(gen, name, uint64(at.Number))
	if err != nil {
		return err
	}
	if u.Height <= uint64(at.Number)+contracts.ChangeNotice {
		return fail(exitUsage, "upgrade %s begins at block %d, which is too near: the chain is at block %d and a change has %d blocks of notice from the last approval on; write a greater height into %s and give it to every operator", u.Name, u.Height, uint64(at.Number), contracts.ChangeNotice, file)
	}
	r, err := a.rules(ctx)
	if err != nil {
		return err
	}
	knows := func(k chainUpgrade) bool { return k.Digest == u.Digest() }
	if !force && !slices.ContainsFunc(r.Known, knows) {
		return fail(exitRefused, "the node does not know upgrade %s (%s): put %s into its folder and start it again, and so every other node, then propose; or use --force", u.Name, u.Digest(), file)
	}
	data, err := contracts.UpgradeCall(u.Height, u.Name, u.Digest())
	if err != nil {
		return err
	}
	return a.propose(ctx, fmt.Sprintf("upgrade %s (%s) from block %d on", u.Name, u.Digest(), u.Height), data)
}

// withdrawUpgrade proposes the zero digest for an upgrade that is decided and still to come.
func (a *app) withdrawUpgrade(ctx context.Context, name string, height uint64) error {
	if name == "" || height == 0 {
		return fail(exitUsage, "name the upgrade with --name and --height; borcli upgrade list shows both")
	}
	r, err := a.rules(ctx)
	if err != nil {
		return err
	}
	list := r.upgrades()
	same := func(c chainChange) bool { return c.Name == name && uint64(c.Number) == height }
	i := slices.IndexFunc(list.Pending, same)
	switch {
	case slices.ContainsFunc(list.Applied, same) || i >= 0 && height <= uint64(r.Number):
		return fail(exitRefused, "upgrade %s is in force from block %d on, which is the next block or lies behind: it is too late to withdraw it", quoteOdd(name), height)
	case i < 0:
		return fail(exitNotFound, "no upgrade %s was decided for block %d; borcli upgrade list shows all", quoteOdd(name), height)
	case list.Pending[i].Digest == nil || *list.Pending[i].Digest == common.Hash{}:
		return fail(exitRefused, "upgrade %s of block %d was withdrawn before", quoteOdd(name), height)
	}
	data, err := contracts.UpgradeCall(height, name, common.Hash{})
	if err != nil {
		return err
	}
	return a.propose(ctx, fmt.Sprintf("withdraw upgrade %s from block %d on", quoteOdd(name), height), data)
}

// findUpgrade finds an upgrade of the file by name, or the only one above a height.
func findUpgrade(gen *genesis.Genesis, name string, head uint64) (*genesis.Upgrade, error) {
	var fit []genesis.Upgrade
	var names []string
	for _, u := range gen.Upgrades() {
		if u.Withdrawn != (common.Hash{}) {
			continue
		}
		names = append(names, u.Name)
		if u.Name == name || name == "" && u.Height > head {
			fit = append(fit, u)
		}
	}
	switch {
	case len(names) == 0:
		return nil, fail(exitUsage, "the genesis file describes no upgrade: add it to its list of upgrades")
	case len(fit) == 1:
		return &fit[0], nil
	case name == "":
		return nil, fail(exitUsage, "the genesis file describes %d upgrades that are still to come: name one of %v with --name", len(fit), names)
	case len(fit) > 1:
		return nil, fail(exitUsage, "the genesis file describes %d upgrades named %s: give them different names", len(fit), name)
	}
	return nil, fail(exitUsage, "the genesis file describes no upgrade %q%s", name, didYouMean(name, names))
}

// sameChain makes sure that a genesis file is that of the node's chain.
func (a *app) sameChain(ctx context.Context, gen *genesis.Genesis) error {
	zero, err := gen.Block()
	if err != nil {
		return err
	}
	hash, err := a.genesisHash(ctx)
	if err != nil {
		return err
	}
	if hash != zero.Hash() {
		return fail(exitUsage, "the genesis file makes block 0 %s, the node's is %s: it is the file of another network", zero.Hash(), hash)
	}
	return nil
}

// upgradeList is what is shown of upgrades.
type upgradeList struct {
	Applied []chainChange  `json:"applied"`
	Pending []chainChange  `json:"pending"`
	Known   []chainUpgrade `json:"known"`
}

func (r *chainRules) upgrades() upgradeList {
	only := func(list []chainChange) []chainChange {
		return slices.DeleteFunc(slices.Clone(list), func(c chainChange) bool { return c.Kind != "upgrade" })
	}
	return upgradeList{only(r.Applied), only(r.Pending), r.Known}
}

func upgradesTable(w io.Writer, r *chainRules) {
	u := r.upgrades()
	if len(u.Applied)+len(u.Pending) == 0 {
		fmt.Fprintln(w, "no upgrade was decided")
	} else {
		changesTable(w, r, "upgrade")
	}
	if len(u.Known) == 0 {
		return
	}
	fmt.Fprintln(w, "\ndescribed in the node's genesis file:")
	rows := make([][]string, len(u.Known))
	for i, k := range u.Known {
		rows[i] = []string{fmt.Sprint(uint64(k.Number)), k.Name, k.Digest.Hex()}
	}
	columns(w, []string{"FROM BLOCK", "NAME", "DIGEST"}, rows)
}
