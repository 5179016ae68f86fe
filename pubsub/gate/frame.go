package gate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/kafka"
)

// Frames are held whole, with the 4 bytes of their length in front.

// readFrame reads the next frame into buf, which grows as the bytes come: a length alone makes no large allocation.
func readFrame(r io.Reader, buf []byte) ([]byte, error) {
	if cap(buf) > KeepBytes {
		buf = nil
	}
	buf = slices.Grow(buf[:0], 4)[:4]
	if _, err := io.ReadFull(r, buf); err != nil {
		return buf, err
	}
	n := int(int32(binary.BigEndian.Uint32(buf)))
	if n < 4 || n > MaxFrameBytes {
		return buf, fmt.Errorf("a frame of %d bytes; 4 to %d are taken: is this a Kafka connection?", n, MaxFrameBytes)
	}
	for want := n + 4; len(buf) < want; {
		at := len(buf)
		step := min(want-at, max(at, 64<<10))
		buf = slices.Grow(buf, step)[:at+step]
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			return buf, errors.Join(io.ErrUnexpectedEOF, err)
		}
	}
	return buf, nil
}

// head is what every request begins with.
type head struct {
	key, version int16
	corr         int32
}

func parseHead(frame []byte) (head, error) {
	if len(frame) < 12 {
		return head{}, fmt.Errorf("a request of %d bytes", len(frame))
	}
	e := binary.BigEndian
	return head{int16(e.Uint16(frame[4:])), int16(e.Uint16(frame[6:])), int32(e.Uint32(frame[8:]))}, nil
}

// parseRequest reads the body of a request into req and tells where in the frame the body begins.
func parseRequest(frame []byte, h head, req kmsg.Request) (body int, err error) {
	if h.version < 0 || h.version > req.MaxVersion() {
		return 0, fmt.Errorf("%s of unknown version %d", kmsg.NameForKey(h.key), h.version)
	}
	req.SetVersion(h.version)
	r := kbin.Reader{Src: frame[12:]}
	r.NullableString() // client id
	if req.IsFlexible() {
		skipTags(&r)
	}
	if err := r.Complete(); err != nil {
		return 0, fmt.Errorf("the head of a %s request: %w", kmsg.NameForKey(h.key), err)
	}
	body = len(frame) - len(r.Src)
	if err := req.ReadFrom(r.Src); err != nil {
		return 0, fmt.Errorf("%s request of version %d: %w", kmsg.NameForKey(h.key), h.version, err)
	}
	return body, nil
}

// appendRequest puts a frame into dst: the head of the frame from, another body.
func appendRequest(dst, from []byte, body int, req kmsg.Request) []byte {
	dst = append(dst[:0], from[:body]...)
	dst = req.AppendTo(dst)
	binary.BigEndian.PutUint32(dst, uint32(len(dst)-4))
	return dst
}

// parseResponse reads the body of an answer.
func parseResponse(frame []byte, h head, resp kmsg.Response) error {
	body, err := checkAnswer(frame, h, resp)
	if err != nil {
		return err
	}
	if err := resp.ReadFrom(body); err != nil {
		return fmt.Errorf("%s answer of version %d: %w", kmsg.NameForKey(h.key), h.version, err)
	}
	return nil
}

// checkAnswer finds the body of an answer, which a decoder may be given: also the client's own, behind this one. It sets
// the version of resp.
func checkAnswer(frame []byte, h head, resp kmsg.Response) (body []byte, err error) {
	resp.SetVersion(h.version)
	r := kbin.Reader{Src: frame[8:]}
	if resp.IsFlexible() && h.key != int16(kmsg.ApiVersions) {
		skipTags(&r)
	}
	if err := r.Complete(); err != nil {
		return nil, fmt.Errorf("the head of a %s answer: %w", kmsg.NameForKey(h.key), err)
	}
	return r.Src, kafka.CheckAnswer(resp, r.Src)
}

// appendResponse puts an answer's frame into dst.
func appendResponse(dst []byte, h head, resp kmsg.Response) []byte {
	resp.SetVersion(h.version)
	dst = append(dst[:0], 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.corr))
	if resp.IsFlexible() && h.key != int16(kmsg.ApiVersions) {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst, uint32(len(dst)-4))
	return dst
}

// skipTags is kmsg.SkipTags that ends with the bytes.
func skipTags(r *kbin.Reader) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		r.Uvarint()
		r.Span(int(r.Uvarint()))
	}
}
