package kafka

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill sets every field of v to something random.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for k := range v.NumField() {
			if n := v.Type().Field(k).Name; n != "Version" && n != "UnknownTags" && v.Field(k).CanSet() {
				fill(r, v.Field(k), depth)
			}
		}
	case reflect.Slice:
		n := r.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for k := range n {
			fill(r, v.Index(k), depth+1)
		}
	case reflect.Array:
		for k := range v.Len() {
			fill(r, v.Index(k), depth+1)
		}
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem(), depth)
		}
	case reflect.String:
		v.SetString(strings.Repeat("é", r.IntN(90)))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(r.Float64())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(r.Int64())
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(256)))
	default:
		panic(v.Type().String())
	}
}

func random(r *rand.Rand, key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fill(r, reflect.ValueOf(req).Elem(), 0)
	return req
}

// Every request of the codec in every version that is walked: the walk must end exactly where the request does.
func TestShapesAreThoseOfTheCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for key := range shapes {
		for version := range kmsg.RequestForKey(key).MaxVersion() + 1 {
			for range 40 {
				req := random(r, key, version)
				body := req.AppendTo(nil)
				w := walker{b: body, version: version, flexible: req.IsFlexible(), room: 1 << 30}
				w.shape(shapes[key], 0)
				require.NoError(t, w.err, "%s version %d", kmsg.NameForKey(key), version)
				require.Empty(t, w.b, "%s version %d", kmsg.NameForKey(key), version)
				require.NoError(t, checkShape(key, version, req.IsFlexible(), body), "%s version %d", kmsg.NameForKey(key), version)

				frame := new(kmsg.RequestFormatter).AppendRequest(nil, req, 77)[4:]
				h, back, err := ParseRequest(frame)
				require.NoError(t, err)
				require.Equal(t, Header{Key: key, Version: version, Correlation: 77}, h)
				require.Equal(t, body, back.AppendTo(nil))
			}
			for range 40 { // cut anywhere, it is refused or harmless
				req := random(r, key, version)
				frame := new(kmsg.RequestFormatter).AppendRequest(nil, req, 77)[4:]
				_, _, _ = ParseRequest(frame[:r.IntN(len(frame))])
			}
		}
	}
	for key := range DefaultVersions() {
		require.NotNil(t, shapes[key], kmsg.NameForKey(key))
	}
	for key := range ownKeys {
		require.NotNil(t, shapes[key], kmsg.NameForKey(key))
	}
}

// The same of answers. Cut anywhere, or with a tail, they are refused.
func TestAnswersAreThoseOfTheCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for key := range answers {
		for version := range kmsg.RequestForKey(key).MaxVersion() + 1 {
			for range 40 {
				resp := kmsg.ResponseForKey(key)
				resp.SetVersion(version)
				fill(r, reflect.ValueOf(resp).Elem(), 0)
				body := resp.AppendTo(nil)
				name := fmt.Sprintf("%s version %d", kmsg.NameForKey(key), version)
				require.NoError(t, CheckAnswer(resp, body), name)
				require.ErrorIs(t, CheckAnswer(resp, append(body, 0)), ErrFrame, name)
				require.ErrorIs(t, CheckAnswer(resp, body[:r.IntN(len(body))]), ErrFrame, name)
			}
		}
	}
	for key := range shapes {
		if _, ok := DefaultVersions()[key]; ok || ownKeys[key] != (Version{}) {
			require.NotNil(t, answers[key], kmsg.NameForKey(key))
		}
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = resp.MaxVersion() + 1
	require.ErrorIs(t, CheckAnswer(resp, nil), ErrVersion)
}

func head(key, version int16, flexible bool) []byte {
	b := kbin.AppendInt16(kbin.AppendInt16(nil, key), version)
	b = kbin.AppendInt16(kbin.AppendInt32(b, 1), -1)
	if flexible {
		b = append(b, 0)
	}
	return b
}

// A few bytes that claim millions of elements or billions of tags cost neither memory nor time.
func TestHostileLengthsAreRefused(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // 2^32-1
	deep := func(b []byte, unit []byte, n int) []byte {
		for range n {
			b = append(b, unit...)
		}
		return b
	}
	claims := binary.AppendUvarint(nil, 2<<20)
	for name, frame := range map[string][]byte{
		"tags of the header":         append(head(18, 3, true)[:10], huge...),
		"tags of a body":             append(append(head(18, 3, true), 1, 1), huge...),
		"a tag's length":             append(append(head(18, 3, true), 1, 1, 1, 9), huge...),
		"a login's tags":             append(append(head(36, 2, true), 1), huge...),
		"tags in a known tag":        append(append(append(head(1, 12, true), make([]byte, 25)...), 1, 1, 1, 1, 1, 17), append(make([]byte, 12), huge...)...),
		"compact array":              append(head(3, 12, true), huge...),
		"array":                      append(head(3, 1, false), 0x7f, 0xff, 0xff, 0xff),
		"negative array":             append(head(3, 1, false), 0xff, 0xff, 0xff, 0xfe),
		"string":                     append(append(head(8, 2, false), 0x7f, 0xff), 'a'),
		"negative string":            append(append(head(8, 2, false), 0xff, 0xfe), 'a'),
		"a client id":                {0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff},
		"as many topics as bytes":    append(append(head(19, 7, true), claims...), make([]byte, 2<<20)...),
		"partitions of nothing":      append(append(append(head(0, 9, true), 0, 0, 1, 0, 0, 0, 9, 2, 2, 'a'), claims...), make([]byte, 2<<20)...),
		"claims within claims":       deep(append(head(19, 5, true), claims...), append([]byte{1, 0, 0, 0, 1, 0, 1}, claims...), 40_000),
		"many tags, few bytes each":  deep(append(head(12, 4, true), 1, 0, 0, 0, 0, 1, 1, 63), []byte{200, 1, 0}, 63),
		"a frame shorter than a key": {0, 3, 0},
	} {
		if name == "many tags, few bytes each" { // within the bounds: taken, without much memory
			_, _, err := ParseRequest(frame)
			require.NoError(t, err, name)
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := ParseRequest(frame)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, ErrFrame, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(controlFactor*len(frame)+4*smallBuffer), name)
	}
}

func TestRefuseNamesWhatTheRequestNamed(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for key := range shapes {
		for version := range kmsg.RequestForKey(key).MaxVersion() + 1 {
			req := random(r, key, version)
			resp := Refuse(req, kerrTest, "because")
			require.Equal(t, version, resp.GetVersion())
			b := resp.AppendTo(nil)
			back := req.ResponseKind()
			require.NoError(t, back.ReadFrom(b), kmsg.NameForKey(key))
		}
	}
	produce := kmsg.NewPtrProduceRequest()
	produce.Version = 9
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic = "acme.a"
	pp := kmsg.NewProduceRequestTopicPartition()
	pp.Partition = 5
	pt.Partitions = append(pt.Partitions, pp)
	produce.Topics = append(produce.Topics, pt)
	got := Refuse(produce, kerrTest, "because").(*kmsg.ProduceResponse)
	require.Equal(t, "acme.a", got.Topics[0].Topic)
	require.Equal(t, int32(5), got.Topics[0].Partitions[0].Partition)
	require.Equal(t, kerrTest.Code, got.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, "because", *got.Topics[0].Partitions[0].ErrorMessage)

	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Groups = []string{"a", "b"}
	described := Refuse(groups, kerrTest, "").(*kmsg.DescribeGroupsResponse)
	require.Equal(t, "b", described.Groups[1].Group)
	require.Equal(t, kerrTest.Code, described.Groups[1].ErrorCode)

	offsets := kmsg.NewPtrOffsetFetchRequest()
	ot := kmsg.NewOffsetFetchRequestTopic()
	ot.Topic, ot.Partitions = "t", []int32{3}
	offsets.Topics = append(offsets.Topics, ot)
	fetched := Refuse(offsets, kerrTest, "").(*kmsg.OffsetFetchResponse)
	require.Equal(t, int32(3), fetched.Topics[0].Partitions[0].Partition)

	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames = []string{"x"}
	require.Equal(t, "x", *Refuse(del, kerrTest, "").(*kmsg.DeleteTopicsResponse).Topics[0].Topic)

	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{"g"}
	require.Equal(t, "g", Refuse(find, kerrTest, "").(*kmsg.FindCoordinatorResponse).Coordinators[0].Key)

	acls := kmsg.NewPtrCreateACLsRequest()
	acls.Creations = make([]kmsg.CreateACLsRequestCreation, 2)
	require.Len(t, Refuse(acls, kerrTest, "").(*kmsg.CreateACLsResponse).Results, 2)
}

func FuzzParseRequest(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for key := range shapes {
		for version := range kmsg.RequestForKey(key).MaxVersion() + 1 {
			f.Add(new(kmsg.RequestFormatter).AppendRequest(nil, random(r, key, version), 1)[4:])
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		_, req, err := ParseRequest(frame)
		if err == nil {
			req.AppendTo(nil)
			Refuse(req, kerrTest, "no").AppendTo(nil)
		}
	})
}

// The guide lists what is answered.
func TestTheGuideNamesTheVersions(t *testing.T) {
	guide, err := os.ReadFile("../../docs/topics-clients.md")
	require.NoError(t, err)
	all, err := newTable(nil)
	require.NoError(t, err)
	for key, v := range all.versions {
		row := fmt.Sprintf("| %s | %d-%d |\n", kmsg.NameForKey(key), v.Min, v.Max)
		require.Contains(t, string(guide), row)
	}
	_, table, _ := strings.Cut(string(guide), "| request | versions |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	require.Len(t, strings.Split(table, "\n"), len(all.versions))
}
