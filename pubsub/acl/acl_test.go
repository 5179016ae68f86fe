package acl

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	alice  = "User:0x00000000000000000000000000000000000a11ce"
	bob    = "User:0x0000000000000000000000000000000000000b0b"
	shadow = "Pseudonym:0x0000000000000000000000000000000000000b0b"
)

func entry(text string) Entry {
	e, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return e
}

func TestEntriesAreSentences(t *testing.T) {
	text := "Principal " + alice + " is Denied Operation DESCRIBE_CONFIGS From Host 10.0.0.1 on Resource TOPIC:acme.orders matching Pattern PREFIXED"
	e, err := Parse(text)
	require.NoError(t, err)
	require.Equal(t, Entry{Topic, Prefixed, "acme.orders", alice, "10.0.0.1", DescribeConfigs, Deny}, e)
	require.Equal(t, text, e.String())

	e, err = Parse("Principal User:0x00000000000000000000000000000000000A11CE is Allowed Operation ALL From Host ::ffff:10.0.0.1 on Resource GROUP:a b matching Pattern LITERAL")
	require.NoError(t, err)
	require.Equal(t, Entry{Group, Literal, "a b", alice, "10.0.0.1", All, Allow}, e)

	for _, bad := range []string{
		"", "Principal x",
		strings.Replace(text, "0x", "1x", 1), strings.Replace(text, "10.0.0.1", "host.example", 1),
		strings.Replace(text, "Denied", "Maybe", 1), strings.Replace(text, "DESCRIBE_CONFIGS", "ANY", 1),
		strings.Replace(text, "DESCRIBE_CONFIGS", "FLY", 1), strings.Replace(text, "TOPIC", "USER", 1),
		strings.Replace(text, "PREFIXED", "MATCH", 1), strings.Replace(text, "acme.orders", strings.Repeat("a", MaxName+1), 1),
		strings.Replace(text, "acme.orders", "a\x01b", 1),
	} {
		_, err := Parse(bad)
		require.ErrorIs(t, err, ErrEntry, bad)
	}
}

func TestKafkaRules(t *testing.T) {
	everyone := New([]Entry{
		entry("Principal User:* is Allowed Operation READ From Host * on Resource TOPIC:* matching Pattern LITERAL"),
		entry("Principal " + bob + " is Denied Operation READ From Host 10.0.0.9 on Resource TOPIC:acme.orders matching Pattern LITERAL"),
		entry("Principal " + alice + " is Allowed Operation WRITE From Host * on Resource TOPIC:acme.pay matching Pattern PREFIXED"),
		entry("Principal " + alice + " is Allowed Operation ALTER_CONFIGS From Host * on Resource TOPIC:acme.pay matching Pattern LITERAL"),
		entry("Principal " + alice + " is Denied Operation ALL From Host * on Resource TOPIC:acme.payroll matching Pattern PREFIXED"),
	})
	for _, c := range []struct {
		who, host string
		op        uint8
		name      string
		allowed   bool
	}{
		{bob, "10.0.0.1", Read, "acme.orders", true},
		{bob, "10.0.0.9", Read, "acme.orders", false},
		{bob, "::ffff:10.0.0.9", Read, "acme.orders", false}, // the same host in another spelling
		{bob, "10.0.0.9", Read, "acme.other", true},
		{bob, "10.0.0.9", Describe, "acme.orders", true}, // READ is denied there, DESCRIBE is not
		{bob, "10.0.0.9", Write, "acme.orders", false},
		{shadow, "10.0.0.9", Read, "acme.orders", true}, // everybody, and not bob
		{alice, "1.1.1.1", Write, "acme.pay", true},
		{alice, "1.1.1.1", Write, "acme.payments", true},
		{alice, "1.1.1.1", Write, "acme.payroll", false},
		{alice, "1.1.1.1", Read, "acme.payroll.2026", false},
		{alice, "1.1.1.1", Write, "acme.pa", false},
		{alice, "1.1.1.1", DescribeConfigs, "acme.pay", true},
		{alice, "1.1.1.1", DescribeConfigs, "acme.payments", false},
		{alice, "1.1.1.1", Create, "acme.pay", false},
		{alice, "", Write, "acme.pay", true},
	} {
		d := everyone.Check(Question{c.who, c.host, c.op, Topic, c.name, false})
		require.Equal(t, c.allowed, d.Allowed, "%v: %s", c, d.Reason)
		require.Contains(t, d.Reason, c.who)
		require.Contains(t, d.Reason, OperationName(c.op))
	}
	require.False(t, everyone.Check(Question{bob, "", Read, Group, "acme.orders", false}).Allowed, "a group is no topic")
	require.True(t, everyone.Check(Question{alice, "", All + 1, Topic, "acme.payroll", true}).Allowed, "an owner is always allowed")
	require.False(t, everyone.Check(Question{alice, "", All, Topic, "acme.pay", true}).Allowed, "ALL is no operation to ask for")
	require.True(t, (*Set)(nil).Check(Question{alice, "", Read, Topic, "acme.pay", true}).Allowed)
	require.False(t, (*Set)(nil).Check(Question{alice, "", Read, Topic, "acme.pay", false}).Allowed)
}

// naive is Kafka's rule word by word, over all entries.
func naive(entries []Entry, q Question) bool {
	if q.Owner {
		return true
	}
	allowed := false
	for _, e := range entries {
		if e.Resource != q.Resource || e.Principal != q.Principal && e.Principal != "User:*" ||
			e.Host != q.Host && e.Host != "*" {
			continue
		}
		if !(e.Pattern == 3 && (e.Name == "*" || e.Name == q.Name) || e.Pattern == 4 && strings.HasPrefix(q.Name, e.Name)) {
			continue
		}
		same := e.Operation == q.Operation || e.Operation == 2
		if e.Permission == 2 && same {
			return false
		}
		implied := q.Operation == 8 && (e.Operation == 3 || e.Operation == 4 || e.Operation == 6 || e.Operation == 7) ||
			q.Operation == 10 && e.Operation == 11
		allowed = allowed || e.Permission == 3 && (same || implied)
	}
	return allowed
}

func randomEntry(r *rand.Rand) Entry {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	e := Entry{
		Resource: uint8(2 + r.IntN(3)), Pattern: uint8(3 + r.IntN(2)), Name: pick("a", "a.b", "a.bc", "a.bcd", "*"),
		Principal: pick(alice, bob, shadow, Everybody), Host: pick("*", "*", "1.1.1.1", "2.2.2.2"),
		Operation: uint8(2 + r.IntN(11)), Permission: uint8(2 + min(r.IntN(4), 1)),
	}
	if e.Pattern == Prefixed && e.Name == Any {
		e.Name = "a.bc"
	}
	return e
}

func TestAgainstTheNaiveRule(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var entries, removed []Entry
		for range r.IntN(12) {
			entries = append(entries, randomEntry(r))
		}
		set := New(entries)
		if len(entries) > 3 { // a changed set is as good as a new one
			removed, entries = entries[:1], entries[1:]
			more := randomEntry(r)
			set = set.With([]Entry{more}, removed)
			for i := 0; i < len(entries); i++ {
				if entries[i] == removed[0] {
					entries = append(entries[:i:i], entries[i+1:]...)
					i--
				}
			}
			entries = append(entries, more)
		}
		for range 40 {
			e := randomEntry(r)
			q := Question{[]string{alice, bob, shadow}[r.IntN(3)], []string{"1.1.1.1", "3.3.3.3"}[r.IntN(2)], uint8(3 + r.IntN(10)), e.Resource, e.Name, r.IntN(20) == 0}
			d := set.Check(q)
			require.Equal(t, naive(entries, q), d.Allowed, "seed %d: %+v of %v: %s", seed, q, entries, d.Reason)
			if d.By != (Entry{}) {
				require.Contains(t, entries, d.By, "seed %d: the entry named is none of the set", seed)
				require.Equal(t, d.Allowed, d.By.Permission == Allow)
			}
		}
	}
}

func TestSetsAreSetsAndNeverChange(t *testing.T) {
	a := entry("Principal User:* is Allowed Operation READ From Host * on Resource TOPIC:* matching Pattern LITERAL")
	b := entry("Principal User:* is Denied Operation READ From Host * on Resource TOPIC:x matching Pattern LITERAL")
	odd := Entry{Resource: Topic, Pattern: Literal, Name: "x", Principal: Everybody, Host: "10.0.0.0/8", Operation: Read, Permission: Deny}
	s := New([]Entry{a, a})
	require.Equal(t, []Entry{a}, s.Entries())
	n := s.With([]Entry{b, a, b}, nil)
	require.Equal(t, []Entry{a, b}, n.Entries())
	require.Equal(t, []Entry{a}, s.Entries())
	require.Equal(t, []Entry{b}, n.With(nil, []Entry{a}).Entries())
	require.True(t, s.Check(Question{alice, "", Read, Topic, "x", false}).Allowed)
	require.Equal(t, []Entry{a, odd}, s.With([]Entry{odd}, nil).Entries(), "what bears on nobody is listed all the same")
	require.True(t, s.With([]Entry{odd}, nil).Check(Question{alice, "10.0.0.1", Read, Topic, "x", false}).Allowed)
	spelled := b
	spelled.Host = "FE80::1" // two spellings are two entries; taking one away leaves the other
	lower := spelled
	lower.Host = "fe80::1"
	two := s.With([]Entry{spelled, lower}, nil)
	require.False(t, two.With(nil, []Entry{lower}).Check(Question{alice, "fe80::1", Read, Topic, "x", false}).Allowed)
	require.True(t, two.With(nil, []Entry{lower, spelled}).Check(Question{alice, "fe80::1", Read, Topic, "x", false}).Allowed)
	require.False(t, n.Check(Question{alice, "", Read, Topic, "x", false}).Allowed)
}

func TestFilters(t *testing.T) {
	e := entry("Principal " + alice + " is Allowed Operation READ From Host * on Resource TOPIC:acme.pay matching Pattern PREFIXED")
	p := func(s string) *string { return &s }
	for _, f := range []Filter{{}, {Resource: 1, Pattern: 1, Operation: 1, Permission: 1}, {Name: p("acme.pay")}, {Pattern: 2, Name: p("acme.payments")}, {Principal: p(alice), Permission: Allow}} {
		require.True(t, f.Matches(e), f)
	}
	for _, f := range []Filter{{Name: p("acme.payments")}, {Pattern: 2, Name: p("acme.pa")}, {Principal: p(bob)}, {Operation: Write}, {Resource: Group}, {Pattern: Literal}, {Host: p("1.1.1.1")}} {
		require.False(t, f.Matches(e), f)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Principal User:* is Allowed Operation READ From Host * on Resource TOPIC:* matching Pattern LITERAL")
	f.Add("Principal " + bob + " is Denied Operation ALL From Host fe80::1 on Resource GROUP:a matching Pattern b matching Pattern PREFIXED")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(e.String())
		require.NoError(t, err)
		require.Equal(t, e, again)
	})
}

func BenchmarkCheck(b *testing.B) {
	var entries []Entry
	for i := range 10_000 {
		entries = append(entries, entry(fmt.Sprintf("Principal User:0x%040x is Allowed Operation READ From Host * on Resource TOPIC:acme.t%d matching Pattern %s", i%100, i, []string{"LITERAL", "PREFIXED"}[i%2])))
	}
	set := New(entries)
	q := Question{fmt.Sprintf("User:0x%040x", 77), "10.0.0.1", Read, Topic, "acme.t9877", false}
	require.True(b, set.Check(q).Allowed)
	b.ReportAllocs()
	for b.Loop() {
		set.Check(q)
	}
}
