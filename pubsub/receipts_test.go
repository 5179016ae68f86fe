package pubsub

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/store"
)

func TestReceiptsAreForThoseWhoAsk(t *testing.T) {
	r := kmsg.NewPtrProduceRequest()
	r.Acks = 1
	require.False(t, asksReceipts(r))
	r.UnknownTags.Set(receiptTag+1, nil)
	require.False(t, asksReceipts(r))
	r.UnknownTags.Set(receiptTag, nil)
	require.True(t, asksReceipts(r))
	r.Acks = 0
	require.False(t, asksReceipts(r), "there is no answer to carry them")
}

// asked keeps what the broker has evidence sign.
type asked struct {
	Evidence
	signed []proof.Placed
	looked []int64
}

func (a *asked) Sign(p proof.Placed) evidence.Signing {
	a.signed = append(a.signed, p)
	return func(context.Context) []byte { return []byte("now") }
}

func (a *asked) Receipt(_ context.Context, _ evidence.ID, base int64) []byte {
	a.looked = append(a.looked, base)
	return []byte("of the log")
}

type wasThere bool

func (w wasThere) Wait(context.Context) (int64, int64, error) { return 7, 0, nil }
func (w wasThere) Duplicate() bool                            { return bool(w) }

// What a client wrote into its batch's header where the log stamps it must never be signed: a broker could be made to sign
// two batches for one place.
func TestAReceiptIsForThePlaceInTheLog(t *testing.T) {
	raw := make([]byte, batch.HeaderBytes+10)
	raw[11], raw[16] = byte(len(raw)-12), 2 // length, magic
	raw[60] = 1                             // one record
	batch.Assign(raw, 7, 3)
	for _, duplicate := range []bool{false, true} {
		e := &asked{}
		b := &Broker{deps: Deps{Evidence: e}}
		w := &appended{out: &kmsg.ProduceResponseTopicPartition{}, pending: wasThere(duplicate), id: store.ID{Topic: [32]byte{9}, Partition: 4}}
		sign := b.sign(w, raw)
		require.NotNil(t, sign)
		w.out.BaseOffset = 5 // where the batch was the first time
		if duplicate {
			require.Equal(t, "of the log", string(sign(t.Context())))
			require.Empty(t, e.signed)
			require.Equal(t, []int64{5}, e.looked)
			continue
		}
		require.Equal(t, "now", string(sign(t.Context())))
		require.Len(t, e.signed, 1)
		require.Equal(t, [32]byte{9}, e.signed[0].Topic)
		require.Equal(t, int64(7), e.signed[0].Leaf.Base)
		require.Equal(t, int32(3), e.signed[0].Leaf.Epoch)
	}
}
