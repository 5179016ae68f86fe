package wallet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/internal/vfs"
)

// Names in the folder of all wallets that start with a dot belong to operations under way; what is left of them after a
// crash is removed (or put back) at the next start.
const (
	newPrefix  = ".new-"  // a folder that is not complete
	oldPrefix  = ".old-"  // a wallet that a new version is about to replace
	gonePrefix = ".gone-" // a deleted wallet
	tmpPrefix  = ".tmp-"  // a file that is not complete
	checkName  = ".check.json"
)

// checkMode refuses what others can reach, and what is not ours.
func checkMode(path string, dir bool) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	want, what := fs.FileMode(0o600), "file"
	if dir {
		want, what = 0o700, "folder"
	}
	if dir != fi.IsDir() || (!dir && !fi.Mode().IsRegular()) {
		return fmt.Errorf("%s is no %s (a link is not followed): move it away", path, what)
	}
	if fi.Mode().Perm()&^want != 0 {
		return fmt.Errorf("%s %s has mode %04o, so others can reach it: run chmod %o %s", what, path, fi.Mode().Perm(), want, path)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s %s belongs to user %d: run chown %d %s", what, path, st.Uid, os.Geteuid(), path)
	}
	return nil
}

// CheckOwn refuses a file that anybody but this user and root could change: it says what is signed.
func CheckOwn(path string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("%w; write it (docs/wallet.md), or change the setting that names it", err)
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is no file (a link is not followed): name the file itself", path)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, who can change it: run chown %d %s", path, st.Uid, os.Geteuid(), path)
	}
	if m := fi.Mode().Perm(); m&0o022 != 0 {
		return fmt.Errorf("%s has mode %04o, so others can change it: run chmod go-w %s", path, m, path)
	}
	return nil
}

// readSecret reads a file of mode 0600 of at most limit bytes.
func readSecret(path string, limit int64) ([]byte, error) {
	if err := checkMode(path, false); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes: it is no file of a wallet", path, limit)
	}
	return text, err
}

// writeSecret makes a file of mode 0600 that appears whole or not at all. check, if given, is called with the bytes
// that were written, read back.
func writeSecret(dir, name string, text []byte, check func([]byte) error) (err error) {
	f, err := os.CreateTemp(dir, tmpPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if check != nil {
		back, err := os.ReadFile(f.Name())
		if err != nil {
			return err
		}
		if err := check(back); err != nil {
			return fmt.Errorf("what was written to %s does not read back: %w", dir, err)
		}
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return vfs.SyncDirAt(dir)
}

// makeDir makes a folder of mode 0700, or checks the one that is there.
func makeDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
	}
	return checkMode(path, true)
}

// keyFileName is the name that geth gives a keystore file.
func keyFileName(address common.Address, now time.Time) string {
	return fmt.Sprintf("UTC--%s--%x", now.UTC().Format("2006-01-02T15-04-05.000000000Z"), address[:])
}

// entry is an account of a wallet and its file.
type entry struct {
	address common.Address
	file    string // name in the wallet's folder
}

// scanWallet lists the keystore files of a wallet. It refuses a folder or file that others can reach, and a file whose
// form or work is out of bounds.
func scanWallet(dir string) ([]entry, error) {
	if err := checkMode(dir, true); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []entry
	seen := make(map[common.Address]bool)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") || strings.HasSuffix(f.Name(), "~") {
			continue
		}
		if len(list) == MaxAccounts {
			return nil, fmt.Errorf("folder %s has more than %d files: spread its accounts over several wallets", dir, MaxAccounts)
		}
		k, err := readKeyFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		if k.address == (common.Address{}) {
			return nil, fmt.Errorf("keystore file %s names no address: import it with wallet_importKeystore instead", filepath.Join(dir, f.Name()))
		}
		if !seen[k.address] {
			list = append(list, entry{k.address, f.Name()})
		}
		seen[k.address] = true
	}
	return list, nil
}

func readKeyFile(path string) (*keyFile, error) {
	text, err := readSecret(path, MaxKeyFile)
	if err != nil {
		return nil, err
	}
	k, err := parseKeyFile(text)
	if err != nil {
		return nil, fmt.Errorf("keystore file %s: %w; move it out of the wallet", path, err)
	}
	return k, nil
}

// sealCheck makes the file by which a wallet without accounts knows its password: a random secret that serves nothing.
func sealCheck(secret []byte, password string, n, p int) ([]byte, error) {
	c, err := keystore.EncryptDataV3(secret, []byte(password), n, p)
	if err != nil {
		return nil, fmt.Errorf("encrypt the password's check: %w", err)
	}
	return json.Marshal(map[string]any{"version": 1, "crypto": c})
}

// openCheck tries a password on the check file of a wallet; fs.ErrNotExist without one.
func openCheck(dir, password string) error {
	path := filepath.Join(dir, checkName)
	text, err := readSecret(path, MaxKeyFile)
	if err != nil {
		return err
	}
	var raw rawKeyFile
	if err := json.Unmarshal(text, &raw); err != nil {
		return fmt.Errorf("file %s is damaged: restore it from a copy", path)
	}
	c, err := checkCrypto(&raw.Crypto, keySize)
	if err != nil {
		return fmt.Errorf("file %s: %w; restore it from a copy", path, err)
	}
	_, err = keystore.DecryptDataV3(c, password)
	if errors.Is(err, keystore.ErrDecrypt) {
		return errPassword
	}
	return err
}

// cleanUp finishes or undoes what a crash interrupted in the folder of all wallets.
func cleanUp(root string) error {
	files, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(root, f.Name())
		if name, ok := strings.CutPrefix(f.Name(), oldPrefix); ok {
			if _, err := os.Lstat(filepath.Join(root, name)); errors.Is(err, fs.ErrNotExist) {
				if err := os.Rename(path, filepath.Join(root, name)); err != nil {
					return err
				}
				continue
			}
		}
		switch {
		case strings.HasPrefix(f.Name(), newPrefix), strings.HasPrefix(f.Name(), oldPrefix), strings.HasPrefix(f.Name(), gonePrefix):
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		case f.IsDir() && validName(f.Name()):
			left, _ := filepath.Glob(filepath.Join(path, tmpPrefix+"*"))
			for _, l := range left {
				if err := os.Remove(l); err != nil {
					return err
				}
			}
		}
	}
	return vfs.SyncDirAt(root)
}
