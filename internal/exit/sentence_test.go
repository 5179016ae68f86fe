package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the operating system refuses is told with what to do about it; what has a remedy gets no second one.
func TestSentences(t *testing.T) {
	of := func(op string, cause error) error {
		return fmt.Errorf("open block store /blocks: %w", &fs.PathError{Op: op, Path: "/blocks/LOCK", Err: cause})
	}
	for cause, remedy := range map[error]string{
		syscall.EROFS: "make this disk writable", syscall.ENOSPC: "free space", syscall.EDQUOT: "free space", syscall.EIO: "kernel's log",
		syscall.EMFILE: "LimitNOFILE", syscall.ENOMEM: "free memory", syscall.EACCES: "the right to it", syscall.EPERM: "the right to it",
	} {
		require.Contains(t, Sentence(of("open", cause)), "/blocks/LOCK: "+cause.Error()+"; ")
		require.Contains(t, Sentence(errors.Join(errors.New("first"), of("mkdir", cause))), remedy)
	}
	require.Equal(t, "another", Sentence(errors.New("another")))
	fault := &Fault{What: "the disk failed", File: "/state", Cause: syscall.ENOSPC, Remedy: "free space there"}
	require.Equal(t, fault.Error(), Sentence(fault))
}
