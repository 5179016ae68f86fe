//go:build linux

package shm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/fabrictest"
)

var long = os.Getenv("BORNODE_LONG") != ""

func TestFabric(t *testing.T) {
	huge := DefaultConfig()
	huge.Timeout = patience
	for name, open := range map[string]func(t testing.TB) (a, b fabric.Device){
		"two devices": func(t testing.TB) (a, b fabric.Device) { return device(t, testConfig()), device(t, testConfig()) },
		"one device":  func(t testing.TB) (a, b fabric.Device) { d := device(t, huge); return d, d },
		"folder": func(t testing.TB) (a, b fabric.Device) {
			cfg := testConfig()
			cfg.Folder = filepath.Join(t.TempDir(), "s")
			return device(t, cfg), device(t, cfg)
		},
	} {
		t.Run(name, func(t *testing.T) { fabrictest.Run(t, fabrictest.Harness{NewPair: open, Long: long}) })
	}
}

// device is a device that the suite closes.
func device(t testing.TB, cfg Config) *Device {
	d, err := Open(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
