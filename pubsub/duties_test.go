package pubsub

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/store"
	"github.com/bornode/bornode/pubsub/token"
)

// atRest is a ledger that stays as it is.
type atRest struct{ v *ledger.View }

func (l atRest) View() *ledger.View       { return l.v }
func (l atRest) Changed() <-chan struct{} { return nil }
func (l atRest) StaleFor() time.Duration  { return 0 }

// submitted keeps what a broker sends.
type submitted struct {
	mu    sync.Mutex
	calls [][]byte
	err   error
}

func (s *submitted) Submit(_ context.Context, _ string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, data)
	return s.err
}

func (s *submitted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func onDuty(t *testing.T, r *replacer, v *ledger.View) (*Broker, *submitted) {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	out := new(submitted)
	r.b.m, r.b.deps.Ledger, r.b.deps.Submit, r.b.deps.Log, r.b.deps.Now = m, atRest{v}, out, zap.NewNop(), time.Now
	return r.b, out
}

func TestAStoppingBrokerHandsOverAllThatItLeads(t *testing.T) {
	const partitions = 1000
	c, _, r := replacing(t, partitions)
	b, out := onDuty(t, r, c.view(t))
	b.HandOver(t.Context())
	method := contracts.TopicsABI().Methods["handOver"]
	given := make(map[uint32]bool)
	for _, data := range out.calls {
		require.True(t, bytes.HasPrefix(data, method.ID))
		args, err := method.Inputs.Unpack(data[4:])
		require.NoError(t, err)
		var list []contracts.Handover
		require.NoError(t, method.Inputs.Copy(&list, args))
		require.LessOrEqual(t, len(list), maxClaims)
		for _, x := range list {
			require.False(t, given[x.Partition])
			require.Equal(t, common.Address{'F'}, x.To)
			given[x.Partition] = true
		}
	}
	require.Len(t, given, partitions)
}

func TestABrokerAttendsWhileItCanWrite(t *testing.T) {
	c, _, r := replacing(t, 1)
	v := c.view(t)
	cfg := store.DefaultConfig()
	cfg.Dir = t.TempDir()
	s, err := store.Open(cfg, nil, zap.NewNop(), nil)
	require.NoError(t, err)
	b, out := onDuty(t, r, v)
	b.deps.Store = s
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go b.attend(ctx)
		time.Sleep(19 * time.Minute)
		synctest.Wait()
		require.Equal(t, 6, out.count(), "three times in the ten minutes for which each counts")
		want, err := contracts.AttendCall(600)
		require.NoError(t, err)
		require.Equal(t, want, out.calls[5])
		out.mu.Lock()
		out.err = errors.New("no block")
		out.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Greater(t, out.count(), 10, "soon again when it failed")
		cancel()
		synctest.Wait()
	})
	require.NoError(t, s.Close())
	before := out.count()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go b.attend(ctx)
		time.Sleep(time.Hour)
		cancel()
		synctest.Wait()
	})
	require.Equal(t, before, out.count(), "one that cannot write does not say that it is there")
}

func TestTheLedgerCountsOnABrokerForAsLongAsOthersWaitForIt(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		0: 10 * time.Minute, 10 * time.Minute: 10 * time.Minute, 5 * time.Second: 5 * time.Second,
		1500 * time.Millisecond: 2 * time.Second, 48 * time.Hour: time.Hour,
	} {
		require.Equal(t, want, (&Config{ReplaceAfter: after}).attendance(), after)
	}
}

// A token that brokers take is one that the contract takes, and an account that cancelled all waits no longer than that.
func TestTokensMayBeDatedAheadAsFarAtBrokersAsOnTheLedger(t *testing.T) {
	require.Equal(t, token.ClockSkew, contracts.TokenSkewSeconds*time.Second)
}

// What the ledger refuses is asked again, though not every two seconds.
func TestAChangeThatIsRefusedRests(t *testing.T) {
	c, l, r := replacing(t, 2)
	c.topic.Leases[1].Replicas = accountsOf("LFX")
	c.brokers[2].Live, l.insync = false, []string{"L", "F", "X"}
	v := c.view(t)
	b, out := onDuty(t, r, v)
	now := time.Unix(1e6, 0)
	b.deps.Now = func() time.Time { return now }
	x := r.look(v, now)
	require.Len(t, x.steps, 1)
	out.err = errors.New("refused")
	r.send(t.Context(), x)
	require.Empty(t, r.look(v, now.Add(moveAgain-1)).steps)
	x = r.look(v, now.Add(moveAgain))
	require.Len(t, x.steps, 1)
	out.err = nil
	r.send(t.Context(), x)
	require.Len(t, r.look(v, now.Add(moveAgain)).steps, 1, "what was made does not rest")
}
