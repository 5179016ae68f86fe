package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// command is what the control socket takes: exactly one of the fields.
type command struct {
	Route *Route    `json:"route,omitempty"`
	Rule  *ruleFor  `json:"rule,omitempty"`
	Heal  bool      `json:"heal,omitempty"`
	Ping  *struct{} `json:"ping,omitempty"`
}

type ruleFor struct {
	A, B int
	Rule Rule
}

const maxCommandBytes = 64 << 10

// ServeControl answers commands on a Unix socket until ctx ends.
func (p *Proxy) ServeControl(ctx context.Context, socket string) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("proxy control socket: %w", err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(p.control), ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (p *Proxy) control(w http.ResponseWriter, r *http.Request) {
	var c command
	if err := json.NewDecoder(io.LimitReader(r.Body, maxCommandBytes)).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := p.do(c)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (p *Proxy) do(c command) (Route, error) {
	switch {
	case c.Route != nil:
		return p.AddRoute(c.Route.From, c.Route.To, c.Route.Target, c.Route.Listen)
	case c.Rule != nil:
		return Route{}, p.SetRule(c.Rule.A, c.Rule.B, c.Rule.Rule)
	case c.Heal:
		p.Heal()
	}
	return Route{}, nil
}

// Client talks to a proxy's control socket.
type Client struct{ http http.Client }

// NewClient does not connect yet.
func NewClient(socket string) *Client {
	return &Client{http: http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

func (c *Client) call(ctx context.Context, cmd command) (Route, error) {
	body, err := json.Marshal(cmd)
	if err != nil {
		return Route{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://proxy/", bytes.NewReader(body))
	if err != nil {
		return Route{}, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return Route{}, fmt.Errorf("proxy of the network does not answer (was it started with --direct?): %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxCommandBytes))
	if err != nil {
		return Route{}, err
	}
	if res.StatusCode != http.StatusOK {
		return Route{}, fmt.Errorf("proxy: %s", bytes.TrimSpace(text))
	}
	var r Route
	return r, json.Unmarshal(text, &r)
}

// Ping reports whether the proxy answers.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.call(ctx, command{Ping: &struct{}{}})
	return err
}

// AddRoute is Proxy.AddRoute.
func (c *Client) AddRoute(ctx context.Context, r Route) (Route, error) {
	return c.call(ctx, command{Route: &r})
}

// SetRule is Proxy.SetRule.
func (c *Client) SetRule(ctx context.Context, a, b int, r Rule) error {
	_, err := c.call(ctx, command{Rule: &ruleFor{a, b, r}})
	return err
}

// Heal is Proxy.Heal.
func (c *Client) Heal(ctx context.Context) error {
	_, err := c.call(ctx, command{Heal: true})
	return err
}
