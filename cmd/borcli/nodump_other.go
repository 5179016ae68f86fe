//go:build !linux

package main

import "golang.org/x/sys/unix"

// noDumps keeps the memory of a process that holds a key out of core dumps.
func noDumps() { _ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }

// flushTerminal drops what was typed and not read yet.
func flushTerminal(fd int) { _ = unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, unix.TCIFLUSH) }
