package pubsub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/bornode/bornode/testnet"
)

// run is the network of one variant.
type run struct {
	o       *Options
	n       *testnet.Network
	all     sums
	variant variant
	topics  int
	round   int
	rest    float64   // what the network uses at rest, a second
	looked  time.Time // when that was measured
}

// Measure brings up a network for each variant and gives them loads in turns, as often as there are rounds.
func Measure(ctx context.Context, o Options) (_ *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("bench pubsub: %w", err)
	}
	dir, err := os.MkdirTemp("", "bornode-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	all := make(sums)
	var runs []*run
	defer func() {
		for _, r := range runs {
			err = errors.Join(err, r.n.Down(context.WithoutCancel(ctx)))
		}
	}()
	for i, v := range variants {
		o.Progress("bring up a network: " + v.name)
		n, err := o.network(ctx, filepath.Join(dir, fmt.Sprint(i)), v)
		if err != nil {
			return nil, fmt.Errorf("bench pubsub: %s: %w", v.name, err)
		}
		runs = append(runs, &run{o: &o, n: n, all: all, variant: v})
	}
	if o.Rounds, err = rounds(ctx, &o, runs); err != nil {
		return nil, err
	}
	o.Progress("take-overs")
	if err := runs[usual].takeovers(ctx); err != nil {
		return nil, fmt.Errorf("bench pubsub: take-over: %w", err)
	}
	o.Progress("decisions of access")
	r := report(&o, all)
	r.Decisions, err = decisions(o.Rounds)
	return r, err
}

// rounds does as many as are asked for, and as fit into the time; it tells how many those were.
func rounds(ctx context.Context, o *Options, runs []*run) (done int, err error) {
	begun, longest := time.Now(), time.Duration(0)
	for ; done < o.Rounds; done++ {
		if o.Within > 0 && done > 0 && time.Since(begun)+longest > o.Within {
			break
		}
		at := time.Now()
		if err := oneRound(ctx, o, done, runs); err != nil {
			return done, err
		}
		longest = max(longest, time.Since(at))
	}
	return done, nil
}

func (o *Options) network(ctx context.Context, dir string, v variant) (*testnet.Network, error) {
	s := testnet.DefaultSpec()
	s.Dir, s.Binary, s.BasePort, s.Direct, s.Brokers = dir, o.Program, 0, true, brokers
	s.Set = append([]string{"log.level=warn"}, v.settings...)
	if o.Profile != "" {
		s.Set = append(s.Set, "metrics.profile=true")
	}
	return testnet.Up(ctx, s)
}

// oneRound does everything once on every network; the networks change places from round to round.
func oneRound(ctx context.Context, o *Options, round int, runs []*run) error {
	turns := func(what string, on func(i int) bool, f func(r *run) error) error {
		for i := range runs {
			i = (i + round) % len(runs) // nobody is always first
			if !on(i) {
				continue
			}
			r := runs[i]
			o.Progress(fmt.Sprintf("round %d of %d: %s: %s", round+1, o.Rounds, what, r.variant.name))
			r.round = round
			if err := f(r); err != nil {
				return fmt.Errorf("bench pubsub: %s: %s: %w", r.variant.name, what, err)
			}
		}
		return nil
	}
	for _, size := range o.Sizes {
		for _, by := range o.kafka() {
			what := fmt.Sprintf("%d bytes, %s, %d replicas, acks %s", size, by.client, by.replicas, by.acks)
			if err := turns(what, by.on, func(r *run) error { return r.load(ctx, size, by) }); err != nil {
				return err
			}
		}
		loads := o.library(size)
		for i := range loads {
			by := loads[(i+round)%len(loads)]
			o.Progress(fmt.Sprintf("round %d of %d: %d bytes, %s", round+1, o.Rounds, size, by.client))
			runs[usual].round = round
			if err := runs[usual].load(ctx, size, by); err != nil {
				return fmt.Errorf("bench pubsub: %s: %w", by.client, err)
			}
		}
	}
	everyone := func(int) bool { return true }
	for _, rate := range o.Rates {
		if err := turns(fmt.Sprintf("delay at %d records a second", rate), everyone, func(r *run) error { return r.delay(ctx, rate) }); err != nil {
			return err
		}
	}
	return turns("logins", everyone, func(r *run) error { return r.logins(ctx) })
}

func (r *run) note(size int, by through, what string, x float64) {
	k := key{r.variant.name, by, size, what}
	r.all[k] = append(r.all[k], x)
}

// used is the processor time of the network, and of this process with its clients.
type used struct{ nodes, client time.Duration }

func (r *run) used() (u used) {
	for _, x := range r.n.Nodes {
		u.nodes += x.Process.CPU()
	}
	var own syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &own) == nil {
		u.client = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	}
	return u
}

// idle is how much processor time the network uses at rest, per second: the chain's blocks.
func (r *run) idle(ctx context.Context) (share float64) {
	r.calm(ctx)
	if !r.looked.IsZero() && time.Since(r.looked) < idleKept {
		return r.rest
	}
	begun, before := time.Now(), r.used()
	rest := time.NewTimer(idleLook)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
	}
	r.rest, r.looked = (r.used().nodes-before.nodes).Seconds()/time.Since(begun).Seconds(), time.Now()
	return r.rest
}

// beside is the processor time of the nodes since then, beside what they use at rest.
func (r *run) beside(idle float64, begun time.Time, before used) time.Duration {
	at := r.used().nodes - before.nodes
	return max(at-time.Duration(idle*float64(time.Since(begun))), 0)
}

// calm waits until the network has done what a load left behind: the last replica's copies, trees, checkpoints.
func (r *run) calm(ctx context.Context) {
	tick := time.NewTicker(calmLook)
	defer tick.Stop()
	for begun, last := time.Now(), r.used(); time.Since(begun) < calmTime; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := r.used()
		if now.nodes-last.nodes < time.Duration(calmShare*float64(calmLook)) {
			return
		}
		last = now
	}
}

// topic makes a topic and waits until all of it is led.
func (r *run) topic(ctx context.Context, parts int32, replicas int16) (string, error) {
	name := r.newName()
	return name, r.admin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		err := again(ctx, func() error {
			made, err := admin.CreateTopic(ctx, parts, replicas, nil, name)
			return errors.Join(err, made.Err)
		})
		if err != nil {
			return fmt.Errorf("make topic %s: %w", name, err)
		}
		return led(ctx, admin, name, parts)
	})
}

func (r *run) newName() string {
	r.topics++
	return fmt.Sprintf("%s.bench%d", testnet.DemoTenant, r.topics)
}

// led waits until every partition of a topic has a leader.
func led(ctx context.Context, admin *kadm.Client, name string, parts int32) error {
	return again(ctx, func() error {
		list, err := admin.ListTopics(ctx, name)
		if err == nil && len(list[name].Partitions) != int(parts) {
			err = fmt.Errorf("topic %s has %d partitions yet", name, len(list[name].Partitions))
		}
		if err == nil {
			err = errors.Join(list[name].Err, list.Error())
		}
		for _, p := range list[name].Partitions {
			err = errors.Join(err, p.Err)
		}
		return err
	})
}

// gone deletes a topic, so that its records do not fill the disk.
func (r *run) gone(ctx context.Context, name string) error {
	return r.admin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		got, err := admin.DeleteTopic(ctx, name)
		return errors.Join(err, got.Err)
	})
}

func (r *run) admin(ctx context.Context, f func(context.Context, *kadm.Client) error) error {
	c, err := connect(r.n)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	return f(ctx, kadm.NewClient(c))
}

// again repeats f until it works or ctx ends.
func again(ctx context.Context, f func() error) error {
	pause := time.NewTicker(200 * time.Millisecond)
	defer pause.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
