package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/bench/pubsub"
	"github.com/bornode/bornode/internal/usage"
)

func benchPubSub(jsonPath *string) *cobra.Command {
	var o pubsub.Options
	cmd := &cobra.Command{
		Use:   "pubsub",
		Short: "Measure topics: produce, fetch, delay, login, encryption, take-over",
		Long: "Measure topics on networks of real processes that run side by side and get loads in turns: evidence on and off, brokers linked over TCP and\n" +
			"shared memory; through a plain Kafka client and the client library. The clients run in this process, on the same machine: figures compare\n" +
			"variants, they are no machine's best.",
		Args: usage.RefuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			o.Program, o.Progress = exe, progressTo(c)
			if o.Quick {
				shorten(c, &o)
			}
			if o.Profile != "" {
				if err := os.MkdirAll(o.Profile, 0o750); err != nil {
					return err
				}
			}
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
	f.IntSliceVar(&o.Rates, "rates", []int{1000, 20_000}, "records (1 KiB) a second of the runs that measure delay and processor time at a rate")
	f.BoolVar(&o.Quick, "quick", false, "the short form, less than six minutes: loads of 2 s, as many rounds of 3 as fit, no take-overs, fewer kinds of loads")
	f.DurationVar(&o.Within, "within", 0, "begin no round that would end later than this after the first began; the first always runs; 0: no limit")
	f.IntVar(&o.Takeovers, "takeovers", 5, "leaders killed, one after another; 0: none")
	f.BoolVar(&o.Library, "library", true, "also through the client library, encrypted and not")
	f.StringVar(&o.Profile, "profile", "", "write profiles of the first broker (first round) to this folder")
	return cmd
}

// shorten sets what the quick form does otherwise, but for what was asked for.
func shorten(c *cobra.Command, o *pubsub.Options) {
	unset := func(name string) bool { return !c.Flags().Changed(name) }
	if unset("load-seconds") {
		o.Seconds = 2
	}
	if unset("takeovers") {
		o.Takeovers = 0
	}
	if unset("within") {
		o.Within = 315 * time.Second // the networks come up and go down before and after
	}
}
