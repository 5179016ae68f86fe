package proof

import (
	"encoding/hex"
	"sort"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/pubsub/acl"
)

// fullStanding is the reputation that every account begins with, minStanding the one below which it may do nothing.
const (
	fullStanding = 100
	minStanding  = 20
)

const msPerMinute = 60_000

// Kafka's codes of a refusal for want of rights, of topic, group and cluster.
const (
	codeTopicRefused   = 29
	codeGroupRefused   = 30
	codeClusterRefused = 31
)

// LawChange is one thing that a block changed about who may do what with a topic. One of the pointers is set.
type LawChange struct {
	Height      uint64
	Time        int64 // ms, of the block: several have the same where slots are short
	Right       *RightChange
	TenantOwner *common.Address // the new one
	TopicOwner  *common.Address
	Standing    *Standing
}

// Standing is an account's reputation in the topic's tenant from the block's time on; it rises with time.
type Standing struct {
	Account    common.Address
	Reputation uint8
}

// remainingLoss is what is left after full minutes of the clock of points that an account lost: three quarters after
// each, rounded down, as the contract counts.
func remainingLoss(points, minutes int) int {
	for ; minutes > 0 && points > 0; minutes-- {
		points = points * 3 / 4
	}
	return points
}

// Law is who might do what with one topic, and when.
type Law struct {
	topic string
	eras  []era
	bad   map[common.Address][]spell // in order of time
}

// era is a time without a change of rights or owners: from a block on.
type era struct {
	height                  uint64
	from                    int64 // ms
	rules                   *acl.Set
	tenantOwner, topicOwner common.Address
}

// spell is from when on an account was blacklisted, or not.
type spell struct {
	from   int64
	listed bool
}

// NewLaw makes it from all changes in the order of the chain. topic is its name.
func NewLaw(topic string, changes []LawChange) *Law {
	l := &Law{topic: topic, eras: []era{{from: -1 << 62, rules: acl.New(nil)}}, bad: map[common.Address][]spell{}}
	for i := range changes {
		c := &changes[i]
		if c.Standing != nil {
			l.stand(c.Time, c.Standing)
			continue
		}
		e := l.eras[len(l.eras)-1]
		e.height, e.from = c.Height, c.Time
		switch {
		case c.Right != nil:
			entry := []acl.Entry{acl.Entry(c.Right.Right)}
			if c.Right.Revoked {
				e.rules = e.rules.With(nil, entry)
			} else {
				e.rules = e.rules.With(entry, nil)
			}
		case c.TenantOwner != nil:
			e.tenantOwner = *c.TenantOwner
		case c.TopicOwner != nil:
			e.topicOwner = *c.TopicOwner
		}
		if last := len(l.eras) - 1; last > 0 && l.eras[last].height == c.Height {
			l.eras[last] = e // nobody saw what was between two changes of one block
		} else {
			l.eras = append(l.eras, e)
		}
	}
	return l
}

// stand notes an account's reputation from a time on, and when time alone ends its blacklisting.
func (l *Law) stand(at int64, s *Standing) {
	spells := l.bad[s.Account]
	for len(spells) > 0 && spells[len(spells)-1].from > at { // time had no time to
		spells = spells[:len(spells)-1]
	}
	lost := fullStanding - min(int(s.Reputation), fullStanding)
	spells = append(spells, spell{at, lost > fullStanding-minStanding})
	for minute, n := at/msPerMinute, 1; spells[len(spells)-1].listed; n++ {
		if remainingLoss(lost, n) <= fullStanding-minStanding {
			spells = append(spells, spell{from: (minute + int64(n)) * msPerMinute})
		}
	}
	l.bad[s.Account] = spells
}

// Verdict is what a Law says of an operation.
type Verdict uint8

// Verdicts.
const (
	Lawful    Verdict = iota
	Unlawful          // it was served, and nothing allowed it
	Withheld          // it was refused for want of rights, and it was allowed
	NotJudged         // of a pseudonym, whose certificate is not on the chain; of several hosts; refused for another reason
)

// Judge says whether an operation fits the law of its time. Brokers judge by the last final block, and clocks differ: within
// lag of a change both answers are right.
func (l *Law) Judge(o *Operation, lag time.Duration) Verdict {
	const most = 1 << 61 // times are a broker's word: sums of them must not wrap
	from, to := max(o.Start, -most)-lag.Milliseconds(), min(o.End, most)+lag.Milliseconds()
	ever, always := l.allowed(o, from, to)
	switch {
	case !o.Refused() && ever:
		return Lawful
	case o.Pseudonym:
		return NotJudged
	case !o.Refused() && !o.Host.IsValid() && l.namesHosts(from, to):
		return NotJudged
	case !o.Refused():
		return Unlawful
	case o.Code != codeTopicRefused && o.Code != codeGroupRefused && o.Code != codeClusterRefused:
		return NotJudged
	case always:
		return Withheld
	}
	return Lawful
}

// between are the eras that touch a time.
func (l *Law) between(from, to int64) []era {
	first := sort.Search(len(l.eras), func(i int) bool { return l.eras[i].from > from }) - 1
	last := sort.Search(len(l.eras), func(i int) bool { return l.eras[i].from > to })
	return l.eras[max(first, 0):max(last, 1)]
}

// allowed tells whether an operation was allowed at some moment and at every moment of a time.
func (l *Law) allowed(o *Operation, from, to int64) (ever, always bool) {
	never, sometimes := l.listed(o.Operator, from, to)
	q := acl.Question{Principal: "User:0x" + hex.EncodeToString(o.Operator[:]), Operation: uint8(o.Kind), Resource: acl.Topic, Name: l.topic}
	if o.Pseudonym {
		q.Principal = "Pseudonym:0x" + hex.EncodeToString(o.Operator[:])
	}
	if o.Host.IsValid() {
		q.Host = o.Host.String()
	}
	always = !sometimes
	for _, e := range l.between(from, to) {
		q.Owner = !o.Pseudonym && o.Operator != (common.Address{}) && (o.Operator == e.tenantOwner || o.Operator == e.topicOwner)
		good := e.rules.Check(q).Allowed
		ever, always = ever || good, always && good
	}
	return ever && !never, always && !never
}

// listed tells whether an account was blacklisted all the time, and at some moment of it.
func (l *Law) listed(account common.Address, from, to int64) (all, some bool) {
	now, all := false, true
	for _, s := range l.bad[account] {
		switch {
		case s.from <= from:
			now = s.listed
		case s.from <= to:
			all, some = all && now && s.listed, some || s.listed
		}
	}
	return all && now, some || now
}

// namesHosts tells whether some rule of a time is for one host alone.
func (l *Law) namesHosts(from, to int64) bool {
	for _, e := range l.between(from, to) {
		for _, r := range e.rules.Entries() {
			if r.Host != acl.Any {
				return true
			}
		}
	}
	return false
}
