package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// recentBlocks is how far back events are looked for unless told.
const recentBlocks = 10_000

// eventJSON is a log in words.
type eventJSON struct {
	Block       hexutil.Uint64 `json:"block"`
	Transaction common.Hash    `json:"transaction"`
	Index       hexutil.Uint64 `json:"logIndex"`
	Event       string         `json:"event"` // its signature; empty: not in the ABI
	Values      []output       `json:"values"`
	Topics      []common.Hash  `json:"topics"`
	Data        hexutil.Bytes  `json:"data"`
}

func contractEvents() *cobra.Command {
	var src abiSource
	var from, to string
	return command("events ADDRESS [EVENT]", "Print the events of a contract", func(ctx context.Context, a *app, args []string) error {
		address, err := parseAddress(args[0])
		if err != nil {
			return fail(exitUsage, "ADDRESS: %v", err)
		}
		x, err := src.load(address)
		if err != nil {
			return err
		}
		if x == nil {
			x = &abi.ABI{}
		}
		query := map[string]any{"address": address}
		if len(args) == 2 {
			e, err := findEvent(x, args[1])
			if err != nil {
				return fail(exitUsage, "%v", err)
			}
			query["topics"] = []any{e.ID}
		}
		if query["fromBlock"], query["toBlock"], err = a.blockRange(ctx, from, to); err != nil {
			return err
		}
		var logs []types.Log
		if err := a.ask(ctx, &logs, "eth_getLogs", query); err != nil {
			return err
		}
		list := make([]eventJSON, len(logs))
		for i := range logs {
			list[i] = eventOf(x, &logs[i])
		}
		return a.show(list, func(w io.Writer) {
			if len(list) == 0 {
				fmt.Fprintf(w, "no events from block %s to %s\n", blockText(query["fromBlock"]), blockText(query["toBlock"]))
				return
			}
			printEvents(w, list)
		})
	}, arguments(1, 2), flags(src.flags), flags(func(f *pflag.FlagSet) {
		f.StringVar(&from, "from-block", "", "first block: a height or a tag (default 10,000 before the last)")
		f.StringVar(&to, "to-block", "latest", "last block: a height or a tag")
	}), example("borcli contract events 0x5FbDB2315678afecb367f032d93F642f64180aa3 NumberSet --abi Counter.json --from-block 0",
		"borcli contract events producers"))
}

// blockRange is first and last block of a query.
func (a *app) blockRange(ctx context.Context, from, to string) (first, last string, err error) {
	if last, err = a.blockArgument(ctx, to); err != nil {
		return "", "", inFlag("--to-block", err)
	}
	if from != "" {
		if first, err = a.blockArgument(ctx, from); err != nil {
			return "", "", inFlag("--from-block", err)
		}
		return first, last, nil
	}
	head, err := a.blockAt(ctx, last)
	if err != nil {
		return "", "", err
	}
	n := uint64(head.Number)
	return hexutil.EncodeUint64(n - min(n, recentBlocks)), last, nil
}

// blockText is a block of a query for people.
func blockText(v any) string {
	s := fmt.Sprint(v)
	if n, err := hexutil.DecodeUint64(s); err == nil {
		return fmt.Sprint(n)
	}
	return s
}

// findEvent finds an event by name, or by signature where there are several of one name.
func findEvent(x *abi.ABI, name string) (*abi.Event, error) {
	wanted := canonical(strings.ReplaceAll(name, " ", ""))
	var named []abi.Event
	var known []string
	for _, e := range x.Events {
		if e.Sig == wanted {
			return &e, nil
		}
		if e.RawName == wanted {
			named = append(named, e)
		}
		known = append(known, e.RawName)
	}
	slices.Sort(known)
	switch {
	case len(known) == 0:
		return nil, fmt.Errorf("what %s is is not known: give an ABI that has the event by --abi", name)
	case len(named) == 0:
		return nil, fmt.Errorf("the ABI has no event %s%s", name, didYouMean(name, slices.Compact(known)))
	case len(named) > 1:
		sigs := make([]string, len(named))
		for i, e := range named {
			sigs[i] = e.Sig
		}
		slices.Sort(sigs)
		return nil, fmt.Errorf("there are several events %s: name one by its signature: %s", name, strings.Join(sigs, ", "))
	}
	return &named[0], nil
}

// eventOf puts a log into words; what does not fit the ABI stays bytes.
func eventOf(x *abi.ABI, l *types.Log) eventJSON {
	out := eventJSON{Block: hexutil.Uint64(l.BlockNumber), Transaction: l.TxHash, Index: hexutil.Uint64(l.Index), Topics: l.Topics, Data: l.Data, Values: []output{}}
	if len(l.Topics) == 0 {
		return out
	}
	e, err := x.EventByID(l.Topics[0])
	if err != nil {
		return out
	}
	values, ok := eventValues(e, l)
	if !ok {
		return out
	}
	out.Event, out.Values = e.Sig, values
	return out
}

func eventValues(e *abi.Event, l *types.Log) ([]output, bool) {
	plain, err := outputsOf(e.Inputs.NonIndexed(), l.Data)
	if err != nil {
		return nil, false
	}
	topics := l.Topics[1:]
	values := make([]output, 0, len(e.Inputs))
	for _, in := range e.Inputs {
		if !in.Indexed {
			values, plain = append(values, plain[0]), plain[1:]
			continue
		}
		if len(topics) == 0 {
			return nil, false
		}
		o := output{in.Name, in.Type.String(), topics[0], topics[0].Hex() + " (hash)"}
		switch in.Type.T {
		case abi.IntTy, abi.UintTy, abi.BoolTy, abi.AddressTy, abi.FixedBytesTy, abi.FunctionTy:
			got, err := outputsOf(abi.Arguments{{Name: in.Name, Type: in.Type}}, topics[0][:])
			if err != nil {
				return nil, false
			}
			o = got[0]
		}
		values, topics = append(values, o), topics[1:]
	}
	return values, len(topics) == 0
}

func printEvents(w io.Writer, list []eventJSON) {
	rows := make([][]string, len(list))
	for i, e := range list {
		parts := make([]string, len(e.Values))
		for j, v := range e.Values {
			parts[j] = strings.TrimSpace(v.Name + " " + v.text)
		}
		name, _, _ := strings.Cut(e.Event, "(")
		text := strings.Join(parts, ", ")
		if name == "" {
			name, text = "?", fmt.Sprintf("%d topics, %s; name the ABI by --abi", len(e.Topics), plural(len(e.Data), "byte"))
		}
		rows[i] = []string{fmt.Sprint(uint64(e.Block)), e.Transaction.Hex(), name, text}
	}
	columns(w, []string{"BLOCK", "TRANSACTION", "EVENT", "VALUES"}, rows)
}
