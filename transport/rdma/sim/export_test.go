package sim

import "github.com/bornode/bornode/transport/rdma/fabric"

// Leak lets the peer of one queue pair use what another exposed: a bug for the suite to find.
func Leak(from, to fabric.QP) {
	x, y := from.(*QP), to.(*QP)
	x.net.mu.Lock()
	defer x.net.mu.Unlock()
	for _, e := range x.exposures {
		if y.exposure(e.Key) == nil {
			e.region.exposed++
			y.exposures = append(y.exposures, e)
		}
	}
}
