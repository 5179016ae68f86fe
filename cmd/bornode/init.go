package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/genesis"
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
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			if genesisPath != "" {
				gen, err := genesis.Load(genesisPath)
				if err != nil {
					return err
				}
				chainID = gen.Parameters().ChainID
				if err := placeGenesis(gen, genesisPath, filepath.Join(dir, node.GenesisFile)); err != nil {
					return err
				}
			}
			keys, err := node.MakeKeys(dir, producer, chainID)
			if err != nil {
				return err
			}
			c := config.Default()
			if producer {
				c.Keys.Producer = node.ProducerFile
			}
			if err := config.Write(filepath.Join(dir, config.FileName), c, false); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "made %s; edit %s, then: bornode run --dir %s\n", dir, filepath.Join(dir, config.FileName), dir)
			return printJSON(cmd.OutOrStdout(), keys)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", ".bornode", "the node's folder")
	f.StringVar(&genesisPath, "genesis", "", "genesis file of the network, copied into the folder")
	f.BoolVar(&producer, "producer", false, "also make a producer's seal and vote keys")
	f.Uint64Var(&chainID, "chain-id", 0, "chain id, for a producer's proof when there is no genesis file yet")
	return cmd
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
