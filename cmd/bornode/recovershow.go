package main

import (
	"fmt"
	"io"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"

	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/recovery"
)

func recoverShowCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "show FILE [OTHER]",
		Short: "Print a recovery in words; of two, what the pair proves",
		Long: `Print what a recovery says, and who signed it. Of two it says how they stand to each other: two with one predecessor contradict
each other, and whoever signed both broke the rule of recovery keys, which the pair proves to anybody. The exit code is 7 then.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			gen, err := genesisIfNamed(path)
			if err != nil {
				return err
			}
			list := make([]*recovery.Signed, len(args))
			for i, name := range args {
				list[i] = new(recovery.Signed)
				if err := readDocument(name, list[i]); err != nil {
					return err
				}
				describe(cmd.OutOrStdout(), list[i], gen)
			}
			if len(list) == 1 {
				return nil
			}
			return describePair(cmd.OutOrStdout(), list[0], list[1])
		},
	}
	cmd.Flags().StringVar(&path, "genesis", "", "the network's genesis file: says whose signatures count, and when slots are")
	return cmd
}

func genesisIfNamed(path string) (*genesis.Genesis, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // none was named
	}
	return genesis.Load(path)
}

const timeForm = "2006-01-02 15:04:05 MST"

// describe prints a recovery in words; gen may be nil.
func describe(w io.Writer, s *recovery.Signed, gen *genesis.Genesis) {
	x := &s.Statement
	fmt.Fprintf(w, "recovery %s\n  of chain %s, domain %d", s.Hash(), x.Genesis, x.Number)
	if x.Number > 1 {
		fmt.Fprintf(w, ", after recovery %s", x.Previous)
	}
	fmt.Fprintf(w, "\n  goes on from %s with state root %s\n", x.Base.Block, x.Base.StateRoot)
	if fc := x.Base.FC; fc != nil {
		fmt.Fprintf(w, "  the newest known certificate of a final block is of slot %d %s\n", fc.Target.Slot, fc.Target.Hash)
	}
	fmt.Fprintf(w, "  first slot %d", x.FirstSlot)
	if gen != nil {
		p := gen.Parameters()
		fmt.Fprintf(w, ", which begins at %s", p.SlotStart(x.FirstSlot).UTC().Format(timeForm))
	}
	if x.MayUndo {
		fmt.Fprintln(w, "\n  FINAL BLOCKS MAY BE UNDONE: a quorum or more of a schedule is lost, and what only they know as final is given up")
	} else {
		fmt.Fprintln(w, "\n  no final block is undone if the producers held lost are fewer than a quorum and the survivors reported all that they hold")
	}
	fmt.Fprintf(w, "  %d producers go on:\n", len(x.Seats))
	for _, p := range x.Seats {
		fmt.Fprintf(w, "    %s votes with %x\n", p.Account, p.VoteKey)
	}
	fmt.Fprintf(w, "  %d producers are held lost:\n", len(x.Lost))
	for _, a := range x.Lost {
		fmt.Fprintf(w, "    %s\n", a)
	}
	fmt.Fprintf(w, "  reason: %s\n  prepared %s\n", x.Reason, time.Unix(int64(x.Time), 0).UTC().Format(timeForm)) //nolint:gosec // for the eye
	describeSigners(w, s, gen)
}

func describeSigners(w io.Writer, s *recovery.Signed, gen *genesis.Genesis) {
	var keys []common.Address
	threshold := 0
	if gen != nil {
		keys, threshold = gen.RecoveryKeys()
	}
	counted := make(map[common.Address]bool)
	for _, a := range s.SignersOf(keys) {
		counted[a] = true
	}
	fmt.Fprintf(w, "  %d signatures:\n", len(s.Signatures))
	for _, a := range s.Signers() {
		note := ""
		if gen != nil && !counted[a] {
			note = " (no recovery key of the genesis file)"
		}
		fmt.Fprintf(w, "    %s%s\n", a, note)
	}
	switch n := len(counted); {
	case gen == nil:
	case n >= threshold:
		fmt.Fprintf(w, "  %d of %d recovery keys signed, %d have to: it can be applied\n", n, len(keys), threshold)
	default:
		fmt.Fprintf(w, "  %d of %d recovery keys signed, %d have to: %d are missing\n", n, len(keys), threshold, threshold-n)
	}
}

// describePair says what two recoveries beside each other prove.
func describePair(w io.Writer, a, b *recovery.Signed) error {
	r, both := recovery.Relate(a, b)
	switch r {
	case recovery.Same:
		fmt.Fprintln(w, "both are the same recovery; bornode recover apply takes several copies and counts all of their signatures")
	case recovery.Follows:
		fmt.Fprintln(w, "the second follows the first: apply both, in this order")
	case recovery.Precedes:
		fmt.Fprintln(w, "the first follows the second: apply both, the second one before")
	case recovery.OtherChain:
		fmt.Fprintln(w, "they are of different chains and say nothing of each other")
	case recovery.Apart:
		fmt.Fprintln(w, "neither follows the other, and they have different predecessors: others lie between them, or they belong to histories that were parted before; show each beside its predecessor")
	case recovery.Contradict:
		fmt.Fprintf(w, "they CONTRADICT each other: both follow the same predecessor, and a network can go on by one of them only\n  %d keys signed both, which this pair of files proves to anybody:\n", len(both))
		for _, k := range both {
			fmt.Fprintf(w, "    %s\n", k)
		}
		if len(both) == 0 {
			fmt.Fprintln(w, "    none: at most one of them reaches its threshold")
		}
		return refusal{fmt.Errorf("recoveries %s and %s contradict each other: keep both files, apply neither before all operators have agreed on one hash", a.Hash(), b.Hash())}
	}
	return nil
}
