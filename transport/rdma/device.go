package rdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Errors of devices and channels; test with errors.Is. A peer that breaks the channel protocol gives
// transport.ErrProtocol, a channel or device that was closed here transport.ErrClosed.
var (
	// ErrBusy: the device has Config.MaxChannels channels.
	ErrBusy = errors.New("rdma: the device has as many channels as it may")
	// ErrBroken: the queue pair failed, or the peer closed its end. The text names provider and status.
	ErrBroken = errors.New("rdma: channel is broken")
	// ErrDeviceLost: the device itself has failed (see Device.Failed).
	ErrDeviceLost = errors.New("rdma: device is lost")
)

// consumer takes the completions of one queue pair.
type consumer interface {
	// complete takes a completion; sent holds the bytes of a SEND, valid during the call. It is called under the poll
	// lock, must be quick, and tells whether settle is to be called after it.
	complete(done *fabric.Completion, sent []byte) bool
	// settle does what may take longer, without the poll lock, perhaps by several goroutines at once. It tells
	// whether it woke somebody.
	settle() bool
	// fault tells of the end of the queue pair or of the device.
	fault(err error)
}

// Device is an opened fabric device with its completion queue, shared receive queue, poller and memory. All methods
// may be called concurrently.
type Device struct {
	fd   fabric.Device
	caps fabric.Caps
	cfg  Config
	size sizes
	log  *zap.Logger
	pool *pool
	cq   fabric.CQ
	srq  fabric.SRQ

	unregister func()
	poller     poller
	table      atomic.Pointer[map[uint32]consumer] // by queue pair; replaced under mu
	source     atomic.Pointer[served]
	library    library
	registered atomic.Uint64

	stop   chan struct{}
	failed chan struct{}
	wg     sync.WaitGroup // poller, events, closing channels

	mu       sync.Mutex
	channels map[*Channel]struct{}
	closing  bool
	closed   chan struct{} // Close is through
	closeErr error
	lost     error
	opened   uint64
	broken   uint64
	illegal  uint64
	rnr      uint64
	overruns uint64
	load     loadMeter
}

// served is what Serve was given.
type served struct{ source transport.Source }

// Open starts a device on fd and owns fd from then on: also when it fails it closes fd. The effective number of
// channels and entries follows from cfg and what fd can do; cfg's are upper bounds. log and reg may be nil. The metrics
// carry the label provider; who opens several devices of one provider wraps reg with another label. They leave reg
// with Close.
func Open(fd fabric.Device, cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Device, error) {
	if log == nil {
		log = zap.NewNop()
	}
	d := &Device{
		fd: fd, caps: fd.Caps(), cfg: cfg,
		unregister: func() {},
		stop:       make(chan struct{}), failed: make(chan struct{}), closed: make(chan struct{}),
		channels: make(map[*Channel]struct{}),
	}
	d.log = log.With(zap.String("provider", d.caps.Provider))
	d.table.Store(&map[uint32]consumer{})
	d.pool = newPool(fd, cfg.PoolBytes, func() { d.registered.Add(1) })
	err := d.start(reg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rdma: opening %s: %w", d.caps.Device, err), d.release())
	}
	d.log.Info("device opened", zap.String("device", d.caps.Device), zap.Int("channels", d.size.channels),
		zap.Int("entries", d.size.entries), zap.Int("send_queue", d.size.send), zap.Bool("huge_pages", d.caps.HugePages))
	return d, nil
}

func (d *Device) start(reg prometheus.Registerer) (err error) {
	if err = d.cfg.Validate(); err != nil {
		return err
	}
	if d.size, err = chooseSizes(&d.cfg, &d.caps); err != nil {
		return err
	}
	d.library.init(d)
	if d.cq, err = d.fd.NewCQ(d.size.cq); err != nil {
		return err
	}
	if d.srq, err = d.fd.NewSRQ(d.size.receive); err != nil {
		return err
	}
	if err = d.poller.init(d); err != nil {
		return err
	}
	if d.unregister, err = register(d, reg); err != nil {
		d.unregister = func() {}
		return err
	}
	d.wg.Add(2)
	go d.poller.run()
	go d.events()
	return nil
}

// release gives up what start made, as far as it came.
func (d *Device) release() error {
	var errs []error
	if d.srq != nil {
		errs = append(errs, d.srq.Close())
	}
	if d.cq != nil {
		errs = append(errs, d.cq.Close())
	}
	d.wg.Wait() // the poller ends with its queue
	d.poller.close()
	return errors.Join(append(errs, d.library.close(), d.pool.close(), d.fd.Close())...)
}

// Caps are those of the fabric device.
func (d *Device) Caps() fabric.Caps { return d.caps }

// NewChannel makes one end of a channel with the peer; the peer's device makes the other. It waits for pool memory
// until ctx ends. ErrBusy when there are as many channels as there may be, ErrDeviceLost or transport.ErrClosed when
// the device is gone. The caller closes the channel.
func (d *Device) NewChannel(ctx context.Context, peer transport.PeerID) (*Channel, error) {
	c := newChannel(d, peer)
	if err := d.admit(c); err != nil {
		return nil, err
	}
	c.making.Lock()
	err := c.allocate(ctx)
	if err == nil {
		d.poller.refill()
		d.poller.drain() // completions of an older queue pair with the same number are out of the way
		d.route(c.qp.Num(), c)
		if c.pair != nil {
			d.route(c.pair.qp.Num(), c.pair)
		}
		err = c.Err() // the device may have ended meanwhile
	}
	c.making.Unlock()
	if err != nil {
		_ = c.Close() // never fails
		<-c.gone
		return nil, err
	}
	return c, nil
}

// admit takes a place for a channel.
func (d *Device) admit(c *Channel) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closing:
		return fmt.Errorf("%w: the device", transport.ErrClosed)
	case d.lost != nil:
		return d.lost
	case len(d.channels) >= d.size.channels:
		return fmt.Errorf("%w: %d", ErrBusy, len(d.channels))
	}
	d.channels[c] = struct{}{}
	d.opened++
	d.wg.Add(1) // until forget
	return nil
}

// forget ends what admit began.
func (d *Device) forget(c *Channel) {
	d.poller.doubtful(d.size.entries + d.size.reserved)
	d.mu.Lock()
	delete(d.channels, c)
	d.load.leave(c)
	d.mu.Unlock()
	d.wg.Done()
}

// route sets who takes the completions of a queue pair; nil: nobody.
func (d *Device) route(qp uint32, to consumer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := *d.table.Load()
	table := make(map[uint32]consumer, len(old)+1)
	for k, v := range old {
		table[k] = v
	}
	if to == nil {
		delete(table, qp)
	} else {
		table[qp] = to
	}
	d.table.Store(&table)
}

// rings gives the sizes for a new channel's rings, by the load of pool and network.
func (d *Device) rings() (control, bulk int) {
	_, used, _ := d.pool.usage()
	d.mu.Lock()
	rate := d.load.rate(d.channels, time.Now())
	d.mu.Unlock()
	size := func(most int) int {
		return loadedRing(most, rate, float64(d.cfg.LinkBytesPerSec), float64(used), float64(d.cfg.PoolBytes))
	}
	return size(d.cfg.ControlRingBytes), size(d.cfg.BulkRingBytes)
}

// Serve offers src to the peers of all channels, present and future; nil ends the offer.
func (d *Device) Serve(src transport.Source) {
	d.source.Store(&served{src})
	if s, ok := d.fd.(fabric.FileServer); ok {
		s.Serve(src)
	}
}

// Break breaks the queue pairs of the channels with the peer, "" means all peers, as a fault of the network would. It
// returns how many there were.
func (d *Device) Break(peer transport.PeerID) int {
	n := 0
	for _, c := range d.all() {
		if (peer == "" || c.peer == peer) && c.Err() == nil {
			c.snap(fmt.Errorf("%w: %s: broken by request", ErrBroken, d.caps.Provider))
			n++
		}
	}
	return n
}

func (d *Device) all() []*Channel {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*Channel, 0, len(d.channels))
	for c := range d.channels {
		list = append(list, c)
	}
	return list
}

// Failed is closed when the device is lost: its completion queue overran, its port or the device itself has gone. All
// its channels have failed then. It stays open after a Close.
func (d *Device) Failed() <-chan struct{} { return d.failed }

// lose ends the device.
func (d *Device) lose(err error) {
	err = fmt.Errorf("%w: %s: %w", ErrDeviceLost, d.caps.Provider, err)
	d.mu.Lock()
	if d.lost != nil || d.closing {
		d.mu.Unlock()
		return
	}
	d.lost = err
	close(d.failed)
	d.mu.Unlock()
	d.log.Error("device lost: its peers go on over tcp", zap.String("device", d.caps.Device), zap.Error(err))
	for _, c := range *d.table.Load() {
		c.fault(err)
	}
	for _, c := range d.all() {
		c.fault(err)
	}
}

// note counts the end of a channel that was not closed here.
func (d *Device) note(c *Channel, err error) {
	d.mu.Lock()
	switch {
	case isProtocol(err):
		d.illegal++
	case errors.Is(err, ErrBroken):
		d.broken++
		if errors.Is(err, errRNR) {
			d.rnr++
		}
	}
	d.mu.Unlock()
	d.log.Debug("channel ended", zap.String("peer", string(c.peer)), zap.Error(err))
}

// background runs f beside the poller; Close waits for it.
func (d *Device) background(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closing {
		d.wg.Go(f)
	}
}

var errRNR = errors.New("receiver not ready")

// statusError says what a completion that is not OK means for its channel.
func statusError(provider string, s fabric.Status) error {
	if s == fabric.StatusRNR {
		return fmt.Errorf("%w: %s: %w", ErrBroken, provider, errRNR)
	}
	return fmt.Errorf("%w: %s: %s", ErrBroken, provider, s)
}

func isProtocol(err error) bool { return errors.Is(err, transport.ErrProtocol) }

// events takes the device's asynchronous events until Close.
func (d *Device) events() {
	defer d.wg.Done()
	for {
		select {
		case <-d.stop:
			return
		case e, ok := <-d.fd.Events():
			if !ok {
				return
			}
			d.event(&e)
		}
	}
}

func (d *Device) event(e *fabric.Event) {
	switch e.Kind {
	case fabric.EventSRQLimit:
		d.poller.low()
	case fabric.EventQPFatal:
		d.poller.drain() // what came before it comes first
		if c := (*d.table.Load())[e.QP]; c != nil {
			c.fault(fmt.Errorf("%w: %s: %s", ErrBroken, d.caps.Provider, e.Text))
		}
	case fabric.EventCQFatal:
		d.mu.Lock()
		d.overruns++
		d.mu.Unlock()
		d.lose(fmt.Errorf("completion queue: %s", e.Text))
	case fabric.EventPortDown:
		d.lose(fmt.Errorf("port is down: %s", e.Text))
	case fabric.EventDeviceFatal:
		d.lose(errors.New(e.Text))
	}
}

// Close closes all channels, waits for the device's goroutines, frees everything and closes the fabric device. It may
// be called more than once.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		<-d.closed
		return d.closeErr
	}
	d.closing = true
	d.mu.Unlock()
	d.unregister()
	d.pool.refuse()
	for _, c := range d.all() {
		_ = c.Close() // never fails
		<-c.gone
	}
	close(d.stop)
	d.closeErr = d.release()
	close(d.closed)
	return d.closeErr
}

// loadMeter measures what the channels of a device receive. Guarded by Device.mu.
type loadMeter struct {
	gone uint64 // bytes received by channels that are no more
	last uint64
	at   time.Time
}

func (m *loadMeter) leave(c *Channel) { m.gone += c.received() }

// rate is the bytes a second since the last call.
func (m *loadMeter) rate(channels map[*Channel]struct{}, now time.Time) float64 {
	sum := m.gone
	for c := range channels {
		sum += c.received()
	}
	last, at := m.last, m.at
	m.last, m.at = sum, now
	if took := now.Sub(at); !at.IsZero() && took > 0 && sum > last {
		return float64(sum-last) / took.Seconds()
	}
	return 0
}

// newEpoch names one end of one channel, so that nothing of another channel is taken for it.
func newEpoch() uint64 { return rand.Uint64() }
