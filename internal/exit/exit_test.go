package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// coded is an error with a code of its own.
type coded int

func (c coded) Error() string { return "coded" }
func (c coded) ExitCode() int { return int(c) }

func TestCodes(t *testing.T) {
	fault := &Fault{What: "the state database is damaged", File: "/state", Cause: errors.New("checksum"), Remedy: "move it away"}
	full := &Fault{What: "the disk failed", File: "/state", Cause: &fs.PathError{Op: "write", Path: "/state/1", Err: syscall.ENOSPC}, Remedy: "free space"}
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, OK}, {errors.New("x"), Failure}, {fault, Damage}, {fmt.Errorf("chain: %w", fault), Damage}, {full, Disk},
		{errors.Join(errors.New("x"), full), Disk}, {fmt.Errorf("open: %w", syscall.EMFILE), Resources}, {fmt.Errorf("read: %w", syscall.EIO), Disk},
		{fmt.Errorf("consensus: %w", coded(Instance)), Instance},
	} {
		require.Equal(t, c.code, Code(c.err), "%v", c.err)
	}
	require.Equal(t, "the state database is damaged (/state): checksum; move it away", fault.Error())
	fault.Cause = errors.Join(errors.New("table 1"), errors.New("table 2"))
	require.Equal(t, "the state database is damaged (/state): table 1; table 2; move it away", fault.Error(), "one sentence is one line")
}
