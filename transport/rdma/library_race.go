//go:build race

package rdma

// A peer reads slots while they are overwritten; it finds out by their version words. Where both are in one process, as
// on the simulated fabric, the detector would call that a race.

//go:norace
func storeWord(p *uint64, v uint64) { *p = v }

//go:norace
func fillSlot(dst, src []byte) {
	for i := range src {
		dst[i] = src[i]
	}
}
