package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/bornode/bornode/internal/vfs"
)

// lineReader reads lines of bounded length.
type lineReader struct{ r *bufio.Reader }

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, maxPasswordBytes)}
}

// line is the next line without its end; io.EOF if there is none.
func (l *lineReader) line() (string, error) {
	b, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("a line of standard input is longer than %d bytes", maxPasswordBytes)
	}
	if err != nil && (len(b) == 0 || !errors.Is(err, io.EOF)) {
		return "", err
	}
	s := strings.TrimRight(string(b), "\r\n")
	clear(b)
	return s, nil
}

// password gets a password: from file if that is set, else from the terminal without echo, else the next line of
// standard input. It is never taken from an argument: those can be seen by other users.
func (a *app) password(ctx context.Context, what, file string) (string, error) {
	noDumps()
	if file != "" {
		return passwordFromFile(file)
	}
	if !a.inTTY {
		s, err := a.stdin.line()
		if errors.Is(err, io.EOF) {
			return "", fail(exitWallet, "no %s was given: name a file by --password-file, or write it to standard input", what)
		}
		return s, err
	}
	return a.secret(ctx, what+": ")
}

// newPassword gets a password that is set now: on a terminal it is asked for twice.
func (a *app) newPassword(ctx context.Context, what, file string) (string, error) {
	s, err := a.password(ctx, what, file)
	if err != nil {
		return "", err
	}
	if s == "" {
		return "", fail(exitWallet, "the %s is empty: choose one", what)
	}
	if file == "" && a.inTTY {
		again, err := a.secret(ctx, "the same again: ")
		if err != nil {
			return "", err
		}
		if again != s {
			return "", fail(exitWallet, "the two passwords differ: nothing was changed, try again")
		}
	}
	return s, nil
}

func passwordFromFile(path string) (string, error) {
	b, err := secretFile(path, maxPasswordBytes)
	if err != nil {
		return "", fail(exitWallet, "password file: %v", err)
	}
	defer clear(b)
	s, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimRight(s, "\r"), nil
}

// secretFile reads a file that only its owner may read.
func secretFile(path string, most int64) ([]byte, error) {
	noDumps()
	return vfs.ReadPrivateFile(path, most)
}

// secret asks on the terminal without echo. An interrupt ends it and gives the terminal its echo back.
func (a *app) secret(ctx context.Context, prompt string) (string, error) {
	f, ok := a.in.(*os.File)
	if !ok {
		return "", errors.New("standard input is no terminal")
	}
	fd := int(f.Fd()) //nolint:gosec // a descriptor
	state, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	fmt.Fprint(a.errOut, prompt)
	type answer struct {
		b   []byte
		err error
	}
	done := make(chan answer, 1)
	go func() {
		b, err := term.ReadPassword(fd)
		done <- answer{b, err}
	}()
	defer fmt.Fprintln(a.errOut)
	select {
	case got := <-done:
		defer clear(got.b)
		return string(got.b), got.err
	case <-ctx.Done():
		_ = term.Restore(fd, state)
		return "", ctx.Err()
	}
}

// dropTypedAhead forgets what was typed before a question: the next lines of a pasted block are no answer to it.
func (a *app) dropTypedAhead() {
	if f, ok := a.in.(*os.File); ok {
		flushTerminal(int(f.Fd())) //nolint:gosec // a descriptor
		a.stdin = newLineReader(a.in)
	}
}

// confirm asks before something is done that cannot be undone. Without a terminal the answer is otherwise.
func (a *app) confirm(ctx context.Context, otherwise bool, format string, args ...any) error {
	if a.Yes {
		return nil
	}
	question := clean(fmt.Sprintf(format, args...))
	if !a.inTTY || !a.errTTY {
		if otherwise {
			return nil
		}
		return fail(exitUsage, "%s Say --yes to do it", question)
	}
	a.dropTypedAhead()
	fmt.Fprint(a.errOut, question+" [y/N] ")
	type answer struct {
		s   string
		err error
	}
	done := make(chan answer, 1)
	go func() {
		s, err := a.stdin.line()
		done <- answer{s, err}
	}()
	select {
	case got := <-done:
		if s := strings.ToLower(strings.TrimSpace(got.s)); s == "y" || s == "yes" {
			return nil
		}
		return fail(exitOther, "nothing was done: answer y to go on, or say --yes (%sYES=true) not to be asked", envPrefix)
	case <-ctx.Done():
		fmt.Fprintln(a.errOut)
		return ctx.Err()
	}
}
