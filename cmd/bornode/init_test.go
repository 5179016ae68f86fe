package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/node"
)

const exampleGenesis = "../../genesis/testdata/genesis.json" // of chain 31337

func runInit(t *testing.T, args ...string) (keys node.PublicKeys, said string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs(append([]string{"init"}, args...))
	if err = cmd.Execute(); err == nil {
		require.NoError(t, json.Unmarshal(out.Bytes(), &keys))
	}
	return keys, errOut.String(), err
}

// A producer's proof holds on one chain: the genesis file in the folder says which, and another one asked for is refused.
func TestInitProvesForTheFoldersChain(t *testing.T) {
	dir := t.TempDir()
	_, _, err := runInit(t, "--dir", dir, "--producer")
	require.ErrorContains(t, err, "give --chain-id or --genesis")
	other, said, err := runInit(t, "--dir", dir, "--producer", "--chain-id", "4711")
	require.NoError(t, err)
	require.Equal(t, "made "+dir+"; edit "+filepath.Join(dir, config.FileName)+", then: bornode run --dir "+dir+"\n", said)
	_, _, err = runInit(t, "--dir", dir, "--producer", "--chain-id", "4711", "--genesis", exampleGenesis)
	require.ErrorContains(t, err, "--chain-id is 4711 and "+exampleGenesis+" is of chain 31337")
	require.NoFileExists(t, filepath.Join(dir, node.GenesisFile))

	right, said, err := runInit(t, "--dir", dir, "--producer", "--genesis", exampleGenesis)
	require.NoError(t, err)
	require.NotEqual(t, other.Proof, right.Proof)
	require.Contains(t, said, "kept "+filepath.Join(dir, config.FileName)+" as it was")
	again, _, err := runInit(t, "--dir", dir, "--producer")
	require.NoError(t, err)
	require.Equal(t, right, again, "the folder's genesis file says the chain")
	_, _, err = runInit(t, "--dir", dir, "--producer", "--chain-id", "4711")
	require.ErrorContains(t, err, "is of chain 31337: leave --chain-id out")
}

// A producer answers nobody about old states until its owner says so: its settings leave their index out, an observer's do not,
// and nothing else differs but its keys.
func TestInitGivesAProducerNoIndexOfStates(t *testing.T) {
	settingsOf := func(args ...string) *config.Config {
		dir := t.TempDir()
		_, _, err := runInit(t, append(args, "--dir", dir)...)
		require.NoError(t, err)
		c, err := config.Load(filepath.Join(dir, config.FileName), nil, nil)
		require.NoError(t, err)
		c.DataDir = ""
		return c
	}
	observer, producer := settingsOf(), settingsOf("--producer", "--chain-id", "4711")
	require.True(t, observer.Chain.StateIndex)
	require.False(t, producer.Chain.StateIndex)
	producer.Chain.StateIndex, producer.Keys.Producer = true, ""
	require.Equal(t, observer, producer)
}

// Keys that the settings of the folder do not name are not used: init says so instead of changing them.
func TestInitNamesAMissingSetting(t *testing.T) {
	dir := t.TempDir()
	_, _, err := runInit(t, "--dir", dir)
	require.NoError(t, err)
	before, err := os.ReadFile(filepath.Join(dir, config.FileName))
	require.NoError(t, err)
	_, said, err := runInit(t, "--dir", dir, "--producer", "--chain-id", "4711")
	require.NoError(t, err)
	require.Contains(t, said, `set keys.producer = "keys/producer.json" in it`)
	after, err := os.ReadFile(filepath.Join(dir, config.FileName))
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// Commands on a folder that lacks something, or of which too much is asked, say what is missing and what to do.
func TestOfflineCommandsNameWhatIsMissing(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "blocks.rlp")
	export := func(args ...string) error {
		cmd := root()
		cmd.SetArgs(append([]string{"export", "--dir", dir, "--out", out}, args...))
		return cmd.Execute()
	}
	_, _, err := runInit(t, "--dir", dir)
	require.NoError(t, err)
	require.ErrorContains(t, export(), "there is no genesis file "+filepath.Join(dir, node.GenesisFile)+": copy the network's there, with bornode init --dir "+dir)
	_, _, err = runInit(t, "--dir", dir, "--genesis", exampleGenesis)
	require.NoError(t, err)
	require.EqualError(t, export("--from", "9", "--to", "5"), "export: there are no blocks from 9 to 0: the last irreversible block is 0")
	require.NoFileExists(t, out)
	require.NoError(t, os.WriteFile(out, nil, 0o600))
	require.EqualError(t, export("--from", "0"), "export: "+out+" exists: name another file by --out, or remove it")
}
