package wallet

// stackPad is more stack than anything that handles a key in the clear needs.
const stackPad = 48 << 10

// scrubbed runs fn on a stack of its own that is overwritten afterwards: libraries leave parts of keys in their frames.
// The stack is made large first, since growing would leave the old one behind as it is. Whatever fn passes to the heap
// it overwrites itself. The error is fn's.
func scrubbed(fn func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		scrubStack()
		defer scrubStack()
		err = fn()
	}()
	<-done
	return err
}

//go:noinline
func scrubStack() byte {
	var pad [stackPad]byte
	return touch(&pad)
}

// touch keeps the compiler from leaving the pad out.
//
//go:noinline
func touch(pad *[stackPad]byte) byte {
	clear(pad[:])
	return pad[len(pad)/2]
}
