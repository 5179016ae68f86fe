package detect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
)

// Upgrader moves links to the endpoints of a node; see link.Upgrader.
type Upgrader struct {
	cfg     Config
	log     *zap.Logger
	metrics *metrics
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	slots   []slot
	changed chan struct{} // closed and replaced when an endpoint goes or comes back
	said    map[transport.PeerID]string
	closed  bool
}

// slot is a backend with its endpoint; nil while its device is lost.
type slot struct {
	backend  Backend
	endpoint *Endpoint
}

var _ link.Upgrader = (*Upgrader)(nil)

// New opens the endpoints of the backends, at most 8 of them, in the order in which they are preferred; what was opened
// belongs to the Upgrader. A backend that cannot be opened now is left out, and the log says why in one line; with mode
// on it is an error if no network device is among the opened ones (shared memory alone is not RDMA). log and reg may
// be nil.
func New(cfg Config, backends []Backend, log *zap.Logger, reg prometheus.Registerer) (*Upgrader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rdma: %w", err)
	}
	if cfg.Mode == Off {
		return nil, errors.New("rdma: mode is off, so there is nothing to set up")
	}
	if len(backends) > maxOffers {
		return nil, fmt.Errorf("rdma: %d devices are more than the %d that can be used: name one in the configuration", len(backends), maxOffers)
	}
	if log == nil {
		log = zap.NewNop()
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	u := &Upgrader{cfg: cfg, log: log, metrics: m, changed: make(chan struct{}), said: make(map[transport.PeerID]string)}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	if err := u.open(backends); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	for i := range u.slots {
		u.wg.Go(func() { u.keep(i) })
	}
	return u, nil
}

func (u *Upgrader) open(backends []Backend) error {
	var missing []string
	network := false
	for _, b := range backends {
		e, err := b.Open()
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		u.log.Info("endpoint for fast links", zap.String("provider", e.Provider), zap.String("device", e.Name))
		u.slots = append(u.slots, slot{b, e})
		network = network || e.Host == nil
	}
	why := strings.Join(missing, "; ")
	if u.cfg.Mode == On && !network {
		if why == "" {
			why = "there is no RDMA device"
		}
		return fmt.Errorf("rdma.mode is on, but no RDMA device can be used: %s", why)
	}
	if why != "" {
		u.log.Info("not every way is there to move links by", zap.String("reason", why))
	}
	return nil
}

// keep opens a slot's endpoint again each time its device was lost.
func (u *Upgrader) keep(i int) {
	for {
		u.mu.Lock()
		s := u.slots[i]
		u.mu.Unlock()
		select {
		case <-s.endpoint.Device.Failed():
		case <-u.ctx.Done():
			return
		}
		u.log.Warn("device lost, its links go on over tcp", zap.String("provider", s.endpoint.Provider), zap.String("device", s.endpoint.Name))
		u.put(i, nil)
		if err := s.endpoint.Device.Close(); err != nil {
			u.log.Warn("closing a lost device", zap.String("device", s.endpoint.Name), zap.Error(err))
		}
		if !u.reopen(i, s.backend) {
			return
		}
	}
}

// reopen tries until it works; false when the upgrader closes.
func (u *Upgrader) reopen(i int, b Backend) bool {
	var pause time.Duration
	for said := ""; ; {
		pause = u.cfg.next(pause)
		select {
		case <-time.After(jitter(pause)):
		case <-u.ctx.Done():
			return false
		}
		e, err := b.Open()
		if err == nil {
			u.log.Info("device is back", zap.String("provider", e.Provider), zap.String("device", e.Name))
			u.put(i, e)
			return true
		}
		if err.Error() != said {
			said = err.Error()
			u.log.Info("device cannot be opened again yet", zap.Error(err))
		}
	}
}

func (u *Upgrader) put(i int, e *Endpoint) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.slots[i].endpoint = e
	close(u.changed)
	u.changed = make(chan struct{})
}

// endpoints gives what there is now, by id, and a channel that is closed when that changes.
func (u *Upgrader) endpoints() ([]*Endpoint, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]*Endpoint, len(u.slots))
	for i := range u.slots {
		list[i] = u.slots[i].endpoint
	}
	return list, u.changed
}

// news tells whether the text is not what was said last of the peer.
func (u *Upgrader) news(peer transport.PeerID, text string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.said[peer] == text {
		return false
	}
	if len(u.said) >= maxRemembered {
		clear(u.said)
	}
	u.said[peer] = text
	return true
}

// Close closes the devices. The host that runs the upgrader must be closed before.
func (u *Upgrader) Close() error {
	u.mu.Lock()
	closed := u.closed
	u.closed = true
	u.mu.Unlock()
	u.cancel()
	u.wg.Wait()
	if closed {
		return nil
	}
	var errs []error
	for _, s := range u.slots {
		if s.endpoint != nil {
			errs = append(errs, s.endpoint.Device.Close())
		}
	}
	u.metrics.unregister()
	return errors.Join(errs...)
}

// next is the pause after this one.
func (c *Config) next(pause time.Duration) time.Duration {
	return min(max(2*pause, c.RetryMin), c.RetryMax)
}

// jitter is between half of the pause and the whole.
func jitter(pause time.Duration) time.Duration { return pause/2 + rand.N(pause/2+1) }
