//go:build linux

package blocksync

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/loopback"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/rdma"
	"github.com/bornode/bornode/transport/rdma/detect"
	"github.com/bornode/bornode/transport/rdma/shm"
	"github.com/bornode/bornode/transport/tcp"
)

// The kill storm: a node joins two others over tcp and shared memory while, at random moments, queue pairs break, tcp
// connections are cut and the serving nodes die and come back. Every block must reach the driver exactly once, by
// reading windows or by being pushed.

const (
	stormBlock = 64 << 10 // bytes of a block, about
	stormVar   = "BORNODE_STORM_PEER"
)

// stormSize is how much history there is, and how many kills.
func stormSize(t testing.TB) (bytes, kills int) {
	bytes, kills = 32<<20, 10
	if os.Getenv("BORNODE_LONG") != "" {
		bytes, kills = 256<<20, 110
	}
	if text := os.Getenv("BORNODE_STORM_BYTES"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		bytes, kills = n, max(kills, 110)
	}
	return bytes, kills
}

// openStormStore opens the store in dir; with bytes it makes the history first.
func openStormStore(t testing.TB, dir string, bytes int) *blockstore.Store {
	cfg := blockstore.DefaultConfig()
	cfg.Dir, cfg.SegmentBytes = dir, 16<<20
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	if !s.Empty() || bytes == 0 {
		return s
	}
	tip := modelGenesis
	batch := []*block.Block{tip}
	for made := 0; made < bytes; made += stormBlock {
		tip = makeBlock(tip, tip.Slot()+1, stormBlock, nil, nil, nil, 0)
		if batch = append(batch, tip); len(batch) == 64 {
			require.NoError(t, s.AppendFinal(batch, block.FinalUpdate{}))
			batch = batch[:0]
		}
	}
	require.NoError(t, s.AppendFinal(batch, block.FinalUpdate{}))
	return s
}

// stored is the Driver of a node that has a whole history and goes nowhere.
type stored struct {
	*blockstore.Store
	tip Ref
}

var errStored = errors.New("storm: nothing is taken")

func newStored(t testing.TB, s *blockstore.Store) *stored {
	height, _ := s.LIB()
	h, err := s.HeaderByHeight(height)
	require.NoError(t, err)
	return &stored{s, RefOf(h)}
}

func (s *stored) CheckHeader(*block.SealedHeader) error        { return errStored }
func (s *stored) AddBlock(context.Context, *block.Block) error { return errStored }
func (s *stored) AddVotes(vs []block.Vote) ([]VoteVerdict, error) {
	return make([]VoteVerdict, len(vs)), nil
}
func (s *stored) AddCertificate(*block.Certificate) error { return nil }
func (s *stored) Status() DriverStatus                    { return DriverStatus{Head: s.tip, LIB: s.tip} }
func (s *stored) AddRange(context.Context, []*block.Block, Mode) (RangeResult, error) {
	return RangeResult{}, errStored
}

// joining is the Driver and the Blocks of the node that joins: it takes every block as final, counts them, and keeps
// none. all has what must come.
type joining struct {
	all   *blockstore.Store
	begin chan struct{} // closed when blocks are taken

	mu    sync.Mutex
	lib   Ref
	taken []int // how often each height was taken
	wrong error
}

func newJoining(all *blockstore.Store) *joining {
	height, _ := all.LIB()
	return &joining{all: all, begin: make(chan struct{}), lib: RefOf(modelGenesis.SealedHeader), taken: make([]int, height+1)}
}

func (j *joining) AddRange(ctx context.Context, blocks []*block.Block, _ Mode) (RangeResult, error) {
	select {
	case <-j.begin:
	case <-ctx.Done():
		return RangeResult{}, ctx.Err()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range blocks {
		want, err := j.all.HashByHeight(b.Number())
		switch {
		case err != nil:
		case b.Parent() != j.lib.Hash || b.Number() != j.lib.Height+1:
			err = fmt.Errorf("block %d came on top of %d", b.Number(), j.lib.Height)
		case b.Hash() != want:
			err = fmt.Errorf("block %d is %s, want %s", b.Number(), b.Hash(), want)
		default:
			err = errors.Join(modelSeal(b.SealedHeader), checkWhole(b))
		}
		if err != nil {
			j.wrong = errors.Join(j.wrong, err)
			return RangeResult{}, fmt.Errorf("%w: %w", errModelInvalid, err)
		}
		j.taken[b.Number()]++
		j.lib = RefOf(b.SealedHeader)
	}
	return RangeResult{Applied: j.lib.Height}, nil
}

func (j *joining) AddBlock(_ context.Context, b *block.Block) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrong = errors.Join(j.wrong, fmt.Errorf("block %d came by itself", b.Number()))
	return errModelInvalid
}

func (j *joining) CheckHeader(*block.SealedHeader) error { return errModelFuture }
func (j *joining) AddVotes(vs []block.Vote) ([]VoteVerdict, error) {
	return make([]VoteVerdict, len(vs)), nil
}
func (j *joining) AddCertificate(*block.Certificate) error { return nil }

func (j *joining) Status() DriverStatus {
	j.mu.Lock()
	defer j.mu.Unlock()
	return DriverStatus{Head: j.lib, LIB: j.lib}
}

func (j *joining) height() uint64 { return j.Status().LIB.Height }

func (j *joining) Range(uint64, uint64, int, func(uint64, []byte) error) error {
	return errModelMissing
}
func (j *joining) FirstHeight() uint64                     { return 0 }
func (j *joining) Block(common.Hash) (*block.Block, error) { return nil, errModelMissing }
func (j *joining) Replace(uint64, *block.Block) error      { return errModelMissing }

func (j *joining) HeaderByHeight(height uint64) (*block.SealedHeader, error) {
	if height > j.height() {
		return nil, errModelMissing
	}
	return j.all.HeaderByHeight(height)
}

func (j *joining) Header(hash common.Hash) (*block.SealedHeader, error) {
	h, err := j.all.Header(hash)
	if err == nil && h.Number() > j.height() {
		return nil, errModelMissing
	}
	return h, err
}

// stormHost is a host with shared memory.
type stormHost struct {
	*tcp.Host
	upgrader *detect.Upgrader

	mu     sync.Mutex
	device *rdma.Device
}

func newStormHost(t testing.TB, id *tcp.Identity, at netip.AddrPort, src transport.Source) *stormHost {
	h := &stormHost{}
	open := func() (*detect.Endpoint, error) {
		fd, err := shm.Open(shm.DefaultConfig(), nil)
		if err != nil {
			return nil, err
		}
		cfg := rdma.DefaultConfig()
		cfg.PoolBytes = 64 << 20
		d, err := rdma.Open(fd, cfg, nil, nil)
		if err != nil {
			return nil, err
		}
		d.Serve(src)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.device = d
		return &detect.Endpoint{Device: detect.Wrap(d), Provider: "shm", Name: "host", Host: sameHost{fd}}, nil
	}
	up := detect.DefaultConfig()
	up.RetryMin, up.RetryMax = 5*time.Millisecond, 50*time.Millisecond
	var err error
	h.upgrader, err = detect.New(up, []detect.Backend{detect.BackendFunc(open)}, nil, nil)
	require.NoError(t, err)
	cfg := tcp.DefaultConfig()
	cfg.Listen, cfg.Upgrader = []string{fmt.Sprintf("/ip4/%s/tcp/%d", at.Addr(), at.Port())}, h.upgrader
	cfg.Link.BackoffMin, cfg.Link.BackoffMax = 5*time.Millisecond, 50*time.Millisecond
	h.Host, err = tcp.New(cfg, id, nil, nil)
	require.NoError(t, err)
	return h
}

func (h *stormHost) Close() error { return errors.Join(h.Host.Close(), h.upgrader.Close()) }

func (h *stormHost) Break() int {
	h.mu.Lock()
	d := h.device
	h.mu.Unlock()
	return d.Break("")
}

// stormManager runs a manager on a host until stop.
func stormManager(t testing.TB, h *stormHost, d Driver, b Blocks, edit nodeOption) (m *Manager, reg *prometheus.Registry, stop func()) {
	cfg := DefaultConfig()
	cfg.RequestTimeout = 3 * time.Second
	cfg.ChunkBytes, cfg.RunAheadBytes = 1<<20, 8<<20 // so that something is always under way
	reg = prometheus.NewRegistry()
	deps := Deps{Host: h, Driver: d, Blocks: b, Params: modelParams, Genesis: modelGenesis.Hash(), Classify: modelClassify, CheckSeal: modelSeal,
		Identity: Identity{Pull: true}, Registry: reg, Log: stormLog(t)}
	if edit != nil {
		edit(&cfg, &deps)
	}
	m, err := New(cfg, deps)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return m, reg, sync.OnceFunc(func() {
		cancel()
		require.NoError(t, errors.Join(<-ended, h.Close()))
	})
}

// stormServer is a node that serves, and can be killed.
type stormServer interface {
	Break() int // its queue pairs
	Kill()      // it dies and comes back at the same address
	Stop()
}

// here is a serving node in this process: it does not die cleanly either, its queue pairs break first.
type here struct {
	t     testing.TB
	id    *tcp.Identity
	at    netip.AddrPort
	store *stored
	host  *stormHost
	stop  func()
}

func (s *here) start() {
	s.host = newStormHost(s.t, s.id, s.at, s.store.Window())
	_, _, s.stop = stormManager(s.t, s.host, s.store, s.store, nil)
}

func (s *here) Break() int { return s.host.Break() }
func (s *here) Stop()      { s.stop() }

func (s *here) Kill() {
	s.host.Break()
	s.stop()
	s.start()
}

// process is a serving node in a process of its own, which is killed without a word.
type process struct {
	t     testing.TB
	dir   string
	at    netip.AddrPort
	cmd   *exec.Cmd
	stdin io.Closer
}

func (p *process) start() {
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestStormPeerProcess$")
	p.cmd.Env = append(os.Environ(), stormVar+"="+p.dir+"="+p.at.String())
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(p.t, err)
	p.stdin, err = p.cmd.StdinPipe() // its end ends the process
	require.NoError(p.t, err)
	require.NoError(p.t, p.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(p.t, err)
	require.Equal(p.t, "up\n", line)
}

func (p *process) Break() int { return 0 }

func (p *process) Stop() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // says that it was killed
}

func (p *process) Kill() {
	p.Stop()
	p.start()
}

// TestStormPeerProcess is the serving node of process; by itself it does nothing.
func TestStormPeerProcess(t *testing.T) {
	dir, text, ok := strings.Cut(os.Getenv(stormVar), "=")
	if !ok {
		return
	}
	at, err := netip.ParseAddrPort(text)
	require.NoError(t, err)
	id, err := tcp.LoadOrCreateIdentity(filepath.Join(dir, "identity"))
	require.NoError(t, err)
	store := newStored(t, openStormStore(t, filepath.Join(dir, "store"), 0))
	_, _, stop := stormManager(t, newStormHost(t, id, at, store.Window()), store, store, nil)
	defer stop()
	fmt.Println("up")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the storm is over
}

var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

// ownAddr is where a node listens again and again; its port is not taken while it is dead.
func ownAddr(t testing.TB) netip.AddrPort {
	at, err := loopback.FreeAddr()
	require.NoError(t, err)
	return at
}

// storm is the network of one test.
type storm struct {
	t       *testing.T
	r       *rand.Rand
	all     *blockstore.Store
	servers []stormServer
	proxies []*conformance.Proxy
	addrs   []string
	kills   map[string]int
	pulled  float64
	pushed  float64
}

func newStorm(t *testing.T, seed uint64, bytes int) *storm {
	s := &storm{t: t, r: rand.New(rand.NewPCG(seed, 0)), kills: map[string]int{}}
	dir, other := t.TempDir(), t.TempDir()
	require.NoError(t, openStormStore(t, filepath.Join(dir, "store"), bytes).Close())
	require.NoError(t, os.CopyFS(other, os.DirFS(filepath.Join(dir, "store"))))
	s.all = openStormStore(t, other, 0)
	id, err := tcp.LoadOrCreateIdentity(filepath.Join(dir, "identity"))
	require.NoError(t, err)
	s.add(id, func(at netip.AddrPort) stormServer {
		p := &process{t: t, dir: dir, at: at}
		p.start()
		return p
	})
	id, err = tcp.GenerateIdentity()
	require.NoError(t, err)
	s.add(id, func(at netip.AddrPort) stormServer {
		h := &here{t: t, id: id, at: at, store: newStored(t, s.all)}
		h.start()
		return h
	})
	return s
}

func (s *storm) add(id *tcp.Identity, start func(at netip.AddrPort) stormServer) {
	at := ownAddr(s.t)
	server := start(at)
	s.t.Cleanup(server.Stop)
	proxy := conformance.NewProxy(s.t, at.String())
	s.servers, s.proxies = append(s.servers, server), append(s.proxies, proxy)
	s.addrs = append(s.addrs, fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/p2p/%s", proxy.Port(), id.ID()))
}

// kill makes something go wrong now.
func (s *storm) kill(joiner *stormHost) {
	i := s.r.IntN(len(s.servers))
	kind, n := "", 1
	switch k := s.r.IntN(100); {
	case k < 25:
		kind, n = "queue pairs of the joining node", joiner.Break()
	case k < 45:
		kind, n = "queue pairs of a serving node", s.servers[i].Break()
	case k < 75:
		kind, n = "tcp connections", s.proxies[i].Cut()
	case i == 0:
		kind = "the serving process"
		s.servers[i].Kill()
	default:
		kind = "the serving node here"
		s.servers[i].Kill()
	}
	if n > 0 {
		s.kills[kind]++
	}
}

func (s *storm) killed() (n int) {
	for _, k := range s.kills {
		n += k
	}
	return n
}

// join lets a new node fetch the whole history, with about so many kills on the way.
func (s *storm) join(pull bool, kills int) {
	t := s.t
	id, err := tcp.GenerateIdentity()
	require.NoError(t, err)
	j := newJoining(s.all)
	target := uint64(len(j.taken) - 1)
	host := newStormHost(t, id, anyPort, nil)
	core, logs := observer.New(zap.InfoLevel)
	bound := int64(0)
	m, reg, stop := stormManager(t, host, j, j, func(c *Config, d *Deps) {
		c.Pull, d.Log = pull, d.Log.WithOptions(zap.WrapCore(func(was zapcore.Core) zapcore.Core { return zapcore.NewTee(was, core) }))
		bound = c.RunAheadBytes + 3*int64(c.ChunkBytes)
	})
	defer stop()
	for _, addr := range s.addrs {
		require.NoError(t, host.Dial(t.Context(), addr))
	}
	(&lab{t: t}).eventually(func() bool {
		peers := m.Peers()
		return len(peers) == 2 && peers[0].Path.Provider == "shm" && peers[1].Path.Provider == "shm"
	}, "shared memory with both")
	close(j.begin)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	next, moved, height := s.r.Uint64N(target/uint64(kills)+1), time.Now(), uint64(0)
	for began := time.Now(); height < target; {
		<-tick.C
		now := j.height()
		if now > height {
			height, moved = now, time.Now()
		}
		require.Less(t, time.Since(moved), 2*conformance.Patience, "it stands still at %d of %d: %+v", height, target, m.Status())
		if height >= next || time.Since(moved) > time.Second && time.Since(began) > time.Second {
			s.kill(host)
			next = height + 1 + s.r.Uint64N(2*target/uint64(kills)+1)
			began = time.Now()
		}
	}
	(&lab{t: t}).eventually(func() bool { return m.Status().State == InSync }, "it is in sync")
	j.mu.Lock()
	defer j.mu.Unlock()
	require.NoError(t, j.wrong)
	for h, n := range j.taken[1:] {
		require.Equal(t, 1, n, "block %d", h+1)
	}
	require.Zero(t, m.bans.Len(), "nobody is to blame")
	all := counterOf(t, reg, "bornode_blocksync_range_blocks_total")
	pulled := counterOf(t, reg, "bornode_blocksync_pulled_blocks_total")
	// While no peer can be asked the node does not catch up, and what was fetched and not taken by then is fetched again.
	breaks := max(0, logs.FilterMessage("sync state").FilterField(zap.Stringer("from", LIBCatchup)).Len()-1)
	require.GreaterOrEqual(t, all, float64(target))
	require.LessOrEqual(t, all, float64(target)+float64(breaks)*float64(bound/stormBlock), "no block was fetched twice but for %d breaks", breaks)
	if !pull {
		require.Zero(t, pulled)
	}
	s.pulled += pulled
	s.pushed += all - pulled
}

func counterOf(t testing.TB, reg *prometheus.Registry, name string) float64 {
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.FailNow(t, "no metric "+name)
	return 0
}

// TestKillStorm: BORNODE_STORM_BYTES sets how much history there is (1 GiB is 1073741824), BORNODE_STORM_SEED the
// moments of the kills.
func TestKillStorm(t *testing.T) {
	bytes, kills := stormSize(t)
	seed := uint64(1)
	if text := os.Getenv("BORNODE_STORM_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	s := newStorm(t, seed, bytes)
	rounds := 0
	for ; s.killed() < kills || rounds < 2 || (s.pulled == 0 || s.pushed == 0) && rounds < 20; rounds++ {
		s.join(rounds%2 == 0, max(4, kills/4))
	}
	t.Logf("%d rounds of %d MiB, kills %v, %.0f blocks read from windows, %.0f pushed", rounds, bytes>>20, s.kills, s.pulled, s.pushed)
	require.NotZero(t, s.pulled)
	require.NotZero(t, s.pushed)
}

func stormLog(t testing.TB) *zap.Logger {
	if tt, ok := t.(*testing.T); ok {
		return testLog(tt)
	}
	return zap.NewNop()
}
