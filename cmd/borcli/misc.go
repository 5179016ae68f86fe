package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func configCommand() *cobra.Command {
	return command("config", "Print a settings file with the defaults and what they mean",
		func(_ context.Context, a *app, _ []string) error {
			_, err := io.WriteString(a.out, commentedSettings())
			return err
		}, example("borcli config > ~/"+configName))
}

func versionCommand() *cobra.Command {
	return command("version", "Print the version and what it was built from", func(_ context.Context, a *app, _ []string) error {
		revision := "unknown revision"
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					revision = s.Value
				}
			}
		}
		return a.show(map[string]string{"revision": revision, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}, func(w io.Writer) {
			fmt.Fprintf(w, "borcli (%s, %s, %s/%s)\n", revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		})
	})
}
