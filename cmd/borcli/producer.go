package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
)

func producerCommand() *cobra.Command {
	return group("producer", "Candidates for the schedule: keys, stake, votes, jail",
		append(producerReading(), append(producerStaking(), producerStanding()...)...)...)
}

func producerReading() []*cobra.Command {
	return []*cobra.Command{
		command("list", "List the candidates, those with a seat first", func(ctx context.Context, a *app, _ []string) error {
			return a.listProducers(ctx)
		}),
		command("show [ACCOUNT]", "Show an account's candidacy, stake and votes; your own without an argument", func(ctx context.Context, a *app, args []string) error {
			who, err := a.accountArgument(ctx, args)
			if err != nil {
				return err
			}
			return a.showProducer(ctx, who)
		}, arguments(0, 1)),
		command("info", "Show whether the signer of the producer's own node votes, and if not why, since when and whom it waits for", func(ctx context.Context, a *app, _ []string) error {
			return a.signerInfo(ctx)
		}, example("borcli producer info --node node3/bornode.ipc")),
		command("accept", "Let a producer that may have forgotten what it signed vote again though one answer is missing", func(ctx context.Context, a *app, _ []string) error {
			return a.acceptAnswers(ctx)
		}, long("Let a producer that may have forgotten what it signed vote again though one answer is missing.\n"+
			"\n"+
			"A producer that was restored from an old copy, or lost its vote log, votes again when the others' votes have\n"+
			"justified a block above its floor, or when a quorum of others has answered its start. If one of these is lost\n"+
			"for good, this is the operator's word that it is: the answer that is missing might have told of a vote that the\n"+
			"producer now contradicts. The word is kept in the vote log and counts for this floor alone. It is given on\n"+
			"the node's Unix socket."),
			example("borcli producer accept --node node3/bornode.ipc")),
		group("evidence", "Proofs that a producer broke a rule",
			command("submit FILE", "Submit evidence, which slashes the producer it convicts", func(ctx context.Context, a *app, args []string) error {
				return a.submitEvidence(ctx, args[0])
			}, arguments(1, 1), sends, long(evidenceHelp)),
			command("show FILE", "Show what a file of evidence says, and check its signatures", func(ctx context.Context, a *app, args []string) error {
				return a.showEvidence(ctx, args[0])
			}, arguments(1, 1)),
			findCommand()),
	}
}

func findCommand() *cobra.Command {
	var slot uint64
	var others []string
	var out string
	return command("find", "Compare the blocks of one slot at several nodes, and write evidence if one producer made two", func(ctx context.Context, a *app, _ []string) error {
		return a.findEvidence(ctx, slot, others, out)
	}, flags(func(f *pflag.FlagSet) {
		f.Uint64Var(&slot, "slot", 0, "the slot")
		f.StringSliceVar(&others, "other", nil, "JSON-RPC of another node to compare with; may be repeated")
		f.StringVar(&out, "out", "", "file to write; it must not exist")
	}), long("Compare the blocks of one slot at several nodes. Nodes keep only the branch that wins, so this finds two blocks of\n"+
		"a slot only while the nodes disagree (a network cut in two). Producers' nodes submit what they witness by\n"+
		"themselves."),
		example("borcli producer evidence find --slot 81234 --other http://10.0.0.7:8545 --out evidence.json"))
}

func producerStaking() []*cobra.Command {
	var keys, stake string
	var all, pay bool
	return []*cobra.Command{
		command("register", "Register the keys of a producer's node, so that it can be elected", func(ctx context.Context, a *app, _ []string) error {
			return a.register(ctx, keys, stake)
		}, sends, flags(func(f *pflag.FlagSet) {
			f.StringVar(&keys, "keys", "", "the JSON that bornode init --producer prints; not needed if --key is the node's keys/producer.json")
			f.StringVar(&stake, "stake", "", "deposit this stake first, if the account has less than the minimum")
		}), long("Register the keys of a producer's node, so that it can be elected. The account needs a member node with the role\n"+
			"producer (borcli member add) and the minimum stake. It signs by --key or by the wallet."),
			example("borcli producer register --key node5/keys/producer.json --stake 1000ether", "borcli producer register --keys public.json --from 0x5290...")),
		command("stake AMOUNT", "Deposit stake", func(ctx context.Context, a *app, args []string) error {
			return a.deposit(ctx, args[0])
		}, arguments(1, 1), sends),
		command("vote ACCOUNT AMOUNT", "Give a part of your free stake as votes to a candidate", func(ctx context.Context, a *app, args []string) error {
			return a.vote(ctx, args[0], args[1])
		}, arguments(2, 2), sends, example("borcli producer vote 0x5290... 500ether")),
		command("unvote ACCOUNT [AMOUNT]", "Take votes back from a candidate", func(ctx context.Context, a *app, args []string) error {
			return a.unvote(ctx, args, all)
		}, arguments(1, 2), sends, flags(func(f *pflag.FlagSet) { f.BoolVar(&all, "all", false, "all votes given to it") })),
		command("withdraw [AMOUNT]", "Ask for stake back, and have it paid after the delay", func(ctx context.Context, a *app, args []string) error {
			return a.withdraw(ctx, args, all, pay)
		}, arguments(0, 1), sends, flags(func(f *pflag.FlagSet) {
			f.BoolVar(&all, "all", false, "all free stake")
			f.BoolVar(&pay, "pay", false, "pay what was asked for, once its delay is over")
		}), long("Ask for free stake back. After the delay, withdraw --pay pays it. A second request before that starts the delay\n"+
			"anew for both. Stake that is given as votes has to be taken back first (unvote); a candidate keeps the minimum\n"+
			"stake until it resigns."),
			example("borcli producer withdraw 250ether", "borcli producer withdraw --pay")),
	}
}

func producerStanding() []*cobra.Command {
	plain := func(use, short, what, next string, data []byte, check func(*producerInfo) error) *cobra.Command {
		return command(use, short, func(ctx context.Context, a *app, _ []string) error {
			return a.plainDuty(ctx, what, next, data, check)
		}, sends)
	}
	return []*cobra.Command{
		plain("resign", "Give the candidacy up; the seat goes at the next change of schedule", "resign as a candidate",
			"the seat goes at the next change of schedule; then take your votes back (borcli producer unvote) and withdraw the stake", producersABI.PackResign(), canResign),
		plain("rejoin", "Take a candidacy up again with the key registered before", "take the candidacy up again",
			"without a seat the node has to report in each epoch, which a running producer's node does by itself", producersABI.PackRejoin(), canRejoin),
		plain("unjail", "Leave jail after the delay; a seat has to be won again", "leave jail",
			"a seat has to be won again: the node reports as a standby, and the next epoch's end elects", producersABI.PackUnjail(), canUnjail),
		plain("report", "Show as a candidate without a seat that the node is alive, once in an epoch", "report as a standby",
			"it counts for this epoch", producersABI.PackReportStandby(), canReport),
		command("prune ACCOUNT", "Free the place of a candidate who resigned or is guilty and has no seat", func(ctx context.Context, a *app, args []string) error {
			who, err := parseAddress(args[0])
			if err != nil {
				return fail(exitUsage, "ACCOUNT: %v", err)
			}
			s, err := a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Data: producersABI.PackPrune(who), What: "free the place of candidate " + who.Hex()})
			if err != nil {
				return err
			}
			return a.tell(s, "")
		}, arguments(1, 1), sends),
	}
}
