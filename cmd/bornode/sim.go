package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/internal/usage"
	"github.com/bornode/bornode/sim"
)

func simCommand() *cobra.Command {
	var seed, seeds uint64
	var minutes int
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate consensus: seeded faults and adversaries, checked from outside",
		Long: "Simulate networks of consensus machines in virtual time. A seed fixes everything: size, latencies, cuts, crashes,\n" +
			"changes of schedule, adversaries. The same seed gives the same run; its trace hash proves it.",
		Args: usage.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			length := time.Duration(minutes) * time.Minute
			if seeds <= 1 {
				s := sim.Random(seed, length)
				r := sim.Run(s)
				fmt.Fprintf(cmd.OutOrStdout(), "%v\n%d blocks, final up to %d, %d schedules took over, %d proofs of guilt, trace %016x\n", s, r.Blocks, r.Final, r.Changes, r.Evidence, r.Trace)
				return r.Violation
			}
			return sweep(cmd, seed, seeds, length)
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 1, "first seed")
	cmd.Flags().Uint64Var(&seeds, "seeds", 1, "how many seeds")
	cmd.Flags().IntVar(&minutes, "minutes", 10, "simulated minutes of each")
	return cmd
}

// sweep runs seeds on all cores and stops at the first violation.
func sweep(cmd *cobra.Command, seed, seeds uint64, length time.Duration) error {
	results, bad := sim.Sweep(cmd.Context(), seed, seeds, func(s uint64) *sim.Scenario { return sim.Random(s, length) })
	if bad != nil {
		return fmt.Errorf("%v\n%w\nreplay: make sim SEED=%d", bad.Scenario, bad.Violation, bad.Scenario.Seed)
	}
	var blocks, done uint64
	for _, r := range results {
		if r != nil {
			done++
			blocks += r.Blocks
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d seeds of %s: %d blocks, no violation\n", done, length, blocks)
	return cmd.Context().Err()
}
