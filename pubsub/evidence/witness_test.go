package evidence

import (
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/proof"
)

func TestATamperedReplicaIsNamed(t *testing.T) {
	c, ns := three(t)
	p0 := ID{topicA, 0}
	for _, n := range ns {
		n.log.raw[ID{topicA, 1}] = nil
	}
	produce(p0, 6, ns...)
	ns[2].log.raw[p0][4] = makeBatch(12, 1, 3, "forged") // with a good checksum
	for _, n := range ns {                               // all hear of the first checkpoint, which is the only one
		n.open(t, c, quick)
	}
	for _, n := range ns {
		n.run(t)
		n.e.Committed(p0)
	}
	eventually(t, "alarm", func() bool { return len(ns[2].e.Alarms()) > 0 })
	a := ns[2].e.Alarms()[0]
	require.Equal(t, [2]int64{0, 12}, [2]int64{int64(a.Partition), a.Offset}, a.String())
	eventually(t, "the others agree", func() bool { _, _, _, _, err := ns[1].e.Checkpoint(topicA); return err == nil })
	require.Empty(t, ns[0].e.Alarms())
	require.Empty(t, ns[1].e.Alarms())
	_, _, _, _, err := ns[2].e.Checkpoint(topicA)
	require.ErrorIs(t, err, ErrNotProved, "a broker proves nothing under a checkpoint that it does not agree with")

	var w Witness
	eventually(t, "a dispute", func() bool { w, err = ns[2].e.Witness(topicA); return err == nil && len(w.Disputes) > 0 })
	d, err := proof.DecodeDispute(w.Disputes[0])
	require.NoError(t, err)
	require.Equal(t, [4]int64{1, 0, 12, 6}, [4]int64{int64(d.Seq), int64(d.Partition), d.Offset, d.Own.Leaves})
	require.Equal(t, c.marks[topicA].Root, d.Root)
	by, err := d.Signer(common.Hash{1})
	require.NoError(t, err)
	require.Equal(t, ns[2].account, by)
	require.True(t, w.Replica)
	require.Zero(t, w.Seq)
	w, err = ns[1].e.Witness(topicA)
	require.NoError(t, err)
	require.Empty(t, w.Disputes)
	require.EqualValues(t, 1, w.Seq)
	require.Equal(t, c.marks[topicA].Root, w.Root)
	w, err = ns[1].e.Witness([32]byte{0xb})
	require.NoError(t, err)
	require.False(t, w.Replica, "of a topic that it does not keep")
}

func TestARootThatNobodyShowsIsAnAlarm(t *testing.T) {
	c, ns := three(t)
	c.stolen = true
	for _, n := range ns {
		n.log.raw[ID{topicA, 1}] = nil
		n.start(t, c, quick)
	}
	produce(ID{topicA, 0}, 2, ns...)
	eventually(t, "alarm", func() bool {
		w := ns[1].e.watched
		w.mu.Lock()
		for k := range w.tries { // as if it had waited long
			w.tries[k] = max(w.tries[k], compareTries-1)
		}
		w.mu.Unlock()
		return len(ns[1].e.Alarms()) > 0
	})
	require.Contains(t, ns[1].e.Alarms()[0].Text, "no broker shows")
	eventually(t, "a dispute", func() bool {
		w, err := ns[1].e.Witness(topicA)
		require.NoError(t, err)
		if len(w.Disputes) == 0 {
			return false
		}
		d, err := proof.DecodeDispute(w.Disputes[0])
		require.NoError(t, err)
		require.EqualValues(t, -1, d.Partition)
		require.Equal(t, c.marks[topicA].Root, d.Root)
		return slices.Contains(w.Pending, d.Seq)
	})
}

// What a broker says of checkpoints is there after a restart, bounded, and withdrawn when the checkpoint agrees after all.
func TestDisputesAreKeptAndWithdrawn(t *testing.T) {
	c, ns := three(t)
	n := ns[1]
	n.open(t, c, quick)
	n.log.raw[ID{topicA, 0}] = nil
	for seq := range uint64(keepDisputes + 3) {
		require.NoError(t, n.e.dispute(&proof.Dispute{Topic: topicA, Seq: seq, Root: proof.Hash{byte(seq)}, Partition: -1, Offset: -1}))
	}
	require.NoError(t, n.e.db.Close())
	n.open(t, c, quick)
	w, err := n.e.Witness(topicA)
	require.NoError(t, err)
	require.Len(t, w.Disputes, keepDisputes)
	d, err := proof.DecodeDispute(w.Disputes[0])
	require.NoError(t, err)
	require.EqualValues(t, 3, d.Seq, "the oldest go")
	require.NoError(t, n.e.withdraw(watchedKey{topicA, 3}))
	require.NoError(t, n.e.Final(9, []proof.Checkpointed{{Topic: topicA, Seq: 90}}))
	w, err = n.e.Witness(topicA)
	require.NoError(t, err)
	require.Len(t, w.Disputes, keepDisputes-1)
	require.Equal(t, []uint64{90}, w.Pending)
	require.NoError(t, n.e.db.Close())
}
