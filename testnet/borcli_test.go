package testnet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/node"
)

// borcli is the command line under test, built once for the package.
var borcli = sync.OnceValues(func() (string, error) {
	file := filepath.Join(filepath.Dir(binary), "borcli")
	if out, err := exec.Command("go", "build", "-o", file, "../cmd/borcli").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return file, nil
})

// governed is a network and the command line to govern it with, which takes long to build on a busy machine.
func governed(t *testing.T, change func(*Spec)) *Network {
	t.Helper()
	_, err := borcli()
	require.NoError(t, err)
	return upNetwork(t, change)
}

// person uses borcli at a node with a key.
type person struct {
	t   *testing.T
	at  *Node
	key string // file
}

// operatorOf is whoever runs a producer's node; it asks another node, since its own may be down.
func operatorOf(t *testing.T, x, at *Node) person {
	return person{t, at, filepath.Join(x.Dir, node.ProducerFile)}
}

// holder is whoever holds a funded account.
func holder(t *testing.T, a Account, at *Node) person {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(a.Key+"\n"), 0o600))
	return person{t, at, file}
}

func (p person) run(args ...string) (out, problem string, code int) {
	p.t.Helper()
	file, err := borcli()
	require.NoError(p.t, err)
	cmd := exec.CommandContext(p.t.Context(), file, append(args, "--node", p.at.HTTP, "--key", p.key, "--yes", "--json", "--wait", "final", "--timeout", "3m")...)
	cmd.Env = append(os.Environ(), "HOME="+p.t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var failed *exec.ExitError
	switch err := cmd.Run(); {
	case errors.As(err, &failed):
		code = failed.ExitCode()
	default:
		require.NoError(p.t, err)
	}
	return stdout.String(), stderr.String(), code
}

// does runs a command that must succeed, and decodes what it prints into v, if that is not nil.
func (p person) does(v any, args ...string) {
	p.t.Helper()
	out, problem, code := p.run(args...)
	require.Zero(p.t, code, "borcli %q: %s", args, problem)
	if v != nil {
		require.NoError(p.t, json.Unmarshal([]byte(out), v), out)
	}
}

// fails runs a command that must be refused, with this exit code and these words.
func (p person) fails(code int, words string, args ...string) {
	p.t.Helper()
	_, problem, got := p.run(args...)
	require.Equal(p.t, code, got, "borcli %q: %s", args, problem)
	require.Contains(p.t, problem, words)
}

// decided has a proposal made by the first of these people, and approved by the others until it takes effect.
func decided(t *testing.T, people []person, args ...string) {
	t.Helper()
	var made struct {
		Proposal struct {
			ID     uint64 `json:"id"`
			State  string `json:"state"`
			Quorum int    `json:"quorum"`
		} `json:"proposal"`
	}
	people[0].does(&made, args...)
	id := fmt.Sprint(made.Proposal.ID)
	for i := 1; made.Proposal.State == "open"; i++ {
		require.Less(t, i, len(people), "no quorum of %d", made.Proposal.Quorum)
		people[i].does(&made, "proposal", "approve", id)
	}
	require.Equal(t, "done", made.Proposal.State)
	_, problem, code := people[0].run("proposal", "approve", id)
	require.Equal(t, exitRefused, code, problem)
	require.Regexp(t, "proposal "+id+" (has taken effect|is decided): ", problem)
}

// exit codes of borcli
const (
	exitRefused = 4
)
