package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/seal"
)

// asked is what a Fetch request wants of one topic.
type asked struct {
	t       Topic
	err     error           // of asking the chain about it
	offsets map[int32]int64 // by partition
}

// served is what one partition of an answer becomes.
type served struct {
	p      *kmsg.FetchResponseTopicPartition
	t      Topic
	leaves []Leaf // of the batches that are good
	ends   []int  // where each of them ends in clear
	clear  []byte // the batches for the client
	err    error  // about the first batch that is not good
}

// fetch notes what is asked for. Incremental fetch sessions are turned into whole requests: an answer is judged by its
// request alone.
func (s *session) fetch(h head, frame []byte) (*exchange, []byte, error) {
	if h.version > fetchVersion {
		return nil, nil, fmt.Errorf("a Fetch request of version %d; %d is the highest on offer", h.version, fetchVersion)
	}
	req := kmsg.NewPtrFetchRequest()
	body, err := parseRequest(frame, h, req)
	if err != nil {
		return nil, nil, err
	}
	if req.SessionID != 0 { // never given out
		resp := kmsg.NewPtrFetchResponse()
		resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
		return &exchange{head: h, local: appendResponse(nil, h, resp)}, nil, nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, LookupTimeout)
	defer cancel()
	want := make(map[string]asked, len(req.Topics))
	for _, rt := range req.Topics {
		a := asked{offsets: make(map[int32]int64, len(rt.Partitions))}
		a.t, a.err = s.e.topic(ctx, rt.Topic)
		for _, rp := range rt.Partitions {
			a.offsets[rp.Partition] = rp.FetchOffset
		}
		want[rt.Topic] = a
	}
	hold := min(time.Duration(max(req.MaxWaitMillis, 0))*time.Millisecond, HoldTime)
	x := &exchange{head: h, answer: func(dst, f []byte) ([]byte, error) { return s.fetched(h, dst, f, want, hold) }}
	if h.version >= 7 && req.SessionEpoch != -1 {
		req.SessionEpoch = -1
		s.out = appendRequest(s.out, frame, body, req)
		return x, s.out, nil
	}
	return x, frame, nil
}

// fetched checks and decrypts an answer.
func (s *session) fetched(h head, dst, frame []byte, want map[string]asked, hold time.Duration) ([]byte, error) {
	resp := kmsg.NewPtrFetchResponse()
	if err := parseResponse(frame, h, resp); err != nil {
		return nil, err
	}
	changed := resp.SessionID != 0
	resp.SessionID = 0
	s.clear = s.clear[:0]
	var all []*served
	for i := range resp.Topics {
		rt := &resp.Topics[i]
		a, ok := want[rt.Topic]
		if !ok {
			return nil, fmt.Errorf("the broker served topic %q, which was not asked for", rt.Topic)
		}
		for j := range rt.Partitions {
			p := &rt.Partitions[j]
			offset, ok := a.offsets[p.Partition]
			if !ok {
				return nil, fmt.Errorf("the broker served partition %d of topic %q, which was not asked for", p.Partition, rt.Topic)
			}
			switch {
			case len(p.RecordBatches) == 0:
			case p.ErrorCode == 0:
				all = append(all, s.check(a, rt.Topic, p, offset))
			default: // some client may take records beside an error for good
				p.RecordBatches, changed = []byte{}, true
			}
		}
	}
	if w := s.e.watch; w != nil && len(all) > 0 {
		s.follow(w, all, hold)
	}
	good := false
	for _, v := range all {
		changed = s.settle(v) || changed
		good = good || v.err == nil || len(v.leaves) > 0
	}
	if !good && len(all) > 0 { // clients try again at once
		pause.For(s.ctx, ErrorPause)
	}
	if cap(s.clear) > KeepBytes {
		s.clear = nil
	}
	if !changed {
		return frame, nil
	}
	return appendResponse(dst, h, resp), nil
}

// check walks the batches of a partition: they are whole, begin at the wanted offset, follow each other, and open.
func (s *session) check(a asked, name string, p *kmsg.FetchResponseTopicPartition, offset int64) *served {
	v := &served{p: p, t: a.t, err: a.err}
	v.t.Name = name
	if v.err != nil {
		return v
	}
	ctx, cancel := context.WithTimeout(s.ctx, LookupTimeout)
	defer cancel()
	from, next := len(s.clear), offset
	b := p.RecordBatches
	for len(b) > 0 {
		size, err := batch.Size(b)
		if len(b) < 12 || err == nil && size > len(b) {
			break // the last one may be cut short
		}
		var h batch.Header
		if err == nil {
			h, size, err = batch.Parse(b)
		}
		if err != nil {
			v.err = v.tampered(next, Flipped, err)
			break
		}
		if v.err = v.follows(h, next, len(v.leaves) == 0); v.err != nil {
			break
		}
		raw := b[:size:size]
		if v.err = s.reveal(ctx, v, h, raw); v.err != nil {
			break
		}
		l := Leaf{Base: h.BaseOffset, Next: h.NextOffset()}
		if s.e.watch != nil {
			l.Hash = s.e.cfg.Proofs.Leaf(v.t.ID, p.Partition, h, batch.Covered(raw))
		}
		v.leaves = append(v.leaves, l)
		next, b = l.Next, b[size:]
		if v.t.Encrypted {
			v.ends = append(v.ends, len(s.clear)-from)
		} else {
			v.ends = append(v.ends, len(p.RecordBatches)-len(b))
		}
	}
	v.clear = p.RecordBatches
	if v.t.Encrypted {
		v.clear = s.clear[from:len(s.clear):len(s.clear)]
	}
	return v
}

func (v *served) tampered(offset int64, what string, cause error) error {
	return &TamperError{Topic: v.t.Name, Partition: v.p.Partition, Offset: offset, What: what, Cause: cause}
}

// follows checks a batch's place: the first one holds the wanted offset, every other begins where the last one ended.
func (v *served) follows(h batch.Header, next int64, first bool) error {
	switch {
	case h.BaseOffset > next:
		return v.tampered(h.BaseOffset, Gap, fmt.Errorf("offset %d was due", next))
	case first && h.NextOffset() > next, !first && h.BaseOffset == next:
		return nil
	}
	return v.tampered(h.BaseOffset, Backwards, fmt.Errorf("offset %d was due", next))
}

// reveal puts a batch of an encrypted topic into s.clear, decrypted. Brokers take no control batches: one in such a topic
// would hide that a batch is missing.
func (s *session) reveal(ctx context.Context, v *served, h batch.Header, raw []byte) error {
	if !v.t.Encrypted {
		return nil
	}
	at := len(s.clear)
	out, err := s.e.open(ctx, s.clear, raw, v.t, v.p.Partition)
	var forged *seal.TamperedError
	switch {
	case err == nil:
		s.clear = out
		s.once(v, h, raw, at)
	case errors.As(err, &forged):
		return v.tampered(h.BaseOffset, Forged, err)
	case errors.Is(err, seal.ErrNotSealed):
		return v.tampered(h.BaseOffset, Unsealed, err)
	}
	return err
}

// once empties a batch that stands in the partition for another time; in clear it begins at s.clear[at].
func (s *session) once(v *served, h batch.Header, raw []byte, at int) {
	verdict, first := s.e.replays.judge(place{v.t.ID, v.p.Partition}, seal.PlaceOf(raw), h.BaseOffset)
	s.e.m.opened.Inc()
	switch verdict {
	case fresh:
		return
	case repeated: // brokers that append again after a fail-over may do so without lying
		s.e.m.repeated.Inc()
		s.e.cfg.Log.Warn("a batch stands in a partition twice; its records are shown once", zap.String("topic", v.t.Name),
			zap.Int32("partition", v.p.Partition), zap.Int64("offset", h.BaseOffset), zap.Int64("first", first))
	case late:
		s.e.fail(v.t.Name, v.p.Partition, v.tampered(h.BaseOffset, Replayed, fmt.Errorf("what its producer wrote after it stands at offset %d", first)))
	}
	s.clear = emptied(s.clear[:at], raw)
}

// follow hands what is good to the watch, waits for room, and for proofs where only what is proved goes out.
func (s *session) follow(w *watch, all []*served, hold time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, hold)
	defer cancel()
	for _, v := range all {
		at := place{v.t.ID, v.p.Partition}
		n, err := w.add(ctx, at, v.t, v.leaves)
		if err != nil {
			v.err = err
		}
		v.leaves = v.leaves[:n]
	}
	if s.e.cfg.Mode != Proved {
		return
	}
	for _, v := range all {
		n, err := w.await(ctx, place{v.t.ID, v.p.Partition}, v.leaves)
		if err != nil {
			v.err = err
		} else if n < len(v.leaves) {
			v.err = nil // what is wrong comes after what is not proved yet
		}
		v.leaves = v.leaves[:n]
	}
}

// settle writes what a partition became into the answer, and tells whether anything changed. What is good goes out; an
// error is told when nothing good is before it.
func (s *session) settle(v *served) bool {
	n := len(v.leaves)
	end := 0
	if n > 0 {
		end = v.ends[n-1]
	}
	changed := v.t.Encrypted || end != len(v.p.RecordBatches) || v.err != nil
	v.p.RecordBatches = v.clear[:end]
	if v.p.RecordBatches == nil {
		v.p.RecordBatches = []byte{}
	}
	if v.err == nil {
		return changed
	}
	var tampered *TamperError
	var none *seal.NoKeyError
	var down *DowngradeError
	code := kerr.LeaderNotAvailable // the ledger cannot be asked: try again
	switch {
	case errors.As(v.err, &tampered):
		code = kerr.CorruptMessage
		s.e.fail(v.t.Name, v.p.Partition, v.err)
	case errors.As(v.err, &none), errors.As(v.err, &down), errors.Is(v.err, seal.ErrSealed):
		code = kerr.TopicAuthorizationFailed
		s.e.fail(v.t.Name, v.p.Partition, v.err)
	case errors.Is(v.err, ErrUnknownTopic):
		code = kerr.UnknownTopicOrPartition
	default:
		s.e.cfg.Log.Warn("what was fetched cannot be judged now", zap.String("topic", v.t.Name), zap.Error(v.err))
	}
	if n == 0 {
		v.p.ErrorCode = code.Code
	}
	return true
}

// place is one partition.
type place struct {
	topic     common.Hash
	partition int32
}
