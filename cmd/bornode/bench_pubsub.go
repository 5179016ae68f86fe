package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/bench/pubsub"
)

func benchPubSub(jsonPath *string) *cobra.Command {
	var o pubsub.Options
	cmd := &cobra.Command{
		Use:   "pubsub",
		Short: "Measure topics: produce, fetch, delay and login of Kafka clients",
		Long: "Measure topics on networks of real processes: evidence at its usual pace and as little as the settings allow, brokers linked over TCP and\n" +
			"shared memory, in turns. The clients run in this process, on the same machine: figures compare variants, they are no machine's best.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			o.Program, o.Progress = exe, progressTo(c)
			r, err := pubsub.Measure(c.Context(), o)
			if err != nil {
				return err
			}
			if *jsonPath != "" {
				if err := writeJSON(*jsonPath, r); err != nil {
					return err
				}
			}
			return r.Print(c.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Rounds, "rounds", 3, "rounds; every variant is measured once in each")
	f.IntVar(&o.Seconds, "load-seconds", 5, "length of every load")
	f.IntSliceVar(&o.Sizes, "sizes", []int{100, 1 << 10, 16 << 10}, "bytes of a record")
	f.IntVar(&o.Rate, "rate", 1000, "records a second of the run that measures delay")
	return cmd
}
