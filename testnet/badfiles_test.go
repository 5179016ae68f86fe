package testnet

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/node"
)

// oneSentence checks how a command failed: with a line that names what is wrong, and no panic or help text.
func oneSentence(t *testing.T, out string, err error, words ...string) {
	t.Helper()
	require.Error(t, err, out)
	require.NotContains(t, out, "panic")
	require.NotContains(t, out, "goroutine")
	last := out[strings.LastIndexByte(strings.TrimSpace(out), '\n')+1:]
	require.True(t, strings.HasPrefix(last, "bornode: "), out)
	for _, w := range words {
		require.Contains(t, last, w)
	}
}

// edit changes a JSON file.
func edit(t *testing.T, file string, change func(map[string]any)) {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	change(v)
	b, err = json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, b, 0o600))
}

// madeNetwork makes the folders of a network without starting it.
func madeNetwork(t *testing.T) *Network {
	t.Helper()
	s := DefaultSpec()
	s.Dir, s.Binary, s.BasePort, s.Direct = t.TempDir(), binary, 0, true
	require.NoError(t, s.prepare())
	n, err := create(s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.portsLock.Close()) })
	for _, x := range n.Nodes {
		require.NoError(t, n.writeConfig(x))
	}
	return n
}

// A configuration, genesis or key that cannot work ends `bornode run` with a sentence that names it.
func TestBadConfiguration(t *testing.T) {
	n := madeNetwork(t)
	x := n.Nodes[0]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	taken := listener.Addr().String()
	producer := func(v map[string]any, i int) map[string]any { return v["producers"].([]any)[i].(map[string]any) }
	for name, c := range map[string]struct {
		config  string // lines at the start of bornode.toml
		genesis func(map[string]any)
		prepare func(dir string)
		env     []string
		flags   []string
		words   []string
	}{
		"unknown key":            {config: "genesi = \"x\"\n", words: []string{"", `"genesi"`, `"genesis"`}},
		"unknown variable":       {env: []string{"BORNODE_SYNC_MOD=full"}, words: []string{"BORNODE_SYNC_MOD", "BORNODE_SYNC_MODE"}},
		"value of another kind":  {env: []string{"BORNODE_SYNC_MODE=fast"}, words: []string{"fast", "certified"}},
		"broken file":            {config: "[[[\n", words: []string{""}},
		"no genesis":             {flags: []string{"--genesis", filepath.Join(n.Dir, "none.json")}, words: []string{"none.json", "no genesis file", "bornode init"}},
		"duplicate producer":     {genesis: func(v map[string]any) { producer(v, 1)["account"] = producer(v, 0)["account"] }, words: []string{"genesis.json", "producers", "1"}},
		"one key twice":          {genesis: func(v map[string]any) { producer(v, 1)["bls_key"] = producer(v, 0)["bls_key"] }, words: []string{"genesis.json", "producers", "bls_key"}},
		"proof of another key":   {genesis: func(v map[string]any) { producer(v, 1)["proof"] = producer(v, 0)["proof"] }, words: []string{"genesis.json", "producers", "proof"}},
		"proof of another chain": {genesis: func(v map[string]any) { v["chain_id"] = 71338 }, words: []string{"genesis.json", "proof"}},
		"missing key":            {genesis: func(v map[string]any) { delete(producer(v, 2), "bls_key") }, words: []string{"genesis.json", "producers", "bls_key"}},
		"missing slot":           {genesis: func(v map[string]any) { delete(v, "slot") }, words: []string{"genesis.json", "slot"}},
		"unknown genesis key":    {genesis: func(v map[string]any) { v["turn_slot"] = 3 }, words: []string{"genesis.json", "turn_slot", "turn_slots"}},
		"no producer's key":      {prepare: func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, node.ProducerFile))) }, words: []string{node.ProducerFile}},
		"broken producer's key":  {prepare: func(dir string) { truncate(t, filepath.Join(dir, node.ProducerFile), 40) }, words: []string{node.ProducerFile}},
		"broken identity":        {prepare: func(dir string) { truncate(t, filepath.Join(dir, node.IdentityFile), 10) }, words: []string{node.IdentityFile}},
		"JSON-RPC port in use":   {flags: []string{"--rpc.http_addr", taken}, words: []string{taken, "in use"}},
		"metrics port in use":    {flags: []string{"--metrics.listen", taken}, words: []string{taken, "in use"}},
		"peers' port in use":     {flags: []string{"--p2p.tcp.listen", multiaddr(taken)}, words: []string{taken[strings.IndexByte(taken, ':')+1:], "in use"}},
		"address of no peer":     {flags: []string{"--p2p.peers", "127.0.0.1:9"}, words: []string{"127.0.0.1:9", "/p2p/"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range []string{node.IdentityFile, node.ProducerFile, config.FileName} {
				b, err := os.ReadFile(filepath.Join(x.Dir, f))
				require.NoError(t, err)
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir, f), b, 0o600))
			}
			words := append([]string(nil), c.words...)
			if c.config != "" {
				file := filepath.Join(dir, config.FileName)
				old, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file, append([]byte(c.config), old...), 0o600))
				words[0] = file
			}
			flags := c.flags
			if c.genesis != nil {
				b, err := os.ReadFile(n.genesisFile())
				require.NoError(t, err)
				file := filepath.Join(dir, "genesis.json")
				require.NoError(t, os.WriteFile(file, b, 0o600))
				edit(t, file, c.genesis)
				flags = append(flags, "--genesis", file)
			}
			if c.prepare != nil {
				c.prepare(dir)
			}
			out, err := bornode(t, c.env, append([]string{"run", "--dir", dir}, flags...)...)
			oneSentence(t, out, err, words...)
			t.Log(strings.TrimSpace(out[strings.LastIndex(out, "bornode: "):]))
		})
	}
}

func truncate(t *testing.T, file string, size int64) {
	t.Helper()
	require.NoError(t, os.Truncate(file, size))
}

// Files that are no whole export of this chain are refused by name, what was good in them stays, and a good file
// completes the import. A folder in use is not touched.
func TestBadImports(t *testing.T) {
	up := func() *Network {
		return upNetwork(t, func(s *Spec) { s.Producers, s.Slot, s.Direct = 1, 100*time.Millisecond, true })
	}
	n, other := up(), up()
	finalAbove(t, n, 20, 0)
	dir := n.Nodes[0].Dir
	for _, args := range [][]string{{"run"}, {"fsck"}, {"export", "--out", filepath.Join(t.TempDir(), "x")}, {"import", "--in", "x"}} {
		out, err := bornode(t, nil, append(args, "--dir", dir)...)
		oneSentence(t, out, err, dir, "in use")
	}
	finalAbove(t, n, 22, 0)

	file := export(t, n)
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	corrupt := bytes.Clone(whole)
	for i := len(corrupt) / 2; i < len(corrupt)/2+8; i++ {
		corrupt[i] ^= 0xff
	}
	foreign, err := os.ReadFile(export(t, other))
	require.NoError(t, err)
	target := emptyNode(t, n)
	for name, c := range map[string]struct {
		content []byte
		words   []string
	}{
		"truncated":     {whole[:len(whole)/2], []string{"invalid block file", "ends within"}},
		"no trailer":    {whole[:len(whole)-1], []string{"invalid block file", "trailer"}},
		"longer":        {append(bytes.Clone(whole), 1), []string{"invalid block file", "follows"}},
		"corrupt":       {corrupt, nil},
		"head only":     {whole[:20], []string{"invalid block file", "head"}},
		"something":     {bytes.Repeat([]byte("no blocks"), 99), []string{"invalid block file", "BORNODE2"}},
		"another chain": {foreign, []string{"genesis"}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := filepath.Join(t.TempDir(), "bad")
			require.NoError(t, os.WriteFile(bad, c.content, 0o600))
			out, err := bornode(t, nil, "import", "--dir", target, "--in", bad)
			oneSentence(t, out, err, c.words...)
			t.Log(strings.TrimSpace(out[strings.LastIndex(out, "bornode: "):]))
			out, err = bornode(t, nil, "fsck", "--dir", target, "--transactions")
			require.NoError(t, err, out)
		})
	}
	out, err := bornode(t, nil, "import", "--dir", target, "--in", file)
	require.NoError(t, err, out)
	again := filepath.Join(t.TempDir(), "again")
	out, err = bornode(t, nil, "export", "--dir", target, "--out", again)
	require.NoError(t, err, out)
	requireSameFile(t, file, again, "after bad imports")
}

// export stops the network and writes node 0's blocks to a file.
func export(t *testing.T, n *Network) string {
	t.Helper()
	require.NoError(t, n.Down(t.Context()))
	file := filepath.Join(t.TempDir(), "blocks")
	out, err := bornode(t, nil, "export", "--dir", n.Nodes[0].Dir, "--out", file)
	require.NoError(t, err, out)
	return file
}
