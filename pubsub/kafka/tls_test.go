package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// files is a certificate authority and the files of a broker.
type files struct {
	t         testing.TB
	dir       string
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
	serial    int64
}

func newFiles(t testing.TB) *files {
	f := &files{t: t, dir: t.TempDir()}
	var err error
	f.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &f.key.PublicKey, f.key)
	require.NoError(t, err)
	f.authority, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	f.write("ca.pem", "CERTIFICATE", der)
	f.issue("broker")
	return f
}

func (f *files) path(name string) string { return filepath.Join(f.dir, name) }

func (f *files) write(name, kind string, der []byte) {
	require.NoError(f.t, os.WriteFile(f.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// issue makes a certificate for loopback, with serial numbers that count up, in name.pem and name.key.
func (f *files) issue(name string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f.t, err)
	f.serial++
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(100 + f.serial), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, f.authority, &key.PublicKey, f.key)
	require.NoError(f.t, err)
	f.write(name+".pem", "CERTIFICATE", der)
	raw, err := x509.MarshalECPrivateKey(key)
	require.NoError(f.t, err)
	f.write(name+".key", "EC PRIVATE KEY", raw)
}

func (f *files) configure(cfg *Config) {
	cfg.Listen = []string{"tls://127.0.0.1:0"}
	cfg.CertFile, cfg.KeyFile = f.path("broker.pem"), f.path("broker.key")
}

func (f *files) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(f.authority)
	return p
}

// serialSeen connects and gives the serial number of the broker's certificate.
func (f *files) serialSeen(addr string) int64 {
	c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: f.pool()})
	require.NoError(f.t, err)
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestRenewedCertificatesAreUsed(t *testing.T) {
	f := newFiles(t)
	r := start(t, nil, f.configure)
	require.Equal(t, int64(101), f.serialSeen(r.addr))

	require.NoError(t, os.WriteFile(f.path("broker.pem"), []byte("half a file"), 0o600))
	require.Equal(t, int64(101), f.serialSeen(r.addr), "a broken file leaves the last good certificate")
	require.Equal(t, 1, r.logs.FilterMessageSnippet("last good ones").Len())

	f.issue("broker")
	require.Equal(t, int64(102), f.serialSeen(r.addr))
}

func TestClientCertificatesAreAskedFor(t *testing.T) {
	f := newFiles(t)
	f.issue("client")
	r := start(t, nil, func(cfg *Config) {
		f.configure(cfg)
		cfg.ClientCA = f.path("ca.pem")
	})
	pair, err := tls.LoadX509KeyPair(f.path("client.pem"), f.path("client.key"))
	require.NoError(t, err)
	c := dialTLS(t, r, &tls.Config{RootCAs: f.pool(), Certificates: []tls.Certificate{pair}})
	c.versions(0)
	c = dialTLS(t, r, &tls.Config{RootCAs: f.pool()})
	c.expectClosed()
}

func TestNewNamesBadFiles(t *testing.T) {
	f := newFiles(t)
	for name, change := range map[string]func(*Config){
		"cert_file and key_file": func(c *Config) { c.KeyFile = "" },
		"pubsub.kafka.cert_file": func(c *Config) { c.CertFile = f.path("none") },
		"client_ca_file":         func(c *Config) { c.ClientCA = f.path("broker.key") },
	} {
		cfg := DefaultConfig()
		f.configure(&cfg)
		change(&cfg)
		_, err := New(cfg, newMemory(), nil, nil, nil)
		require.ErrorContains(t, err, name)
	}
}
