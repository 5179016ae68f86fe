package pubsub

import (
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/acl"
	"github.com/bornode/bornode/pubsub/ledger"
)

const (
	decisionsMade = 20_000 // of a kind in a round
	decisionUsers = 100    // accounts that the entries name
)

// listSizes are the entries of a tenant. The contract allows 4,096; the paper goes up to 10,000.
var listSizes = []int{0, 100, 10_000}

// Decision is how long a broker takes to judge one operation by a list of access, in us: known from before, and for the
// first time.
type Decision struct {
	Entries int            `json:"entries"`
	Cached  figures.Spread `json:"cached_us"`
	First   figures.Spread `json:"first_us"`
}

func decisions(rounds int) ([]Decision, error) {
	cached, first := make([][]float64, len(listSizes)), make([][]float64, len(listSizes))
	for range rounds {
		for i, n := range listSizes {
			a, b, err := decide(n)
			if err != nil {
				return nil, err
			}
			cached[i], first[i] = append(cached[i], a), append(first[i], b)
		}
	}
	out := make([]Decision, len(listSizes))
	for i, n := range listSizes {
		out[i] = Decision{n, figures.Of(cached[i]), figures.Of(first[i])}
	}
	return out, nil
}

// decide gives the us of a decision about an account that the list names, cached and made for the first time.
func decide(entries int) (cached, first float64, err error) {
	v := ledger.Fixed(ledger.Tenant{Name: "acme", Owner: user(decisionUsers)}, accessList(entries))
	who := ledger.Principal{Account: user(1)}
	hosts := make([]string, decisionsMade) // each makes another question
	for i := range hosts {
		hosts[i] = fmt.Sprintf("10.1.%d.%d", i/256, i%256)
	}
	begun := time.Now()
	for _, h := range hosts {
		if ok, why := v.Authorize(who, h, acl.Read, acl.Topic, "acme.topic1"); ok != (entries > 1) {
			return 0, 0, fmt.Errorf("a list of %d entries decides %t: %s", entries, ok, why)
		}
	}
	first = micros(time.Since(begun)) / decisionsMade
	begun = time.Now()
	for range hosts {
		v.Authorize(who, hosts[0], acl.Read, acl.Topic, "acme.topic1")
	}
	return micros(time.Since(begun)) / decisionsMade, first, nil
}

func user(i int) common.Address { return common.Address{18: byte(i >> 8), 19: byte(i)} } //nolint:gosec // few

// accessList has literal and prefixed entries of many accounts on many topics; from two entries on it lets user 1 read topic 1.
func accessList(n int) []ledger.Acl {
	list := make([]ledger.Acl, n)
	for i := range list {
		list[i] = ledger.Acl{Resource: acl.Topic, Pattern: acl.Literal, Name: fmt.Sprintf("acme.topic%d", i), Host: "*",
			Principal: contracts.UserPrincipal(user(i % decisionUsers)), Operation: acl.Read, Permission: acl.Allow}
		if i%10 == 0 {
			list[i].Pattern, list[i].Name = acl.Prefixed, fmt.Sprintf("acme.part%d.", i)
		}
	}
	return list
}
