package node

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	meters "github.com/bornode/bornode/internal/metrics"
	"github.com/bornode/bornode/txpool"
)

// dutyMetrics are a producer's only.
type dutyMetrics struct {
	sent, evidence                *prometheus.CounterVec // result
	waiting, seated, jailed, free prometheus.Gauge
}

func newDutyMetrics(reg prometheus.Registerer) (*dutyMetrics, error) {
	f := meters.New(reg, "duties")
	m := &dutyMetrics{
		sent:     f.CounterVec("transactions_total", "transactions for the producer's account: sent, refused by the contract or the pool", "result"),
		evidence: f.CounterVec("evidence_total", "provable faults of others: found, final (slashed), refused, dropped", "result"),
		waiting:  f.Gauge("evidence_waiting", "provable faults whose verdict is not final yet"),
		seated:   f.Gauge("seated_state", "1 while the producer's account has a seat in the schedule chosen last"),
		jailed:   f.Gauge("jailed_state", "1 while the producer's account is in jail"),
		free:     f.Gauge("jailed_until_seconds", "Unix time from which the producer's account may leave jail; 0: not in jail"),
	}
	return m, f.Err()
}

// tell says what changed for the producer since the last look.
func (d *duties) tell(s *standing) {
	c, old := &s.me, d.before
	first := !d.known
	d.before, d.known = *c, true
	d.m.seated.Set(float64(c.Seated & 1))
	d.m.free.Set(float64(c.JailedUntil))
	d.m.jailed.Set(0)
	log := d.log.With(zap.Stringer("account", d.self))
	if s.jailed() {
		d.m.jailed.Set(1)
		until := zap.Time("until", time.Unix(int64(c.JailedUntil), 0).UTC()) //nolint:gosec // seconds
		if old.JailedUntil != c.JailedUntil {
			d.freed = false
			log.Warn("this producer is in jail for turns it missed; find out why, and when the delay is over run: borcli producer unjail", until)
		}
		if s.unjailDue() && !d.freed {
			d.freed = true
			if !d.cfg.Unjail || !d.sends() {
				log.Warn("this producer may leave jail now: run borcli producer unjail", until)
			}
		}
	} else if old.JailedUntil != 0 {
		log.Info("this producer is out of jail")
	}
	switch {
	case c.Guilty && !old.Guilty:
		log.Error("this producer was proven guilty of breaking a rule of consensus and never produces again; make sure that no copy of its keys runs elsewhere, then register a new account")
	case c.Resigned && !old.Resigned:
		log.Warn("this producer is no candidate any more: it resigned, or its node lost the producer role")
	}
	if seated := c.Seated & 1; seated != old.Seated&1 || first {
		switch {
		case seated == 1:
			log.Info("this producer has a seat in the schedule")
		case c.Key == 0:
			log.Info("this producer is not registered: run borcli producer register")
		default:
			log.Info("this producer has no seat in the schedule")
		}
	}
}

// refused says why a transaction was not sent.
func (d *duties) refused(what string, err error) {
	d.m.sent.WithLabelValues("refused").Inc()
	log := d.log.With(zap.String("what", what), zap.Stringer("account", d.self))
	var no refusal
	switch {
	case errors.As(err, &no):
		log.Warn("not sent: the contract would refuse it", zap.String("reason", string(no)))
	case errors.Is(err, txpool.ErrInsufficient):
		log.Warn("not sent: the producer's account cannot pay for it; send it money", zap.Error(err))
	default:
		log.Warn("not sent", zap.Error(err))
	}
}
