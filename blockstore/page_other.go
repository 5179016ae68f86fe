//go:build !linux

package blockstore

import (
	"errors"
	"os"
)

// Blocks are read one-sidedly on Linux only.
var errNoPage = errors.New("needs memory files of Linux")

func sharedPage(int) (*os.File, []byte, error) { return nil, nil, errNoPage }

func reopen(*os.File) (*os.File, error) { return nil, errNoPage }

func unmap([]byte) error { return nil }
