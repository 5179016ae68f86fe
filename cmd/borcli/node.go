package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/spf13/cobra"
)

type peerView struct {
	ID                string            `json:"id"`
	Address           string            `json:"address"`
	Provider          string            `json:"provider"`
	Reason            string            `json:"reason,omitempty"`
	Since             uint64            `json:"providerSince"`
	Incoming          bool              `json:"incoming"`
	Height            uint64            `json:"height"`
	LIB               uint64            `json:"lib"`
	RTTMicros         uint64            `json:"rttMicros"`
	ClockOffsetMicros int64             `json:"clockOffsetMicros"` // the peer's clock minus the node's
	Counters          map[string]uint64 `json:"counters,omitempty"`
	Channel           map[string]uint64 `json:"channel,omitempty"`
}

func peersCommand() *cobra.Command {
	return command("peers", "Show the node's peers and what carries their links", func(ctx context.Context, a *app, _ []string) error {
		var list []peerView
		if err := a.ask(ctx, &list, "bor_peers"); err != nil {
			return err
		}
		sort.Slice(list, func(i, j int) bool { return list[i].ID < list[j].ID })
		return a.show(list, func(w io.Writer) {
			if len(list) == 0 {
				fmt.Fprintln(w, "no peers: check p2p.peers of the node, and that it is a member (borcli member list)")
				return
			}
			rows := make([][]string, len(list))
			for i, p := range list {
				direction := "out"
				if p.Incoming {
					direction = "in"
				}
				rows[i] = []string{p.ID, p.Address, direction, p.Provider, fmt.Sprint(p.Height), fmt.Sprint(p.LIB),
					(time.Duration(min(p.RTTMicros, 1<<40)) * time.Microsecond).String(), //nolint:gosec // bounded
					(time.Duration(max(-1<<40, min(p.ClockOffsetMicros, 1<<40))) * time.Microsecond).String(), p.Reason}
			}
			columns(w, []string{"PEER", "ADDRESS", "DIR", "PROVIDER", "HEAD", "FINAL", "ROUND TRIP", "CLOCK", "WHY"}, rows)
		})
	}, long("Show the node's peers: the provider that carries each link (tcp, shm, rdma, rdma-rxe) and why, heights, round trip, and how far the peer's own clock is from the node's."),
		example("borcli peers", "borcli peers --json"))
}

type syncView struct {
	Syncing bool   `json:"syncing"`
	Mode    string `json:"mode"`
	State   string `json:"state"`
	Start   uint64 `json:"startingBlock"`
	Current uint64 `json:"currentBlock"`
	Target  uint64 `json:"highestBlock"`
}

func (s *syncView) text() string {
	if !s.Syncing {
		return "in sync"
	}
	return fmt.Sprintf("syncing, block %d of %d", s.Current, s.Target)
}

func syncCommand() *cobra.Command {
	return command("sync", "Show whether the node is in sync", func(ctx context.Context, a *app, _ []string) error {
		var s syncView
		if err := a.ask(ctx, &s, "bor_syncStatus"); err != nil {
			return err
		}
		return a.show(s, func(w io.Writer) {
			lines(w, pair{"status", s.text()}, pair{"mode", s.Mode}, pair{"doing", s.State}, pair{"started at", fmt.Sprint(s.Start)},
				pair{"block", fmt.Sprint(s.Current)}, pair{"of", fmt.Sprint(s.Target)})
		})
	}, example("borcli sync", "borcli sync --json"))
}

// scrubView is what the node knows of damage on its disk.
type scrubView struct {
	On      bool       `json:"on"`
	Damaged int        `json:"damagedBlocks"`
	Round   *roundView `json:"round"`
	Last    *roundView `json:"lastRound"`
}

type roundView struct {
	Began    int64  `json:"began"` // Unix seconds
	Ended    int64  `json:"ended,omitempty"`
	Bytes    int64  `json:"bytes"`
	Problems uint64 `json:"problems"`
	Failures uint64 `json:"failures"`
}

func (s *scrubView) text() string {
	var text string
	switch last := s.Last; {
	case !s.On:
		text = "not read in the background"
	case last == nil:
		text = "not read in full yet"
	default:
		text = fmt.Sprintf("read in full until %s, %s found", clock(uint64(last.Ended)), plural(int(last.Problems), "problem")) //nolint:gosec // a count
		if last.Failures > 0 {
			text += ", a part could not be read: see the node's log"
		}
	}
	if s.Damaged > 0 {
		text += fmt.Sprintf("; %s to be fetched again", plural(s.Damaged, "damaged block"))
	}
	return text
}

// statusView is one screen about a node.
type statusView struct {
	Node     string         `json:"node"`
	Version  string         `json:"version"`
	ChainID  string         `json:"chainId"`
	Genesis  string         `json:"genesis"`
	Finality *finalityView  `json:"finality,omitempty"`
	Sync     *syncView      `json:"sync,omitempty"`
	Seats    []seatView     `json:"producers,omitempty"`
	Peers    int            `json:"peers"`
	Carried  map[string]int `json:"providers"`
	Pool     map[string]any `json:"pool,omitempty"`
	Scrub    *scrubView     `json:"scrub,omitempty"`
	Alarms   []alarmView    `json:"alarms,omitempty"`
	BaseFee  string         `json:"baseFee"` // wei
	GasLimit hexutil.Uint64 `json:"gasLimit"`

	head    *blockView
	missing []string
}

// alarmView is one entry of bor_alarms.
type alarmView struct {
	Kind  string `json:"kind"`
	Since uint64 `json:"since"` // Unix seconds
	Text  string `json:"text"`
	File  string `json:"file,omitempty"`
}

func statusCommand() *cobra.Command {
	return command("status", "Show node and chain on one screen", func(ctx context.Context, a *app, _ []string) error {
		s, err := a.status(ctx)
		if err != nil {
			return err
		}
		return a.show(s, s.table)
	}, example("borcli status", "borcli status --node http://10.0.0.7:8545 --json"))
}

func (a *app) status(ctx context.Context) (*statusView, error) {
	s := &statusView{Node: redacted(a.Node), Carried: map[string]int{}}
	id, err := a.chainID(ctx)
	if err != nil {
		return nil, err
	}
	s.ChainID = id.String()
	if s.head, err = a.blockAt(ctx, "latest"); err != nil {
		return nil, err
	}
	zero, err := a.blockAt(ctx, "earliest")
	if err != nil {
		return nil, err
	}
	s.Genesis, s.GasLimit, s.BaseFee = zero.Hash.Hex(), s.head.GasLimit, decimal(s.head.BaseFee.ToInt())
	var peers []peerView
	for _, part := range []struct {
		method string
		into   any
	}{{"web3_clientVersion", &s.Version}, {"bor_finality", &s.Finality}, {"bor_syncStatus", &s.Sync}, {"bor_producers", &s.Seats}, {"bor_peers", &peers}, {"txpool_status", &s.Pool}, {"bor_scrub", &s.Scrub}, {"bor_alarms", &s.Alarms}} {
		if err := a.ask(ctx, part.into, part.method); err != nil {
			var e *exitError
			if !errors.As(err, &e) || e.code != exitRefused {
				return nil, err
			}
			s.missing = append(s.missing, part.method)
		}
	}
	for _, p := range peers {
		s.Carried[p.Provider]++
	}
	s.Peers = len(peers)
	return s, nil
}

func (s *statusView) table(w io.Writer) {
	rows := []pair{{"node", s.Node}, {"version", s.Version}, {"chain", s.ChainID}, {"block 0", s.Genesis},
		{"head", fmt.Sprintf("%d, %s, %s", uint64(s.head.Number), clock(uint64(s.head.Timestamp)), plural(len(s.head.Transactions), "transaction"))}}
	if f := s.Finality; f != nil {
		text := fmt.Sprintf("%d, %s behind the head", uint64(f.Final.Number), plural(int(f.FinalLag), "block")) //nolint:gosec // a count
		if f.Stalled {
			text += ", STALLED: too few producers vote"
		}
		rows = append(rows, pair{"final", text})
		if f.First > 0 {
			rows = append(rows, pair{"kept", fmt.Sprintf("blocks from %d on: older ones were pruned (store.keep_blocks, store.keep_days)", uint64(f.First))})
		}
	}
	if s.Sync != nil {
		rows = append(rows, pair{"sync", s.Sync.text()})
	}
	for _, x := range s.Alarms {
		rows = append(rows, pair{"ALARM", fmt.Sprintf("%s, since %s: %s", x.Kind, clock(x.Since), x.Text)})
	}
	rows = append(rows, pair{"producers", fmt.Sprint(len(s.Seats))})
	carried := make([]string, 0, len(s.Carried))
	for p, n := range s.Carried {
		carried = append(carried, fmt.Sprintf("%d by %s", n, p))
	}
	sort.Strings(carried)
	text := fmt.Sprint(s.Peers)
	if len(carried) > 0 {
		text += " (" + strings.Join(carried, ", ") + ")"
	}
	rows = append(rows, pair{"peers", text})
	if s.Pool != nil {
		rows = append(rows, pair{"waiting", fmt.Sprintf("%s ready, %s for an earlier nonce", number(s.Pool["pending"]), number(s.Pool["queued"]))})
	}
	if s.Scrub != nil {
		rows = append(rows, pair{"disk", s.Scrub.text()})
	}
	rows = append(rows, pair{"base fee", gwei(s.head.BaseFee.ToInt())}, pair{"gas limit", fmt.Sprint(uint64(s.GasLimit))},
		pair{"not offered", strings.Join(s.missing, ", ")})
	lines(w, rows...)
}

// number writes a quantity of an answer in decimal.
func number(v any) string {
	s, _ := v.(string)
	n, err := hexutil.DecodeUint64(s)
	if err != nil {
		return "?"
	}
	return fmt.Sprint(n)
}

func completionCommand() *cobra.Command {
	return command("completion SHELL", "Print the completion script of bash, zsh or fish", func(_ context.Context, a *app, args []string) error {
		root := a.root
		switch args[0] {
		case "bash":
			return root.GenBashCompletionV2(a.out, true)
		case "zsh":
			return root.GenZshCompletion(a.out)
		case "fish":
			return root.GenFishCompletion(a.out, true)
		}
		return fail(exitUsage, "there is no completion for %q: use bash, zsh or fish", args[0])
	}, arguments(1, 1), func(c *cobra.Command) { c.ValidArgs = []string{"bash", "zsh", "fish"} },
		example("borcli completion bash > /etc/bash_completion.d/borcli", "borcli completion zsh > \"${fpath[1]}/_borcli\"", "borcli completion fish > ~/.config/fish/completions/borcli.fish"))
}
