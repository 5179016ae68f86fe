package main

import "golang.org/x/sys/unix"

// noDumps keeps the memory of a process that holds a key out of core dumps and debuggers of the same user.
func noDumps() {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// flushTerminal drops what was typed and not read yet.
func flushTerminal(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
