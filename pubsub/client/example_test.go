package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/seal"
	"github.com/bornode/bornode/pubsub/token"
)

func open(ctx context.Context) *client.Client {
	g, err := genesis.Load("genesis.json")
	if err != nil {
		log.Fatal(err)
	}
	key, err := crypto.LoadECDSA("account.key")
	if err != nil {
		log.Fatal(err)
	}
	id, err := seal.LoadIdentity("seal.json") // for encrypted topics
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.Open(ctx, client.Config{
		Brokers: []string{"broker1.example:9093", "broker2.example:9093"},
		Node:    "http://127.0.0.1:8545",
		Genesis: g,
		Account: client.KeySigner(key),
		SealKey: id,
		CA:      "brokers-ca.pem",
	})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// Send returns when a quorum of the topic's replicas has the record.
func ExampleProducer() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	p, err := c.Producer()
	if err != nil {
		log.Fatal(err)
	}
	sent, err := p.Send(ctx, &client.Record{Topic: "acme.orders", Key: []byte("order 17"), Value: []byte("three apples")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("partition %d, offset %d, signed by %s\n", sent.Partition, sent.Offset, sent.Receipt.By)
}

// A member of a group reads, and commits what it has dealt with.
func ExampleConsumer() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	x, err := c.Consumer(client.ConsumerConfig{Group: "acme.billing", Topics: []string{"acme.orders"}})
	if err != nil {
		log.Fatal(err)
	}
	for {
		records, err := x.Records(ctx)
		var tampered *client.TamperError
		switch {
		case errors.As(err, &tampered):
			log.Fatalf("do not trust offset %d of partition %d: %v", tampered.Offset, tampered.Partition, err)
		case err != nil:
			log.Fatal(err)
		}
		for _, r := range records {
			fmt.Printf("%d/%d: %s\n", r.Partition, r.Offset, r.Value)
		}
		switch err := x.Commit(ctx); {
		case errors.Is(err, client.ErrRebalanced):
			log.Printf("some of it comes again: %v", err)
		case err != nil:
			log.Fatal(err)
		}
	}
}

// The owner of a tenant makes an encrypted topic and lets another account read it.
func ExampleAdmin() {
	ctx := context.Background()
	c := open(ctx)
	defer c.Close()
	a, err := c.Admin()
	if err != nil {
		log.Fatal(err)
	}
	reader := common.HexToAddress("0x52908400098527886E0F7030069857D2E4169EE7")
	_, err = a.CreateTopic(ctx, contracts.NewTopic{Name: "acme.salaries", Partitions: 3, Replicas: 3, Encrypted: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := a.RegisterSealKey(ctx); err != nil { // once for an account
		log.Fatal(err)
	}
	if _, err := a.NewEpoch(ctx, "acme.salaries", reader); err != nil {
		log.Fatal(err)
	}
	err = a.Grant(ctx, "acme", contracts.Acl{Resource: 2, Pattern: 3, Name: "acme.salaries", Principal: contracts.UserPrincipal(reader),
		Host: "*", Operation: 3, Permission: 3}) // topic, literal; read, allow
	if err != nil {
		log.Fatal(err)
	}
}

// A member asks for a pseudonym, the auditor admits it, and the member writes under it.
func ExampleClient_RequestPseudonym() {
	ctx := context.Background()
	member := open(ctx)
	defer member.Close()
	key, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	nym := client.KeySigner(key)
	request, err := member.RequestPseudonym(ctx, "acme.votes", nym, token.Write)
	if err != nil {
		log.Fatal(err)
	}
	text := request.Text() // goes to the auditor in private

	auditor := open(ctx) // elsewhere
	defer auditor.Close()
	got, err := client.ParseRequest(text)
	if err != nil {
		log.Fatal(err)
	}
	certificate, err := auditor.Admit(ctx, "acme.votes", got, token.Write, time.Now().Add(30*24*time.Hour))
	if err != nil {
		log.Fatal(err)
	}

	g, err := genesis.Load("genesis.json")
	if err != nil {
		log.Fatal(err)
	}
	anonymous, err := client.Open(ctx, client.Config{Brokers: []string{"broker1.example:9093"}, Node: "http://127.0.0.1:8545", Genesis: g,
		Account: nym, Certificate: certificate, CA: "brokers-ca.pem"})
	if err != nil {
		log.Fatal(err)
	}
	defer anonymous.Close()
}
