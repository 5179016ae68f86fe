package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/pubsub/gate"
)

func topicProxyCommand() *cobra.Command {
	q := new(brokerFlags)
	var listen, metrics string
	return command("proxy", "Serve Kafka clients on this machine: log in, encrypt and verify for them", func(ctx context.Context, a *app, _ []string) error {
		return a.proxy(ctx, q, listen, metrics)
	}, flags(func(f *pflag.FlagSet) {
		f.StringVar(&listen, "listen", "127.0.0.1:9092", "where clients bootstrap; on this machine alone")
		f.StringVar(&metrics, "metrics", "", "address of /metrics, such as 127.0.0.1:9101; empty: off")
		q.add(f)
	}), long("Serve Kafka clients on this machine: any client, without TLS or SASL, bootstraps at --listen and works as the account\n"+
		"that signs (--from, --key). The proxy logs in, encrypts and decrypts batches of encrypted topics (without the key it\n"+
		"refuses), and checks what brokers serve. A lie of a broker is logged and told to the client as CORRUPT_MESSAGE.\n"+
		"Everyone on this machine who can connect acts as the account."),
		example("borcli topic proxy --genesis genesis.json --ca brokers-ca.pem --seal-key seal.json --key account.key"))
}

func systemTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS13} }

// logTo writes what happens to a terminal or file, one line each.
func logTo(w io.Writer) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(zapcore.AddSync(w)), zap.InfoLevel))
}

func (a *app) proxy(ctx context.Context, q *brokerFlags, listen, metrics string) error {
	if metrics != "" {
		q.figures = telemetry.NewRegistry()
	}
	c, err := q.open(ctx, a, logTo(a.errOut))
	if err != nil {
		return err
	}
	defer c.Close()
	e, err := c.Engine(nil)
	if err != nil {
		return explainClient(err)
	}
	defer e.Close()
	brokers := q.brokers
	if len(brokers) == 0 {
		if brokers, err = a.liveBrokers(ctx); err != nil {
			return err
		}
	}
	p, err := gate.NewProxy(e, listen, brokers)
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	if metrics != "" {
		at, wait, err := telemetry.Serve(ctx, telemetry.MetricsConfig{Listen: metrics}, q.figures)
		if err != nil {
			return fail(exitUsage, "--metrics: %v", err)
		}
		metrics = at
		defer wait()
	}
	err = a.show(map[string]any{"listen": p.Addr(), "account": c.Account(), "metrics": metrics}, func(w io.Writer) {
		fmt.Fprintf(w, "Kafka clients bootstrap at %s and act as %s\n", p.Addr(), c.Account())
	})
	if err != nil {
		return err
	}
	p.Run(ctx)
	return nil
}
