package wallet

const (
	// stackPad is more stack than anything that handles a key in the clear needs.
	stackPad = 48 << 10
	// stackBallast lies unused below what runs on such a stack. The garbage collector moves a goroutine that uses less
	// than a quarter of its stack onto a smaller one and leaves the old one as it is: ballast and pad together need
	// 128 KiB, of which the ballast alone is more than a quarter.
	stackBallast = 40 << 10
)

// scrubbed runs fn on a stack of its own that is overwritten afterwards, and the registers too: libraries leave parts of
// keys in both. The stack is made large first and kept large, since growing or shrinking would leave the old one behind
// as it is.
// Whatever fn passes to the heap it overwrites itself. The error is fn's.
func scrubbed(fn func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		undisturbed(func() { err = withBallast(fn) })
	}()
	<-done
	return err
}

//go:noinline
func withBallast(fn func() error) error {
	var ballast [stackBallast]byte
	touch(ballast[:])
	scrubStack()
	defer scrubRegisters()
	defer scrubStack()
	return fn()
}

// scrubRegisters copies as many bytes as make the copy use every vector register (amd64, arm64).
//
//go:noinline
func scrubRegisters() byte {
	var from, to [256]byte
	touch(from[:])
	copy(to[:], from[:])
	return touch(to[:])
}

//go:noinline
func scrubStack() byte {
	var pad [stackPad]byte
	return touch(pad[:])
}

// touch keeps the compiler from leaving its argument out.
//
//go:noinline
func touch(pad []byte) byte {
	clear(pad)
	return pad[len(pad)/2]
}
