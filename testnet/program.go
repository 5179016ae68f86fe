package testnet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Program is a sentence about the program that this network's nodes are started with: the one that made the network, whichever
// program is asked to start them. The error says that it is not there any more.
func (n *Network) Program() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	return n.programBeside(own)
}

func (n *Network) programBeside(own string) (string, error) {
	recorded, err := n.checkProgram()
	if err != nil {
		return "", err
	}
	this, err := os.Stat(own)
	if err != nil || os.SameFile(recorded, this) {
		return fmt.Sprintf("nodes run %s", n.Binary), nil //nolint:nilerr // this program was replaced while it runs: there is nothing to compare with
	}
	age := "another program than this one"
	if recorded.ModTime().Before(this.ModTime()) {
		age = "an older program than this one"
	}
	return fmt.Sprintf("nodes run %s of %s, %s (%s of %s): to run this one, write its path as \"binary\" in %s",
		n.Binary, builtAt(recorded), age, own, builtAt(this), filepath.Join(n.Dir, stateFile)), nil
}

func builtAt(f os.FileInfo) string { return f.ModTime().UTC().Format(time.DateTime) }

// checkProgram refuses to start anything with a program that is not there.
func (n *Network) checkProgram() (os.FileInfo, error) {
	f, err := os.Stat(n.Binary)
	if err == nil && (f.IsDir() || f.Mode()&0o111 == 0) {
		err = errors.New("it cannot be executed")
	}
	if err != nil {
		return nil, fmt.Errorf("testnet: the program that made this network and runs its nodes, %s, cannot be used: %w; build it there again, or write the path of another bornode as \"binary\" in %s",
			n.Binary, err, filepath.Join(n.Dir, stateFile))
	}
	return f, nil
}
