package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/genesis"
)

func TestUpgradesCommand(t *testing.T) {
	const file = "../../genesis/testdata/genesis.json"
	gen, err := genesis.Load(file)
	require.NoError(t, err)
	digest := gen.Upgrades()[0].Digest().Hex()
	run := func(args ...string) string {
		var out bytes.Buffer
		cmd := root()
		cmd.SetOut(&out)
		cmd.SetArgs(append([]string{"genesis", "upgrades"}, args...))
		require.NoError(t, cmd.Execute())
		return out.String()
	}
	lost := gen.Upgrades()[1].Withdrawn.Hex()
	require.Equal(t, "name          height  digest\nwider-blocks  100000  "+digest+"\nlost          200000  "+lost+" withdrawn\n", run("--genesis", file))
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(run("--genesis", file, "--json")), &list))
	require.Equal(t, []map[string]any{{"name": "wider-blocks", "height": 100000.0, "digest": digest}, {"name": "lost", "height": 200000.0, "digest": lost, "withdrawn": true}}, list)

	cmd := root()
	cmd.SetArgs([]string{"genesis", "upgrades", "--genesis", "no such file"})
	require.ErrorContains(t, cmd.Execute(), "no such file")
}
