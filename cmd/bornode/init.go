package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/usage"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/node"
)

func initCommand() *cobra.Command {
	var dir, genesisPath string
	var producer bool
	var chainID uint64
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a node's folder: keys, configuration, genesis file",
		Long: "Make a node's folder. It prints the public keys as JSON: give them to whoever writes the network's genesis\n" +
			"file or proposes the node as a member. What exists already is kept.",
		Args: usage.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.StampFolder(dir, format.Node, vfs.Private); err != nil {
				return err
			}
			chainID, err := chainOf(dir, genesisPath, chainID)
			if err != nil {
				return err
			}
			keys, err := node.MakeKeys(dir, producer, chainID)
			if err != nil {
				return err
			}
			done, err := placeSettings(dir, producer)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s, then: bornode run --dir %s\n", done, dir)
			return printJSON(cmd.OutOrStdout(), keys)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", ".bornode", "the node's folder")
	f.StringVar(&genesisPath, "genesis", "", "genesis file of the network, copied into the folder")
	f.BoolVar(&producer, "producer", false, "also make a producer's seal and vote keys; a new settings file has no index of old states (chain.state_index)")
	f.Uint64Var(&chainID, "chain-id", 0, "chain id, for a producer's proof when there is no genesis file yet")
	return cmd
}

// chainOf is the chain id that the genesis file says: the one that is given, which is copied into the folder, else the
// folder's own. Without either it is the one that was asked for, 0 if none was. One that was asked for and is not the
// file's is refused: a producer's proof for it would be of no use in this network.
func chainOf(dir, genesisPath string, asked uint64) (uint64, error) {
	inFolder := filepath.Join(dir, node.GenesisFile)
	from := genesisPath
	if from == "" {
		from = inFolder
	}
	gen, err := genesis.Load(from)
	if genesisPath == "" && errors.Is(err, fs.ErrNotExist) {
		return asked, nil
	}
	if err != nil {
		return 0, err
	}
	if has := gen.Parameters().ChainID; asked != 0 && asked != has {
		return 0, fmt.Errorf("--chain-id is %d and %s is of chain %d: leave --chain-id out", asked, from, has)
	}
	return gen.Parameters().ChainID, placeGenesis(gen, from, inFolder)
}

// placeSettings writes the settings file unless there is one, and says in words which it was and what to do next.
func placeSettings(dir string, producer bool) (done string, err error) {
	path := filepath.Join(dir, config.FileName)
	c := config.Default()
	if producer {
		c.Keys.Producer = node.ProducerFile
		c.Chain.StateIndex = false // it answers nobody about old states; each block costs it less
	}
	err = config.Write(path, c, false)
	if err == nil {
		return fmt.Sprintf("made %s; edit %s", dir, path), nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if c, err = config.Load(path, nil, nil); err != nil {
		return "", err
	}
	if producer && c.Keys.Producer == "" {
		return fmt.Sprintf("kept %s, which has no producer's keys; set keys.producer = %q in it", path, node.ProducerFile), nil
	}
	return fmt.Sprintf("kept %s as it was; edit it if it needs a change", path), nil
}

// placeGenesis copies a genesis file into a node's folder; one that is there already is kept, and must be the same.
func placeGenesis(gen *genesis.Genesis, from, to string) error {
	have, err := genesis.Load(to)
	if errors.Is(err, fs.ErrNotExist) {
		return gen.Write(to)
	}
	if err != nil {
		return err
	}
	a, err := have.Block()
	if err != nil {
		return err
	}
	b, err := gen.Block()
	if err != nil {
		return err
	}
	if a.Hash() != b.Hash() {
		return fmt.Errorf("%s is of another network (block 0 is %s) than %s (block 0 is %s): use another folder", to, a.Hash(), from, b.Hash())
	}
	return nil
}
