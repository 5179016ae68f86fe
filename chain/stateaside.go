package chain

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/bornode/bornode/internal/format"
)

// Keys of the state database that say which state it holds (go-ethereum's core/rawdb). pathdb takes one that cannot be
// read for one that is absent, and then removes its history.
const (
	stateIDKey    = "LastStateID" // number of state transitions
	stateRootKey  = "A"           // root node of the account trie; the other nodes' keys begin with it
	stateAsideDir = "aside"       // below the state directory: what starts set aside
)

// checkReadable tells a state database that is new from one whose identity cannot be read.
func checkReadable(db ethdb.KeyValueStore) error {
	id, err := readable(db, stateIDKey)
	if err != nil {
		return err
	}
	root, err := readable(db, stateRootKey)
	if err != nil {
		return err
	}
	if id != root {
		return errors.New("it has only one of the root of its newest state and that state's number")
	}
	if id {
		return nil
	}
	it := db.NewIterator([]byte(stateRootKey), nil)
	defer it.Release()
	if it.Next() {
		return fmt.Errorf("it has neither the root of its newest state nor that state's number, but the node %s", hex.EncodeToString(it.Key()))
	}
	return it.Error()
}

func readable(db ethdb.KeyValueStore, key string) (there bool, err error) {
	if there, err = db.Has([]byte(key)); err == nil && there {
		_, err = db.Get([]byte(key))
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	return there, nil
}

// setStateAside moves everything in the state directory to a folder below it, named by time and reason, where no start
// looks. It may be removed when the node's head has its state again.
func setStateAside(dir, reason string) (to string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	to = filepath.Join(dir, stateAsideDir, time.Now().UTC().Format("2006-01-02T150405.000Z")+"-"+reason)
	if err := os.MkdirAll(to, 0o750); err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name() == stateAsideDir || e.Name() == format.FileName {
			continue
		}
		if err := os.Rename(filepath.Join(dir, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return "", err
		}
	}
	for _, d := range []string{to, filepath.Dir(to), dir} {
		f, err := os.Open(d)
		if err != nil {
			return "", err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return "", err
		}
	}
	return to, nil
}
