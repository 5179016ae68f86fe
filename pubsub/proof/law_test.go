package proof

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/acl"
)

func TestLawJudgesByTheRulesOfTheTime(t *testing.T) {
	tenant, first, second := common.Address{1}, common.Address{2}, common.Address{3}
	reader, other := common.Address{0xaa}, common.Address{0xbb}
	rule := func(who, host string, op, permission uint8) Right {
		return Right{acl.Topic, acl.Literal, "acme.orders", who, host, op, permission}
	}
	read := rule("User:0xaa00000000000000000000000000000000000000", "*", acl.Read, acl.Allow)
	changes := []LawChange{
		{Time: 1000, TenantOwner: &tenant},
		{Time: 2000, TopicOwner: &first},
		{Time: 100_000, Right: &RightChange{Right: read}},
		{Time: 200_000, Right: &RightChange{Right: read, Revoked: true}},
		{Time: 200_000, TopicOwner: &second},
		{Time: 300_000, Right: &RightChange{Right: rule("User:0xbb00000000000000000000000000000000000000", "10.0.0.1", acl.Write, acl.Allow)}},
		{Time: 421_000, Standing: &Standing{second, 15}},
		{Time: 500_000, Standing: &Standing{second, 100}},
	}
	short := rule("User:0xcc00000000000000000000000000000000000000", "*", acl.Read, acl.Allow)
	changes = append(changes, LawChange{Time: 600_000, Right: &RightChange{Right: short}}, LawChange{Time: 600_000, Right: &RightChange{Right: short, Revoked: true}},
		LawChange{Time: 700_000, Right: &RightChange{Right: short}}, LawChange{Time: 700_000, Right: &RightChange{Right: short, Revoked: true}})
	for i := range changes {
		changes[i].Height = uint64(i + 1)
	}
	changes[len(changes)-1].Height-- // the last two are in one block, those before in two of one second
	l := NewLaw("acme.orders", changes)
	const lag = 10 * time.Second
	op := func(who common.Address, kind Kind, at int64) *Operation {
		return &Operation{Operator: who, Kind: kind, Start: at, End: at, Count: 1, Partition: -1, First: -1, Last: -1}
	}
	refused := func(o *Operation, code int16) *Operation { o.Code = code; return o }
	from := func(o *Operation, host string) *Operation { o.Host = netip.MustParseAddr(host); return o }
	pseudonym := func(o *Operation) *Operation { o.Pseudonym = true; return o }
	for what, x := range map[string]struct {
		want Verdict
		op   *Operation
	}{
		"before the rule":                      {Unlawful, op(reader, KindRead, 50_000)},
		"just before, by another clock":        {Lawful, op(reader, KindRead, 95_000)},
		"by the rule":                          {Lawful, op(reader, KindRead, 150_000)},
		"implied by the rule":                  {Lawful, op(reader, KindDescribe, 150_000)},
		"another operation":                    {Unlawful, op(reader, KindWrite, 150_000)},
		"before the broker saw it go":          {Lawful, op(reader, KindRead, 205_000)},
		"after the rule":                       {Unlawful, op(reader, KindRead, 250_000)},
		"refused before it":                    {Lawful, refused(op(reader, KindRead, 50_000), 29)},
		"refused despite it":                   {Withheld, refused(op(reader, KindRead, 150_000), 29)},
		"refused near its end":                 {Lawful, refused(op(reader, KindRead, 195_000), 29)},
		"refused for another reason":           {NotJudged, refused(op(reader, KindRead, 150_000), 40)},
		"the tenant's owner":                   {Lawful, op(tenant, KindDelete, 150_000)},
		"the owner before there was the topic": {Unlawful, from(op(first, KindRead, -100_000), "10.0.0.9")},
		"the first owner":                      {Lawful, op(first, KindAlter, 150_000)},
		"the first owner, later":               {Unlawful, op(first, KindAlter, 250_000)},
		"the second owner":                     {Lawful, op(second, KindAlter, 250_000)},
		"the second owner, blacklisted":        {Unlawful, from(op(second, KindAlter, 450_000), "10.0.0.9")},
		"refused, blacklisted":                 {Lawful, refused(op(second, KindAlter, 450_000), 29)},
		"the second owner, time went by":       {Lawful, op(second, KindAlter, 495_000)},
		"pardoned":                             {Lawful, op(second, KindAlter, 550_000)},
		"refused, pardoned":                    {Withheld, refused(op(second, KindAlter, 550_000), 29)},
		"from its host":                        {Lawful, from(op(other, KindWrite, 350_000), "10.0.0.1")},
		"from another":                         {Unlawful, from(op(other, KindWrite, 350_000), "10.0.0.2")},
		"from several":                         {NotJudged, op(other, KindWrite, 350_000)},
		"by a rule of less than a second":      {Lawful, op(common.Address{0xcc}, KindRead, 600_500)},
		"by a rule that nobody saw":            {Unlawful, from(op(common.Address{0xcc}, KindRead, 700_500), "10.0.0.9")},
		"a pseudonym":                          {NotJudged, pseudonym(op(reader, KindRead, 150_000))},
		"nobody":                               {Unlawful, op(common.Address{}, KindRead, 150_000)},
	} {
		require.Equal(t, x.want, l.Judge(x.op, lag), what)
	}
	require.Equal(t, Unlawful, NewLaw("acme.orders", nil).Judge(op(reader, KindRead, 1), lag))
}

// What brokers put on record is judged whatever times they claim.
func TestTimesBeyondAllBoundsAreJudged(t *testing.T) {
	owner := common.Address{1}
	l := NewLaw("acme.orders", []LawChange{{Height: 1, Time: 1000, TenantOwner: &owner}, {Height: 2, Time: 2000, TopicOwner: &common.Address{2}}})
	for _, x := range [][2]int64{{math.MinInt64, 0}, {0, math.MaxInt64}, {math.MinInt64, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}, {math.MinInt64, math.MinInt64}} {
		o := &Operation{Operator: common.Address{9}, Kind: KindWrite, Count: 1, Partition: -1, First: -1, Last: -1, Start: x[0], End: x[1]}
		got, rest, err := decodeOperation(o.Append(nil))
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, Unlawful, l.Judge(&got, time.Minute), "%d to %d", x[0], x[1])
	}
}
