package rpc

import (
	"fmt"
	"net"
	"slices"
	"time"
)

// Config says where the node answers JSON-RPC and how much it answers.
type Config struct {
	HTTPAddr   string   `mapstructure:"http_addr" comment:"Address for HTTP and WebSocket, host:port; empty: none."`
	WSAddr     string   `mapstructure:"ws_addr" comment:"Address for WebSocket alone; empty: the same port as HTTP."`
	IPCPath    string   `mapstructure:"ipc_path" comment:"Path of the Unix socket; it offers admin_* too; empty: none."`
	Namespaces []string `mapstructure:"namespaces" comment:"Method groups offered on HTTP and WebSocket: eth, net, web3, txpool, bor, bps, debug."`
	VHosts     []string `mapstructure:"vhosts" comment:"Host names that requests may name; * for all."`
	Origins    []string `mapstructure:"origins" comment:"Web origins whose pages may call (CORS and WebSocket); * for all."`

	JWTSecret string `mapstructure:"jwt_secret" comment:"File with 32 bytes in hex, made if it does not exist; a request with a token made with it (HS256, fresh iat) may call all methods, admin_* too; empty: none."`
	LogIndex  string `mapstructure:"log_index" comment:"File of the log index, made again if it is lost; empty: log queries read the headers."`

	BodyBytes            int           `mapstructure:"body_bytes" comment:"Largest request."`
	BatchItems           int           `mapstructure:"batch_items" comment:"Most calls in one batch."`
	BatchBytes           int           `mapstructure:"batch_response_bytes" comment:"Largest response to one batch."`
	Connections          int           `mapstructure:"connections" comment:"Most connections of all clients to one of the addresses above; when all are in use, a host with fewer takes one of the host with most."`
	ConnectionsPerHost   int           `mapstructure:"connections_per_host" comment:"Most connections of one host: an IPv4 address, or a /64 network of IPv6. Clients behind one proxy are one host; the Unix socket has no quota per host."`
	Requests             int           `mapstructure:"requests" comment:"Requests worked on at the same time; those that wait for something, or for the client, do not count. Half is kept for hosts that have none."`
	RequestsPerHost      int           `mapstructure:"requests_per_host" comment:"The same for one host; others wait. 0: twice the processors."`
	InFlight             int           `mapstructure:"in_flight_bytes" comment:"Memory of requests and answers on their way, of all clients; each host may hold 256 KiB whatever the others hold."`
	InFlightPerHost      int           `mapstructure:"in_flight_bytes_per_host" comment:"The same of one host."`
	Subscriptions        int           `mapstructure:"subscriptions_per_connection" comment:"Most subscriptions of one connection."`
	SubscriptionsPerHost int           `mapstructure:"subscriptions_per_host" comment:"Most subscriptions of one host."`
	AllSubscriptions     int           `mapstructure:"subscriptions" comment:"Most subscriptions of all clients together."`
	Filters              int           `mapstructure:"filters" comment:"Most polled filters of all clients together."`
	FiltersPerHost       int           `mapstructure:"filters_per_host" comment:"Most polled filters of one host."`
	FilterTimeout        time.Duration `mapstructure:"filter_timeout" comment:"A filter nobody polls for this long is dropped."`
	LogRange             uint64        `mapstructure:"log_range" comment:"Most blocks of one log query."`
	LogCount             int           `mapstructure:"log_count" comment:"Most logs in one answer."`
	LogWorkers           int           `mapstructure:"log_workers" comment:"Goroutines per log query."`
	LogQueries           int           `mapstructure:"log_queries" comment:"Log queries answered at the same time; half is kept for hosts that have none."`
	LogQueriesPerHost    int           `mapstructure:"log_queries_per_host" comment:"The same for one host; others wait."`
	LogTimeout           time.Duration `mapstructure:"log_timeout" comment:"Longest search for logs."`
	GasCap               uint64        `mapstructure:"gas_cap" comment:"Most gas of eth_call, eth_estimateGas and eth_createAccessList."`
	CallTimeout          time.Duration `mapstructure:"call_timeout" comment:"Longest execution of one call."`
	Calls                int           `mapstructure:"calls" comment:"Calls executed at the same time; others wait. Half is kept for hosts that have none."`
	CallsPerHost         int           `mapstructure:"calls_per_host" comment:"The same for one host. 0: half of the processors, at least 1."`
	AllowUnprotected     bool          `mapstructure:"allow_unprotected" comment:"Take transactions without a chain id (EIP-155)."`
	ReadHeaderTimeout    time.Duration `mapstructure:"read_timeout" comment:"Longest wait for a request."`
	WriteTimeout         time.Duration `mapstructure:"write_timeout" comment:"Longest time for a response."`
}

// Namespaces that may be offered on HTTP and WebSocket.
var publicNamespaces = []string{"eth", "net", "web3", "txpool", "bor", "bps", "debug"}

// DefaultConfig listens on loopback only.
func DefaultConfig() Config {
	return Config{
		HTTPAddr: "127.0.0.1:8545", Namespaces: []string{"eth", "net", "web3", "txpool", "bor", "bps"},
		VHosts:    []string{"localhost"},
		BodyBytes: 5 << 20, BatchItems: 1000, BatchBytes: 25 << 20, Connections: 2048, ConnectionsPerHost: 256,
		Requests: 256, InFlight: 512 << 20, InFlightPerHost: 128 << 20,
		Subscriptions: 64, SubscriptionsPerHost: 1024, AllSubscriptions: 8192,
		Filters: 1024, FiltersPerHost: 256, FilterTimeout: 5 * time.Minute, LogRange: 100_000, LogCount: 10_000, LogWorkers: 2, LogQueries: 8, LogQueriesPerHost: 2, LogTimeout: 30 * time.Second,
		GasCap: 50_000_000, CallTimeout: 5 * time.Second, Calls: 64, ReadHeaderTimeout: 30 * time.Second, WriteTimeout: 60 * time.Second,
	}
}

// Validate names the first setting that cannot work.
func (c *Config) Validate() error {
	for key, addr := range map[string]string{"http_addr": c.HTTPAddr, "ws_addr": c.WSAddr} {
		if addr == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("rpc.%s %q: %w; write it as host:port", key, addr, err)
		}
	}
	if len(c.IPCPath) > 100 {
		return fmt.Errorf("rpc.ipc_path %q is longer than the 100 bytes that a Unix socket allows; choose a shorter path", c.IPCPath)
	}
	for _, n := range c.Namespaces {
		if !slices.Contains(publicNamespaces, n) {
			return fmt.Errorf("rpc.namespaces names %q; known are %v (admin is on the IPC socket, and over HTTP with a token)", n, publicNamespaces)
		}
	}
	for _, x := range []struct {
		key string
		v   int64
	}{
		{"body_bytes", int64(c.BodyBytes)}, {"batch_items", int64(c.BatchItems)}, {"batch_response_bytes", int64(c.BatchBytes)},
		{"connections", int64(c.Connections)}, {"connections_per_host", int64(c.ConnectionsPerHost)},
		{"requests", int64(c.Requests)}, {"requests_per_host", int64(c.RequestsPerHost) + 1}, {"calls_per_host", int64(c.CallsPerHost) + 1}, // may be 0
		{"in_flight_bytes", int64(c.InFlight)}, {"subscriptions", int64(c.AllSubscriptions)}, {"subscriptions_per_host", int64(c.SubscriptionsPerHost)},
		{"filters_per_host", int64(c.FiltersPerHost)}, {"log_queries_per_host", int64(c.LogQueriesPerHost)}, {"subscriptions_per_connection", int64(c.Subscriptions)}, {"filters", int64(c.Filters)},
		{"filter_timeout", int64(c.FilterTimeout)}, {"log_range", int64(c.LogRange)}, {"log_count", int64(c.LogCount)}, //nolint:gosec // only its sign matters
		{"log_workers", int64(c.LogWorkers)}, {"log_queries", int64(c.LogQueries)}, {"log_timeout", int64(c.LogTimeout)}, {"gas_cap", int64(c.GasCap)}, //nolint:gosec // likewise
		{"call_timeout", int64(c.CallTimeout)}, {"calls", int64(c.Calls)}, {"read_timeout", int64(c.ReadHeaderTimeout)}, {"write_timeout", int64(c.WriteTimeout)},
	} {
		if x.v <= 0 {
			return fmt.Errorf("rpc.%s must be above 0", x.key)
		}
	}
	if least := messageCopies*c.BodyBytes + c.BatchBytes; c.InFlightPerHost < least || c.InFlight < c.InFlightPerHost {
		return fmt.Errorf("rpc.in_flight_bytes_per_host (%d) must hold a request %d times and an answer to a batch (%d bytes), and rpc.in_flight_bytes (%d) no less", c.InFlightPerHost, messageCopies, least, c.InFlight)
	}
	return nil
}
