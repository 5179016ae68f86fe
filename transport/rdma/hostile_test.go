package rdma

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// rawPeer is the other end of a channel, by hand, on the bare fabric.
type rawPeer struct {
	t      testing.TB
	fd     fabric.Device
	cq     fabric.CQ
	srq    fabric.SRQ
	qp     fabric.QP
	recv   fabric.Region
	mem    fabric.Region // rings and mailbox
	from   fabric.Region // what it writes from
	own    side
	epoch  uint64
	to     uint64
	theirs descriptor
	mapped []byte
	posts  uint64
	got    []fabric.Completion
	window fabric.QP // nil: it has none
	notes  [][]byte  // that came over it
}

const rawEntries = 64

func newRawPeer(t testing.TB, fd fabric.Device) *rawPeer {
	t.Helper()
	r := &rawPeer{t: t, fd: fd, epoch: rand.Uint64(), own: side{control: MinRingBytes, bulk: MinRingBytes, entries: rawEntries - 8}}
	var err error
	r.cq, err = fd.NewCQ(1 << 14)
	require.NoError(t, err)
	r.srq, err = fd.NewSRQ(rawEntries)
	require.NoError(t, err)
	r.recv, err = fd.NewRegion(rawEntries * fabric.MaxSendBytes)
	require.NoError(t, err)
	r.mem, err = fd.NewRegion(int(r.own.control+r.own.bulk) + mailboxBytes)
	require.NoError(t, err)
	r.from, err = fd.NewRegion(1 << 20)
	require.NoError(t, err)
	for i := range rawEntries {
		r.entry(uint64(i))
	}
	r.qp, err = fd.NewQP(fabric.QPConfig{CQ: r.cq, SRQ: r.srq, SendDepth: 4096, RNRRetry: true})
	require.NoError(t, err)
	t.Cleanup(r.close)
	return r
}

func (r *rawPeer) close() {
	require.NoError(r.t, r.qp.Close())
	if r.window != nil {
		require.NoError(r.t, r.window.Close())
	}
	require.NoError(r.t, r.srq.Close())
	require.NoError(r.t, r.cq.Close())
	for _, m := range []fabric.Region{r.recv, r.mem, r.from} {
		require.NoError(r.t, m.Close())
	}
	require.NoError(r.t, r.fd.Close())
}

func (r *rawPeer) entry(i uint64) {
	at := i % rawEntries * fabric.MaxSendBytes
	_, err := r.srq.Post([]fabric.RecvWR{{ID: i % rawEntries, Local: r.recv.Bytes()[at : at+fabric.MaxSendBytes], Key: r.recv.LocalKey()}})
	require.NoError(r.t, err)
}

func (r *rawPeer) local() []byte {
	if r.window != nil {
		return encodeLocal(r.epoch, r.qp.Info(), r.window.Info())
	}
	return encodeLocal(r.epoch, r.qp.Info(), nil)
}

// meet connects up to the point where both may send. lead is this side's.
func (r *rawPeer) meet(ctx context.Context, remote []byte) {
	to, info, window, err := decodeLocal(remote)
	require.NoError(r.t, err)
	r.to = to
	require.NoError(r.t, r.qp.Connect(ctx, info, true))
	if r.window != nil {
		require.NoError(r.t, r.window.Connect(ctx, window, true))
	}
}

// describe sends a descriptor as change makes it.
func (r *rawPeer) describe(change func(*descriptor), garble func([]byte) []byte) {
	exposed, err := r.qp.Expose(r.mem, 0, len(r.mem.Bytes()), fabric.RemoteWrite)
	require.NoError(r.t, err)
	d := descriptor{from: r.epoch, to: r.to, remote: exposed, side: r.own}
	if change != nil {
		change(&d)
	}
	b := d.encode()
	if garble != nil {
		b = garble(b)
	}
	r.send(b)
}

func (r *rawPeer) send(b []byte) {
	at := r.from.Bytes()[:len(b)]
	copy(at, b)
	r.post(fabric.SendWR{Op: fabric.OpSend, Local: at, Key: r.from.LocalKey()})
	r.settle()
}

// post posts, as far as the queue pair still takes it.
func (r *rawPeer) post(wr fabric.SendWR) error {
	r.posts++
	wr.ID, wr.Signaled = r.posts, true
	for {
		n, err := r.qp.Post([]fabric.SendWR{wr})
		if n == 1 || err == nil || !isFullError(err) {
			return err
		}
		r.poll()
	}
}

// poll takes what completed. SENDs are kept in theirs, and receive entries go back.
func (r *rawPeer) poll() bool {
	var done [16]fabric.Completion
	n, err := r.cq.Poll(done[:])
	require.NoError(r.t, err)
	for _, c := range done[:n] {
		if c.Status == fabric.StatusOK && c.Op == fabric.OpRecv && r.window != nil && c.QP == r.window.Num() {
			r.notes = append(r.notes, append([]byte(nil), r.recv.Bytes()[c.ID%rawEntries*fabric.MaxSendBytes:][:c.Bytes]...))
		} else if c.Status == fabric.StatusOK && c.Op == fabric.OpRecv {
			d, err := decodeDescriptor(r.recv.Bytes()[c.ID%rawEntries*fabric.MaxSendBytes:][:c.Bytes])
			require.NoError(r.t, err)
			r.theirs = d
		}
		if c.Status == fabric.StatusOK && (c.Op == fabric.OpRecv || c.Op == fabric.OpRecvImm) {
			r.entry(c.ID)
		}
		r.got = append(r.got, c)
	}
	return n > 0
}

// until polls until a condition holds.
func (r *rawPeer) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(conformance.Patience); !ok(); {
		if !r.poll() {
			runtime.Gosched()
		}
		require.True(r.t, time.Now().Before(end), "waiting for %s", what)
	}
}

// settle waits until everything that was posted is done, well or badly.
func (r *rawPeer) settle() {
	r.until("completions", func() bool {
		for _, c := range r.got {
			if c.ID == r.posts && c.Op != fabric.OpRecv && c.Op != fabric.OpRecvImm || c.Status != fabric.StatusOK {
				return true
			}
		}
		return false
	})
}

// join does the whole set-up.
func (r *rawPeer) join(ctx context.Context, c *Channel) {
	r.t.Helper()
	connected := make(chan error, 1)
	go func() { connected <- c.Connect(ctx, r.local(), false) }()
	r.meet(ctx, c.Local())
	r.describe(nil, nil)
	r.until("the descriptor", func() bool { return r.theirs.remote.Len > 0 })
	if r.fd.Caps().MapsRemote {
		var err error
		r.mapped, err = r.qp.Map(ctx, r.theirs.remote)
		require.NoError(r.t, err)
	}
	r.probe()
	require.NoError(r.t, <-connected)
}

func (r *rawPeer) mailAt() uint64 { return r.theirs.side.control + r.theirs.side.bulk }

func (r *rawPeer) probe() {
	r.write(r.mailAt()+probeWord*8, binary.LittleEndian.AppendUint64(nil, r.theirs.from))
	r.imm(classProbe, probeAsk)
	r.imm(classProbe, probeAnswer)
}

// write puts bytes into the victim's memory.
func (r *rawPeer) write(at uint64, b []byte) {
	if r.mapped != nil && len(b) <= unit && at%8 == 0 && len(b)%8 == 0 {
		for ; len(b) > 0; at, b = at+8, b[8:] { // whole words, as the mailbox wants them
			atomic.StoreUint64((*uint64)(unsafe.Pointer(&r.mapped[at])), binary.NativeEndian.Uint64(b))
		}
		return
	}
	if r.mapped != nil {
		copy(r.mapped[at:], b)
		return
	}
	local := r.from.Bytes()[:len(b)]
	copy(local, b)
	_ = r.post(fabric.SendWR{Op: fabric.OpWrite, Local: local, Key: r.from.LocalKey(), Remote: r.theirs.remote.Addr + at, RKey: r.theirs.remote.Key})
	r.settle() // the memory may be used again
}

func (r *rawPeer) imm(class, value uint32) error {
	return r.post(fabric.SendWR{Op: fabric.OpWriteImm, Imm: immediate(class, value)})
}

// bulk writes a record at a position of the bulk ring.
func (r *rawPeer) bulk(pos uint64, f *transport.Frame) {
	b := make([]byte, recordBytes(len(f.Payload)))
	transport.PutHeader(b, &f.Header)
	copy(b[transport.HeaderBytes:], f.Payload)
	r.write(r.theirs.side.control+pos, b)
}

// words writes the victim's mailbox.
func (r *rawPeer) words(w words) {
	b := make([]byte, mailWords*8)
	putWords(b, &w)
	r.write(r.mailAt(), b)
}

func isFullError(err error) bool { return err != nil && err.Error() == fabric.ErrFull.Error() }

// hostileFabrics are the fabrics on which raw peers live.
func hostileFabrics() map[string]func(testing.TB) func(name string) fabric.Device {
	simulated := func(f sim.Faults) func(testing.TB) func(string) fabric.Device {
		return func(testing.TB) func(string) fabric.Device {
			n := sim.NewNetwork(1, f)
			return func(name string) fabric.Device { return n.NewDevice(name) }
		}
	}
	return map[string]func(testing.TB) func(string) fabric.Device{
		"sim":        simulated(sim.Faults{}),
		"sim mapped": simulated(sim.Faults{MapsRemote: true}),
		"shm":        func(t testing.TB) func(string) fabric.Device { return func(string) fabric.Device { return openSHM(t) } },
	}
}

// eachVictim runs a test against a device that also has a friend; both must be well after it, and the device must take
// new channels.
func eachVictim(t *testing.T, test func(t *testing.T, victim *Device, attacker func() *rawPeer)) {
	for name, start := range hostileFabrics() {
		t.Run(name, func(t *testing.T) {
			open := start(t)
			cfg := testConfig()
			cfg.RNRRetry = true // for the friend, whose entries a flood takes
			cfg.Entries = 16
			victim, friend := openDevice(t, open("victim"), cfg), openDevice(t, open("friend"), cfg)
			x, y := channels(t, victim, friend)
			test(t, victim, func() *rawPeer { return newRawPeer(t, open("attacker")) })
			require.NoError(t, traffic(x, y, 300, 20_000))
			again, other := channels(t, victim, friend)
			require.NoError(t, traffic(again, other, 100, 1000))
			require.Zero(t, victim.Stats().CQOverruns)
			for _, d := range []*Device{victim, friend} {
				select {
				case <-d.Failed():
					require.Fail(t, "a device was lost")
				default:
				}
			}
		})
	}
}

func ended(t testing.TB, c *Channel) error {
	t.Helper()
	select {
	case <-c.Done():
		return c.Err()
	case <-time.After(conformance.Patience):
		require.FailNow(t, "the channel did not end")
		return nil
	}
}

// sealDescriptor makes the checksum right again.
func sealDescriptor(b []byte) []byte {
	binary.BigEndian.PutUint32(b[descriptorBytes-4:], crc32.Checksum(b[:descriptorBytes-4], castagnoli))
	return b
}

// TestHostileSetUp: a peer that does not keep to the set-up is refused, at once.
func TestHostileSetUp(t *testing.T) {
	attacks := map[string]func(r *rawPeer){
		"stale epoch":      func(r *rawPeer) { r.describe(func(d *descriptor) { d.from++ }, nil) },
		"another's epoch":  func(r *rawPeer) { r.describe(func(d *descriptor) { d.to ^= 1 << 40 }, nil) },
		"huge rings":       func(r *rawPeer) { r.describe(nil, func(b []byte) []byte { b[36] = 31; return sealDescriptor(b) }) },
		"absurd rings":     func(r *rawPeer) { r.describe(nil, func(b []byte) []byte { b[37] = 255; return sealDescriptor(b) }) },
		"tiny rings":       func(r *rawPeer) { r.describe(func(d *descriptor) { d.side.bulk = 64 }, nil) },
		"no entries":       func(r *rawPeer) { r.describe(func(d *descriptor) { d.side.entries = 0 }, nil) },
		"many entries":     func(r *rawPeer) { r.describe(func(d *descriptor) { d.side.entries = MaxEntries + 1 }, nil) },
		"crooked start":    func(r *rawPeer) { r.describe(func(d *descriptor) { d.side.start = 1 }, nil) },
		"start at the end": func(r *rawPeer) { r.describe(func(d *descriptor) { d.side.start = 1<<64 - 64 }, nil) },
		"wrong length":     func(r *rawPeer) { r.describe(func(d *descriptor) { d.remote.Len-- }, nil) },
		"address wraps":    func(r *rawPeer) { r.describe(func(d *descriptor) { d.remote.Addr = 1<<64 - 4096 }, nil) },
		"checksum":         func(r *rawPeer) { r.describe(nil, func(b []byte) []byte { b[40] ^= 1; return b }) },
		"version":          func(r *rawPeer) { r.describe(nil, func(b []byte) []byte { b[0] = 2; return sealDescriptor(b) }) },
		"reserved":         func(r *rawPeer) { r.describe(nil, func(b []byte) []byte { b[50] = 2; return sealDescriptor(b) }) },
		"short":            func(r *rawPeer) { r.describe(nil, func(b []byte) []byte { return b[:20] }) },
		"long":             func(r *rawPeer) { r.describe(nil, func(b []byte) []byte { return append(b, make([]byte, 196)...) }) },
		"twice": func(r *rawPeer) {
			r.describe(nil, nil)
			r.send(make([]byte, descriptorBytes))
		},
		"frames first":  func(r *rawPeer) { _ = r.imm(classBulk, 1) },
		"credit first":  func(r *rawPeer) { _ = r.imm(classCredit, 0) },
		"unknown probe": func(r *rawPeer) { _ = r.imm(classProbe, 2) },
		"probe twice": func(r *rawPeer) {
			_ = r.imm(classProbe, probeAnswer)
			_ = r.imm(classProbe, probeAnswer)
		},
		"probe that wrote nothing": func(r *rawPeer) {
			r.describe(nil, nil)
			_ = r.imm(classProbe, probeAsk)
		},
	}
	eachVictim(t, func(t *testing.T, victim *Device, attacker func() *rawPeer) {
		for name, attack := range attacks {
			t.Run(name, func(t *testing.T) {
				r := attacker()
				c, err := victim.NewChannel(patient(t), "attacker")
				require.NoError(t, err)
				connected := make(chan error, 1)
				go func() { connected <- c.Connect(patient(t), r.local(), false) }()
				r.meet(patient(t), c.Local())
				attack(r)
				require.ErrorIs(t, <-connected, transport.ErrProtocol)
				require.NoError(t, c.Close())
			})
		}
	})
}

// TestHostileLocal: what is told over the control stream is checked too.
func TestHostileLocal(t *testing.T) {
	a, b, _ := simPair(t, 1, sim.Faults{}, testConfig())
	good, err := b.NewChannel(patient(t), "a")
	require.NoError(t, err)
	local := good.Local()
	require.LessOrEqual(t, len(local), MaxLocalBytes)
	for name, bad := range map[string][]byte{
		"nothing":  nil,
		"magic":    append([]byte("bornode-rdma/2"), local[14:]...),
		"cut":      local[:len(local)-1],
		"longer":   append(local[:len(local):len(local)], 0),
		"changed":  func() []byte { x := append([]byte(nil), local...); x[20] ^= 1; return x }(),
		"too long": make([]byte, MaxLocalBytes+1),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := a.NewChannel(patient(t), "b")
			require.NoError(t, err)
			require.ErrorIs(t, c.Connect(patient(t), bad, true), transport.ErrProtocol)
			require.ErrorIs(t, c.Err(), transport.ErrProtocol)
			require.NoError(t, c.Close())
			<-c.gone
		})
	}
}

// TestHostileFrames: a peer that lies about what it wrote, consumed or was granted loses its channel, and nobody else
// anything.
func TestHostileFrames(t *testing.T) {
	flood := func(class uint32, n int) func(*rawPeer, *Channel) {
		return func(r *rawPeer, _ *Channel) {
			for i := range n {
				if r.imm(class, uint32(i+1)) != nil {
					return
				}
			}
		}
	}
	one := func(class, value uint32) func(*rawPeer, *Channel) {
		return func(r *rawPeer, _ *Channel) { _ = r.imm(class, value) }
	}
	header := func(change func(*transport.Header)) func(*rawPeer, *Channel) {
		return func(r *rawPeer, _ *Channel) {
			f := testFrame(transport.LaneCatchUp, 0, 100)
			change(&f.Header)
			r.bulk(0, &f)
			_ = r.imm(classBulk, uint32(recordBytes(100)/unit))
		}
	}
	// say writes words into the victim's mailbox while the victim waits for credits.
	say := func(w words) func(*rawPeer, *Channel) {
		return func(r *rawPeer, c *Channel) {
			go func() {
				f := []transport.Frame{testFrame(transport.LaneCatchUp, 0, 60_000)}
				for c.WriteFrames(f) == nil {
				}
			}()
			r.until("the ring to be full", c.flow.blocked.Load)
			r.words(w)
			_ = r.imm(classCredit, 0)
		}
	}
	attacks := map[string]struct {
		attack func(*rawPeer, *Channel)
		tells  string // a part of the error
		unread bool   // the victim does not read
	}{
		"class 0":               {attack: one(0, 0), tells: "immediate 0x0"},
		"class 7":               {attack: one(7, 0), tells: "immediate 0x70000000"},
		"class 15":              {attack: one(15, 1), tells: "immediate 0xf0000001"},
		"publishes nothing":     {attack: one(classBulk, 0), tells: "bulk ring: "},
		"publishes too much":    {attack: one(classBulk, MinRingBytes/unit+1), tells: "bulk ring: "},
		"publishes backwards":   {attack: one(classControl, valueMask), tells: "control ring: "},
		"ACK without a CREDIT":  {attack: one(classAck, 0), tells: "ACK"},
		"CREDITs without ACKs":  {attack: flood(classCredit, 5000), tells: "CREDIT before"},
		"entries beyond grant":  {attack: flood(classBulk, 40), tells: "receive entries", unread: true}, // far below the ring
		"probe after the setup": {attack: one(classProbe, probeAsk), tells: "probe"},
		"a second descriptor":   {attack: func(r *rawPeer, _ *Channel) { r.send(make([]byte, descriptorBytes)) }, tells: "second descriptor"},
		"flood":                 {attack: flood(classControl, 20_000)},
		"length beyond":         {attack: header(func(h *transport.Header) { h.Length, h.Total = 200, 200 }), tells: "published are"},
		"length far beyond":     {attack: header(func(h *transport.Header) { h.Length, h.Total = 60_000, 60_000 }), tells: "published are"},
		"length above a slice":  {attack: header(func(h *transport.Header) { h.Length, h.Total = 1<<31, 1<<31 }), tells: "at most"},
		"flags":                 {attack: header(func(h *transport.Header) { h.Flags = 0xff }), tells: "flags"},
		"lane":                  {attack: header(func(h *transport.Header) { h.Lane = 200 }), tells: "lane"},
		"gives back too much":   {attack: say(words{consumed: [rings]uint64{0, 1 << 40}}), tells: "mailbox, bulk"},
		"crooked position":      {attack: say(words{consumed: [rings]uint64{0, 65}}), tells: "mailbox, bulk"},
		"another's ring":        {attack: say(words{consumed: [rings]uint64{64, 0}}), tells: "mailbox, control"},
		"entries never taken":   {attack: say(words{entries: 1 << 30}), tells: "gives back"},
	}
	eachVictim(t, func(t *testing.T, victim *Device, attacker func() *rawPeer) {
		for name, attack := range attacks {
			t.Run(name, func(t *testing.T) {
				r := attacker()
				c, err := victim.NewChannel(patient(t), "attacker")
				require.NoError(t, err)
				r.join(patient(t), c)
				if !attack.unread {
					go func() {
						for {
							if _, err := readFrame(c); err != nil {
								return
							}
						}
					}()
				}
				attack.attack(r, c)
				require.ErrorIs(t, ended(t, c), transport.ErrProtocol)
				require.ErrorContains(t, c.Err(), attack.tells)
				require.NoError(t, c.Close())
			})
		}
	})
}

// TestHostileGoesBack: a mailbox that takes credit back.
func TestHostileGoesBack(t *testing.T) {
	eachVictim(t, func(t *testing.T, victim *Device, attacker func() *rawPeer) {
		r := attacker()
		c, err := victim.NewChannel(patient(t), "attacker")
		require.NoError(t, err)
		r.join(patient(t), c)
		go func() {
			f := []transport.Frame{testFrame(transport.LaneCatchUp, 0, 60_000)}
			for c.WriteFrames(f) == nil {
			}
		}()
		r.until("the ring to be full", c.flow.blocked.Load)
		give := recordBytes(60_000)
		r.words(words{consumed: [rings]uint64{0, give}})
		_ = r.imm(classCredit, 0)
		r.until("the ACK", func() bool {
			for _, d := range r.got {
				if d.Op == fabric.OpRecvImm && d.Imm == immediate(classAck, 0) {
					return true
				}
			}
			return false
		})
		r.until("the ring to be full again", c.flow.blocked.Load)
		require.NoError(t, c.Err())
		r.words(words{})
		_ = r.imm(classCredit, 0)
		require.ErrorIs(t, ended(t, c), transport.ErrProtocol)
		require.NoError(t, c.Close())
	})
}

// TestHostileChanges: a peer that changes the ring while it is read, as fast as it can, gives frames that are whole or
// an error, and nothing else happens.
func TestHostileChanges(t *testing.T) {
	eachVictim(t, func(t *testing.T, victim *Device, attacker func() *rawPeer) {
		if raceDetector && victim.Caps().Provider != "shm" {
			return
		}
		for round := range pick(5, 50) {
			r := attacker()
			c, err := victim.NewChannel(patient(t), "attacker")
			require.NoError(t, err)
			r.join(patient(t), c)
			read := make(chan error, 1)
			go func() {
				for {
					f, err := readFrame(c)
					if err != nil {
						read <- err
						return
					}
					if n := len(f.Payload); n != int(f.Header.Length) || n > transport.MaxSliceBytes {
						panic("a frame of another length than its header says")
					}
				}
			}()
			rng := rand.New(rand.NewPCG(uint64(round), 1))
			pos, size := uint64(0), r.theirs.side.bulk
			for i := 0; i < 200 && c.Err() == nil; i++ {
				f := testFrame(transport.LaneCatchUp, i, rng.IntN(9000))
				need := recordBytes(len(f.Payload))
				if pos+need > size {
					break // once around is enough
				}
				r.bulk(pos, &f)
				pos += need
				_ = r.imm(classBulk, uint32(pos/unit))
				for range rng.IntN(4) { // any word, published or not, read or not
					at := rng.Uint64N(pos) &^ 7
					r.write(r.theirs.side.control+at, binary.LittleEndian.AppendUint64(nil, rng.Uint64()))
				}
				r.poll()
			}
			require.NoError(t, c.Close())
			<-read
		}
	})
}
