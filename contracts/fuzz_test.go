package contracts

import (
	"testing"

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
