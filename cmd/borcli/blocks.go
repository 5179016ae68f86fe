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
)

// blockView is what is shown of a block; raw is the node's whole answer.
type blockView struct {
	Number       hexutil.Uint64    `json:"number"`
	Hash         common.Hash       `json:"hash"`
	Parent       common.Hash       `json:"parentHash"`
	Timestamp    hexutil.Uint64    `json:"timestamp"`
	Miner        common.Address    `json:"miner"`
	GasUsed      hexutil.Uint64    `json:"gasUsed"`
	GasLimit     hexutil.Uint64    `json:"gasLimit"`
	BaseFee      *hexutil.Big      `json:"baseFeePerGas"`
	Size         hexutil.Uint64    `json:"size"`
	StateRoot    common.Hash       `json:"stateRoot"`
	Transactions []json.RawMessage `json:"transactions"`

	raw json.RawMessage
}

// blockAt reads a block by height, tag or hash; one that is not there is an error (exitNotFound).
func (a *app) blockAt(ctx context.Context, which string) (*blockView, error) {
	method, arg := "eth_getBlockByNumber", which
	if h, err := parseHash(which); err == nil {
		method, arg = "eth_getBlockByHash", h.Hex()
	} else if arg, err = a.blockArgument(ctx, which); err != nil {
		return nil, err
	}
	var raw json.RawMessage
	if err := a.ask(ctx, &raw, method, arg, false); err != nil {
		return nil, err
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, fail(exitNotFound, "the node has no block %s: borcli finality shows the newest one", which)
	}
	v := &blockView{raw: raw}
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fail(exitOther, "the node's answer is no block: %v", err)
	}
	return v, nil
}

// finality is how far the chain is.
type finalityView struct {
	Head          pointView      `json:"head"`
	Safe          pointView      `json:"safe"`
	Final         pointView      `json:"final"`
	First         hexutil.Uint64 `json:"first"` // lowest block kept beside block 0
	SafeLag       hexutil.Uint64 `json:"safeLag"`
	FinalLag      hexutil.Uint64 `json:"finalLag"`
	FinalLagSlots hexutil.Uint64 `json:"finalLagSlots"`
	Slot          hexutil.Uint64 `json:"slot"`
	Stalled       bool           `json:"stalled"`
	Silence       string         `json:"silence,omitempty"`
}

type pointView struct {
	Number hexutil.Uint64 `json:"number"`
	Slot   hexutil.Uint64 `json:"slot"`
	Hash   common.Hash    `json:"hash"`
}

// standing is how firm a block of a height is.
func (f *finalityView) standing(height uint64) string {
	switch {
	case height <= uint64(f.Final.Number):
		return "final"
	case height <= uint64(f.Safe.Number):
		return "safe"
	}
	return "reversible"
}

type recordView struct {
	Slot     hexutil.Uint64 `json:"slot"`
	Producer common.Address `json:"producer"`
	QC       *certView      `json:"qc"`
	FC       *certView      `json:"fc"`
}

type certView struct {
	Target common.Hash  `json:"targetHash"`
	Votes  hexutil.Uint `json:"votes"`
}

func blockCommand() *cobra.Command {
	show := command("show [HEIGHT|HASH|TAG]", "Show a block (default: the newest)", showBlock, arguments(0, 1),
		long("Show a block by its height, its hash or one of the tags latest, safe, finalized and earliest. A number below 0 counts\n"+
			"back from the newest block: -1 is the one before it. The word show can be left out before a block."),
		example("borcli block show", "borcli block show finalized", "borcli block show 1200 --json", "borcli block -1"))
	cmd := group("block", "Read blocks", show)
	noCommand := cmd.RunE
	cmd.RunE = func(c *cobra.Command, args []string) error { // a block alone is to be shown
		if len(args) == 1 {
			_, hash := parseHash(args[0])
			if hash == nil || namesBlock(args[0]) || strings.HasPrefix(args[0], "-") {
				return show.RunE(c, args)
			}
		}
		return noCommand(c, args)
	}
	return cmd
}

func showBlock(ctx context.Context, a *app, args []string) error {
	which := "latest"
	if len(args) > 0 {
		which = args[0]
	}
	b, err := a.blockAt(ctx, which)
	if err != nil {
		return err
	}
	var f finalityView
	if err := a.ask(ctx, &f, "bor_finality"); err != nil {
		return err
	}
	var rec recordView
	if err := a.ask(ctx, &rec, "bor_getRecord", map[string]any{"blockHash": b.Hash}); err != nil {
		return err
	}
	standing := f.standing(uint64(b.Number))
	return a.show(map[string]any{"block": b.raw, "record": rec, "standing": standing}, func(w io.Writer) {
		lines(w, pair{"block", fmt.Sprint(uint64(b.Number))}, pair{"hash", b.Hash.Hex()}, pair{"parent", b.Parent.Hex()},
			pair{"standing", standing}, pair{"time", clock(uint64(b.Timestamp))}, pair{"slot", fmt.Sprint(uint64(rec.Slot))},
			pair{"producer", b.Miner.Hex()}, pair{"transactions", fmt.Sprint(len(b.Transactions))},
			pair{"gas", fmt.Sprintf("%d of %d", uint64(b.GasUsed), uint64(b.GasLimit))}, pair{"base fee", gwei(b.BaseFee.ToInt())},
			pair{"size", plural(int(b.Size), "byte")}, pair{"state root", b.StateRoot.Hex()}, //nolint:gosec // a size
			pair{"carries", certificates(rec)})
	})
}

func certificates(r recordView) string {
	var out []string
	if r.QC != nil {
		out = append(out, fmt.Sprintf("QC of %d votes for %s", uint64(r.QC.Votes), r.QC.Target.TerminalString()))
	}
	if r.FC != nil {
		out = append(out, fmt.Sprintf("FC of %d votes for %s", uint64(r.FC.Votes), r.FC.Target.TerminalString()))
	}
	return strings.Join(out, ", ")
}

func clock(unix uint64) string {
	if unix > 1<<40 {
		return fmt.Sprint(unix)
	}
	return time.Unix(int64(unix), 0).UTC().Format("2006-01-02 15:04:05 MST") //nolint:gosec // bounded
}

func finalityCommand() *cobra.Command {
	return command("finality", "Show head, safe and final block, and how far apart they are", func(ctx context.Context, a *app, _ []string) error {
		var f finalityView
		if err := a.ask(ctx, &f, "bor_finality"); err != nil {
			return err
		}
		return a.show(f, func(w io.Writer) { printFinality(w, &f) })
	}, long("Show head, safe and final block. A safe block has a quorum of prevotes; a final one can never be undone."),
		example("borcli finality", "borcli finality --json"))
}

func printFinality(w io.Writer, f *finalityView) {
	row := func(name string, p pointView, lag string) []string {
		return []string{name, fmt.Sprint(uint64(p.Number)), fmt.Sprint(uint64(p.Slot)), lag, p.Hash.Hex()}
	}
	columns(w, []string{"", "HEIGHT", "SLOT", "LAG", "HASH"}, [][]string{
		row("head", f.Head, "-"), row("safe", f.Safe, fmt.Sprint(uint64(f.SafeLag))), row("final", f.Final, fmt.Sprint(uint64(f.FinalLag)))})
	fmt.Fprintf(w, "slot now %d, final block %s behind\n", uint64(f.Slot), plural(int(f.FinalLagSlots), "slot")) //nolint:gosec // a count
	if f.Stalled {
		fmt.Fprintln(w, "finality is stalled: too few producers vote; see borcli peers and the producers' logs")
	}
	if f.Silence != "" {
		fmt.Fprintln(w, "the node's signer casts no vote: "+f.Silence)
	}
}

type seatView struct {
	Seat    hexutil.Uint   `json:"seat"`
	Account common.Address `json:"account"`
	Key     hexutil.Bytes  `json:"key"`
}

type turnView struct {
	First   hexutil.Uint64 `json:"firstSlot"`
	Last    hexutil.Uint64 `json:"lastSlot"`
	Start   hexutil.Uint64 `json:"startMillis"`
	Account common.Address `json:"account"`
}

func scheduleCommand() *cobra.Command {
	var turns uint64
	return command("schedule", "Show who produces, and whose turns come next", func(ctx context.Context, a *app, _ []string) error {
		var seats []seatView
		if err := a.ask(ctx, &seats, "bor_producers"); err != nil {
			return err
		}
		var next []turnView
		n := hexutil.Uint64(turns)
		if turns == 0 {
			n = hexutil.Uint64(len(seats))
		}
		if err := a.ask(ctx, &next, "bor_schedule", nil, n); err != nil {
			return err
		}
		return a.show(map[string]any{"producers": seats, "turns": next}, func(w io.Writer) {
			rows := make([][]string, len(seats))
			for i, s := range seats {
				rows[i] = []string{fmt.Sprint(uint64(s.Seat)), s.Account.Hex(), hexutil.Encode(s.Key)}
			}
			columns(w, []string{"SEAT", "PRODUCER", "VOTE KEY"}, rows)
			rows = rows[:0]
			for _, t := range next {
				start := time.UnixMilli(int64(min(t.Start, 1<<50))).UTC().Format("15:04:05.000") //nolint:gosec // bounded
				rows = append(rows, []string{start, fmt.Sprintf("%d-%d", uint64(t.First), uint64(t.Last)), t.Account.Hex()})
			}
			fmt.Fprintln(w)
			columns(w, []string{"TURN (UTC)", "SLOTS", "PRODUCER"}, rows)
		})
	}, flags(func(f *pflag.FlagSet) { f.Uint64Var(&turns, "turns", 0, "how many turns; 0: one of each producer") }),
		example("borcli schedule", "borcli schedule --turns 20 --json"))
}
