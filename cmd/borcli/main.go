// Command borcli is the command line for accounts, transactions, contracts and the government of a chain. It talks
// JSON-RPC to a node and, for signatures, to a wallet (borwallet); it keeps no state of its own. A key file named by
// --key is decrypted here, used once and cleared.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	home, _ := os.UserHomeDir()
	code := execute(ctx, os.Args[1:], surroundings{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr, environ: os.Environ(), home: home,
		inTTY: term.IsTerminal(int(os.Stdin.Fd())), errTTY: term.IsTerminal(int(os.Stderr.Fd())), //nolint:gosec // a descriptor
	})
	stop()
	os.Exit(code)
}
