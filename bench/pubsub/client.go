package pubsub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/bornode/bornode/pubsub/token"
	"github.com/bornode/bornode/testnet"
)

// connect makes a client of the demo tenant's owner: over TLS, with a token.
func connect(n *testnet.Network, opts ...kgo.Opt) (*kgo.Client, error) {
	pem, err := os.ReadFile(n.TopicsCA())
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", n.TopicsCA())
	}
	owner := n.Accounts[0]
	tk := token.New(n.ChainID, owner.Address, time.Now(), time.Hour, token.Data|token.Admin)
	if err := tk.Sign(owner.Private()); err != nil {
		return nil, err
	}
	auth := plain.Auth{User: owner.Address.Hex(), Pass: tk.String()}
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.Brokers()...), kgo.SASL(auth.AsMechanism()),
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}), kgo.MetadataMinAge(100 * time.Millisecond)}, opts...)...)
}

// produceAtRate sends total records, each due at its place in the second; a record's value begins with when it was due,
// so that waiting behind others counts. A record that fails is never fetched, which its consumer sees.
func produceAtRate(ctx context.Context, c *kgo.Client, begun time.Time, rate, total int) {
	gap := time.Second / time.Duration(rate)
	tick := time.NewTicker(max(gap, time.Millisecond))
	defer tick.Stop()
	for sent := 0; sent < total; {
		for ; sent < total && time.Since(begun) >= time.Duration(sent)*gap; sent++ {
			value := make([]byte, delayBytes)
			binary.BigEndian.PutUint64(value, uint64(time.Duration(sent)*gap)) //nolint:gosec // not negative
			c.Produce(ctx, &kgo.Record{Value: value}, nil)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func stamped(value []byte) time.Duration {
	return time.Duration(binary.BigEndian.Uint64(value)) //nolint:gosec // ours
}
