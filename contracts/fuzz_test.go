package contracts

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
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
