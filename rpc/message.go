package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

var (
	errHeld = errors.New("requests and answers of this address hold too much memory (rpc.in_flight_bytes_per_host), or those of all (rpc.in_flight_bytes); " +
		"read answers, have fewer requests under way, and try again")
	errTooMuch = errors.New("the message holds too many values for rpc.in_flight_bytes_per_host; send less in one message")
)

// hold is memory that a message or an answer on its way takes of its host's share. It belongs to one goroutine.
type hold struct {
	budget *budget
	host   string
	size   int64 // bytes reserved
}

func (s *service) hold(host string) *hold { return &hold{budget: s.inFlight, host: host} }

// grow reserves n bytes more.
func (h *hold) grow(n int64) error {
	if !h.budget.take(h.host, n) {
		return errHeld
	}
	h.size += n
	return nil
}

// gather reserves n bytes of an answer that is being made.
func (h *hold) gather(n int) error {
	if h.grow(int64(n)) != nil {
		return limitExceeded("%s", errHeld)
	}
	return nil
}

func (h *hold) give() {
	h.budget.give(h.host, h.size)
	h.size = 0
}

// read reads to the end what has been reserved before, step by step.
func (h *hold) read(r io.Reader) ([]byte, error) {
	var buf bytes.Buffer
	for {
		if err := h.grow(messageCopies * bodyStep); err != nil {
			return nil, err
		}
		if _, err := io.CopyN(&buf, r, bodyStep); errors.Is(err, io.EOF) {
			return buf.Bytes(), nil
		} else if err != nil {
			return nil, err
		}
	}
}

// admit reserves what a message that was read takes until it is answered, decoded too. Of a batch of more items than
// most it leaves only so much that go-ethereum's server refuses it.
func (h *hold) admit(b []byte, most int) ([]byte, error) {
	s := shapeOf(b)
	if s.items > most {
		b = refusedBatch(b[:s.first], most)
		s = shapeOf(b)
	}
	size := messageCopies*int64(len(b)) + valueBytes*int64(s.values)
	if b := h.budget; size > b.most || h.host != local && size > b.perHost {
		return nil, errTooMuch
	}
	if size <= h.size {
		h.budget.give(h.host, h.size-size)
		h.size = size
		return b, nil
	}
	return b, h.grow(size - h.size)
}

// refusedBatch is a batch of most+1 items, the first one as in the message begun, since the refusal names its id.
func refusedBatch(begun []byte, most int) []byte {
	_, first, _ := bytes.Cut(begun, []byte("["))
	if !json.Valid(first) {
		first = []byte("0")
	}
	return fmt.Appendf(nil, "[%s%s]", first, bytes.Repeat([]byte(",0"), most))
}

// shape is what can be told of JSON without decoding it.
type shape struct {
	values int // at most so many values it has, keys and the members of one object or array counted once
	items  int // of an array: its members; an empty one may count as 1
	first  int // where the first of several members ends
}

// shapeOf goes through JSON once and keeps nothing. Of bytes that are no JSON it tells anything.
func shapeOf(b []byte) (s shape) {
	depth, list := 0, false
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			if s.values == 0 && b[i] == '[' {
				list, s.items = true, 1
			}
			depth++
			s.values++
		case ']', '}':
			depth--
		case ',':
			s.values++
			if list && depth == 1 {
				if s.items++; s.first == 0 {
					s.first = i
				}
			}
		}
	}
	return s
}
