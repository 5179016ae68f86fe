package gate

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/pubsub/gate/gatetest"
)

// secure puts the rig's brokers behind TLS, with a certificate of httptest's for 127.0.0.1.
func secure(t *testing.T, r *rig) (addr string, ca *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	cert := s.TLS.Certificates[0]
	ca = x509.NewCertPool()
	require.True(t, ca.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	s.Close()
	b, err := gatetest.NewOn(ReceiptTag, func() (net.Listener, error) {
		return tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
	})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	b.Token = "secret"
	r.broker = b
	return b.Addrs()[0], ca
}

func TestBrokersAreTalkedToThroughTLS(t *testing.T) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13}
	r := newRig(t, off, func(c *Config) { c.TLS = cfg })
	var addr string
	addr, cfg.RootCAs = secure(t, r)
	r.topic("acme.t", true)
	r.produce(r.client(), "acme.t", "one")
	require.Equal(t, []string{"one"}, r.consume("acme.t", 0, 1))
	require.NoError(t, r.engine.Unreachable())

	for name, f := range map[string]func(*Config){
		"an authority that did not sign": func(c *Config) { c.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13} },
		"another name": func(c *Config) {
			c.TLS = &tls.Config{RootCAs: cfg.RootCAs, ServerName: "broker.example.org", MinVersion: tls.VersionTLS13}
		},
		"no TLS": func(c *Config) { c.TLS = nil },
	} {
		other := newRig(t, off, f)
		logins := r.broker.Logins()
		_, err := other.engine.Dial(r.ctx, "tcp", addr)
		require.Error(t, err, name)
		require.Equal(t, logins, r.broker.Logins(), "%s: no token goes there", name)
		require.ErrorIs(t, other.engine.Unreachable(), ErrUnreachable, name)
		require.Positive(t, other.figure("bornode_topics_gate_failures_total"))
	}
	var unknown x509.UnknownAuthorityError
	strange := newRig(t, off, func(c *Config) { c.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13} })
	_, err := strange.engine.Dial(r.ctx, "tcp", addr)
	require.True(t, errors.As(err, &unknown))
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.Dialer(strange.engine.Dial), kgo.RequestRetries(0))
	require.NoError(t, err)
	defer c.Close()
	require.Error(t, c.Ping(r.ctx))
}
