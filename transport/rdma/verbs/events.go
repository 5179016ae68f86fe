//go:build linux && cgo

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// watch takes asynchronous events until the device is closed. Events are acknowledged at once: destroying a queue
// waits for that.
func (d *device) watch() {
	defer close(d.ended)
	raw, err := d.async.SyscallConn()
	if err != nil {
		return
	}
	for {
		var happened C.struct_bv_happened
		var result C.int
		err := raw.Read(func(uintptr) bool {
			result = C.bv_next_event(d.ctx.c, &happened)
			return result != -C.int(syscall.EAGAIN)
		})
		if err != nil {
			return // closed
		}
		if result != 0 {
			if errors.Is(errno(result), syscall.EINTR) {
				continue
			}
			d.tell(fabric.Event{Kind: fabric.EventDeviceFatal, Text: "asynchronous events: " + errno(result).Error()})
			return
		}
		d.handle(happened)
	}
}

func (d *device) handle(h C.struct_bv_happened) {
	if h.port != 0 && int(h.port) != d.at.Port {
		return
	}
	switch h._type {
	case C.BV_EVENT_SRQ_LIMIT_REACHED:
		d.tell(fabric.Event{Kind: fabric.EventSRQLimit, Text: "few receive entries are left"})
	case C.BV_EVENT_QP_FATAL, C.BV_EVENT_QP_REQ_ERR, C.BV_EVENT_QP_ACCESS_ERR:
		if q := d.numbered(uint32(h.qp)); q != nil {
			q.fail()
		}
		text := map[C.int32_t]string{
			C.BV_EVENT_QP_FATAL: "the queue pair failed", C.BV_EVENT_QP_REQ_ERR: "the peer sent an invalid request",
			C.BV_EVENT_QP_ACCESS_ERR: "the peer asked for memory it has no right to",
		}[h._type]
		d.tell(fabric.Event{Kind: fabric.EventQPFatal, QP: uint32(h.qp), Text: text})
	case C.BV_EVENT_QP_LAST_WQE_REACHED:
		if q := d.numbered(uint32(h.qp)); q != nil {
			q.lastEntry()
		}
	case C.BV_EVENT_CQ_ERR:
		d.tell(fabric.Event{Kind: fabric.EventCQFatal, Text: "a completion queue overran"})
	case C.BV_EVENT_SRQ_ERR:
		d.tell(fabric.Event{Kind: fabric.EventDeviceFatal, Text: "a shared receive queue failed"})
	case C.BV_EVENT_DEVICE_FATAL:
		d.tell(fabric.Event{Kind: fabric.EventDeviceFatal, Text: "the device failed"})
	case C.BV_EVENT_PORT_ERR:
		d.tell(fabric.Event{Kind: fabric.EventPortDown, Text: "the port is not active any more"})
	case C.BV_EVENT_GID_CHANGE, C.BV_EVENT_LID_CHANGE:
		if d.moved() {
			d.tell(fabric.Event{Kind: fabric.EventPortDown, Text: "the port lost its address"})
		}
	default:
		d.log.Debug("asynchronous event", zap.Int("type", int(h._type)), zap.String("device", d.at.Device))
	}
}

// moved says whether the port's address is another than when the device was opened.
func (d *device) moved() bool {
	now := d.at
	_, why := d.ctx.query(&now, d.cfg)
	return why != "" || now.LID != d.at.LID
}

// tell hands an event over. There is always a place for EventSRQLimit, which comes once per ArmLimit: others are
// dropped when only that place is left.
func (d *device) tell(e fabric.Event) {
	if e.Kind != fabric.EventSRQLimit && len(d.events) >= cap(d.events)-maxSRQs {
		d.log.Warn("asynchronous event dropped", zap.String("event", e.Text), zap.Uint32("qp", e.QP))
		return
	}
	select {
	case d.events <- e:
	default: // more limits than receive queues: the one before has not been taken, so this one says nothing new
	}
}

// numbered gives the open queue pair with the number, nil if there is none.
func (d *device) numbered(qp uint32) *qp {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byNumber[qp]
}

// failure is an error completion in words.
func failure(status fabric.Status, vendor uint32) error {
	return fmt.Errorf("verbs: %w: %s (driver's code %d)", fabric.ErrBroken, status, vendor)
}
