package pubsub

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/store"
)

func TestATenantPaysForWhatItTook(t *testing.T) {
	q, now := newQuotas(), time.Unix(1000, 0)
	require.Zero(t, q.takeIn(now, "acme", 1000, 1000), "a burst of one second")
	require.Equal(t, 500*time.Millisecond, q.takeIn(now, "acme", 1000, 500))
	require.Zero(t, q.takeOut(now, "acme", 1000, 1000), "the other direction has its own")
	require.Zero(t, q.takeIn(now, "other", 1000, 1000), "another tenant has its own")
	require.Equal(t, 250*time.Millisecond, q.takeIn(now.Add(250*time.Millisecond), "acme", 1000, 0), "the debt is paid with time")
	require.Zero(t, q.takeIn(now.Add(time.Minute), "acme", 1000, 1000))
	require.NotZero(t, q.takeIn(now.Add(time.Minute), "acme", 1000, 1), "a long rest gives no more than a burst")
	require.Zero(t, q.takeIn(now, "free", 0, 1<<40), "0 is no limit")
}

func TestOverLongTimesATenantGetsItsRate(t *testing.T) {
	q, now := newQuotas(), time.Unix(1000, 0)
	sent := 0
	for end := now.Add(100 * time.Second); now.Before(end); {
		sent += 4096
		now = now.Add(q.takeIn(now, "acme", 10_000, 4096) + time.Millisecond)
	}
	require.InDelta(t, 100*10_000, sent, 2*10_000)
}

func TestConnectionsOfATenantAreCounted(t *testing.T) {
	q := newQuotas()
	require.True(t, q.join("acme", 2))
	require.True(t, q.join("acme", 2))
	require.False(t, q.join("acme", 2))
	q.leave("acme")
	require.True(t, q.join("acme", 2))
}

func TestIdleTenantsAreForgottenAndDebtsAreNot(t *testing.T) {
	q, now := newQuotas(), time.Unix(1000, 0)
	q.takeIn(now, "debtor", 10, 1000)
	q.takeIn(now, "idle", 1000, 10)
	q.join("busy", 1)
	q.sweep(now.Add(3 * time.Second))
	require.Contains(t, q.tenants, "debtor")
	require.Contains(t, q.tenants, "busy")
	require.NotContains(t, q.tenants, "idle")
}

func TestNoProducerIDIsGivenTwice(t *testing.T) {
	file, now := filepath.Join(t.TempDir(), producersFile), producersSince.Add(time.Hour)
	seen := make(map[int64]bool)
	take := func(p *producerIDs, broker int32) {
		id, err := p.take(broker)
		require.NoError(t, err)
		require.False(t, seen[id], "id %d", id)
		require.Equal(t, int64(broker), id>>producerBits)
		seen[id] = true
	}
	for range 3 { // restarts within one millisecond
		p, err := openProducerIDs(file, now)
		require.NoError(t, err)
		for range producerBlock + 10 {
			take(p, 1)
		}
		take(p, 2)
	}
	require.NoError(t, os.Remove(file)) // a disk that was lost, later
	p, err := openProducerIDs(file, now.Add(time.Hour))
	require.NoError(t, err)
	take(p, 1)
}

func TestADamagedFileOfProducerIDsIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), producersFile)
	require.NoError(t, os.WriteFile(file, []byte("twelve bytes"), 0o600))
	_, err := openProducerIDs(file, time.Now())
	require.ErrorContains(t, err, "is damaged")
}

func TestAWaiterHearsOfItsPartitionsOnly(t *testing.T) {
	w := newWaiters()
	a, b := store.ID{Partition: 1}, store.ID{Partition: 2}
	x := w.add([]store.ID{a})
	w.wake(b)
	require.Empty(t, x.woken)
	w.wake(a)
	w.wake(a)
	require.Len(t, x.woken, 1)
	w.remove(x)
	require.Empty(t, w.of)
}

// A fetch that can never have enough reads what it found again a few times a second, not at every commit.
func TestAFetchLooksSeldom(t *testing.T) {
	looks, waited := 0, time.Duration(0)
	for waited < maxFetchWait {
		waited += gatherTime(looks)
		looks++
	}
	require.Less(t, looks, 150)
	require.Equal(t, gatherRecords, gatherTime(0), "the first rest is short")
	require.Equal(t, gatherLongest, gatherTime(1<<30))
}
