package testnet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/node"
)

// DemoTenant is the tenant that a network with brokers begins with; the first funded account owns it.
const DemoTenant = "demo"

// The demo tenant's quotas.
const (
	demoBytesPerSecond = 1 << 30
	demoConnections    = 10_000
	demoTopics         = 20_000
	demoPartitions     = 100_000
)

// certificateLife is how long a test network's certificates are good.
const certificateLife = 10 * 365 * 24 * time.Hour

// TopicsCA is the file with the authority that the brokers' certificates are from: clients trust it.
func (n *Network) TopicsCA() string { return filepath.Join(n.Dir, "topics-ca.pem") }

// Brokers are the addresses of the nodes that serve topics.
func (n *Network) Brokers() (out []string) {
	for _, x := range n.Nodes {
		if x.Broker != "" {
			out = append(out, x.Broker)
		}
	}
	return out
}

// makeBrokers gives the first nodes the role of a broker, with addresses, certificates and accounts.
func (n *Network) makeBrokers(count int) error {
	if count == 0 {
		return nil
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.TopicsCA(), ca.pem, 0o644); err != nil { //nolint:gosec // public
		return err
	}
	for i, x := range n.Nodes[:count] {
		x.Broker = loopback(brokerPort(n.BasePort, i))
		if err := ca.issue(x.brokerCert(), x.brokerCertKey()); err != nil {
			return err
		}
		if x.Role == "producer" {
			continue // its account is the broker's
		}
		if x.Account, err = node.MakeBrokerKey(filepath.Join(x.Dir, node.BrokerFile)); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) brokerCert() string    { return filepath.Join(n.Dir, "keys", "broker-tls.pem") }
func (n *Node) brokerCertKey() string { return filepath.Join(n.Dir, "keys", "broker-tls-key.pem") }

// setBroker writes a broker's part of a configuration.
func (n *Network) setBroker(c *config.Config, x *Node) {
	if x.Broker == "" {
		return
	}
	p := &c.PubSub
	p.Enabled, p.Advertise = true, x.Broker
	p.Kafka.Listen = []string{"tls://" + x.Broker}
	p.Kafka.CertFile, p.Kafka.KeyFile = x.brokerCert(), x.brokerCertKey()
	p.OffsetReplicas = min(len(n.Brokers()), 3)
	if x.Role != "producer" {
		p.Key = node.BrokerFile
	}
}

// makeDemo gives the network its first tenant, once its brokers are on the chain.
func (n *Network) makeDemo(ctx context.Context) error {
	if len(n.Brokers()) == 0 {
		return nil
	}
	c, err := ethclient.DialContext(ctx, n.Nodes[0].HTTP)
	if err != nil {
		return err
	}
	defer c.Close()
	data, err := contracts.SetTenantCall(contracts.Tenant{Name: DemoTenant, Owner: n.Accounts[0].Address, BytesPerSecond: demoBytesPerSecond,
		Connections: demoConnections, Topics: demoTopics, Partitions: demoPartitions})
	if err != nil {
		return err
	}
	if _, err := n.decide(ctx, c, data); err != nil {
		return fmt.Errorf("testnet: the tenant %s is not made: %w", DemoTenant, err)
	}
	return poll(ctx, func() (bool, error) {
		ret, err := read(ctx, c, contracts.TopicsAddress, contracts.BrokersCall())
		if err != nil {
			return false, err
		}
		list, err := contracts.DecodeBrokers(ret)
		live := 0
		for _, b := range list {
			if b.Live {
				live++
			}
		}
		return live == len(n.Brokers()), err
	})
}

// authority signs the certificates of a test network's brokers; its key is never written.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bornode test network"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certificateLife), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// issue writes a certificate for this host, and its key.
func (a *authority) issue(certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	t := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "bornode broker"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644) //nolint:gosec // public
}
