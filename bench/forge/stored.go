package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/node"
	"github.com/bornode/bornode/transport"
)

// storedVersion changes whenever folders made before can no longer be used.
const storedVersion = 1

// File names in the folder of a stored history.
const (
	storedFile  = "history.json"
	genesisFile = "genesis.json"
)

// Stored is a history in a folder: the data of a node that has all of it, and an identity for one that joins.
type Stored struct {
	Dir     string `json:"-"`
	Version int    `json:"version"`
	Kind    string `json:"kind"`
	Name    string `json:"name"` // kind and size, as in tables
	Totals
	Height uint64           `json:"height"` // head
	LIB    uint64           `json:"lib"`    // last irreversible block
	Hash   common.Hash      `json:"hash"`   // of LIB
	Server transport.PeerID `json:"server"`
	Joiner transport.PeerID `json:"joiner"`
}

// Genesis is the path of the genesis file.
func (s *Stored) Genesis() string { return filepath.Join(s.Dir, genesisFile) }

// ServerDir is the folder of the node that serves the history.
func (s *Stored) ServerDir() string { return filepath.Join(s.Dir, "server") }

// JoinerKeys is a folder with the keys of a member that joins: copy it into the joiner's folder.
func (s *Stored) JoinerKeys() string { return filepath.Join(s.Dir, "joiner") }

// Keep gives the history of the plan from the folder below dir that holds it, and makes it there at the first time.
// What an interrupted run left is made again.
func Keep(ctx context.Context, dir, name string, p Plan, progress func(string)) (*Stored, error) {
	s := &Stored{Dir: filepath.Join(dir, name)}
	text, err := os.ReadFile(filepath.Join(s.Dir, storedFile))
	if err == nil {
		if err = json.Unmarshal(text, s); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(s.Dir, storedFile), err)
		}
		if s.Version == storedVersion {
			return s, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	progress(fmt.Sprintf("making the history %s in %s (once)", name, s.Dir))
	if err := os.RemoveAll(s.Dir); err != nil {
		return nil, err
	}
	*s = Stored{Dir: s.Dir, Version: storedVersion, Kind: p.Kind, Name: name}
	if err := s.make(ctx, p); err != nil {
		return nil, fmt.Errorf("history %s: %w", name, err)
	}
	return s, nil
}

func (s *Stored) make(ctx context.Context, p Plan) error {
	for _, x := range []struct {
		dir string
		id  *transport.PeerID
	}{{s.ServerDir(), &s.Server}, {s.JoinerKeys(), &s.Joiner}} {
		if err := os.MkdirAll(x.dir, 0o700); err != nil {
			return err
		}
		keys, err := node.MakeKeys(x.dir, false, ChainID)
		if err != nil {
			return err
		}
		*x.id = transport.PeerID(keys.PeerID)
		p.Members = append(p.Members, genesis.Member{PeerID: keys.PeerID, Roles: genesis.RoleObserver})
	}
	gen, totals, err := Make(ctx, s.ServerDir(), p, func([]byte) error { return nil })
	if err != nil {
		return err
	}
	if err := gen.Write(s.Genesis()); err != nil {
		return err
	}
	store, chain, err := Open(ctx, s.ServerDir(), gen)
	if err != nil {
		return err
	}
	s.Totals, s.Height = totals, chain.CurrentHeader().Number.Uint64()
	s.LIB, s.Hash = store.LIB()
	if err := errors.Join(chain.Close(), store.Close()); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Dir, storedFile), text, 0o644) // last: it says that all is there
}
