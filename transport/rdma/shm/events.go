//go:build linux

package shm

import (
	"sync"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// events queues what happens for the reader of Device.Events, who may be slow: limit events always (a receive queue has
// at most one for each ArmLimit), and the end of a queue pair, which has one; others up to a bound.
type events struct {
	out  chan fabric.Event
	wake chan struct{}
	done chan struct{}

	mu    sync.Mutex
	queue []fabric.Event
}

func newEvents() *events {
	return &events{out: make(chan fabric.Event), wake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (e *events) put(ev fabric.Event) {
	e.mu.Lock()
	if ev.Kind == fabric.EventSRQLimit || ev.Kind == fabric.EventQPFatal || len(e.queue) < maxEvents {
		e.queue = append(e.queue, ev)
	}
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// run gives events out until done is closed. It is a goroutine of the device.
func (e *events) run() {
	for {
		e.mu.Lock()
		batch := e.queue
		e.queue = nil
		e.mu.Unlock()
		for _, ev := range batch {
			select {
			case e.out <- ev:
			case <-e.done:
				return
			}
		}
		if len(batch) != 0 {
			continue
		}
		select {
		case <-e.wake:
		case <-e.done:
			return
		}
	}
}
