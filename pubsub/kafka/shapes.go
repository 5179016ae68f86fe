package kafka

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// shapes says how the bodies of requests are laid out, so that they can be walked before they are decoded:
//
//	b h i l u   numbers of 1, 2, 4, 8 and 16 bytes
//	s x         string, bytes; null or not
//	[...]       array of structs; of plain strings or numbers if it holds just one of those
//	{...}       struct
//	<n ...>     tagged field n of the struct
//
// @2+, @-7 and @2-7 behind one name the versions that have it. Flexible versions have compact lengths and end every
// struct with tags.
var shapes = compile(map[kmsg.Key]string{
	kmsg.Produce: "s@3+ h i [s@-12 u@13+ [i x]]",
	kmsg.Fetch: "i@-14 i i i@3+ b@4+ i@7+ i@7+ [s@-12 u@13+ [i i@9+ l i@12+ l@5+ i <0 u> <1 l>]] " +
		"[s@-12 u@13+ [i]]@7+ s@11+ <0 s> <1 {i l}>",
	kmsg.ListOffsets:             "i b@2+ [s [i i@4+ l i@-0]] i@10+",
	kmsg.Metadata:                "[u@10+ s] b@4+ b@8-10 b@8+",
	kmsg.OffsetCommit:            "s i@1+ s@1+ s@7+ l@2-4 [s@-9 u@10+ [i l l@1-1 i@6+ s]]",
	kmsg.OffsetFetch:             "s@-7 [s [i]]@-7 [s s@9+ i@9+ [s@-9 u@10+ [i]]]@8+ b@7+",
	kmsg.FindCoordinator:         "s@-3 b@1+ [s]@4+",
	kmsg.JoinGroup:               "s i i@1+ s s@5+ s [s x] s@8+",
	kmsg.Heartbeat:               "s i s s@3+",
	kmsg.LeaveGroup:              "s s@-2 [s s s@5+]@3+",
	kmsg.SyncGroup:               "s i s s@3+ s@5+ s@5+ [s x]",
	kmsg.DescribeGroups:          "[s] b@3+",
	kmsg.ListGroups:              "[s]@4+ [s]@5+",
	kmsg.SASLHandshake:           "s",
	kmsg.ApiVersions:             "s@3+ s@3+ s@5+ i@5+",
	kmsg.CreateTopics:            "[s i h [i [i]] [s s]] i b@1+",
	kmsg.DeleteTopics:            "[s]@-5 [s u]@6+ i",
	kmsg.DeleteRecords:           "[s [i l]] i",
	kmsg.InitProducerID:          "s i l@3+ h@3+",
	kmsg.OffsetForLeaderEpoch:    "i@3+ [s [i i@2+ i]]",
	kmsg.DescribeACLs:            "b s b@1+ s s b b",
	kmsg.CreateACLs:              "[b s b@1+ s s b b]",
	kmsg.DeleteACLs:              "[b s b@1+ s s b b]",
	kmsg.DescribeConfigs:         "[b s [s]] b@1+ b@3+",
	kmsg.AlterConfigs:            "[b s [s s]] b",
	kmsg.SASLAuthenticate:        "x",
	kmsg.CreatePartitions:        "[s i [[i]]] i b",
	kmsg.DeleteGroups:            "[s]",
	kmsg.IncrementalAlterConfigs: "[b s [s b s]] b",
	kmsg.OffsetDelete:            "s [s [i]]",
	kmsg.DescribeCluster:         "b b@1+ b@2+",
	kmsg.DescribeProducers:       "[s [i]]",
})

// field is one field of a struct.
type field struct {
	kind     byte // as in shapes, '[' or '{'
	min, max int16
	sub      *shape // of '[' and '{'
}

// shape is a struct, or the element of an array.
type shape struct {
	fields []field
	tags   map[uint32]*field
	bare   bool  // an element that is one string or number: no struct, no tags
	cost   int64 // memory of one in Go, about
}

var sizes = map[byte]int64{'b': 1, 'h': 2, 'i': 4, 'l': 8, 'u': 16}

func compile(texts map[kmsg.Key]string) map[int16]*shape {
	out := make(map[int16]*shape, len(texts))
	for key, s := range texts {
		p := parser{s: s}
		out[key.Int16()] = p.shape(0)
	}
	return out
}

type parser struct{ s string }

// shape reads fields up to the closing character, or to the end if that is 0.
func (p *parser) shape(closing byte) *shape {
	sh := &shape{cost: 8} // the map of unknown tags
	for {
		p.s = strings.TrimLeft(p.s, " ")
		if p.s == "" || p.s[0] == closing {
			p.s = strings.TrimPrefix(p.s, string(closing))
			return sh
		}
		if p.s[0] == '<' {
			n, rest, _ := strings.Cut(p.s[1:], " ")
			tag, err := strconv.Atoi(n)
			if err != nil {
				panic("shape of a tag: " + p.s)
			}
			p.s = rest
			f := p.field()
			p.s = strings.TrimPrefix(p.s, ">")
			if sh.tags == nil {
				sh.tags = make(map[uint32]*field)
			}
			sh.tags[uint32(tag)] = &f //nolint:gosec // written above
			sh.cost += f.cost()
			continue
		}
		f := p.field()
		sh.fields = append(sh.fields, f)
		sh.cost += f.cost()
	}
}

func (p *parser) field() field {
	f := field{kind: p.s[0], max: 1<<15 - 1}
	p.s = p.s[1:]
	switch f.kind {
	case '{':
		f.sub = p.shape('}')
	case '[':
		f.sub = p.shape(']')
		if x := f.sub.fields; len(x) == 1 && f.sub.tags == nil && x[0].kind != '[' && x[0].min == 0 && x[0].max == 1<<15-1 {
			f.sub.bare = true
		}
	}
	if !strings.HasPrefix(p.s, "@") {
		return f
	}
	n := strings.IndexAny(p.s, " ]}>")
	if n < 0 {
		n = len(p.s)
	}
	versions := p.s[1:n]
	p.s = p.s[n:]
	from, to, _ := strings.Cut(strings.Replace(versions, "+", "-32767", 1), "-")
	f.min, f.max = number(from), number(to)
	return f
}

func number(s string) int16 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 16)
	if err != nil {
		panic("version in a shape: " + s)
	}
	return int16(n)
}

// cost is the memory of the field itself, without what it points to.
func (f *field) cost() int64 {
	switch f.kind {
	case '[', 'x':
		return 24
	case 's':
		return 24 // a pointer and the string, where it may be null
	case '{':
		return f.sub.cost
	}
	return max(sizes[f.kind], 4)
}
