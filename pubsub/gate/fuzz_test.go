package gate

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/seal"
)

func FuzzAnswers(f *testing.F) {
	led := &fakeLedger{topics: map[string]Topic{}, keys: map[string]seal.Key{}}
	plain, secret := led.create("acme.plain", false), led.create("acme.secret", true)
	e, err := New(Config{Topics: led, Keys: led, Mode: Off})
	require.NoError(f, err)
	f.Cleanup(e.Close)
	raw := batch.Encode(batch.Header{LastOffsetDelta: 1, Count: 2}, []byte("records"))
	resp := kmsg.NewPtrFetchResponse()
	t := kmsg.NewFetchResponseTopic()
	t.Topic = "acme.plain"
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = raw
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	for _, v := range []int16{4, 7, 12} {
		f.Add(uint8(0), uint8(v), appendResponse(nil, head{key: 1, version: v}, resp))
	}
	f.Add(uint8(1), uint8(3), appendResponse(nil, head{key: 18, version: 3}, kmsg.NewPtrApiVersionsResponse()))
	f.Add(uint8(2), uint8(9), appendResponse(nil, head{key: 0, version: 9}, kmsg.NewPtrProduceResponse()))
	f.Add(uint8(3), uint8(9), appendResponse(nil, head{key: 3, version: 9}, kmsg.NewPtrMetadataResponse()))
	f.Fuzz(func(t *testing.T, kind, version uint8, frame []byte) {
		if len(frame) < 8 {
			return
		}
		s := e.session(nil, nil, time.Time{}, func(h string, p int32) (string, int32) { return h, p })
		defer s.cancel(nil)
		h := head{version: int16(version % 13)}
		switch kind % 4 {
		case 0:
			h.key = 1
			want := map[string]asked{"acme.plain": {t: plain, offsets: map[int32]int64{0: 0}}, "acme.secret": {t: secret, offsets: map[int32]int64{0: 0}}}
			_, _ = s.fetched(h, nil, frame, want, 0)
		case 1:
			h.key = 18
			_, _ = apiVersions(h, nil, frame)
		case 2:
			_, _ = s.produced(h, nil, frame, nil, nil)
		case 3:
			h.key = 3
			_, _ = s.addresses(h, nil, frame)
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 4, 1, 2, 3, 4})
	f.Add([]byte{0x7f, 0, 0, 4, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := readFrame(bytes.NewReader(b), nil)
		if err != nil {
			require.LessOrEqual(t, cap(frame), 256<<10, "a length alone must not take memory")
			return
		}
		require.Equal(t, b[:len(frame)], frame)
		h, err := parseHead(frame)
		if err == nil {
			_, _ = parseRequest(frame, h, kmsg.NewPtrProduceRequest())
		}
	})
}

// A few bytes that announce billions of tags keep nobody busy: neither the engine nor the client behind it gets them.
func TestAnswersWithEndlessTagsAreRefused(t *testing.T) {
	for key, version := range map[kmsg.Key]int16{kmsg.Metadata: 9, kmsg.JoinGroup: 9, kmsg.OffsetFetch: 8} {
		resp := kmsg.ResponseForKey(int16(key))
		h := head{key: int16(key), version: version}
		frame := appendResponse(nil, h, resp)
		_, err := checkAnswer(frame, h, resp)
		require.NoError(t, err)
		frame = append(frame[:len(frame)-1], 0xff, 0xff, 0xff, 0xff, 0x0f) // tags at the end: none, then 2^32-1
		_, err = checkAnswer(frame, h, resp)
		require.ErrorIs(t, err, kafka.ErrFrame)
	}
}
