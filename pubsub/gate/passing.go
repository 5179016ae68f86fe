package gate

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/kafka"
)

// ceilings are the versions up to which clients may use what the engine looks into.
var ceilings = map[int16]int16{
	int16(kmsg.Produce):         produceVersion,
	int16(kmsg.Fetch):           fetchVersion,
	int16(kmsg.Metadata):        kmsg.NewPtrMetadataRequest().MaxVersion(),
	int16(kmsg.FindCoordinator): kmsg.NewPtrFindCoordinatorRequest().MaxVersion(),
	int16(kmsg.DescribeCluster): kmsg.NewPtrDescribeClusterRequest().MaxVersion(),
}

// passing are the requests that go through: those that brokers of ours answer. Others could carry records, or addresses of
// brokers, past the engine (ShareFetch).
var passing = func() map[int16]bool {
	m := map[int16]bool{int16(kmsg.ApiVersions): true, int16(kmsg.SASLHandshake): true, int16(kmsg.SASLAuthenticate): true}
	for key := range kafka.DefaultVersions() {
		m[key] = true
	}
	return m
}()

// apiVersions lowers what a broker offers to what the engine can look into.
func apiVersions(h head, dst, frame []byte) ([]byte, error) {
	resp := kmsg.NewPtrApiVersionsResponse()
	if len(frame) >= 10 && int16(binary.BigEndian.Uint16(frame[8:])) == kerr.UnsupportedVersion.Code || h.version > resp.MaxVersion() {
		h.version = 0 // such an answer always comes in version 0
	}
	if err := parseResponse(frame, h, resp); err != nil {
		return nil, err
	}
	kept := resp.ApiKeys[:0]
	for _, k := range resp.ApiKeys {
		if top, ok := ceilings[k.ApiKey]; ok {
			k.MaxVersion = min(k.MaxVersion, top)
		}
		if passing[k.ApiKey] && k.MaxVersion >= k.MinVersion {
			kept = append(kept, k)
		}
	}
	resp.ApiKeys = kept
	return appendResponse(dst, h, resp), nil
}

// refuseLogin answers a client that wants to log in: the engine does it for its clients.
func (s *session) refuseLogin(h head, frame []byte) (*exchange, []byte, error) {
	s.e.cfg.Log.Warn("a client wants to log in to the proxy, which logs in itself: take security.protocol=plaintext and no SASL")
	req := kmsg.RequestForKey(h.key)
	if _, err := parseRequest(frame, h, req); err != nil {
		return nil, nil, err
	}
	resp := req.ResponseKind()
	switch r := resp.(type) {
	case *kmsg.SASLHandshakeResponse:
		r.ErrorCode = kerr.UnsupportedSaslMechanism.Code
	case *kmsg.SASLAuthenticateResponse:
		r.ErrorCode = kerr.IllegalSaslState.Code
	}
	return &exchange{head: h, local: appendResponse(nil, h, resp)}, nil, nil
}

// addresses puts this side's addresses of brokers into an answer.
func (s *session) addresses(h head, dst, frame []byte) ([]byte, error) {
	resp := kmsg.RequestForKey(h.key).ResponseKind()
	if err := parseResponse(frame, h, resp); err != nil {
		return nil, err
	}
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			b := &r.Brokers[i]
			b.Host, b.Port = s.rewrite(b.Host, b.Port)
		}
	case *kmsg.FindCoordinatorResponse:
		if r.Host != "" {
			r.Host, r.Port = s.rewrite(r.Host, r.Port)
		}
		for i := range r.Coordinators {
			if c := &r.Coordinators[i]; c.Host != "" {
				c.Host, c.Port = s.rewrite(c.Host, c.Port)
			}
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			b := &r.Brokers[i]
			b.Host, b.Port = s.rewrite(b.Host, b.Port)
		}
	default:
		return nil, fmt.Errorf("no addresses are known in %s answers", kmsg.NameForKey(h.key))
	}
	return appendResponse(dst, h, resp), nil
}
