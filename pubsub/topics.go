package pubsub

import (
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/store"
)

// tenantOf is the tenant in a topic's or a group's name; empty: it names none.
func tenantOf(name string) string {
	tenant, rest, ok := strings.Cut(name, ".")
	if !ok || rest == "" {
		return ""
	}
	return tenant
}

// uuidOf is a topic's id as Kafka's clients know it.
func uuidOf(id common.Hash) (u [16]byte) { return [16]byte(id[:16]) }

// topicIndex finds topics by Kafka's id. It is made anew for a view that is asked and is not the one it was made for.
type topicIndex struct{ now atomic.Pointer[indexed] }

type indexed struct {
	view *ledger.View
	ids  map[[16]byte]common.Hash
}

func (i *topicIndex) byUUID(v *ledger.View, id [16]byte) *ledger.Topic {
	x := i.now.Load()
	if x != nil {
		if t := v.TopicByID(x.ids[id]); t != nil {
			return t // an id is never another topic's, so an old index is right in what it has
		}
	}
	if x == nil || x.view != v {
		x = &indexed{view: v, ids: make(map[[16]byte]common.Hash)}
		for _, t := range v.Topics("") {
			x.ids[uuidOf(t.ID)] = t.ID
		}
		i.now.Store(x)
	}
	return v.TopicByID(x.ids[id])
}

// Settings of a topic that brokers read.
const (
	setRetentionMS    = "retention.ms"
	setRetentionBytes = "retention.bytes"
	setMaxMessage     = "max.message.bytes"
	setCleanup        = "cleanup.policy"
	setCompression    = "compression.type"
	setUnclean        = "unclean.leader.election.enable"
	setTimeType       = "message.timestamp.type"
	setTimeBefore     = "message.timestamp.before.max.ms"
	setTimeAfter      = "message.timestamp.after.max.ms"
)

// unclean tells whether the owner wants a partition to go on with what is left where most of its replicas lost their
// disks. The brokers' own topic has no owner: who runs a broker says it.
func (b *Broker) unclean(t *ledger.Topic) bool {
	return t.Config[setUnclean] == "true" || t.Name == offsetsTopic && b.cfg.UncleanOffsets
}

// number is a setting of a topic, or what holds without it.
func number(t *ledger.Topic, key string, without int64) int64 {
	if v, err := strconv.ParseInt(t.Config[key], 10, 64); err == nil {
		return v
	}
	return without
}

// maxMessage is the largest batch of a topic in bytes.
func maxMessage(t *ledger.Topic) int {
	return int(min(max(number(t, setMaxMessage, defaultMaxMessage), 1), batch.MaxBytes))
}

// times are the record times that a topic takes at a moment of the broker's clock.
func times(t *ledger.Topic, now time.Time) batch.Times {
	at := now.UnixMilli()
	taken := batch.Times{From: math.MinInt64, To: math.MaxInt64}
	if before := number(t, setTimeBefore, defaultTimeBefore); before >= 0 && before <= at {
		taken.From = at - before
	}
	if after := number(t, setTimeAfter, defaultTimeAfter); after >= 0 && after <= math.MaxInt64-at {
		taken.To = at + after
	}
	return taken
}

// retention is what a topic keeps. A topic that says nothing keeps everything.
func retention(t *ledger.Topic) store.Retention {
	ms := number(t, setRetentionMS, -1)
	r := store.Retention{Bytes: max(number(t, setRetentionBytes, -1), 0)}
	if ms > 0 && ms < int64(maxRetention/time.Millisecond) {
		r.Age = time.Duration(ms) * time.Millisecond
	}
	return r
}

// endOffset is the offset after encoded batches; without any it is from.
func endOffset(raw []byte, from int64) int64 {
	for len(raw) >= batch.HeaderBytes {
		h, size, err := batch.ParseHeader(raw)
		if err != nil || size > len(raw) {
			break
		}
		from = h.NextOffset()
		raw = raw[size:]
	}
	return from
}
