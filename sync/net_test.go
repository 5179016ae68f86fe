package blocksync

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/mem"
	"github.com/bornode/bornode/transport/tcp"
)

// lab is a network of nodes and scripted peers for one test.
type lab struct {
	t       *testing.T
	newHost func(name string) transport.Host
	mem     *mem.Network // nil on tcp
	windows bool         // every node serves a window
	log     *zap.Logger
}

// onMem runs a test on the in-memory network, on virtual time.
func onMem(t *testing.T, f func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := mem.NewNetwork()
		l := &lab{t: t, mem: n, log: testLog(t)}
		l.newHost = func(name string) transport.Host {
			h, err := n.NewHost(transport.PeerID(name), link.DefaultConfig(), nil, nil)
			require.NoError(t, err)
			return h
		}
		f(l)
	})
}

// onFastWindows runs a test over shared memory with a window at every node.
func onFastWindows(t *testing.T, f func(l *lab)) {
	l := &lab{t: t, windows: true, log: testLog(t)}
	l.newHost = func(string) transport.Host { return newFastHost(t) }
	f(l)
}

// forEachProvider runs a test on every provider: in memory on virtual time, without and with windows that peers read
// history from, on tcp with real sockets, and over shared memory (long form: with windows too).
func forEachProvider(t *testing.T, f func(l *lab)) {
	t.Helper()
	t.Run("mem", func(t *testing.T) { onMem(t, f) })
	t.Run("window", func(t *testing.T) { onWindows(t, f) })
	t.Run("tcp", func(t *testing.T) {
		l := &lab{t: t, log: testLog(t)}
		l.newHost = func(string) transport.Host {
			id, err := tcp.GenerateIdentity()
			require.NoError(t, err)
			cfg := tcp.DefaultConfig()
			cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
			cfg.Link.CloseTimeout = 15 * time.Second // a stall does not cut off why a peer is sent away
			h, err := tcp.New(cfg, id, nil, nil)
			require.NoError(t, err)
			return h
		}
		f(l)
	})
	t.Run("shm", func(t *testing.T) {
		l := &lab{t: t, log: testLog(t)}
		l.newHost = func(string) transport.Host { return newFastHost(t) }
		f(l)
	})
	if os.Getenv("BORNODE_LONG") != "" {
		t.Run("shm window", func(t *testing.T) { onFastWindows(t, f) })
	}
}

func testLog(t *testing.T) *zap.Logger {
	if os.Getenv("BORNODE_TEST_LOG") != "" {
		return zaptest.NewLogger(t)
	}
	return zap.NewNop()
}

// node is a whole sync manager on a model.
type node struct {
	*modelNode
	l     *lab
	name  string
	host  transport.Host
	pool  *modelPool
	m     *Manager
	links chan transport.Link

	repairs *modelRepairs

	once sync.Once
	stop func()

	window *modelWindow // nil: it serves none
}

type nodeOption func(*Config, *Deps)

func (l *lab) node(name string, chain []*block.Block, opts ...nodeOption) *node {
	n := &node{modelNode: newModel(chain), l: l, name: name, host: l.newHost(name), pool: newPool(), links: make(chan transport.Link, 64)}
	n.repairs = newModelRepairs(n.modelNode)
	n.onReplaced = n.repairs.replaced
	cfg := DefaultConfig()
	deps := Deps{
		Host: n.host, Driver: n.modelNode, Blocks: n.modelNode, Pool: n.pool, Params: modelParams, Genesis: modelGenesis.Hash(),
		Classify: modelClassify, Corrupt: modelCorrupt, Repairs: n.repairs, CheckSeal: modelSeal, Log: l.log.Named(name),
		OnLink: func(k transport.Link) { n.links <- k },
	}
	if l.windows {
		n.window = l.serveWindow(n)
		deps.Identity.Pull = true
	}
	for _, o := range opts {
		o(&cfg, &deps)
	}
	var err error
	n.m, err = New(cfg, deps)
	require.NoError(l.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.m.Run(ctx) }()
	n.stop = func() {
		n.once.Do(func() {
			cancel()
			require.NoError(l.t, <-ended)
			require.NoError(l.t, n.host.Close())
		})
	}
	l.t.Cleanup(n.stop)
	return n
}

func (n *node) dial(o transport.Host) {
	require.NoError(n.l.t, n.host.Dial(context.Background(), o.Addrs()[0]))
}

// eventually waits, on the clock of the test, for at most a minute.
func (l *lab) eventually(cond func() bool, what string, args ...any) {
	l.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(90 * time.Second)
	defer deadline.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			require.FailNow(l.t, "did not happen: "+fmt.Sprintf(what, args...))
		}
	}
}

// standsStill waits until a count has not moved for so long, which is real time on tcp. What happens more often never lets
// it stand, while what is still under way only takes its time.
func (l *lab) standsStill(count func() int, d time.Duration, what string) {
	l.t.Helper()
	last, since := count(), time.Now()
	l.eventually(func() bool {
		if c := count(); c != last {
			last, since = c, time.Now()
		}
		return time.Since(since) >= d
	}, "%s", what)
}

// pass lets time pass; on tcp a tenth of it.
func (l *lab) pass(d time.Duration) {
	if l.mem == nil {
		d /= 10
	}
	tm := time.NewTimer(d)
	defer tm.Stop()
	<-tm.C
}

func (l *lab) caughtUp(n *node, chain []*block.Block) {
	l.t.Helper()
	tip := chain[len(chain)-1]
	l.eventually(func() bool { s := n.Status(); return s.Head.Hash == tip.Hash() && n.m.Status().State == InSync },
		"%s reaches height %d", n.name, tip.Number())
}

// script is a peer that the test plays by hand.
type script struct {
	l    *lab
	host transport.Host
	link transport.Link
	in   [transport.Lanes]chan transport.Message
	over chan struct{}
	gen  uint64

	mu   sync.Mutex
	pos  Position
	edit func(*Handshake)
	told uint64 // in answers to time messages
}

// script connects a scripted peer to a node; it answers time messages by itself.
func (l *lab) script(name string, n *node) *script {
	s := &script{l: l, host: l.newHost(name), over: make(chan struct{}), pos: Position{Head: RefOf(modelGenesis.SealedHeader), LIB: RefOf(modelGenesis.SealedHeader)}}
	l.t.Cleanup(func() { require.NoError(l.t, s.host.Close()) })
	s.connect(n)
	return s
}

func (s *script) connect(n *node) {
	require.NoError(s.l.t, s.host.Dial(context.Background(), n.host.Addrs()[0]))
	s.link = <-s.host.Links()
	var wg sync.WaitGroup
	over := make(chan struct{})
	s.over = over
	for lane := range transport.Lane(3) {
		in := make(chan transport.Message, 4096)
		s.in[lane] = in
		k := s.link
		wg.Go(func() {
			for {
				m, err := k.RecvLane(context.Background(), lane)
				if err != nil {
					return
				}
				if MessageType(m.Type) == TypeTime {
					if t, _ := DecodeTime(m.Payload); t.Org == 0 {
						a := s.answerTime(t)
						k.TrySend(transport.Message{Type: uint8(TypeTime), Payload: a.Encode()})
						continue
					}
				}
				select {
				case in <- m:
				default: // nobody looks
				}
			}
		})
	}
	go func() { wg.Wait(); close(over) }()
}

func (s *script) at(head, lib *block.Block, justified uint64) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pos = Position{Head: RefOf(head.SealedHeader), LIB: RefOf(lib.SealedHeader), Justified: justified}
	return s
}

func (s *script) position() Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pos
}

// answerTime answers a question for the time.
func (s *script) answerTime(t *Time) Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := uint64(time.Now().UnixNano())
	return Time{Org: t.Xmt, Rec: now, Xmt: now, Head: s.pos.Head, LIB: s.pos.LIB, Justified: s.pos.Justified, Told: s.told}
}

// tells sets the time that the peer's answers tell.
func (s *script) tells(told uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = told
}

func (s *script) handshake() *Handshake {
	s.gen++
	now := uint64(time.Now().UnixNano())
	id := string(s.host.ID())
	pos := s.position()
	h := &Handshake{
		NetVersion: NetVersion, ChainID: modelGenesis.Hash(), NodeID: id, Time: now, Token: HandshakeToken(modelGenesis.Hash(), id, now),
		P2PAddress: "/here", Head: pos.Head, LIB: pos.LIB, Justified: block.Point{Slot: pos.Justified}, First: pos.First,
		OS: "test", Generation: s.gen, Modes: ServeRange,
	}
	if s.edit != nil {
		s.edit(h)
	}
	return h
}

func (s *script) hello() *script { s.send(0, TypeHandshake, s.handshake().Encode()); return s }

func (s *script) send(lane transport.Lane, t MessageType, payload []byte) {
	s.l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = s.link.Send(ctx, transport.Message{Lane: lane, Type: uint8(t), Payload: payload}) // a cut link shows in what comes back
}

// next gives the next message of a type on a lane, passing over others.
func (s *script) next(lane transport.Lane, t MessageType) []byte {
	s.l.t.Helper()
	deadline := time.NewTimer(90 * time.Second)
	defer deadline.Stop()
	for {
		select {
		case m := <-s.in[lane]:
			if MessageType(m.Type) == t {
				return m.Payload
			}
		case <-deadline.C:
			require.FailNow(s.l.t, fmt.Sprintf("no %s arrived", t))
		}
	}
}

// quiet fails if a message of one of the types arrives within d.
func (s *script) quiet(d time.Duration, lane transport.Lane, types ...MessageType) {
	s.l.t.Helper()
	if s.l.mem == nil {
		d /= 10
	}
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		select {
		case m := <-s.in[lane]:
			for _, t := range types {
				require.NotEqual(s.l.t, t, MessageType(m.Type), "unexpected %s", t)
			}
		case <-end.C:
			return
		}
	}
}

func (s *script) goneWith(why Reason) {
	s.l.t.Helper()
	g, err := DecodeGoAway(s.next(0, TypeGoAway))
	require.NoError(s.l.t, err)
	require.Equal(s.l.t, why, g.Reason, "go_away %s", g.Reason)
	<-s.over
}

func (s *script) syncRequest() *SyncRequest {
	s.l.t.Helper()
	r, err := DecodeSyncRequest(s.next(0, TypeSyncRequest))
	require.NoError(s.l.t, err)
	return r
}

// rangeBlock is the next block of an answer with history.
func (s *script) rangeBlock() *SignedBlock {
	s.l.t.Helper()
	b, err := DecodeSignedBlock(s.next(transport.LaneCatchUp, TypeSignedBlock))
	require.NoError(s.l.t, err)
	return b
}

func (s *script) request() *Request {
	s.l.t.Helper()
	r, err := DecodeRequest(s.next(0, TypeRequest))
	require.NoError(s.l.t, err)
	return r
}

func (s *script) answer(req uint64, blocks []*block.Block) {
	s.l.t.Helper()
	for i, b := range blocks {
		m := SignedBlock{ReqIndex: req, Height: b.Number(), Remaining: uint64(len(blocks) - 1 - i), Raw: b.Encode()}
		s.send(transport.LaneCatchUp, TypeSignedBlock, m.Encode())
	}
}

func (s *script) refuse(req uint64, code ErrorCode, height uint64) {
	e := ErrorMessage{ReqIndex: req, Code: code, Height: height}
	s.send(transport.LaneCatchUp, TypeError, e.Encode())
}

func (s *script) push(b *block.Block) {
	m := SignedBlock{Height: b.Number(), Raw: b.Encode()}
	s.send(0, TypeSignedBlock, m.Encode())
}
