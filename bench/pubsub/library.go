package pubsub

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/seal"
)

// libraryProducer writes to one topic through the client library, and ends the client it belongs to.
type libraryProducer struct {
	c     *client.Client
	p     *client.Producer
	topic string
}

func (l libraryProducer) produce(ctx context.Context, value []byte, done func(error)) {
	l.p.SendAsync(ctx, &client.Record{Topic: l.topic, Value: value}, func(_ client.Sent, err error) { done(err) })
}
func (l libraryProducer) flush(ctx context.Context) error { return l.p.Flush(ctx) }
func (l libraryProducer) close()                          { l.c.Close() }

type libraryConsumer struct{ x *client.Consumer }

func (l libraryConsumer) poll(ctx context.Context) (int, error) {
	records, err := l.x.Records(ctx)
	return len(records), err
}
func (l libraryConsumer) close() { l.x.Close() }

// openLibrary is open through the library: verifying as it does by default, trusting the brokers, or encrypting too.
func (r *run) openLibrary(ctx context.Context, kind string) (topic string, _ producer, consume func() (consumer, error), err error) {
	c, err := r.library(ctx, kind)
	if err != nil {
		return "", nil, nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if topic, err = r.libraryTopic(ctx, c, kind == clientEncrypted); err != nil {
		return "", nil, nil, err
	}
	p, err := c.Producer(producing()...)
	if err != nil {
		return "", nil, nil, err
	}
	return topic, libraryProducer{c, p, topic}, func() (consumer, error) {
		x, err := c.Consumer(client.ConsumerConfig{Topics: []string{topic}})
		return libraryConsumer{x}, err
	}, nil
}

// library is a client of the demo tenant's owner.
func (r *run) library(ctx context.Context, kind string) (*client.Client, error) {
	g, err := genesis.Load(filepath.Join(r.n.Dir, "genesis.json"))
	if err != nil {
		return nil, err
	}
	key, err := seal.NewIdentity(seal.Hybrid)
	if err != nil {
		return nil, err
	}
	cfg := client.Config{Brokers: r.n.Brokers(), CA: r.n.TopicsCA(), Node: r.n.Nodes[0].HTTP, Genesis: g, SealKey: key,
		Account: client.KeySigner(r.n.Accounts[0].Private())}
	if kind == clientTrusting {
		cfg.Mode = client.Off
	}
	return client.Open(ctx, cfg)
}

// libraryTopic makes a topic, encrypted or not, and waits until all of it is led.
func (r *run) libraryTopic(ctx context.Context, c *client.Client, encrypted bool) (string, error) {
	if !encrypted {
		return r.topic(ctx, partitions, brokers)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	a, err := c.Admin()
	if err != nil {
		return "", err
	}
	defer a.Close()
	name := r.newName()
	if err := a.RegisterSealKey(ctx); err != nil {
		return "", err
	}
	if _, err := a.CreateTopic(ctx, contracts.NewTopic{Name: name, Partitions: partitions, Replicas: brokers, Encrypted: true}); err != nil {
		return "", err
	}
	if _, err := a.NewEpoch(ctx, name); err != nil {
		return "", fmt.Errorf("keys of topic %s: %w", name, err)
	}
	k, err := connect(r.n)
	if err != nil {
		return "", err
	}
	defer k.Close()
	return name, led(ctx, kadm.NewClient(k), name, partitions)
}
