package wallet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

func TestModesOfFiles(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	account(t, s)
	n := 0
	require.NoError(t, filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		fi, err := d.Info()
		require.NoError(t, err)
		n++
		if d.IsDir() {
			require.Equal(t, fs.FileMode(0o700), fi.Mode().Perm(), path)
		} else {
			require.Equal(t, fs.FileMode(0o600), fi.Mode().Perm(), path)
		}
		return nil
	}))
	require.Equal(t, 7, n, "dir, FORMAT, lock, wallets, main, check and key")
}

func TestWiderModesAreRefused(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	account(t, s)
	s.Close()
	key, err := filepath.Glob(filepath.Join(c.Dir, "wallets", "main", "UTC--*"))
	require.NoError(t, err)
	require.Len(t, key, 1)
	for path, modes := range map[string][2]fs.FileMode{
		c.Dir:                                   {0o750, 0o700},
		filepath.Join(c.Dir, "wallets"):         {0o701, 0o700},
		filepath.Join(c.Dir, "wallets", "main"): {0o770, 0o700},
		key[0]:                                  {0o640, 0o600},
	} {
		require.NoError(t, os.Chmod(path, modes[0]))
		_, err := Open(c, nil, nil)
		require.ErrorContains(t, err, fmt.Sprintf("run chmod %o %s", modes[1], path))
		require.NoError(t, os.Chmod(path, modes[1]))
	}
	// While the daemon runs, too.
	s = openService(t, c)
	require.NoError(t, os.Chmod(key[0], 0o644))
	requireCode(t, CodeInternal, s.Unlock(t.Context(), "main", testPassword, 60), "run chmod 600 "+key[0])
	require.NoError(t, os.Remove(key[0]))
	require.NoError(t, os.Symlink("/etc/hostname", key[0]))
	requireCode(t, CodeInternal, s.Unlock(t.Context(), "main", testPassword, 60), "a link is not followed")
}

func TestNames(t *testing.T) {
	s := openService(t, testConfig(t))
	for _, name := range []string{"", "-a", "_a", "..", "a/b", "a.b", "A", "ä", "a b", strings.Repeat("a", 33), "a\x00"} {
		requireCode(t, CodeInvalid, s.Create(t.Context(), name, testPassword), "cannot name a wallet")
		requireCode(t, CodeUnknown, s.Unlock(t.Context(), name, testPassword, 1))
	}
	require.NoError(t, s.Create(t.Context(), "0-a_"+strings.Repeat("b", 28), testPassword))
}

func TestOneServicePerFolder(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	_, err := Open(c, nil, nil)
	require.ErrorContains(t, err, "in use by another borwallet")
	s.Close()
	openService(t, c)
}

// What a crash leaves at any step of creating, changing and deleting is no obstacle to the next start.
func TestCrashedOperations(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	a := account(t, s)
	s.Close()
	root := filepath.Join(c.Dir, "wallets")
	// A creation that was cut off, an account that was half written, a deletion that was cut off.
	require.NoError(t, os.Mkdir(filepath.Join(root, newPrefix+"123"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, newPrefix+"123", checkName), []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "main", tmpPrefix+"9"), []byte("{"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(root, gonePrefix+"x-1"), 0o700))
	// An empty folder with a name to be: mkdir by hand.
	require.NoError(t, os.Mkdir(filepath.Join(root, "second"), 0o700))
	s = openService(t, c)
	require.Len(t, s.List(), 1)
	require.NoError(t, s.Create(t.Context(), "second", testPassword))
	s.Close()
	names := func() (list []string) {
		files, err := os.ReadDir(root)
		require.NoError(t, err)
		for _, f := range files {
			list = append(list, f.Name())
		}
		return list
	}
	require.Equal(t, []string{"main", "second"}, names())

	// A change of password between its two renames: the old wallet comes back.
	require.NoError(t, os.Rename(filepath.Join(root, "main"), filepath.Join(root, oldPrefix+"main")))
	s = openService(t, c)
	require.NoError(t, s.Unlock(t.Context(), "main", testPassword, 60))
	_, err := s.SignMessage(t.Context(), a, []byte("x"))
	require.NoError(t, err)
	s.Close()
	// After them: the old one goes.
	require.NoError(t, os.Mkdir(filepath.Join(root, oldPrefix+"main"), 0o700))
	openService(t, c)
	require.Equal(t, []string{"main", "second"}, names())
}

// Files of geth that are put into a folder are a wallet; one under another password stays locked and harms nothing.
func TestForeignFilesInAWallet(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	a := account(t, s)
	require.NoError(t, s.Create(t.Context(), "other", "another password"))
	b, err := s.NewAccount(t.Context(), "other", "another password")
	require.NoError(t, err)
	file, err := s.Export(t.Context(), "other", "another password", b, FormKeystore)
	require.NoError(t, err)
	root := filepath.Join(c.Dir, "wallets")
	require.NoError(t, os.WriteFile(filepath.Join(root, "main", "0-foreign"), []byte(file), 0o600)) // before our own
	require.NoError(t, os.Mkdir(filepath.Join(root, "bare"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "bare", "key"), []byte(file), 0o600))
	require.NoError(t, s.Delete(t.Context(), "other", "another password"))

	require.NoError(t, s.Unlock(t.Context(), "main", testPassword, 60))
	_, err = s.SignMessage(t.Context(), a, []byte("x"))
	require.NoError(t, err)
	_, err = s.SignMessage(t.Context(), b, []byte("x"))
	requireCode(t, CodeLocked, err)
	requireCode(t, CodeInvalid, s.ChangePassword(t.Context(), "main", testPassword, "a new password"), "would be lost")
	s.Close()

	s = openService(t, c)
	require.NoError(t, s.Unlock(t.Context(), "bare", "another password", 60))
	_, err = s.SignMessage(t.Context(), b, []byte("x"))
	require.NoError(t, err)
	requireCode(t, CodeWrongPassword, s.Unlock(t.Context(), "bare", testPassword, 60))
}

// hostile changes a good file.
func hostile(t *testing.T, change func(f map[string]any, crypto, kdf map[string]any)) []byte {
	t.Helper()
	key, a := newKey()
	text, err := sealKey(key, a, testPassword, 2, 1)
	require.NoError(t, err)
	var f map[string]any
	require.NoError(t, json.Unmarshal(text, &f))
	crypto := f["crypto"].(map[string]any)
	change(f, crypto, crypto["kdfparams"].(map[string]any))
	text, err = json.Marshal(f)
	require.NoError(t, err)
	return text
}

func TestHostileKeystores(t *testing.T) {
	s := openService(t, testConfig(t))
	require.NoError(t, s.Create(t.Context(), "main", testPassword))
	type m = map[string]any
	for name, change := range map[string]func(f, crypto, kdf m){
		"n too large":       func(_, _, k m) { k["n"] = 1 << 30 },
		"n no power":        func(_, _, k m) { k["n"] = 1000 },
		"n zero":            func(_, _, k m) { k["n"] = 0 },
		"n a text":          func(_, _, k m) { k["n"] = "2" },
		"n wraps":           func(_, _, k m) { k["n"], k["r"] = uint64(1)<<63, 2 },
		"r too large":       func(_, _, k m) { k["r"] = 1 << 40 },
		"n times r":         func(_, _, k m) { k["n"], k["r"] = 1<<18, 16 },
		"p too large":       func(_, _, k m) { k["p"] = 1 << 31 },
		"product":           func(_, _, k m) { k["n"], k["r"], k["p"] = 1<<18, 8, 3 },
		"dklen short":       func(_, _, k m) { k["dklen"] = 16 },
		"dklen huge":        func(_, _, k m) { k["dklen"] = 1 << 40 },
		"no salt":           func(_, _, k m) { delete(k, "salt") },
		"salt a number":     func(_, _, k m) { k["salt"] = 7 },
		"salt huge":         func(_, _, k m) { k["salt"] = strings.Repeat("00", 100) },
		"no parameters":     func(_, c, _ m) { delete(c, "kdfparams") },
		"pbkdf2 rounds":     func(_, c, k m) { c["kdf"], k["c"], k["prf"] = "pbkdf2", 1<<30, "hmac-sha256" },
		"pbkdf2 prf":        func(_, c, k m) { c["kdf"], k["c"], k["prf"] = "pbkdf2", 1000, "md5" },
		"kdf":               func(_, c, _ m) { c["kdf"] = "none" },
		"cipher":            func(_, c, _ m) { c["cipher"] = "rot13" },
		"iv short":          func(_, c, _ m) { c["cipherparams"] = m{"iv": "00"} },
		"mac short":         func(_, c, _ m) { c["mac"] = "00" },
		"text long":         func(_, c, _ m) { c["ciphertext"] = strings.Repeat("00", 64) },
		"version 1":         func(f, _, _ m) { f["version"] = "1" },
		"address of others": func(f, _, _ m) { f["address"] = "00" },
		"huge":              func(f, _, _ m) { f["id"] = strings.Repeat("x", MaxKeyFile) },
	} {
		t.Run(name, func(t *testing.T) {
			text := hostile(t, change)
			// The gate is closed: a hashing would wait for ever.
			require.NoError(t, s.gate.enter(t.Context()))
			_, err := s.ImportKeystore(t.Context(), "main", testPassword, string(text), testPassword)
			s.gate.leave()
			requireCode(t, CodeInvalid, err, "cannot be imported")
		})
	}
	// Another address than the key's is only seen after decryption.
	_, err := s.ImportKeystore(t.Context(), "main", testPassword, string(hostile(t, func(f, _, _ m) { f["address"] = strings.Repeat("00", 19) + "01" })), testPassword)
	requireCode(t, CodeInvalid, err, "but holds the key of")
	_, err = s.ImportKeystore(t.Context(), "main", testPassword, string(hostile(t, func(_, _, _ m) {})), "guess")
	requireCode(t, CodeWrongPassword, err, "wrong password for the keystore file")
	require.NoError(t, s.Unlock(t.Context(), "main", testPassword, 1), "that was no guess at the wallet's password")
}

// A hostile file in a wallet's folder stops the start before anything is hashed.
func TestHostileFileInAWallet(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	account(t, s)
	s.Close()
	path := filepath.Join(c.Dir, "wallets", "main", "bomb")
	require.NoError(t, os.WriteFile(path, hostile(t, func(_, _, k map[string]any) { k["n"] = 1 << 28 }), 0o600))
	_, err := Open(c, nil, nil)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "move it out of the wallet")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{' '}, MaxKeyFile+1), 0o600))
	_, err = Open(c, nil, nil)
	require.ErrorContains(t, err, "more than 16384 bytes")
}

// A copied wallet without its password yields nothing: no file holds the key, the password or the words in any form
// that one would look for.
func TestCopiedWalletYieldsNothing(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	require.NoError(t, s.Create(t.Context(), "main", testPassword))
	_, err := s.ImportMnemonic(t.Context(), "main", testPassword, junkWords, "", "", 1)
	require.NoError(t, err)
	hexKey := "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	got, err := s.Export(t.Context(), "main", testPassword, junkFirst, FormKey)
	require.NoError(t, err)
	require.Equal(t, "0x"+hexKey, got)
	s.Close()
	secrets := [][]byte{[]byte(testPassword), []byte("junk"), common.FromHex(hexKey), []byte(hexKey), []byte(strings.ToUpper(hexKey)), []byte(hexKey[:16])}
	files := 0
	require.NoError(t, filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, secret := range secrets {
			require.NotContains(t, string(text), string(secret), path)
		}
		return nil
	}))
	require.Equal(t, 4, files, "FORMAT, lock, check and key")

	c2 := c
	c2.Dir = filepath.Join(filepath.Dir(c.Dir), "copy")
	require.NoError(t, os.CopyFS(c2.Dir, os.DirFS(c.Dir)))
	require.NoError(t, os.Chmod(c2.Dir, 0o700))
	require.NoError(t, filepath.WalkDir(c2.Dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	}))
	thief := openService(t, c2)
	requireCode(t, CodeWrongPassword, thief.Unlock(t.Context(), "main", "", 60))
	_, err = thief.SignMessage(t.Context(), junkFirst, []byte("x"))
	requireCode(t, CodeLocked, err)
}
