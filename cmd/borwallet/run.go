package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/internal/usage"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/wallet"
)

// version is what the binary was built from.
func version() string {
	revision := "unknown revision"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return fmt.Sprintf("borwallet (%s, %s, %s/%s)", revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the wallets",
		Long:  "Serve the wallets of a folder over JSON-RPC on a Unix socket. Every setting of " + configName + " can be given as a flag.",
		Args:  usage.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := load(os.Environ(), cmd.Flags())
			if err != nil {
				return err
			}
			return serve(cmd, s)
		},
	}
	addFlags(cmd.Flags())
	return cmd
}

// serve runs until the command's context ends. Keys are overwritten before connections are waited for.
func serve(cmd *cobra.Command, s *settings) error {
	log, err := telemetry.NewLogger(s.Log, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	var asker wallet.Asker
	if f, ok := cmd.InOrStdin().(*os.File); s.Wallet.Confirm == wallet.ConfirmAsk && ok && term.IsTerminal(int(f.Fd())) {
		asker = wallet.NewAsker(f, cmd.OutOrStdout())
	}
	service, err := wallet.Open(s.Wallet, log, asker)
	if err != nil {
		return err
	}
	defer service.Close()
	server, err := wallet.Serve(service, version())
	if err != nil {
		return err
	}
	log.Info("borwallet is ready", zap.String("socket", server.SocketPath()), zap.String("http", server.HTTPURL()),
		zap.String("confirm", s.Wallet.Confirm), zap.Int("wallets", len(service.List())))
	<-cmd.Context().Done()
	service.Close()
	server.Close()
	log.Info("borwallet has stopped")
	return nil
}

func configCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Print the commented settings with their defaults",
		Args:  usage.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), commented(defaults()))
			return err
		},
	}
}

func tokenCommand() *cobra.Command {
	var (
		life   time.Duration
		out    string
		revoke bool
	)
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a token for the loopback address",
		Long: "Make a token for the loopback address (setting http), to be sent as Authorization: Bearer TOKEN.\n" +
			"It is printed, or written to a file of mode 0600 with --out. --revoke ends all tokens made before.",
		Args: usage.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := load(os.Environ(), cmd.Flags())
			if err != nil {
				return err
			}
			if revoke {
				return wallet.RevokeTokens(s.Wallet.Dir)
			}
			token, expires, err := wallet.NewToken(s.Wallet.Dir, life, time.Now())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the token expires at %s\n", expires.UTC().Format(time.RFC3339))
			if out == "" {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
				return err
			}
			return writeToken(out, token)
		},
	}
	addFlags(cmd.Flags())
	for _, k := range keys() {
		if k != "dir" {
			_ = cmd.Flags().MarkHidden(k)
		}
	}
	cmd.Flags().DurationVar(&life, "ttl", 24*time.Hour, "life of the token")
	cmd.Flags().StringVar(&out, "out", "", "write the token to this file instead of printing it")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "end all tokens; make new ones afterwards")
	return cmd
}

func writeToken(path, token string) error { return vfs.ReplaceFileAt(path, []byte(token+"\n")) }
