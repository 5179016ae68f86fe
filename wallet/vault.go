package wallet

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// keySize is the size of a private key in bytes.
const keySize = 32

// vault holds unlocked keys in memory of its own, which the garbage collector neither moves nor copies, which stays out
// of core dumps and, where the limits allow, out of swap. Its owner serialises calls.
type vault struct {
	mem    []byte
	free   []int
	pinned bool // out of swap
}

func newVault() (*vault, error) {
	mem, err := unix.Mmap(-1, 0, MaxUnlockedKeys*keySize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("memory for unlocked keys: %w", err)
	}
	v := &vault{mem: mem, pinned: keepOut(mem)}
	for i := MaxUnlockedKeys - 1; i >= 0; i-- {
		v.free = append(v.free, i)
	}
	return v, nil
}

// put moves a key into the vault: the given bytes are overwritten. It fails if the vault is full.
func (v *vault) put(key []byte) (slot int, ok bool) {
	defer clear(key)
	if len(v.free) == 0 || len(key) != keySize {
		return 0, false
	}
	slot = v.free[len(v.free)-1]
	v.free = v.free[:len(v.free)-1]
	undisturbed(func() {
		copy(v.at(slot), key)
		scrubRegisters()
	})
	return slot, true
}

func (v *vault) at(slot int) []byte { return v.mem[slot*keySize : (slot+1)*keySize] }

// drop overwrites a key and frees its slot.
func (v *vault) drop(slot int) {
	clear(v.at(slot))
	v.free = append(v.free, slot)
}

// close overwrites everything. The vault must not be used any more.
func (v *vault) close() {
	clear(v.mem)
	v.free = nil
	_ = unix.Munmap(v.mem)
	v.mem = nil
}
