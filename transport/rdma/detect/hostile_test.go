package detect

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
)

// puppet is a peer that a test plays by hand.
type puppet struct {
	t       *testing.T
	conn    net.Conn
	channel Channel
	got     []*message // by drain
}

func (p *puppet) send(m message) {
	_, _ = p.conn.Write(m.encode()) // the other side may have hung up
}

func (p *puppet) read() *message {
	m, err := read(p.conn)
	require.NoError(p.t, err)
	return m
}

func (p *puppet) drain() {
	for {
		m, err := read(p.conn)
		if err != nil {
			return
		}
		p.got = append(p.got, m)
	}
}

// start exchanges offers of shared memory on one host.
func (p *puppet) start() {
	require.Equal(p.t, uint8(kindOffers), p.read().kind)
	p.send(message{kind: kindOffers, offers: []offer{{id: 5, kind: offerHost, rendezvous: []byte("host")}}})
}

// lead proposes and goes through with it.
func (p *puppet) lead(d *fakeDevice) {
	var err error
	p.channel, err = d.fabric.device("shm").NewChannel(context.Background(), "x")
	require.NoError(p.t, err)
	p.send(message{kind: kindPropose, attempt: 1, mine: 5, local: p.channel.Local()})
	m := p.read()
	require.Equal(p.t, uint8(kindAccept), m.kind)
	require.NoError(p.t, p.channel.Connect(context.Background(), m.local, true))
	require.Equal(p.t, uint8(kindReady), p.read().kind)
	p.send(message{kind: kindSwitch, attempt: 1})
	synctest.Wait()
}

// against runs one side against a puppet; the side leads or not.
func against(t *testing.T, leads bool, play func(p *puppet, d *fakeDevice), after func(s *side, d *fakeDevice, p *puppet, err error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newFabric().device("shm")
		s := newSide(t, DefaultConfig(), d.endpoint("host", netip.Addr{}))
		x, y := net.Pipe()
		s.run(leads, addrA, addrB, x)
		p := &puppet{t: t, conn: y}
		play(p, d)
		synctest.Wait()
		_ = y.Close()
		err := <-s.ended
		s.ended <- nil
		synctest.Wait()
		after(s, d, p, err)
		if p.channel != nil {
			_ = p.channel.Close()
		}
		s.close(d)
	})
}

// TestHostileControl: each of these costs the peer its link, and nothing is left open.
func TestHostileControl(t *testing.T) {
	propose := message{kind: kindPropose, attempt: 1, mine: 5, local: []byte{0, 0, 0, 9}}
	for name, attack := range map[string]struct {
		leads bool // the side under attack
		play  func(p *puppet, d *fakeDevice)
	}{
		"garbage":             {play: func(p *puppet, _ *fakeDevice) { p.start(); _, _ = p.conn.Write([]byte{0, 9, version, 200}) }},
		"oversize":            {play: func(p *puppet, _ *fakeDevice) { p.start(); _, _ = p.conn.Write([]byte{0xff, 0xff, version, 1}) }},
		"no offers first":     {play: func(p *puppet, _ *fakeDevice) { go p.drain(); p.send(message{kind: kindKeepalive}) }},
		"follower proposes":   {leads: true, play: func(p *puppet, _ *fakeDevice) { p.start(); go p.drain(); p.send(propose) }},
		"follower switches":   {leads: true, play: func(p *puppet, _ *fakeDevice) { p.start(); go p.drain(); p.send(message{kind: kindSwitch}) }},
		"follower says none":  {leads: true, play: func(p *puppet, _ *fakeDevice) { p.start(); go p.drain(); p.send(message{kind: kindNone}) }},
		"leader accepts":      {play: func(p *puppet, _ *fakeDevice) { p.start(); p.send(message{kind: kindAccept, local: []byte{1}}) }},
		"leader is ready":     {play: func(p *puppet, _ *fakeDevice) { p.start(); p.send(message{kind: kindReady}) }},
		"attempt of tomorrow": {play: func(p *puppet, _ *fakeDevice) { p.start(); p.send(message{kind: kindSwitch, attempt: 1}) }},
		"attempt skipped": {play: func(p *puppet, _ *fakeDevice) {
			p.start()
			m := propose
			m.attempt = 2
			p.send(m)
		}},
		"not offered": {play: func(p *puppet, _ *fakeDevice) {
			p.start()
			m := propose
			m.mine = 6
			p.send(m)
		}},
		"two at once": {play: func(p *puppet, _ *fakeDevice) {
			p.start()
			go p.drain()
			p.send(propose)
			m := propose
			m.attempt = 2
			p.send(m)
		}},
		"switch too early": {play: func(p *puppet, _ *fakeDevice) {
			p.start()
			go p.drain()
			p.send(propose)
			p.send(message{kind: kindSwitch, attempt: 1})
		}},
		"ready too early": {leads: true, play: func(p *puppet, _ *fakeDevice) {
			p.start()
			require.Equal(p.t, uint8(kindPropose), p.read().kind)
			go p.drain()
			p.send(message{kind: kindReady, attempt: 1})
		}},
		"echoes the leader's end": {leads: true, play: func(p *puppet, _ *fakeDevice) {
			p.start()
			m := p.read()
			go p.drain()
			p.send(message{kind: kindAccept, attempt: 1, local: m.local})
		}},
		"accepts twice": {leads: true, play: func(p *puppet, _ *fakeDevice) {
			p.start()
			require.Equal(p.t, uint8(kindPropose), p.read().kind)
			go p.drain()
			p.send(message{kind: kindAccept, attempt: 1, local: []byte{9}})
			p.send(message{kind: kindAccept, attempt: 1, local: []byte{9}})
		}},
		"keep-alives without end": {play: func(p *puppet, _ *fakeDevice) {
			p.start()
			for range burstMessages + 1 {
				p.send(message{kind: kindKeepalive})
			}
		}},
		"offers without end": {leads: true, play: func(p *puppet, _ *fakeDevice) {
			go p.drain()
			for range burstMessages + 1 {
				p.send(message{kind: kindOffers})
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			against(t, attack.leads, attack.play, func(_ *side, d *fakeDevice, _ *puppet, err error) {
				require.ErrorIs(t, err, transport.ErrProtocol)
				require.LessOrEqual(t, d.channels(), 1)
			})
		})
	}
}

// TestProposalsArePaced: a leader that proposes and breaks off again and again costs no more than a channel now and then.
func TestProposalsArePaced(t *testing.T) {
	const rounds = 40
	against(t, false, func(p *puppet, _ *fakeDevice) {
		p.start()
		go p.drain()
		for i := range uint32(rounds) {
			p.send(message{kind: kindPropose, attempt: i + 1, mine: 5, local: []byte{0, 0, 0, 9}})
			p.send(message{kind: kindBroken, attempt: i + 1, reason: "never mind"})
		}
		synctest.Wait()
	}, func(_ *side, d *fakeDevice, p *puppet, err error) {
		require.NoError(t, err)
		require.LessOrEqual(t, d.channels(), 1)
		refused := 0
		for _, m := range p.got {
			if m.kind == kindBroken {
				refused++
			}
		}
		require.Equal(t, rounds-1, refused)
	})
}

// TestFickleFollower: offers that change all the time do not make the leader try without pauses.
func TestFickleFollower(t *testing.T) {
	against(t, true, func(p *puppet, d *fakeDevice) {
		d.set(func() { d.noChannel = io.ErrUnexpectedEOF })
		p.start()
		go p.drain()
		for range 100 {
			p.send(message{kind: kindOffers, offers: []offer{{id: 5, kind: offerHost, rendezvous: []byte("host")}}})
		}
		time.Sleep(time.Minute)
	}, func(_ *side, d *fakeDevice, _ *puppet, err error) {
		require.NoError(t, err)
		require.LessOrEqual(t, d.channels(), 8)
	})
}

// TestMute: a peer that says nothing costs nothing; a proposal that nobody answers is given up.
func TestMute(t *testing.T) {
	against(t, true, func(p *puppet, _ *fakeDevice) {
		p.read()
		time.Sleep(time.Hour)
	}, func(s *side, d *fakeDevice, _ *puppet, err error) {
		require.NoError(t, err)
		require.Zero(t, d.channels())
	})
	against(t, true, func(p *puppet, d *fakeDevice) {
		p.start()
		go p.drain()
		time.Sleep(2*DefaultConfig().ProbeTimeout + 1)
		synctest.Wait()
		require.Zero(t, d.live())
	}, func(s *side, d *fakeDevice, p *puppet, err error) {
		require.Contains(t, p.got[1].reason, errSlow.Error())
	})
	against(t, false, func(p *puppet, d *fakeDevice) { // connected, and never switched
		p.start()
		go p.drain()
		c, err := d.fabric.device("shm").NewChannel(context.Background(), "x")
		require.NoError(p.t, err)
		p.channel = c
		p.send(message{kind: kindPropose, attempt: 1, mine: 5, local: c.Local()})
		synctest.Wait()
		require.NoError(p.t, c.Connect(context.Background(), p.got[0].local, true))
		time.Sleep(2*DefaultConfig().ProbeTimeout + 1)
		synctest.Wait()
		require.Zero(t, d.live())
	}, func(_ *side, _ *fakeDevice, p *puppet, err error) {
		require.NoError(t, err)
		require.Contains(t, p.got[len(p.got)-1].reason, errSlow.Error())
	})
}

// FuzzControl feeds any bytes to an upgrader, as leader and as follower: it must not panic, must end with them, and
// must leave no channel open.
func FuzzControl(f *testing.F) {
	offers := message{kind: kindOffers, offers: []offer{{id: 5, kind: offerHost, rendezvous: []byte("host")}}}
	propose := message{kind: kindPropose, attempt: 1, mine: 5, local: []byte{0, 0, 0, 1}}
	for _, leads := range []bool{true, false} {
		f.Add(leads, offers.encode())
		f.Add(leads, append(offers.encode(), propose.encode()...))
		for _, m := range []message{{kind: kindAccept, attempt: 1, local: []byte{1}}, {kind: kindReady, attempt: 1}, {kind: kindBroken, attempt: 1, reason: "x"}} {
			f.Add(leads, append(offers.encode(), m.encode()...))
			f.Add(leads, append(append(offers.encode(), propose.encode()...), m.encode()...))
		}
	}
	f.Fuzz(func(t *testing.T, leads bool, in []byte) {
		d := newFabric().device("shm")
		cfg := DefaultConfig()
		cfg.ProbeTimeout = 10 * time.Millisecond
		e := d.endpoint("host", netip.Addr{})
		u, err := New(cfg, []Backend{BackendFunc(func() (*Endpoint, error) { return e, nil })}, zap.NewNop(), nil)
		require.NoError(t, err)
		x, y := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, y) }()
		go func() { _, _ = y.Write(in); _ = y.Close() }()
		_ = u.Run(context.Background(), link.Session{
			Peer: "p", Leads: leads, Control: x, IdleTimeout: time.Minute, Reason: func(string) {},
			Attach: func(_ context.Context, pr transport.Provider) error { return pr.Close() },
		})
		require.Eventually(t, func() bool { return d.live() == 0 }, time.Minute, time.Millisecond)
		require.NoError(t, u.Close())
	})
}
