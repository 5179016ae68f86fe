package chain

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
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

// files is the folder of the state.
func (c *Config) files() vfs.FS {
	if c.FS != nil {
		return c.FS
	}
	return vfs.OS(c.Dir, vfs.Public)
}

// markDamaged asks the next start to set the state aside. The first cause stays.
func markDamaged(files vfs.FS, cause error) error {
	if err := vfs.CreateFile(files, damageMark, []byte(cause.Error())); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// markedDamage is why the state in dir is to be set aside; nil: it is not.
func markedDamage(files vfs.FS, dir string) error {
	cause, err := vfs.ReadFile(files, damageMark, maxMarkBytes)
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
func damagedAside(files vfs.FS) (count int) {
	names, _ := files.List(stateAsideDir) // one that cannot be read holds none that an operator could find
	for _, name := range names {
		if strings.HasSuffix(name, "-"+asideDamaged) {
			count++
		}
	}
	return count
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
// looks, and gives that folder's path. It may be removed when the node's head has its state again.
func setStateAside(files vfs.FS, dir, reason string) (to string, err error) {
	names, err := files.List(".")
	if err != nil {
		return "", err
	}
	to = path.Join(stateAsideDir, time.Now().UTC().Format("2006-01-02T150405.000Z")+"-"+reason)
	if err := files.Mkdir(to); err != nil {
		return "", err
	}
	marked := false
	for _, name := range names {
		switch name {
		case stateAsideDir, format.FileName, damageMark + vfs.TemporarySuffix:
			continue
		case damageMark:
			marked = true // last: a start that is cut short goes on with this
			continue
		}
		if err := files.Rename(name, path.Join(to, name)); err != nil {
			return "", err
		}
	}
	for _, folder := range []string{to, "."} {
		if err := files.SyncDir(folder); err != nil {
			return "", err
		}
	}
	if marked {
		if err := files.Rename(damageMark, path.Join(to, damageMark)); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, filepath.FromSlash(to)), files.SyncDir(".")
}
