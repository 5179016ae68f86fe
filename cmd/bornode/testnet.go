package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/internal/usage"
	"github.com/bornode/bornode/testnet"
	"github.com/bornode/bornode/testnet/load"
	"github.com/bornode/bornode/testnet/proxy"
)

func testnetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "testnet", Short: "Run a local network of real processes"}
	cmd.PersistentFlags().String("dir", ".testnet", "folder of the network")
	cmd.AddCommand(testnetUp(), testnetStart(), testnetStatus(), testnetAdd(), testnetLoad(), testnetLogs(), testnetPartition(),
		onNode("kill", "Kill a node as a power cut would (SIGKILL)", (*testnet.Network).Kill),
		onNode("stop", "Stop a node in order (SIGTERM)", (*testnet.Network).Stop),
		testnetRestart(),
		onNetwork("heal", "End all partitions and delays", func(cmd *cobra.Command, n *testnet.Network) error {
			return n.Heal(cmd.Context())
		}),
		testnetDown(),
		&cobra.Command{Use: "proxy", Hidden: true, Args: usage.RefuseArguments, RunE: func(cmd *cobra.Command, _ []string) error {
			dir, _ := cmd.Flags().GetString("dir")
			return testnet.RunProxy(cmd.Context(), dir)
		}})
	return cmd
}

// onNetwork is a command on the network in --dir.
func onNetwork(use, short string, run func(*cobra.Command, *testnet.Network) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: usage.RefuseArguments, RunE: func(cmd *cobra.Command, _ []string) error {
		dir, _ := cmd.Flags().GetString("dir")
		n, err := testnet.Open(dir)
		if err != nil {
			return err
		}
		return run(cmd, n)
	}}
}

func onNode(use, short string, run func(*testnet.Network, context.Context, int) error) *cobra.Command {
	var node int
	cmd := onNetwork(use, short, func(cmd *cobra.Command, n *testnet.Network) error { return run(n, cmd.Context(), node) })
	nodeFlag(cmd, &node)
	return cmd
}

func nodeFlag(cmd *cobra.Command, node *int) {
	cmd.Flags().IntVar(node, "node", -1, "index of the node")
	_ = cmd.MarkFlagRequired("node")
}

func testnetUp() *cobra.Command {
	s := testnet.DefaultSpec()
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make keys and genesis, start the nodes, return when blocks become final",
		Args:  usage.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Dir, _ = cmd.Flags().GetString("dir")
			n, err := testnet.Up(cmd.Context(), s)
			if err != nil {
				return err
			}
			return n.Describe(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Producers, "nodes", s.Producers, "producers")
	f.IntVar(&s.Observers, "observers", s.Observers, "nodes that follow without producing")
	f.IntVar(&s.Brokers, "brokers", testnet.DefaultBrokers, "nodes that serve topics to Kafka clients, the first ones (-1: all, at most 3)")
	f.IntVar(&s.BasePort, "base-port", s.BasePort, "first port; each node takes five (0: choose)")
	f.DurationVar(&s.Slot, "slot", s.Slot, "slot length")
	f.IntVar(&s.Turn, "turn", s.Turn, "consecutive slots of a producer")
	f.IntVar(&s.EpochBlocks, "epoch-blocks", s.EpochBlocks, "blocks of an epoch")
	f.IntVar(&s.MaxReversible, "max-reversible", s.MaxReversible, "blocks above the last final one after which production slows")
	f.BoolVar(&s.Direct, "direct", false, "connect the nodes without the proxy that partitions need")
	f.StringVar(&s.SyncMode, "sync", s.SyncMode, "full or certified")
	f.StringArrayVar(&s.Set, "set", nil, "a setting of every node, key=value (repeatable); bornode.toml of each is written again at every start, so what is changed there is lost")
	return cmd
}

func testnetRestart() *cobra.Command {
	var node int
	cmd := onNetwork("restart", "Start a node (again) and wait until it answers", func(cmd *cobra.Command, n *testnet.Network) error {
		if err := tellProgram(cmd, n); err != nil {
			return err
		}
		return n.Restart(cmd.Context(), node)
	})
	nodeFlag(cmd, &node)
	return cmd
}

// tellProgram says which program is about to be started.
func tellProgram(cmd *cobra.Command, n *testnet.Network) error {
	said, err := n.Program()
	if err == nil {
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), "bornode: "+said)
	}
	return err
}

func testnetStart() *cobra.Command {
	return onNetwork("start", "Start the nodes of an existing network that do not run", func(cmd *cobra.Command, n *testnet.Network) error {
		if err := tellProgram(cmd, n); err != nil {
			return err
		}
		if err := n.Start(cmd.Context()); err != nil {
			return err
		}
		return n.Describe(cmd.OutOrStdout())
	})
}

func testnetStatus() *cobra.Command {
	var asJSON bool
	cmd := onNetwork("status", "Show head, finality, peers and CPU of every node", func(cmd *cobra.Command, n *testnet.Network) error {
		list := n.Status(cmd.Context())
		if asJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		return testnet.PrintStatus(cmd.OutOrStdout(), list)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func testnetAdd() *cobra.Command {
	var o testnet.AddOptions
	var asJSON bool
	cmd := onNetwork("add", "Admit and start a new node; return when it is in sync and say what that cost", func(cmd *cobra.Command, n *testnet.Network) error {
		if err := tellProgram(cmd, n); err != nil {
			return err
		}
		j, err := n.Add(cmd.Context(), o)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), j)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "node %d is in sync: %.2f s, %d blocks, %d bytes (%.1f MB/s, %.0f blocks/s), CPU %.2f s here and %.2f s on the servers, sync %s over %s\n",
			j.Node, j.Seconds, j.Blocks, j.Bytes, j.MBPerSecond, j.BlocksPerSec, j.JoinerCPU, j.ServersCPU, j.Mode, j.Provider)
		if err != nil || !o.Producer {
			return err
		}
		then := "it is no candidate yet: deposit stake, register its key and vote for it with `borcli producer`"
		if o.Register {
			then = "it is a candidate and votes for itself; it takes a seat after the next election if one is free"
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "account %s; %s\n", j.Account, then)
		return err
	})
	cmd.Flags().StringVar(&o.SyncMode, "sync", "certified", "full or certified")
	cmd.Flags().BoolVar(&o.Producer, "producer", false, "with the keys and the role of a producer")
	cmd.Flags().BoolVar(&o.Register, "register", false, "and registered: with the minimum stake of a funded account, voting for itself")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func testnetLoad() *cobra.Command {
	o := testnet.LoadOptions{Follow: -1}
	var kind string
	var seconds float64
	var asJSON bool
	cmd := onNetwork("load", "Offer transactions at a rate; report what was committed, and latencies", func(cmd *cobra.Command, n *testnet.Network) error {
		o.Kind, o.Duration = load.Kind(kind), time.Duration(seconds*float64(time.Second))
		r, err := n.Load(cmd.Context(), o)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), r)
		}
		return printLoad(cmd.OutOrStdout(), r)
	})
	f := cmd.Flags()
	f.IntVar(&o.Rate, "rate", 100, "transactions per second, all nodes together")
	f.Float64Var(&seconds, "seconds", 10, "how long")
	f.StringVar(&kind, "kind", "transfer", "transfer, payload or contract")
	f.IntVar(&o.Size, "size", 1024, "bytes of call data (payload)")
	f.IntSliceVar(&o.Nodes, "nodes", nil, "send to these nodes only")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printLoad(w io.Writer, r *load.Result) error {
	_, err := fmt.Fprintf(w, "%s: offered %d (%.0f/s), refused %d, final %d (%.0f/s), missing %d\n"+
		"included: p50 %.0f ms, p99 %.0f ms, max %.0f ms after it was due\nfinal:    p50 %.0f ms, p99 %.0f ms, max %.0f ms after it was due\n"+
		"this command used %.0f us of processor time per transaction (they were signed before)\n",
		r.Kind, r.Offered, r.OfferedTPS, r.Refused, r.Final, r.FinalTPS, r.Missing,
		r.Inclusion.P50, r.Inclusion.P99, r.Inclusion.Max, r.Finality.P50, r.Finality.P99, r.Finality.Max, r.LoaderCPU)
	if err == nil && r.FirstError != "" {
		_, err = fmt.Fprintf(w, "first refusal: %s\n", r.FirstError)
	}
	return err
}

func testnetLogs() *cobra.Command {
	var node, lines int
	cmd := onNetwork("logs", "Print the end of a node's log", func(cmd *cobra.Command, n *testnet.Network) error {
		x, err := n.Node(node)
		if err != nil {
			return err
		}
		text, err := testnet.LastLines(x.LogFile(), lines)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	})
	cmd.Flags().IntVar(&node, "node", 0, "index of the node")
	cmd.Flags().IntVar(&lines, "lines", 50, "how many lines")
	return cmd
}

func testnetPartition() *cobra.Command {
	var groups, mode string
	var delay time.Duration
	cmd := onNetwork("partition", "Let only nodes of one group talk to each other", func(cmd *cobra.Command, n *testnet.Network) error {
		g, err := testnet.ParseGroups(groups)
		if err != nil {
			return err
		}
		return n.Partition(cmd.Context(), g, proxy.Rule{Mode: proxy.Mode(mode), Delay: delay})
	})
	cmd.Long = cmd.Short + ".\n\nThe proxy between the nodes holds up their TCP connections. A link that moved to shared memory notices only when\n" +
		"its connection has been silent for p2p.tcp.link.idle_timeout (10 s), and no delay at all; start the network with\n" +
		"--set rdma.mode=off to have faults at once, or cut with --mode reset."
	f := cmd.Flags()
	f.StringVar(&groups, "groups", "", "for example 0,1/2,3")
	f.StringVar(&mode, "mode", string(proxy.BlackHole), "between the groups: black-hole, half-open, reset, or pass with --delay")
	f.DurationVar(&delay, "delay", 0, "added to every chunk, one way")
	_ = cmd.MarkFlagRequired("groups")
	return cmd
}

func testnetDown() *cobra.Command {
	var remove bool
	cmd := onNetwork("down", "Stop all processes of the network", func(cmd *cobra.Command, n *testnet.Network) error {
		if err := n.Down(cmd.Context()); err != nil || !remove {
			return err
		}
		return n.Delete()
	})
	cmd.Flags().BoolVar(&remove, "delete", false, "delete the folder too")
	return cmd
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
