package wallet

import (
	"fmt"
	"net"
	"runtime"

	"golang.org/x/sys/unix"
)

// Harden keeps the process's memory out of core dumps and away from debuggers of the same user. It returns an error if
// the system did not comply.
func Harden() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("switch core dumps off: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process undumpable: %w", err)
	}
	d, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || d != 0 {
		return fmt.Errorf("the process is still dumpable (%d, %v): keys could be read from a core dump", d, err)
	}
	return nil
}

// keepOut keeps memory out of core dumps and of child processes; it says whether it also stays out of swap.
func keepOut(mem []byte) (pinned bool) {
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP)
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	return unix.Mlock(mem) == nil
}

// undisturbed runs fn on a thread that takes no signals meanwhile. The kernel stores the registers at a signal on a stack
// that nothing overwrites, and Go's scheduler sends signals often: registers hold what was copied last.
func undisturbed(fn func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, &before); err == nil { // cannot fail with these arguments
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	fn()
}

// peerUser is the user at the other end of a Unix socket.
func peerUser(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var inner error
	if err := raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if inner != nil {
		return 0, inner
	}
	return cred.Uid, nil
}
