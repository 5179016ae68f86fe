package kafka

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Config holds the settings of the Kafka endpoint.
type Config struct {
	Listen     []string `mapstructure:"listen" comment:"Addresses for Kafka clients: tls://host:port, or plain://host:port without encryption, on loopback only unless allow_plain is set."`
	AllowPlain bool     `mapstructure:"allow_plain" comment:"Let plain:// listen on other addresses than loopback: tokens and records then travel where others can read them."`
	CertFile   string   `mapstructure:"cert_file" comment:"File with the certificate chain for tls:// (PEM); read again when it changes."`
	KeyFile    string   `mapstructure:"key_file" comment:"File with its private key (PEM)."`
	ClientCA   string   `mapstructure:"client_ca_file" comment:"File with authorities (PEM): clients must show a certificate of one of them, in addition to their token; empty: none needed."`

	Connections          int `mapstructure:"connections" comment:"Most connections of all clients; when all are in use, one that is not logged in makes room for the next."`
	ConnectionsPerHost   int `mapstructure:"connections_per_host" comment:"Most connections of one host: an IPv4 address, or a /64 network of IPv6. Those that are not logged in make room."`
	ConnectionsPerClient int `mapstructure:"connections_per_principal" comment:"Most connections of one account or pseudonym."`
	FrameBytes           int `mapstructure:"frame_bytes" comment:"Largest Produce request."`
	RequestMemory        int `mapstructure:"request_memory" comment:"Memory of requests on their way, of all clients; a request that finds no room waits unread. One principal gets at most half."`
	AnswerMemory         int `mapstructure:"answer_memory" comment:"Memory of records on their way to all clients; when it is short, answers to Fetch carry less."`
	QueuedRequests       int `mapstructure:"queued_requests" comment:"Requests of one connection that wait for their answers; the next one waits unread."`

	LoginTimeout time.Duration `mapstructure:"login_timeout" comment:"A new connection must have logged in within this time."`
	FrameTimeout time.Duration `mapstructure:"frame_timeout" comment:"Longest wait for the rest of a request, or for a client to take an answer; large ones get a second more for every 256 KiB."`
	IdleTimeout  time.Duration `mapstructure:"idle_timeout" comment:"A connection without a request for this long is closed."`
	SessionTime  time.Duration `mapstructure:"session_time" comment:"Clients must log in again after this time (on the same connection), or earlier if their token expires."`

	// Versions are the requests that the handler answers, with the lowest and highest version; nil: DefaultVersions.
	Versions map[int16]Version `mapstructure:"-"`
}

// DefaultConfig listens with TLS on all addresses; the files must be named.
func DefaultConfig() Config {
	return Config{
		Listen:      []string{"tls://0.0.0.0:9093"},
		Connections: 4096, ConnectionsPerHost: 1024, ConnectionsPerClient: 1024,
		FrameBytes: 100 << 20, RequestMemory: 512 << 20, AnswerMemory: 512 << 20, QueuedRequests: 32,
		LoginTimeout: 15 * time.Second, FrameTimeout: 30 * time.Second, IdleTimeout: 10 * time.Minute, SessionTime: time.Hour,
	}
}

// Validate names the first setting that cannot work.
func (c *Config) Validate() error {
	if len(c.Listen) == 0 {
		return errors.New("pubsub.kafka.listen is empty; name at least one address, like tls://0.0.0.0:9093")
	}
	for _, l := range c.Listen {
		scheme, addr, err := splitListen(l)
		if err != nil {
			return err
		}
		if scheme == schemeTLS && (c.CertFile == "" || c.KeyFile == "") {
			return fmt.Errorf("pubsub.kafka.listen has %q; set cert_file and key_file too", l)
		}
		if scheme == schemePlain && !c.AllowPlain && !onLoopback(addr) {
			return fmt.Errorf("pubsub.kafka.listen has %q, where others can read tokens and records; use tls://, a loopback address like plain://127.0.0.1:9092, or set allow_plain", l)
		}
	}
	for _, x := range []struct {
		key string
		v   int64
	}{
		{"connections", int64(c.Connections)}, {"connections_per_host", int64(c.ConnectionsPerHost)},
		{"connections_per_principal", int64(c.ConnectionsPerClient)}, {"queued_requests", int64(c.QueuedRequests)},
		{"login_timeout", int64(c.LoginTimeout)}, {"frame_timeout", int64(c.FrameTimeout)}, {"idle_timeout", int64(c.IdleTimeout)},
		{"session_time", int64(c.SessionTime)}, {"answer_memory", int64(c.AnswerMemory)},
	} {
		if x.v <= 0 {
			return fmt.Errorf("pubsub.kafka.%s must be above 0", x.key)
		}
	}
	if c.FrameBytes < maxLoginFrame || c.FrameBytes > 1<<30 {
		return fmt.Errorf("pubsub.kafka.frame_bytes is %d; it must be from %d to %d", c.FrameBytes, maxLoginFrame, 1<<30)
	}
	if least := 2 * max(produceFactor*c.FrameBytes, controlFactor*maxControlFrame); c.RequestMemory < least {
		return fmt.Errorf("pubsub.kafka.request_memory is %d; with frame_bytes %d it must be at least %d", c.RequestMemory, c.FrameBytes, least)
	}
	return nil
}

const (
	schemeTLS   = "tls"
	schemePlain = "plain"
)

func splitListen(l string) (scheme, addr string, err error) {
	scheme, addr, ok := strings.Cut(l, "://")
	if !ok || scheme != schemeTLS && scheme != schemePlain {
		return "", "", fmt.Errorf("pubsub.kafka.listen has %q; write it as tls://host:port or plain://host:port", l)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "", "", fmt.Errorf("pubsub.kafka.listen has %q: %w; write it as %s://host:port", l, err, scheme)
	}
	return scheme, addr, nil
}

func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
