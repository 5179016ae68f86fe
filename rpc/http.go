package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/gorilla/websocket"
	"go.uber.org/zap"
)

func (s *Server) serveHTTP(addr string, h http.Handler) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen for JSON-RPC on %s: %w; set rpc.http_addr or rpc.ws_addr to a free address", addr, err)
	}
	l = newLimitListener(l, s.cfg.Connections, s.cfg.ConnectionsPerHost, s.metrics, true)
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: s.cfg.ReadHeaderTimeout, ReadTimeout: s.cfg.ReadHeaderTimeout,
		WriteTimeout: s.cfg.WriteTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes,
	}
	s.listeners, s.https = append(s.listeners, l), append(s.https, srv)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) && s.ctx.Err() == nil { // Close ends the listener first
			s.log.Error("JSON-RPC listener ended", zap.String("addr", addr), zap.Error(err))
		}
	}()
	return l.Addr().String(), nil
}

// handler checks host and origin and leads WebSocket requests and others to their servers.
func (s *Server) handler(plain, ws bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hostAllowed(s.cfg.VHosts, r.Host) {
			http.Error(w, "the host name "+r.Host+" is not in rpc.vhosts", http.StatusForbidden)
			return
		}
		srv, err := s.serverFor(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		if websocket.IsWebSocketUpgrade(r) {
			if !ws {
				http.Error(w, "WebSocket is served on rpc.ws_addr", http.StatusBadRequest)
				return
			}
			s.serveWS(w, r, srv)
			return
		}
		if !plain {
			http.Error(w, "this address serves WebSocket only", http.StatusBadRequest)
			return
		}
		if !s.cors(w, r) {
			return
		}
		s.metrics.requests.WithLabelValues("http").Inc()
		s.serveCall(w, r, srv)
	})
}

// serverFor is the server that offers what this request may call.
func (s *Server) serverFor(r *http.Request) (*gethrpc.Server, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if s.secret == nil || !ok {
		return s.public, nil
	}
	if err := checkToken(s.secret, token, time.Now()); err != nil {
		return nil, fmt.Errorf("the token of this request is refused: %w; make one with the secret in rpc.jwt_secret", err)
	}
	return s.local, nil
}

// serveCall answers one HTTP request. The body is read before the request takes a place, and the place is given back
// before the answer is written, so a client that sends or reads slowly holds memory of its host's share, and no place.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request, srv *gethrpc.Server) {
	if r.ContentLength > int64(s.cfg.BodyBytes) || r.ContentLength == 0 || r.Method == http.MethodPut || r.Method == http.MethodDelete {
		srv.ServeHTTP(w, r) // nothing to read: go-ethereum's server refuses it, or says that it lives
		return
	}
	c := s.newCaller(r.RemoteAddr, hostOf(r.RemoteAddr), nil)
	held := s.hold(c.host)
	body, err := s.readBody(r, held)
	if err != nil {
		held.give()
		c.finish()
		switch {
		case errors.As(err, new(*http.MaxBytesError)):
			http.Error(w, fmt.Sprintf("content length too large (>%d)", s.cfg.BodyBytes), http.StatusRequestEntityTooLarge)
		case errors.Is(err, errTooMuch):
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		default:
			refuse(w, err.Error())
		}
		return
	}
	s.conns.add(c)
	defer s.conns.remove(c)
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.WriteTimeout/2) // the other half is for the answer
	err = c.begin(ctx, held.size)
	cancel()
	if err != nil {
		held.give()
		refuse(w, "this address has too many requests waiting (rpc.requests_per_host); try again")
		return
	}
	s.moreTime(w)
	c.submitLeading(body)
	in := r.Clone(r.Context())
	in.RemoteAddr = c.id
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	srv.ServeHTTP(&answerWriter{ResponseWriter: w, caller: c}, in)
}

// moreTime lets the answer take rpc.write_timeout from now on: net/http counts from the request's header.
func (s *service) moreTime(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout)) // net/http's can
}

// readBody reads a body as it comes; what it and its values take is reserved before.
func (s *Server) readBody(r *http.Request, held *hold) ([]byte, error) {
	b, err := held.read(http.MaxBytesReader(nil, r.Body, int64(s.cfg.BodyBytes)))
	switch {
	case err == nil:
		return held.admit(b, s.cfg.BatchItems)
	case errors.Is(err, errHeld) || errors.As(err, new(*http.MaxBytesError)) || r.Context().Err() != nil:
		return nil, err
	}
	return nil, fmt.Errorf("the body did not come in time (rpc.read_timeout): %w", err)
}

// refuse answers a request that is not carried out.
func refuse(w http.ResponseWriter, reason string) {
	b := closing(reason)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(b)
}

// answerWriter writes an answer, which go-ethereum's server hands over whole.
type answerWriter struct {
	http.ResponseWriter
	caller *caller
}

func (w *answerWriter) Write(b []byte) (int, error) {
	w.caller.answered()
	w.caller.s.moreTime(w.ResponseWriter)
	size := int64(len(b))
	if !w.caller.s.inFlight.take(w.caller.host, size) {
		refuse(w.ResponseWriter, errHeld.Error())
		return len(b), nil
	}
	defer w.caller.s.inFlight.give(w.caller.host, size)
	return w.ResponseWriter.Write(b)
}

func (w *answerWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// cors answers preflight requests and marks answers that a page may read; false when the request is done with.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin != "" && len(s.cfg.Origins) > 0 && originAllowed(s.cfg.Origins, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Add("Vary", "Origin")
		w.Header().Set("Access-Control-Allow-Methods", "POST, GET")
		w.Header().Set("Access-Control-Allow-Headers", "Content-Type")
		w.Header().Set("Access-Control-Max-Age", "600")
	}
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	return true
}

// hostAllowed guards against DNS rebinding: addresses are always good, names only if they are listed.
func hostAllowed(list []string, host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "" || net.ParseIP(host) != nil || slices.Contains(list, "*") {
		return true
	}
	return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, host) })
}
