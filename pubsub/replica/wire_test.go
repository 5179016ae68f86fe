package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

func sampleItems() []item {
	id := ID{Topic: [32]byte{1, 2, 3}, Partition: 7}
	return []item{
		{Kind: kindFence, ID: id, Epoch: 3},
		{Kind: kindState, ID: id, Epoch: 3, Accepted: -1, Start: 5, End: 90, More: true, Epochs: []EpochStart{{Epoch: 1, Start: 0}, {Epoch: 2, Start: 50}}},
		{Kind: kindFetch, ID: id, Epoch: 3, From: 10, UpTo: 20},
		{Kind: kindFetched, ID: id, Epoch: 3, From: 10, Data: record("a", -1, -1)},
		{Kind: kindAppend, ID: id, Epoch: 3, First: true, Restart: true, From: 9, Match: 8, InitEnd: 7, Commit: 6, Start: 5, Data: record("b", 5, 6)},
		{Kind: kindAck, ID: id, Epoch: 3, Accepted: 3, End: 12},
		{Kind: kindSalvage, ID: id, Epoch: 3, From: 2, Data: wrap(record("c", -1, -1), origin{4, 5}, 3, 2)},
		{Kind: kindSalvaged, ID: id, Epoch: 3, End: 3},
		{Kind: kindRetired, ID: id, Epoch: 3},
	}
}

func encodeAll(items []item) []byte {
	b := []byte{wireVersion}
	for i := range items {
		b = appendItem(b, &items[i])
	}
	return b
}

func TestItemsTravel(t *testing.T) {
	want := sampleItems()
	got, err := decodeItems(encodeAll(want))
	require.NoError(t, err)
	require.Equal(t, want, got)
	unknown := appendItem(encodeAll(want), &item{Kind: 99})
	got, err = decodeItems(unknown)
	require.NoError(t, err)
	require.Equal(t, want, got, "items of a later version are passed over")
	for n := range encodeAll(want) {
		if got, err := decodeItems(encodeAll(want)[:n]); err == nil {
			require.Less(t, len(got), len(want))
		} else {
			require.ErrorIs(t, err, errMessage)
		}
	}
}

func TestItemsWithWrongNumbers(t *testing.T) {
	for name, it := range map[string]item{
		"offset":      {Kind: kindAck, End: -1},
		"epoch":       {Kind: kindFence, Epoch: -1},
		"accepted":    {Kind: kindAck, Accepted: -2},
		"partition":   {Kind: kindFence, ID: ID{Partition: -1}},
		"end":         {Kind: kindState, Start: 3, End: 2},
		"epoch order": {Kind: kindState, End: 9, Epochs: []EpochStart{{Epoch: 2, Start: 0}, {Epoch: 1, Start: 5}}},
		"epoch start": {Kind: kindState, End: 9, Epochs: []EpochStart{{Epoch: 2, Start: 10}}},
		"start order": {Kind: kindState, End: 9, Epochs: []EpochStart{{Epoch: 2, Start: 5}, {Epoch: 3, Start: 4}}},
		"many epochs": {Kind: kindState, End: 9, Epochs: make([]EpochStart, maxEpochs+1)},
		"huge offset": {Kind: kindFetch, From: 1<<62 + 1},
	} {
		_, err := decodeItems(encodeAll([]item{it}))
		require.ErrorIs(t, err, errMessage, name)
	}
	many := []byte{wireVersion}
	for range maxItems + 1 {
		many = appendItem(many, &item{Kind: kindFence})
	}
	_, err := decodeItems(many)
	require.ErrorIs(t, err, errMessage)
}

func FuzzDecodeItems(f *testing.F) {
	f.Add(encodeAll(sampleItems()))
	for _, it := range sampleItems() {
		f.Add(encodeAll([]item{it}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		items, err := decodeItems(b)
		if err != nil {
			require.ErrorIs(t, err, errMessage)
			return
		}
		again, err := decodeItems(encodeAll(items))
		require.NoError(t, err)
		require.Equal(t, items, again)
	})
}

func FuzzDecodeAsk(f *testing.F) {
	a := ask{Number: 5, Kind: 1, Payload: []byte("what")}
	f.Add(a.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAsk(b)
		if err != nil {
			require.ErrorIs(t, err, errMessage)
			return
		}
		require.Equal(t, b, a.encode())
	})
}

func FuzzUnwrap(f *testing.F) {
	f.Add(wrap(record("c", -1, -1), origin{4, 5}, 3, 2))
	f.Add(wrap(marked(sampleHeader(), record("c", -1, -1), origin{1, 2}), origin{4, 5}, 3, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 61 {
			return
		}
		h, raw, o, cut, err := unwrap(b)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, min(o.offset, cut), int64(0))
		m := marked(h, raw, o)
		_, again, _, _, err := unwrap(wrap(m, o, cut, 0))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

// FuzzCore gives a replica and a leader whatever a peer may send.
func FuzzCore(f *testing.F) {
	f.Add(encodeAll(sampleItems()), uint8(0))
	for i, it := range sampleItems() {
		it.ID, it.Epoch = simID, 1
		f.Add(encodeAll([]item{it}), uint8(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, who uint8) {
		items, err := decodeItems(b)
		if err != nil {
			return
		}
		s := newSim(t, 1, 3, 3)
		s.faults = 0
		for range 400 {
			s.step()
		}
		n := s.nodes[who%3]
		lead := s.nodes[0]
		had := lead.core.hw
		for i := range items {
			it := items[i]
			it.ID, it.Epoch = simID, 1
			n.core.receive(nodeName(int(who/3)%3), &it)
		}
		require.GreaterOrEqual(t, lead.core.hw, had)
		for range 50 {
			n.transmit()
			n.sync()
		}
	})
}

func sampleHeader() batch.Header {
	h, _, _ := batch.Parse(record("c", -1, -1))
	return h
}
