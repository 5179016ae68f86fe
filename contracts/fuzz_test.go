package contracts

import (
	"bytes"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
)

// FuzzDecode: whatever a contract returns, the decoders answer with values in their bounds or an error.
func FuzzDecode(f *testing.F) {
	w := newWorld(f, 4, 1, nil)
	f.Add(w.view(ScheduleCall()))
	f.Add(w.read(MembersCallData()))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		seats, err := DecodeSchedule(b)
		if err != nil {
			require.ErrorIs(t, err, ErrReturn)
		} else {
			require.NotEmpty(t, seats)
			require.LessOrEqual(t, len(seats), MaxSeats)
		}
		if _, err := DecodeMembers(b); err != nil {
			require.ErrorIs(t, err, ErrReturn)
		}
	})
}

// slots is storage made of a few words: every slot has one of them, but for those that are named.
type slots struct {
	words []byte
	named map[common.Hash]common.Hash
}

func (s *slots) Storage(_ common.Address, slot common.Hash) (h common.Hash, err error) {
	if v, ok := s.named[slot]; ok {
		return v, nil
	}
	if len(s.words) >= 32 {
		n := int(slot[31]) % (len(s.words) / 32)
		h = common.Hash(s.words[32*n:])
	}
	return h, nil
}

// Whatever stands in the storage of Members, what is read of it is bounded.
func FuzzReadChanges(f *testing.F) {
	f.Add(uint16(3), []byte{})
	f.Add(uint16(2000), bytes.Repeat([]byte{0xff}, 96))
	f.Add(uint16(9), append(append(bytes.Repeat([]byte{0}, 31), 0x41), bytes.Repeat([]byte{1}, 64)...))
	f.Fuzz(func(t *testing.T, n uint16, words []byte) {
		got, err := ReadChanges(&slots{words, map[common.Hash]common.Hash{slotHash(slotChanges): common.BigToHash(big.NewInt(int64(n)))}})
		require.NoError(t, err)
		require.Len(t, got, min(int(n), MaxChanges))
		for _, c := range got {
			require.LessOrEqual(t, len(c.Name), MaxChangeName)
			require.LessOrEqual(t, len(c.Value), MaxChangeValue)
		}
	})
}

// FuzzTopics: whatever Topics returns or tells, the decoders answer with values in their bounds or an error.
func FuzzTopics(f *testing.F) {
	w := newTopicWorld(f, 2)
	id := w.create(w.owner, "acme.t", 2, 2)
	var kinds []common.Hash
	for k := range eventDecoders() {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, common.Hash.Cmp)
	for _, l := range w.logs {
		f.Add(uint8(slices.Index(kinds, l.Topics[0])), l.Data)
	}
	for _, call := range [][]byte{
		TenantCall("acme"), TenantPageCall(0, 9), BrokersCall(), TopicIDCall("acme.t"), TopicCall(id), TopicPageCall(0, 9),
		AclPageCall("acme", 0, 9), OperationsCall(id), CheckpointCall(id), ReputationCall(TenantID("acme"), w.owner.account), OffsetCall(id, id, 0),
	} {
		f.Add(uint8(0), w.readFrom(TopicsAddress, call))
	}
	commit, err := CommitCall(Commit{Number: 1, Operations: []Operations{{id, 1, []byte("x")}}})
	require.NoError(f, err)
	f.Add(uint8(0), commit)
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		checkViews(t, b)
		l := &types.Log{Address: TopicsAddress, Data: b, Topics: []common.Hash{kinds[int(kind)%len(kinds)]}}
		for range 3 {
			if e, err := DecodeTopicsEvent(l); err != nil {
				require.ErrorIs(t, err, ErrReturn)
			} else if x, ok := e.(*ReplicasChanged); ok {
				require.LessOrEqual(t, len(x.Replicas), MaxReplicas)
				require.Less(t, x.Partition, uint32(MaxPartitions))
			}
			l.Topics = append(l.Topics, common.BytesToHash(b[:min(32, len(b))]))
		}
	})
}

func checkViews(t *testing.T, b []byte) {
	bad := func(err error) {
		if err != nil {
			require.ErrorIs(t, err, ErrReturn)
		}
	}
	if page, total, err := DecodeTopicPage(b); err != nil {
		bad(err)
	} else {
		require.LessOrEqual(t, uint64(len(page)), total)
		for _, x := range page {
			require.LessOrEqual(t, len(x.Leases), MaxPartitions)
		}
	}
	_, err := DecodeTopic(b)
	bad(err)
	_, err = DecodeTenant(b)
	bad(err)
	_, _, err = DecodeTenantPage(b)
	bad(err)
	_, err = DecodeBrokers(b)
	bad(err)
	_, _, err = DecodeAclPage(b)
	bad(err)
	_, err = DecodeTopicID(b)
	bad(err)
	_, err = DecodeOperations(b)
	bad(err)
	_, err = DecodeCheckpoint(b)
	bad(err)
	r, err := DecodeReputation(b)
	bad(err)
	require.LessOrEqual(t, r, uint8(Reputation))
	_, _, err = DecodeOffset(b)
	bad(err)
	for _, decode := range []func([]byte) ([]byte, error){DecodeSealKeyOf, DecodeSealedKey} {
		_, err = decode(b)
		bad(err)
	}
	_, err = DecodeCommit(b)
	bad(err)
	config, err := DecodeTopicConfig(b)
	bad(err)
	require.True(t, err != nil || config != nil)
}
