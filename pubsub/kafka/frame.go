package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrFrame is wrapped by every error about bytes that are no request.
var ErrFrame = errors.New("not a Kafka request")

// Header is what a request begins with.
type Header struct {
	Key, Version int16
	Correlation  int32
	ClientID     string // "" also if the client gave none
}

// headBytes is the part of a header that all its versions share.
const headBytes = 8

// parseHead reads the part of the header that does not depend on what the request is.
func parseHead(b []byte) (h Header, rest []byte, err error) {
	if len(b) < headBytes {
		return h, nil, fmt.Errorf("%w: %d bytes", ErrFrame, len(b))
	}
	e := binary.BigEndian
	h.Key, h.Version, h.Correlation = int16(e.Uint16(b)), int16(e.Uint16(b[2:])), int32(e.Uint32(b[4:])) //nolint:gosec // their bits
	return h, b[headBytes:], nil
}

// parseRest reads the rest of the header, which depends on whether the request is flexible, and returns the body.
func (h *Header) parseRest(b []byte, flexible bool) ([]byte, error) {
	r := kbin.Reader{Src: b}
	if id := r.NullableString(); id != nil {
		h.ClientID = (*id)[:min(len(*id), maxClientID)]
	}
	if flexible {
		w := walker{b: r.Src, room: maxTags * unknownTag}
		w.tags(nil, 0)
		if r.Src = w.b; w.err != nil {
			return nil, fmt.Errorf("%w: in its header, %w", ErrFrame, w.err)
		}
	}
	if !r.Ok() {
		return nil, fmt.Errorf("%w: its header is cut short", ErrFrame)
	}
	return r.Src, nil
}

// ParseRequest decodes a frame without its length: the header and the request. It allocates no more than a small
// multiple of the frame, whatever the frame says. Byte slices of the request point into the frame. Errors wrap
// ErrFrame; with ErrVersion the header is good and the codec or the table of shapes lacks that version.
func ParseRequest(frame []byte) (Header, kmsg.Request, error) {
	h, rest, err := parseHead(frame)
	if err != nil {
		return h, nil, err
	}
	req := kmsg.RequestForKey(h.Key)
	if req == nil || h.Version < 0 || h.Version > req.MaxVersion() || !hasShape(h.Key, h.Version) {
		return h, nil, fmt.Errorf("%w: request %d in version %d", ErrVersion, h.Key, h.Version)
	}
	req.SetVersion(h.Version)
	body, err := h.parseRest(rest, req.IsFlexible())
	if err != nil {
		return h, nil, err
	}
	if err := checkShape(h.Key, h.Version, req.IsFlexible(), body); err != nil {
		return h, nil, fmt.Errorf("%w: %s version %d: %w", ErrFrame, kmsg.NameForKey(h.Key), h.Version, err)
	}
	if err := req.ReadFrom(body); err != nil {
		return h, nil, fmt.Errorf("%w: %s version %d: %w", ErrFrame, kmsg.NameForKey(h.Key), h.Version, err)
	}
	return h, req, nil
}

// ErrVersion is wrapped by errors about requests, or versions of them, that cannot be decoded.
var ErrVersion = errors.New("unknown request")

// AppendResponse appends a whole frame: length, header and the response. The header of ApiVersions is never flexible,
// since its reader does not know yet what the broker speaks.
func AppendResponse(dst []byte, correlation int32, resp kmsg.Response) []byte {
	at := len(dst)
	dst = kbin.AppendInt32(append(dst, 0, 0, 0, 0), correlation)
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		dst = append(dst, 0) // no tags
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4)) //nolint:gosec // bounded by memory
	return dst
}

// appendUnknown appends the answer to a request whose form nobody here knows: the form that most answers of its kind
// have, with UNSUPPORTED_VERSION.
func appendUnknown(dst []byte, correlation int32) []byte {
	dst = kbin.AppendInt32(dst, 4+1+4+2)
	dst = append(kbin.AppendInt32(dst, correlation), 0)                   // no tags
	return kbin.AppendInt16(kbin.AppendInt32(dst, 0), unsupportedVersion) // not throttled
}
