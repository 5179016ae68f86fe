package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal: what a person sees and types is at the first end, the daemon has the second.
func terminal(t *testing.T) (person, daemon *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	daemon, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = daemon.Close() })
	return person, daemon
}

// The operator at the terminal sees what is to be signed and decides.
func TestAskOnTheTerminal(t *testing.T) {
	p := newPlace(t)
	person, tty := terminal(t)
	d := p.startWith(t, tty, "--confirm", "ask")
	cl := d.client(t)
	call(t, cl, nil, "wallet_create", "main", password)
	var a common.Address
	call(t, cl, &a, "wallet_newAccount", "main", password)
	call(t, cl, nil, "wallet_unlock", "main", password, 600)
	screen := bufio.NewReader(person)
	for _, sign := range []bool{true, false} {
		signed := make(chan error, 1)
		go func() { signed <- cl.CallContext(t.Context(), nil, "personal_sign", "0x68656c6c6f", a) }()
		seen := ""
		for !strings.Contains(seen, " to sign, no to refuse: ") {
			b, err := screen.ReadByte()
			require.NoError(t, err)
			seen += string(b)
		}
		require.Contains(t, seen, `text "hello"`)
		require.Contains(t, seen, a.Hex())
		answer := "no"
		if sign {
			_, rest, _ := strings.Cut(seen, "Type ")
			answer, _, _ = strings.Cut(rest, " ")
		}
		_, err := person.WriteString(answer + "\n")
		require.NoError(t, err)
		if sign {
			require.NoError(t, <-signed)
		} else {
			require.ErrorContains(t, <-signed, "the operator refused to sign")
		}
	}
	require.NoError(t, d.stop(t, syscall.SIGTERM), "an open terminal does not hold it up")
}
