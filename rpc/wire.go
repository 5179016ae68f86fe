package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

var errMessageSize = errors.New("the message is too large")

// stream is a connection that carries messages both ways: WebSocket or a Unix socket.
type stream interface {
	// read is the next message, of at most limit bytes, which are reserved as they come.
	read(limit int, held *hold) ([]byte, error)
	// write sends a message; after an error the connection is of no use.
	write(msg []byte, deadline time.Time) error
	// shut closes the connection and tells the client why, if there is a reason and it still reads.
	shut(reason string)
}

// wire is a stream as go-ethereum's codec takes it. It reads a message only when there is room for its request, so a
// client that sends faster than it is answered waits; it ends a connection whose client does not read.
type wire struct {
	*caller
	stream stream
	slots  chan struct{} // requests read and not answered
	once   sync.Once
}

func newWire(s *service, remote, host string, st stream) *wire {
	w := &wire{stream: st, slots: make(chan struct{}, maxConnRequests)}
	w.caller = s.newCaller(remote, host, w.close)
	return w
}

func (w *wire) RemoteAddr() string               { return w.id }
func (w *wire) SetWriteDeadline(time.Time) error { return nil } // ours depends on the size
func (w *wire) Close() error                     { w.close(""); return nil }

func (w *wire) close(reason string) {
	w.once.Do(func() {
		w.cancel()
		w.stream.shut(reason)
	})
}

// serve answers until the connection ends.
func (w *wire) serve(srv *gethrpc.Server) {
	w.s.conns.add(w.caller)
	defer w.s.conns.remove(w.caller)
	srv.ServeCodec(codecOf(w, gethrpc.NewFuncCodec), 0)
}

// codecOf builds the codec. C and M are go-ethereum's connection and message types, which it does not export.
func codecOf[C, M any](w *wire, build func(C, func(context.Context, *M, bool) error, func(context.Context, []*M, bool) error, func(any) error) gethrpc.ServerCodec) gethrpc.ServerCodec {
	conn, ok := any(w).(C)
	if !ok {
		panic("rpc: go-ethereum's codec wants more of a connection than Close and SetWriteDeadline")
	}
	return build(conn,
		func(_ context.Context, m *M, _ bool) error {
			return w.send(m, reflect.ValueOf(m).Elem().FieldByName("Method").String() == "")
		},
		func(_ context.Context, ms []*M, _ bool) error { return w.send(ms, true) },
		func(v any) error { return w.receive(v.(*json.RawMessage)) })
}

// receive is the next message that wants an answer. Others are not carried out: nothing would bound them.
func (w *wire) receive(to *json.RawMessage) error {
	select {
	case w.slots <- struct{}{}:
	case <-w.ctx.Done():
		return errGone
	}
	for {
		b, err := w.next()
		if err == nil && b == nil {
			continue
		}
		if err != nil {
			w.cancel() // go-ethereum's server waits for the calls to end before it closes the connection
			if broken := (*json.SyntaxError)(nil); errors.Is(err, errMessageSize) {
				w.close(fmt.Sprintf("a message of more than %d bytes (rpc.body_bytes)", w.s.cfg.BodyBytes))
			} else if errors.Is(err, errHeld) || errors.Is(err, errTooMuch) {
				w.close(err.Error())
			} else if !errors.As(err, &broken) { // which is answered first
				w.close("")
			}
			return err
		}
		*to = b
		return nil
	}
}

// next reads a message and begins its request: its memory is reserved as it is read, its values are counted, it takes a
// place, and only then it is decoded. It is nil if it wants no answer.
func (w *wire) next() ([]byte, error) {
	held := w.s.hold(w.host)
	b, err := w.stream.read(w.s.cfg.BodyBytes, held)
	if err == nil {
		b, err = held.admit(b, w.s.cfg.BatchItems)
	}
	if err == nil {
		err = w.begin(w.ctx, held.size)
	}
	if err != nil {
		held.give()
		return nil, err
	}
	msg, wants, err := requestOf(b)
	if err != nil || !wants {
		w.over(held.size)
		return nil, err
	}
	return msg, nil
}

// send writes an answer or a notification.
func (w *wire) send(v any, answer bool) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if answer {
		w.answered()
		select {
		case <-w.slots:
		default:
		}
	}
	if err != nil {
		return err
	}
	b := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	size := int64(len(b))
	if !w.s.inFlight.take(w.host, size) {
		w.close(errHeld.Error())
		return errGone
	}
	defer w.s.inFlight.give(w.host, size)
	wait := min(w.s.cfg.WriteTimeout, minWriteTime+time.Duration(len(b)/minWriteRate)*time.Second)
	if err := w.stream.write(b, time.Now().Add(wait)); err != nil {
		w.close("the client does not read")
		return err
	}
	if answer {
		w.sent(b)
	}
	return nil
}

// request holds the fields of a message that decide whether it is answered, and all that a method needs.
type request struct {
	Version string          `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// requestOf brings a message into the one form that this package and go-ethereum understand alike, without answers
// (this node asks nothing), and reports whether it is answered at all: a notification is not. Broken JSON is an error.
func requestOf(b []byte) (msg []byte, wants bool, err error) {
	if b = bytes.TrimLeft(b, " \t\r\n"); len(b) == 0 || b[0] != '[' {
		r, answer, err := parseRequest(b)
		if err != nil || r == nil {
			return nil, false, err
		}
		msg, err = json.Marshal(r)
		return msg, answer, err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(b, &items); err != nil {
		return nil, false, err
	}
	out := make([]*request, 0, len(items))
	for _, x := range items {
		r, answer, err := parseRequest(x)
		if err != nil {
			return nil, false, err
		}
		if r != nil {
			out, wants = append(out, r), wants || answer
		}
	}
	msg, err = json.Marshal(out)
	return msg, wants || len(items) == 0, err // an empty batch is answered with an error
}

// parseRequest is nil for an answer.
func parseRequest(b []byte) (r *request, answer bool, err error) {
	r = new(request)
	if err := json.Unmarshal(b, r); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); !errors.As(err, &wrong) {
			return nil, false, err
		}
	}
	if r.Method == "" && len(r.ID) > 0 && r.Params == nil && (r.Result != nil || r.Error != nil) {
		return nil, false, nil
	}
	r.Result, r.Error = nil, nil
	return r, r.Version != "2.0" || r.ID != nil || r.Method == "", nil
}

// closing is the last message of a stream that has no other way to say why it ends.
func closing(reason string) []byte {
	text, _ := json.Marshal(reason) // a string can be encoded
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%s}}`, codeLimit, text)
}
