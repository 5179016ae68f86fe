package rpc

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

const powerBlocks = logSection + 20

// powerHash is the hash of a block of the trial's chain; those whose height 7 divides have logs.
func powerHash(height uint64) (h common.Hash) {
	binary.BigEndian.PutUint64(h[:], height+1)
	return h
}

// fillPowerIndex opens the index of a disk and brings it to the trial's height.
func fillPowerIndex(fs vfs.FS) (*logFile, error) {
	x, err := openLogFile(fs, "log_index", powerHash, zap.NewNop())
	if err != nil {
		return nil, err
	}
	for err == nil && x.height() < powerBlocks {
		var ps []uint32
		if x.height()%7 == 0 {
			ps = []uint32{printAny, 1000}
		}
		if err = x.add(x.height(), powerHash(x.height()), ps); err == nil && x.full() {
			err = x.seal()
		}
	}
	return x, err
}

// A power cut at any operation leaves an index that says what is true of its blocks, or that it is damaged, and that is whole
// again when the missing blocks are added.
func TestLogIndexSurvivesAPowerCut(t *testing.T) {
	whole := faultfs.New()
	_, err := fillPowerIndex(whole)
	require.NoError(t, err)
	last := whole.Changes()
	for at := 1; at <= last; at++ {
		if at > 20 && at < last-60 && at%127 != 0 {
			continue
		}
		d := faultfs.New()
		d.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == at} }, uint64(at))
		_, err := fillPowerIndex(d)
		require.ErrorIs(t, err, faultfs.ErrCrashed)
		x, err := fillPowerIndex(d.Crashed())
		require.NoError(t, err, "operation %d", at)
		for section := range uint64(2) {
			_, _, err := x.lookup(section, []uint32{printAny, 1000})
			require.True(t, err == nil || errors.Is(err, errDamaged), "operation %d: %v", at, err)
		}
		require.NoError(t, x.repair())
		x.close()
		x, err = fillPowerIndex(d.Crashed())
		require.NoError(t, err, "operation %d", at)
		for section := range uint64(2) {
			found, covered, err := x.lookup(section, []uint32{printAny, 1000})
			require.NoError(t, err, "operation %d", at)
			require.Positive(t, covered)
			for i := range covered {
				logs := (section*logSection+uint64(i))%7 == 0 //nolint:gosec // small
				require.Equal(t, logs, found[printAny].has(i), "operation %d, block %d", at, i)
				require.Equal(t, logs, found[1000].has(i))
			}
		}
	}
}
