//go:build linux

package blocksync

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/tcp"
)

// BenchmarkRangeSyncSHM is a whole join over shared memory from a block store, once pushed and once read from the
// window: transfer, decoding and digests, no execution. cpu-s/GB is that of both nodes together.
func BenchmarkRangeSyncSHM(b *testing.B) {
	const size = 128 << 20
	store := openStormStore(b, b.TempDir(), size)
	served := newStored(b, store)
	host := func() *stormHost {
		id, err := tcp.GenerateIdentity()
		require.NoError(b, err)
		return newStormHost(b, id, anyPort, store.Window())
	}
	server := host()
	_, _, stop := stormManager(b, server, served, served, nil)
	defer stop()
	for _, pull := range []bool{false, true} {
		b.Run(fmt.Sprintf("pull=%v", pull), func(b *testing.B) {
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				j := newJoining(store)
				h := host()
				m, _, stop := stormManager(b, h, j, j, func(c *Config, _ *Deps) {
					*c = DefaultConfig()
					c.Pull = pull
					c.ChunkBytes = 1 << 20
					c.RunAheadBytes = 4 << 20
				})
				require.NoError(b, h.Dial(context.Background(), server.Addrs()[0]))
				tick := time.NewTicker(time.Millisecond)
				for p := m.Peers(); len(p) == 0 || p[0].Path.Provider != "shm"; p = m.Peers() {
					<-tick.C
				}
				before := cpuTime(b)
				b.StartTimer()
				close(j.begin)
				for j.height() < served.tip.Height {
					<-tick.C
				}
				b.StopTimer()
				cpu += cpuTime(b) - before
				tick.Stop()
				stop()
				b.StartTimer()
			}
			b.SetBytes(size)
			b.ReportMetric(cpu.Seconds()/float64(b.N)/(float64(size)/1e9), "cpu-s/GB")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
