//go:build !linux

package shm

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Device exists on Linux only.
type Device struct{ fabric.Device }

// Open fails with fabric.ErrUnavailable: the backend needs memfd and its seals.
func Open(Config, *zap.Logger) (*Device, error) {
	return nil, fmt.Errorf("%w: shared memory needs Linux", fabric.ErrUnavailable)
}

// Stats counts what a device did since it was opened.
type Stats struct{ Registrations, Wakes, Refused uint64 }

// Stats is empty here.
func (d *Device) Stats() Stats { return Stats{} }

// Serve does nothing here.
func (d *Device) Serve(Source) {}

// Rendezvous is empty here.
func (d *Device) Rendezvous() []byte { return nil }

// Reachable fails with fabric.ErrUnavailable.
func (d *Device) Reachable(info []byte) error { return Reachable(info) }

// Reachable fails with fabric.ErrUnavailable.
func Reachable([]byte) error {
	return fmt.Errorf("%w: shared memory needs Linux", fabric.ErrUnavailable)
}
