package gate

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/seal"
)

// refusal is a partition of a Produce request that the engine answers itself.
type refusal struct {
	topic     string
	partition int32
	err       *kerr.Error
	message   string
}

// sent is a batch on its way to a broker, kept for its receipt.
type sent struct {
	t   Topic
	raw []byte
}

// produce encrypts what goes to encrypted topics and refuses what it cannot.
func (s *session) produce(h head, frame []byte) (*exchange, []byte, error) {
	if h.version > produceVersion {
		return nil, nil, fmt.Errorf("a Produce request of version %d; %d is the highest on offer", h.version, produceVersion)
	}
	req := kmsg.NewPtrProduceRequest()
	body, err := parseRequest(frame, h, req)
	if err != nil {
		return nil, nil, err
	}
	topics, refused, changed := s.outgoing(req)
	out := frame
	if req.Acks != 0 && s.wantsReceipts() {
		out, changed = askReceipts(frame, req, changed)
	}
	switch {
	case len(req.Topics) == 0 && len(refused) > 0: // nothing is left to send
		out = nil
	case changed:
		s.out = appendRequest(s.out, frame, body, req)
		out = s.out
	}
	if req.Acks == 0 {
		if len(refused) > 0 { // as a broker does: there is no other way to tell
			return nil, nil, fmt.Errorf("a batch without acknowledgement for topic %s: %s", refused[0].topic, refused[0].message)
		}
		return nil, out, nil
	}
	if out == nil {
		return &exchange{head: h, local: appendResponse(nil, h, withRefused(kmsg.NewPtrProduceResponse(), refused))}, nil, nil
	}
	x := &exchange{head: h}
	kept := s.keep(req, topics, changed)
	if len(refused) > 0 || kept != nil {
		x.answer = func(dst, f []byte) ([]byte, error) { return s.produced(h, dst, f, refused, kept) }
	}
	return x, out, nil
}

// outgoing looks at every partition of a request: those in req.Topics afterwards go to the broker.
func (s *session) outgoing(req *kmsg.ProduceRequest) (topics map[string]Topic, refused []refusal, changed bool) {
	ctx, cancel := context.WithTimeout(s.ctx, LookupTimeout)
	defer cancel()
	topics = map[string]Topic{}
	s.sealed = s.sealed[:0]
	left := req.Topics[:0]
	for _, rt := range req.Topics {
		t, err := s.e.topic(ctx, rt.Topic)
		topics[rt.Topic] = t
		parts := rt.Partitions[:0]
		for _, rp := range rt.Partitions {
			if err == nil && !t.Encrypted {
				parts = append(parts, rp)
				continue
			}
			changed = true
			perr := err
			if perr == nil {
				rp.Records, perr = s.encrypt(ctx, t, rp.Partition, rp.Records)
			}
			if perr == nil {
				parts = append(parts, rp)
				continue
			}
			r := refuse(rt.Topic, rp.Partition, perr)
			refused = append(refused, r)
			s.e.m.refused.Inc()
			var none *seal.NoKeyError
			var down *DowngradeError
			if errors.As(perr, &none) || errors.As(perr, &down) {
				s.e.fail(rt.Topic, rp.Partition, perr)
			} else {
				s.e.cfg.Log.Warn("a batch is not sent", zap.String("topic", rt.Topic), zap.Error(perr))
			}
		}
		if len(parts) > 0 {
			rt.Partitions = parts
			left = append(left, rt)
		}
	}
	req.Topics = left
	return topics, refused, changed
}

// encrypt seals the batches of one partition; the result lies in s.sealed.
func (s *session) encrypt(ctx context.Context, t Topic, partition int32, records []byte) ([]byte, error) {
	sealer, err := s.sealer(ctx, t)
	if err != nil {
		return nil, err
	}
	at := len(s.sealed)
	err = batch.Each(records, func(h batch.Header, raw []byte) error {
		if len(raw)+seal.Overhead > batch.MaxBytes {
			return fmt.Errorf("%w: %d bytes with its encryption; %d are taken", kerr.MessageTooLarge, len(raw)+seal.Overhead, batch.MaxBytes)
		}
		begin, from := len(s.sealed), senderOf(t.ID, partition, &h)
		if h.ProducerID >= 0 {
			if was := s.e.again(from, &h, raw, t, partition); was != nil {
				s.sealed = append(s.sealed, was...)
				return nil
			}
		}
		if s.sealed, err = sealer.Seal(s.sealed, raw, partition); err == nil && h.ProducerID >= 0 && s.wantsReceipts() {
			s.e.resends.note(from, h.FirstSequence, s.sealed[begin:])
		}
		s.e.m.sealed.Inc()
		return err
	})
	if err != nil {
		s.sealed = s.sealed[:at]
		return nil, err
	}
	return s.sealed[at:len(s.sealed):len(s.sealed)], nil
}

// refuse chooses Kafka's error: fatal ones only where trying again cannot help.
func refuse(topic string, partition int32, err error) refusal {
	r := refusal{topic: topic, partition: partition, message: err.Error()}
	var none *seal.NoKeyError
	var down *DowngradeError
	switch {
	case errors.As(err, &none), errors.As(err, &down), errors.Is(err, seal.ErrSealed):
		r.err = kerr.TopicAuthorizationFailed
	case errors.Is(err, batch.ErrCorrupt):
		r.err = kerr.InvalidRecord
	case errors.Is(err, kerr.MessageTooLarge):
		r.err = kerr.MessageTooLarge
	case errors.Is(err, ErrUnknownTopic):
		r.err = kerr.UnknownTopicOrPartition
	default: // the ledger cannot be asked: whether the topic is encrypted is not known
		r.err = kerr.RequestTimedOut
	}
	return r
}

func (s *session) wantsReceipts() bool { return s.e.cfg.Receipts != nil && s.e.cfg.Mode != Off }

// keep holds what was sent until its receipt is there; then up may not use those buffers any more.
func (s *session) keep(req *kmsg.ProduceRequest, topics map[string]Topic, changed bool) map[string]map[int32]sent {
	if !s.wantsReceipts() {
		return nil
	}
	kept := map[string]map[int32]sent{}
	for _, rt := range req.Topics {
		m := map[int32]sent{}
		for _, rp := range rt.Partitions {
			m[rp.Partition] = sent{topics[rt.Topic], rp.Records}
		}
		kept[rt.Topic] = m
	}
	s.in = nil
	if changed {
		s.sealed = nil
	}
	return kept
}

// produced checks the receipts in an answer and adds what was refused.
func (s *session) produced(h head, dst, frame []byte, refused []refusal, kept map[string]map[int32]sent) ([]byte, error) {
	resp := kmsg.NewPtrProduceResponse()
	if err := parseResponse(frame, h, resp); err != nil {
		return nil, err
	}
	changed := len(refused) > 0
	for i := range resp.Topics {
		rt := &resp.Topics[i]
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			if kept == nil || rp.ErrorCode != 0 {
				continue
			}
			was, ok := kept[rt.Topic][rp.Partition]
			if !ok {
				return nil, fmt.Errorf("the broker acknowledged partition %d of topic %s, which was not sent", rp.Partition, rt.Topic)
			}
			if err := s.receipt(was, rt.Topic, rp); err != nil {
				s.e.fail(rt.Topic, rp.Partition, err)
				text := err.Error()
				rp.ErrorCode, rp.ErrorMessage, rp.BaseOffset, changed = kerr.UnknownServerError.Code, &text, -1, true
			}
		}
	}
	if !changed {
		return frame, nil
	}
	return appendResponse(dst, h, withRefused(resp, refused)), nil
}

// receipt passes a batch and its receipt to who checks them.
func (s *session) receipt(was sent, topic string, rp *kmsg.ProduceResponseTopicPartition) error {
	hd, _, err := batch.ParseHeader(was.raw)
	if err != nil {
		return nil //nolint:nilerr // the broker took it: it is not this engine that reads batches of plain topics
	}
	if was.t.Encrypted && hd.ProducerID >= 0 {
		s.e.resends.done(senderOf(was.t.ID, rp.Partition, &hd), hd.FirstSequence)
	}
	var receipt []byte
	rp.UnknownTags.Each(func(n uint32, b []byte) {
		if n == ReceiptTag {
			receipt = b
		}
	})
	err = s.e.cfg.Receipts.Receipt(was.t, rp.Partition, rp.BaseOffset, hd, batch.Covered(was.raw), receipt)
	if err != nil {
		var tampered *TamperError
		if errors.As(err, &tampered) {
			return err
		}
		return &TamperError{Topic: topic, Partition: rp.Partition, Offset: rp.BaseOffset, What: BadReceipt, Cause: err}
	}
	return nil
}

func withRefused(resp *kmsg.ProduceResponse, refused []refusal) *kmsg.ProduceResponse {
	at := map[string]int{}
	for i, t := range resp.Topics {
		at[t.Topic] = i
	}
	for _, r := range refused {
		i, ok := at[r.topic]
		if !ok {
			t := kmsg.NewProduceResponseTopic()
			t.Topic = r.topic
			i = len(resp.Topics)
			at[r.topic], resp.Topics = i, append(resp.Topics, t)
		}
		p := kmsg.NewProduceResponseTopicPartition()
		p.Partition, p.ErrorCode, p.ErrorMessage, p.BaseOffset = r.partition, r.err.Code, &r.message, -1
		resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, p)
	}
	return resp
}
