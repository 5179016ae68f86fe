package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// Windows by READ of a registered copy, on the simulated fabric.

func windowConfig() Config {
	c := testConfig()
	c.WindowBytes = MinWindowBytes // four slots
	return c
}

// manyAreas makes a source that does not fit the copy.
func manyAreas(t testing.TB, n int) dirSource {
	src := dirSource(t.TempDir())
	src.page(t, 1)
	for area := uint32(1); area <= uint32(n); area++ {
		src.write(t, area, pattern(area, 0, 3<<20+1000))
	}
	return src
}

// TestWindowCopyIsSmall: what does not fit the copy is brought in again and again, while others read; every byte is
// right, and nothing is registered for it but the copy and each peer's right to read it.
func TestWindowCopyIsSmall(t *testing.T) {
	a, b, n := simPair(t, 1, sim.Faults{Delay: 20 * time.Microsecond}, windowConfig())
	src := manyAreas(t, 5)
	b.Serve(src)
	x, y := channels(t, a, b)
	x2, _ := channels(t, a, b)
	registered := b.Stats().Registrations
	errs := make(chan error, 4)
	for g := range 4 {
		c := []*Channel{x, x2}[g%2]
		go func() { errs <- readAreas(patient(t), c, uint64(g), 5) }()
	}
	require.NoError(t, traffic(x, y, 200, 3000))
	for range 4 {
		require.NoError(t, <-errs)
	}
	s := b.Stats()
	require.Equal(t, registered, s.Registrations)
	require.EqualValues(t, 3, s.WindowRegistrations)
	require.EqualValues(t, MinWindowBytes+pageBytes, s.WindowBytes)
	require.Greater(t, s.WindowLoads, uint64(8))
	require.Positive(t, n.Counters().Reads)
	c := x.Counters()
	require.Positive(t, c["window_bytes"])
	require.Positive(t, c["window_asked"])
	healthy(t, a, b)
	t.Log(c, x2.Counters()["window_torn"], s.WindowLoads)
}

// readAreas reads here and there; a chunk that was overwritten too often is told, never given out.
func readAreas(ctx context.Context, c *Channel, seed uint64, areas int) error {
	r := rand.New(rand.NewPCG(seed, 9))
	for range pick(40, 400) {
		area := uint32(1 + r.IntN(areas))
		offset, n := int64(r.IntN(3<<20)), 1+r.IntN(600_000)
		b := make([]byte, n)
		got, err := c.ReadWindow(ctx, area, offset, b)
		if err != nil && !errors.Is(err, errOverwritten) {
			return err
		}
		if want := pattern(area, offset, got); !bytes.Equal(want, b[:got]) {
			return fmt.Errorf("area %d at %d: wrong bytes", area, offset)
		}
		if end := int64(3<<20 + 1000); err == nil && got != int(min(int64(n), end-offset)) {
			return fmt.Errorf("area %d at %d: %d of %d bytes", area, offset, got, n)
		}
	}
	return nil
}

// TestWindowOverwritten: a reader whose chunk is overwritten between the answer and its READ finds out.
func TestWindowOverwritten(t *testing.T) {
	a, b, _ := simPair(t, 1, sim.Faults{}, windowConfig())
	src := manyAreas(t, 5)
	b.Serve(src)
	x, _ := channels(t, a, b)
	x2, _ := channels(t, a, b)
	requireBytes(t, pattern(1, 0, 1000), readAll(t, x, 1, 0, 1000))
	for area := uint32(2); area <= 5; area++ { // all four slots, and their next chunks
		requireBytes(t, pattern(area, 0, 1000), readAll(t, x2, area, 0, 1000))
	}
	asked := x.Counters()["window_asked"]
	requireBytes(t, pattern(1, 500, 1000), readAll(t, x, 1, 500, 1000), "it knew where the chunk was")
	c := x.Counters()
	require.EqualValues(t, 1, c["window_torn"])
	require.Equal(t, asked+1, c["window_asked"])
}

// TestWindowIsReadWithoutTheServer: once it is known where a chunk lies, the serving side is not asked again.
func TestWindowIsReadWithoutTheServer(t *testing.T) {
	a, b, _ := simPair(t, 1, sim.Faults{}, testConfig())
	src := manyAreas(t, 2)
	b.Serve(src)
	x, _ := channels(t, a, b)
	for offset := int64(0); offset+50_000 < 3<<20; offset += 100_000 {
		requireBytes(t, pattern(1, offset, 50_000), readAll(t, x, 1, offset, 50_000))
	}
	c := x.Counters()
	require.EqualValues(t, 2, c["window_asked"], "one for each chunk")
	require.LessOrEqual(t, b.Stats().WindowLoads, uint64(2))
	require.Greater(t, c["window_reads"], uint64(60))
}

func TestWindowIsOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      sim.Faults
		bytes  int64
		served bool
	}{{"no copy", sim.Faults{}, 0, true}, {"no reads", sim.Faults{NoReads: true}, 64 << 20, true}, {"no source", sim.Faults{}, 64 << 20, false}} {
		cfg := testConfig()
		cfg.WindowBytes = c.bytes
		a, b, _ := simPair(t, 1, c.f, cfg)
		if c.served {
			b.Serve(manyAreas(t, 1))
		}
		x, y := channels(t, a, b)
		_, err := x.ReadWindow(patient(t), 1, 0, make([]byte, 10))
		require.ErrorIs(t, err, transport.ErrNoWindow, c.name)
		require.Zero(t, b.Stats().WindowBytes, c.name)
		require.NoError(t, traffic(x, y, 10, 100))
	}
}

// TestWindowOfAnotherSource: what was brought in of one source is not served for another, nor after it was taken away.
func TestWindowOfAnotherSource(t *testing.T) {
	a, b, _ := simPair(t, 1, sim.Faults{}, testConfig())
	x, _ := channels(t, a, b)
	b.Serve(manyAreas(t, 1))
	requireBytes(t, pattern(1, 0, 100), readAll(t, x, 1, 0, 100))
	other := dirSource(t.TempDir())
	other.page(t, 2)
	other.write(t, 1, pattern(77, 0, 1000))
	b.Serve(other)
	readAll(t, x, 0, 0, 64) // another epoch
	requireBytes(t, pattern(77, 0, 100), readAll(t, x, 1, 0, 100))
	b.Serve(nil)
	_, err := x.ReadWindow(patient(t), 0, 0, make([]byte, 10))
	require.ErrorIs(t, err, transport.ErrNoWindow)
}

// slowSource answers when it is let.
type slowSource struct {
	transport.Source
	let chan struct{}
}

func (s *slowSource) Open(area uint32) (*os.File, error) {
	<-s.let
	return s.Source.Open(area)
}

// TestWindowReadGivenUp: a call that does not wait any more leaves its turn until the answer is here; then reading goes
// on. A peer that never answers loses its window, and a channel that ends lets everybody go.
func TestWindowReadGivenUp(t *testing.T) {
	src := manyAreas(t, 1)
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Spin = 0
		a, b, _ := simPair(t, 1, sim.Faults{}, cfg)
		x, _ := channels(t, a, b)
		slow := &slowSource{Source: src, let: make(chan struct{})}
		b.Serve(slow)
		brief := func() context.Context {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		for range 2 {
			_, err := x.ReadWindow(brief(), 1, 0, make([]byte, 100))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		close(slow.let)
		got := make([]byte, 100)
		n, err := x.ReadWindow(brief(), 1, 0, got)
		require.NoError(t, err)
		requireBytes(t, pattern(1, 0, 100), got[:n])

		slow = &slowSource{Source: src, let: make(chan struct{})}
		b.Serve(slow)
		defer close(slow.let)
		for range 4 {
			_, err = x.ReadWindow(brief(), 0, 0, got)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		time.Sleep(answerPatience)
		_, err = x.ReadWindow(brief(), 0, 0, got)
		require.ErrorIs(t, err, transport.ErrNoWindow, "it does not answer")

		x2, _ := channels(t, a, b)
		waiting := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := x2.ReadWindow(context.Background(), 0, 0, make([]byte, 100))
				waiting <- err
			}()
		}
		synctest.Wait()
		require.NoError(t, x2.Close())
		for range 3 {
			require.ErrorIs(t, <-waiting, transport.ErrNoWindow)
		}
		<-x2.gone
	})
}

// TestWindowBreaks: breaking the channel ends reads, and the new channel reads on.
func TestWindowBreaks(t *testing.T) {
	a, b, _ := simPair(t, 1, sim.Faults{Delay: 50 * time.Microsecond}, windowConfig())
	b.Serve(manyAreas(t, 3))
	for range pick(5, 50) {
		x, y := channels(t, a, b)
		reading := make(chan error, 1)
		go func() {
			for {
				if err := readAreas(patient(t), x, 1, 3); err != nil {
					reading <- err
					return
				}
			}
		}()
		require.NotEmpty(t, readAll(t, x, 2, 5, 1000))
		require.Equal(t, 1, a.Break("b"))
		require.ErrorIs(t, <-reading, transport.ErrNoWindow)
		require.NoError(t, x.Close())
		require.NoError(t, y.Close())
		<-x.gone
		<-y.gone
	}
	require.Zero(t, a.Stats().CQOverruns)
}

// TestWindowSeeds: whatever the fabric does, what is read is right, every call returns, and what breaks the window
// breaks nothing else.
func TestWindowSeeds(t *testing.T) {
	src := manyAreas(t, 5)
	first, last := seedRange(60, 1000)
	var read, failed int
	for seed := first; seed < last; seed++ {
		f := sim.RandomFaults(seed)
		f.MapsRemote, f.NoReads = false, false
		if f.BreakAfter > 0 {
			f.BreakAfter += 10
		}
		synctest.Test(t, func(t *testing.T) {
			cfg := windowConfig()
			cfg.Spin = 0
			a, b, n := simPair(t, seed, f, cfg)
			b.Serve(src)
			for range 3 {
				x, err := a.NewChannel(t.Context(), "b")
				require.NoError(t, err)
				y, err := b.NewChannel(t.Context(), "a")
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if join(ctx, x, y) == nil {
					ok, bad := readSeed(t, ctx, x, seed)
					read, failed = read+ok, failed+bad
				}
				cancel()
				require.NoError(t, x.Close())
				require.NoError(t, y.Close())
				<-x.gone
				<-y.gone
			}
			require.Zero(t, n.Counters().RNR, "seed %d", seed)
			require.Zero(t, n.Counters().Overruns, "seed %d", seed)
		})
		if t.Failed() {
			t.Logf("seed %d, %s", seed, f)
			return
		}
	}
	t.Log(read, failed)
	require.Greater(t, read, failed)
}

func readSeed(t *testing.T, ctx context.Context, x *Channel, seed uint64) (ok, failed int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for g := range uint64(3) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, g))
			for range 12 {
				area, offset, b := uint32(1+r.IntN(5)), int64(r.IntN(3<<20)), make([]byte, 1+r.IntN(200_000))
				brief, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(5000))*time.Millisecond)
				n, err := x.ReadWindow(brief, area, offset, b)
				cancel()
				mu.Lock()
				if err == nil {
					ok++
				} else {
					failed++
				}
				mu.Unlock()
				if !bytes.Equal(pattern(area, offset, n), b[:n]) {
					t.Errorf("seed %d: area %d at %d: wrong bytes", seed, area, offset)
				}
			}
		})
	}
	wg.Wait()
	return ok, failed
}

// rawWindow makes a raw peer that has a queue pair for windows, connected with a channel of the victim.
func rawWindow(t testing.TB, fd fabric.Device, victim *Device) (*rawPeer, *Channel) {
	t.Helper()
	r := newRawPeer(t, fd)
	var err error
	r.window, err = fd.NewQP(fabric.QPConfig{CQ: r.cq, SRQ: r.srq, SendDepth: 256, RNRRetry: true})
	require.NoError(t, err)
	c, err := victim.NewChannel(patient(t), "attacker")
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r.join(patient(t), c)
	return r, c
}

// note sends over the window's queue pair.
func (r *rawPeer) note(b []byte) {
	r.posts++
	at := r.from.Bytes()[r.posts%64*fabric.MaxSendBytes:][:len(b)]
	copy(at, b)
	_, _ = r.window.Post([]fabric.SendWR{{ID: r.posts, Op: fabric.OpSend, Local: at, Key: r.from.LocalKey(), Signaled: true}})
}

// TestHostileWindow: who breaks the rules of windows loses the window; frames go on, and so do others.
func TestHostileWindow(t *testing.T) {
	reader := map[string]func(r *rawPeer){
		"two wants": func(r *rawPeer) {
			for i := range uint32(50) {
				r.note((&want{id: i, area: 1}).note())
			}
		},
		"an answer nobody waits for": func(r *rawPeer) { r.note((&have{}).note()) },
		"garbage":                    func(r *rawPeer) { r.note(bytes.Repeat([]byte{7}, windowNoteBytes)) },
		"short":                      func(r *rawPeer) { r.note([]byte{1}) },
		"long":                       func(r *rawPeer) { r.note(make([]byte, fabric.MaxSendBytes)) },
		"an immediate": func(r *rawPeer) {
			r.posts++
			_, _ = r.window.Post([]fabric.SendWR{{ID: r.posts, Op: fabric.OpWriteImm, Imm: 5, Signaled: true}})
		},
	}
	for name, attack := range reader {
		t.Run(name, func(t *testing.T) {
			n := sim.NewNetwork(1, sim.Faults{})
			cfg := testConfig()
			cfg.RNRRetry = true
			victim, friend := openDevice(t, n.NewDevice("victim"), cfg), openDevice(t, n.NewDevice("friend"), cfg)
			victim.Serve(manyAreas(t, 1))
			x, y := channels(t, victim, friend)
			r, c := rawWindow(t, n.NewDevice("attacker"), victim)
			attack(r)
			r.until("the window to end", func() bool { c.pair.mu.Lock(); defer c.pair.mu.Unlock(); return c.pair.err != nil })
			require.NoError(t, c.Err(), "the channel goes on")
			require.NoError(t, traffic(x, y, 100, 3000))
			requireBytes(t, pattern(1, 0, 100), readAll(t, y, 1, 0, 100))
		})
	}
}

// TestHostileServer: answers that lie cost the reader nothing but the window.
func TestHostileServer(t *testing.T) {
	good := func(r *rawPeer, w want) have {
		return have{want: w, valid: 1000, remote: fabric.Remote{Addr: 1 << 40, Key: 5, Len: 1 << 20}, data: 4096, version: 2}
	}
	for name, lie := range map[string]func(h *have){
		"another id":             func(h *have) { h.id++ },
		"another area":           func(h *have) { h.area++ },
		"another chunk":          func(h *have) { h.chunk++ },
		"a wrong key":            func(h *have) {},
		"beyond the copy":        func(h *have) { h.data = 1 << 20 },
		"more than a chunk":      func(h *have) { h.valid, h.remote.Len = windowChunkBytes+1, 1<<30 },
		"a crooked word":         func(h *have) { h.word = 3 },
		"an odd version":         func(h *have) { h.version = 3 },
		"an address that wraps":  func(h *have) { h.remote.Addr = 1<<64 - 100 },
		"an unknown status":      func(h *have) { *h = have{want: h.want, status: 9} },
		"a refusal with a place": func(h *have) { h.status = haveGone },
	} {
		t.Run(name, func(t *testing.T) {
			n := sim.NewNetwork(1, sim.Faults{})
			cfg := testConfig()
			cfg.RNRRetry = true
			victim, friend := openDevice(t, n.NewDevice("victim"), cfg), openDevice(t, n.NewDevice("friend"), cfg)
			x, y := channels(t, victim, friend)
			r, c := rawWindow(t, n.NewDevice("attacker"), victim)
			read := make(chan error, 1)
			go func() {
				_, err := c.ReadWindow(patient(t), 1, 0, make([]byte, 100))
				read <- err
			}()
			r.until("a want", func() bool { return len(r.notes) > 0 })
			_, w, err := decodeNote(r.notes[0])
			require.NoError(t, err)
			h := good(r, w.want)
			lie(&h)
			r.note(h.note())
			select {
			case err = <-read:
			case <-patient(t).Done():
				require.FailNow(t, "the read hangs")
			}
			require.ErrorIs(t, err, transport.ErrNoWindow)
			_, err = c.ReadWindow(patient(t), 1, 0, make([]byte, 100))
			require.ErrorIs(t, err, transport.ErrNoWindow, "and stays so")
			require.NoError(t, c.Err(), "the channel goes on")
			require.NoError(t, traffic(x, y, 100, 3000))
		})
	}
}

func TestWindowNotes(t *testing.T) {
	w := want{id: 1, area: 1<<31 + 2, chunk: 3}
	kind, h, err := decodeNote(w.note())
	require.NoError(t, err)
	require.EqualValues(t, noteWant, kind)
	require.Equal(t, have{want: w}, h)
	full := have{want: w, valid: windowChunkBytes, remote: fabric.Remote{Addr: 1 << 50, Key: 77, Len: 64<<20 + 4096}, word: 8, data: 4096 + windowChunkBytes, version: 1 << 40}
	gone := have{want: w, status: haveGone}
	for _, x := range []have{full, gone} {
		kind, h, err = decodeNote(x.note())
		require.NoError(t, err)
		require.EqualValues(t, noteHave, kind)
		require.Equal(t, x, h)
	}
	for bit := range windowNoteBytes * 8 {
		b := full.note()
		b[bit/8] ^= 1 << (bit % 8)
		_, _, err := decodeNote(b)
		require.ErrorIs(t, err, transport.ErrProtocol)
	}
	require.NotErrorIs(t, err, fs.ErrNotExist)
}

func FuzzWindowNote(f *testing.F) {
	w := want{id: 1, area: 2, chunk: 3}
	h := have{want: w, valid: 100, remote: fabric.Remote{Addr: 1 << 50, Key: 77, Len: 1 << 20}, word: 8, data: 4096, version: 4}
	f.Add(w.note())
	f.Add(h.note())
	f.Add((&have{want: w, status: haveRefused}).note())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, h, err := decodeNote(b)
		if err != nil {
			return
		}
		again := h.note()
		if kind == noteWant {
			again = h.want.note()
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%+v does not encode to what it was read from", h)
		}
		if uint64(h.data)+uint64(h.valid) > uint64(h.remote.Len) || kind == noteHave && h.status == haveOK && uint64(h.word)+8 > uint64(h.remote.Len) {
			t.Fatalf("%+v lies outside", h)
		}
	})
}
