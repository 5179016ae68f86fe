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
	damageMark    = "REBUILD"     // file in the state directory: the next start sets the state aside; it holds the cause
	asideDamaged  = "damaged"     // reason of a state that was set aside since it is damaged
)

// markDamaged asks the next start to set the state aside. The first cause stays.
func markDamaged(dir string, cause error) error {
	f, err := os.OpenFile(filepath.Join(dir, damageMark), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(cause.Error())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return syncFolder(dir)
}

// markedDamage is why the state is to be set aside; nil: it is not.
func markedDamage(dir string) error {
	cause, err := os.ReadFile(filepath.Join(dir, damageMark))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(cause) == 0:
		cause = []byte("the run before found damage")
	}
	return StateFault(dir, "", errors.New(string(cause)))
}

// damagedAside counts the states that starts have set aside since they were damaged.
func damagedAside(dir string) int {
	found, _ := filepath.Glob(filepath.Join(dir, stateAsideDir, "*-"+asideDamaged)) // the pattern is sound
	return len(found)
}

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
		if e.Name() == damageMark {
			continue // last: a start that is cut short goes on with this
		}
		if err := os.Rename(filepath.Join(dir, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return "", err
		}
	}
	for _, d := range []string{to, filepath.Dir(to), dir} {
		if err := syncFolder(d); err != nil {
			return "", err
		}
	}
	if err := os.Rename(filepath.Join(dir, damageMark), filepath.Join(to, damageMark)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return to, syncFolder(dir)
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
