//go:build !linux || !cgo

package verbs

import (
	"runtime"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Find says what is missing, and at the latest that this build has no verbs.
func Find(cfg Config) ([]Endpoint, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if runtime.GOOS != "linux" {
		return nil, unavailable("RDMA devices are driven on Linux only, not on %s", runtime.GOOS)
	}
	if _, err := thisMachine().scan(cfg); err != nil {
		return nil, err
	}
	return nil, unavailable("this program was built without cgo, which libibverbs needs: build it with CGO_ENABLED=1 and a C compiler")
}

// Open says that this build has no verbs.
func Open(cfg Config, _ *zap.Logger) (fabric.Device, error) {
	_, err := Find(cfg)
	return nil, err
}
