//go:build !race

package rdma

import "sync/atomic"

// storeWord changes a version word: what is stored before it is seen before it, and what is stored after it after it.
func storeWord(p *uint64, v uint64) { atomic.SwapUint64(p, v) }

// fillSlot copies into memory that peers read.
func fillSlot(dst, src []byte) { copy(dst, src) }
