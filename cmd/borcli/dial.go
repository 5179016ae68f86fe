package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// errSlow is why a request was given up.
var errSlow = errors.New("no answer in " + requestTimeout.String())

// dial connects to a JSON-RPC server: http, ws or the path of a Unix socket.
func dial(ctx context.Context, target string, options ...gethrpc.ClientOption) (*gethrpc.Client, error) {
	if u, err := url.Parse(target); err == nil && strings.Contains(target, "://") {
		switch u.Scheme {
		case "http", "https", "ws", "wss":
		default:
			return nil, fail(exitUsage, "%s has the unknown scheme %q: use http://, https://, ws://, wss:// or the path of a Unix socket", redacted(target), u.Scheme)
		}
	} else if err != nil || !strings.Contains(target, "/") {
		return nil, fail(exitUsage, "%q is neither an address with http:// or ws:// nor the path of a Unix socket", redacted(target))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errSlow)
	defer cancel()
	options = append(options, gethrpc.WithHTTPClient(&http.Client{Transport: bounded{http.DefaultTransport}}),
		gethrpc.WithWebsocketMessageSizeLimit(maxAnswerBytes))
	return gethrpc.DialOptions(ctx, target, options...)
}

// bounded bounds what one answer may hold.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswerBytes), resp.Body}
	}
	return resp, err
}

// redacted is an address without its password.
func redacted(target string) string {
	if u, err := url.Parse(target); err == nil && u.User != nil {
		return u.Redacted()
	}
	return target
}
