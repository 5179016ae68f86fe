package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

// certificates holds what the TLS files said last. They are looked at when a client connects: a renewed certificate is
// used from the next connection on, and a broken file leaves the last good state in use.
type certificates struct {
	certFile, keyFile, caFile string
	log                       *zap.Logger

	mu     sync.Mutex
	stamp  [3]fileStamp
	config *tls.Config
}

type fileStamp struct {
	size int64
	time time.Time
}

func loadCertificates(cfg *Config, log *zap.Logger) (*certificates, error) {
	c := &certificates{certFile: cfg.CertFile, keyFile: cfg.KeyFile, caFile: cfg.ClientCA, log: log}
	c.stamp = c.look()
	var err error
	c.config, err = c.read()
	return c, err
}

func (c *certificates) look() (out [3]fileStamp) {
	for k, name := range []string{c.certFile, c.keyFile, c.caFile} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(name); err == nil {
			out[k] = fileStamp{info.Size(), info.ModTime()}
		}
	}
	return out
}

func (c *certificates) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("the certificate for Kafka clients (%s, %s) cannot be used: %w; check pubsub.kafka.cert_file and key_file", c.certFile, c.keyFile, err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if c.caFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(c.caFile)
	if err != nil {
		return nil, fmt.Errorf("the authorities of client certificates cannot be read: %w; check pubsub.kafka.client_ca_file", err)
	}
	cfg.ClientCAs, cfg.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form; check pubsub.kafka.client_ca_file", c.caFile)
	}
	return cfg, nil
}

// current is the configuration for the next connection.
func (c *certificates) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	now := c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now == c.stamp {
		return c.config, nil
	}
	c.stamp = now // a broken file is complained about once
	cfg, err := c.read()
	if err != nil {
		c.log.Error("changed TLS files are not used; the last good ones stay in use", zap.Error(err))
		return c.config, nil
	}
	c.config = cfg
	c.log.Info("changed TLS files are used from now on", zap.String("certificate", c.certFile))
	return cfg, nil
}
