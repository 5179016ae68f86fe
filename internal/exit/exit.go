package exit

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"go.uber.org/zap"
)

// Exit codes of bornode, listed in docs/operations.md. A supervisor may start the node again after Failure and
// Panic; after Damage, Disk, Resources, Instance and Refused an operator is needed first.
const (
	OK        = 0 // an orderly end
	Failure   = 1 // a wrong argument or setting, or a part of the node failed
	Panic     = 2 // the program crashed; the Go runtime ends it with this code
	Damage    = 3 // a database of the node is damaged
	Disk      = 4 // the disk is full, read-only or answers with errors
	Resources = 5 // too many open files, or no memory
	Instance  = 6 // another instance signs for the same producer
	Refused   = 7 // a recovery contradicts what was signed, applied or is final here; operators decide
)

// Fault is what a program cannot go on after. Its Error is one sentence.
type Fault struct {
	What   string // "the state database is damaged"
	File   string // or folder
	Cause  error
	Remedy string
	Mends  bool // the next start mends it by itself: Code is Failure
}

func (f *Fault) Error() string {
	cause := strings.ReplaceAll(fmt.Sprint(f.Cause), "\n", "; ") // joined errors stand one below the other
	return fmt.Sprintf("%s (%s): %s; %s", f.What, f.File, cause, f.Remedy)
}
func (f *Fault) Unwrap() error { return f.Cause }

// Coded is an error with an exit code of its own.
type Coded interface {
	error
	ExitCode() int
}

// Code is the exit code of an error.
func Code(err error) int {
	var coded Coded
	switch {
	case err == nil:
		return OK
	case errors.As(err, &coded):
		return coded.ExitCode()
	case isAny(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.ENODEV, syscall.ENXIO):
		return Disk
	case isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM):
		return Resources
	}
	var fault *Fault
	if errors.As(err, &fault) && !fault.Mends {
		return Damage
	}
	return Failure
}

func isAny(err error, list ...error) bool {
	for _, e := range list {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// CodeKey is the key of a fatal line's exit code.
const CodeKey = "exit"

// Report logs a fault as fatal, which ends the process by the logger's fatal hook.
func Report(log *zap.Logger, f *Fault) {
	log.Fatal(f.Error(), zap.String("file", f.File), zap.Int(CodeKey, Code(f)))
}
