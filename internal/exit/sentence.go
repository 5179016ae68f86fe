package exit

import (
	"errors"
	"io/fs"
	"syscall"
)

// remedies say what to do about errors of the operating system, which name the file and the cause alone.
var remedies = []struct {
	causes []error
	text   string
}{
	{[]error{syscall.ENOSPC, syscall.EDQUOT}, "free space on this disk, then run it again; what starts set aside (aside/ of blocks and state, *.damaged-*) may go when docs/storage.md says so"},
	{[]error{syscall.EROFS}, "make this disk writable, then run it again; after an error the kernel mounts it read-only, and its log says why"},
	{[]error{syscall.EIO, syscall.ENODEV, syscall.ENXIO}, "look for errors of this disk in the kernel's log, replace it if there are some, and run it again"},
	{[]error{syscall.EMFILE, syscall.ENFILE}, "raise the limit of open files (ulimit -n, LimitNOFILE of systemd), then run it again"},
	{[]error{syscall.ENOMEM}, "free memory, then run it again"},
	{[]error{fs.ErrPermission}, "give the account that runs this program the right to it, or run it as the account that the folder belongs to"},
}

// Sentence is an error as the last line of a program tells it. An error of the operating system without a Fault gets a remedy.
func Sentence(err error) string {
	text := err.Error()
	var fault *Fault
	if errors.As(err, &fault) {
		return text
	}
	for _, r := range remedies {
		if isAny(err, r.causes...) {
			return text + "; " + r.text
		}
	}
	return text
}
