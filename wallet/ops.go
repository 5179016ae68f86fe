package wallet

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
)

// Forms of an exported key.
const (
	FormKeystore = "keystore" // a geth keystore file under the wallet's password
	FormKey      = "key"      // the private key in hexadecimal
)

func checkPassword(password string) error {
	if len(password) < MinPassword || len(password) > MaxPassword {
		return invalid("a new password must have %d to %d bytes: choose another one", MinPassword, MaxPassword)
	}
	return nil
}

// Create makes an empty wallet.
func (s *Service) Create(ctx context.Context, name, password string) error {
	if !validName(name) {
		return invalid("that cannot name a wallet: use 1 to %d of a-z, 0-9, - and _, beginning with a letter or digit", MaxName)
	}
	if err := checkPassword(password); err != nil {
		return err
	}
	if err := s.gate.enter(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	s.mu.Lock()
	_, taken := s.wallets[name]
	full, stopping := len(s.wallets) >= MaxWallets, s.vault == nil
	s.mu.Unlock()
	switch {
	case stopping:
		return internal("the wallet daemon is stopping: start it again")
	case taken:
		return invalid("there is already a wallet %q: choose another name", name)
	case full:
		return invalid("there are %d wallets already, which is the most: delete one, or use another dir", MaxWallets)
	}
	w := &wallet{name: name, dir: filepath.Join(s.root, name)}
	if err := s.build(ctx, w, password, nil); err != nil {
		return internal("make wallet %s: %v", name, err)
	}
	s.mu.Lock()
	s.wallets[name] = w
	s.mu.Unlock()
	s.log.Info("wallet created", zap.String("wallet", name))
	return nil
}

// build writes the folder of a wallet with the given keys beside its place and then moves it there in one step. What
// was there before is replaced if it is a wallet's folder.
func (s *Service) build(ctx context.Context, w *wallet, password string, keys map[common.Address][]byte) error {
	tmp, err := os.MkdirTemp(s.root, newPrefix+"*") // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret) // never fails
	text, err := sealCheck(secret, password, s.n, s.p)
	if err != nil {
		return err
	}
	if err := writeSecret(tmp, checkName, text, nil); err != nil {
		return err
	}
	for _, e := range w.accounts {
		if err := s.goOn(ctx); err != nil {
			return err
		}
		if err := s.writeKey(tmp, e.file, keys[e.address], e.address, password); err != nil {
			return err
		}
	}
	old := filepath.Join(s.root, oldPrefix+w.name)
	if exists(w.dir) {
		if err := os.Rename(w.dir, old); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, w.dir); err != nil {
		if exists(old) {
			_ = os.Rename(old, w.dir)
		}
		return err
	}
	if err := vfs.SyncDirAt(s.root); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// writeKey encrypts a key into a file that opens again with the password.
func (s *Service) writeKey(dir, file string, key []byte, address common.Address, password string) error {
	text, err := sealKey(key, address, password, s.n, s.p)
	if err != nil {
		return err
	}
	return writeSecret(dir, file, text, func(back []byte) error {
		k, err := parseKeyFile(back)
		if err != nil {
			return err
		}
		again, _, err := k.open(password)
		defer clear(again)
		if err == nil && !bytes.Equal(again, key) {
			err = errors.New("another key comes out")
		}
		return err
	})
}

// add encrypts a key into a wallet; if the wallet is unlocked the key is, too. The key is overwritten.
func (s *Service) add(w *wallet, password string, key []byte, address common.Address) error {
	defer clear(key)
	s.mu.Lock()
	n, has := len(w.accounts), w.has(address)
	s.mu.Unlock()
	if has {
		return invalid("account %s is already in wallet %s: nothing is to be done", address, w.name)
	}
	if n >= MaxAccounts {
		return invalid("wallet %s has %d accounts, which is the most: use another wallet", w.name, MaxAccounts)
	}
	file := keyFileName(address, time.Now())
	if err := s.writeKey(w.dir, file, key, address, password); err != nil {
		return internal("store account %s in wallet %s: %v", address, w.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.accounts = append(w.accounts, entry{address, file})
	s.expire(w)
	if w.slots != nil && s.vault != nil {
		if slot, ok := s.vault.put(key); ok {
			w.slots[address] = slot
		}
	}
	s.log.Info("account added", zap.String("wallet", w.name), zap.Stringer("account", address))
	return nil
}

// has needs mu.
func (w *wallet) has(address common.Address) bool {
	_, ok := w.file(address)
	return ok
}

// file is the keystore file of an account. It needs mu.
func (w *wallet) file(address common.Address) (string, bool) {
	for _, e := range w.accounts {
		if e.address == address {
			return filepath.Join(w.dir, e.file), true
		}
	}
	return "", false
}

// NewAccount makes a random key.
func (s *Service) NewAccount(ctx context.Context, name, password string) (address common.Address, err error) {
	err = s.withPassword(ctx, name, password, false, func(w *wallet, _ map[common.Address][]byte) error {
		key, a := newKey()
		address = a
		return s.add(w, password, key, a)
	})
	return address, err
}

// ImportKey takes a private key in hexadecimal.
func (s *Service) ImportKey(ctx context.Context, name, password, hexKey string) (common.Address, error) {
	key, address, err := parseHexKey(hexKey)
	if err != nil {
		return address, err
	}
	defer clear(key)
	return address, s.withPassword(ctx, name, password, false, func(w *wallet, _ map[common.Address][]byte) error {
		return s.add(w, password, key, address)
	})
}

// ImportKeystore takes the text of a keystore file and its password, which may differ from the wallet's.
func (s *Service) ImportKeystore(ctx context.Context, name, password, text, filePassword string) (address common.Address, err error) {
	k, err := parseKeyFile([]byte(text))
	if err != nil {
		return address, invalid("the keystore file cannot be imported: %v", err)
	}
	err = s.withPassword(ctx, name, password, false, func(w *wallet, _ map[common.Address][]byte) error {
		key, a, err := k.open(filePassword)
		if errors.Is(err, errPassword) {
			return fail(CodeWrongPassword, "wrong password for the keystore file: give the one it was exported with")
		}
		if err != nil {
			return invalid("the keystore file cannot be imported: %v", err)
		}
		address = a
		return s.add(w, password, key, a)
	})
	return address, err
}

// Export returns an account's key in the given form.
func (s *Service) Export(ctx context.Context, name, password string, address common.Address, form string) (out string, err error) {
	if form != FormKeystore && form != FormKey {
		return "", invalid("a key is exported as %q or %q: say which", FormKeystore, FormKey)
	}
	err = s.withPassword(ctx, name, password, false, func(w *wallet, keys map[common.Address][]byte) error {
		s.mu.Lock()
		path, ok := w.file(address)
		s.mu.Unlock()
		if !ok {
			return fail(CodeUnknown, "wallet %s has no account %s: see wallet_list", name, address)
		}
		text, err := readSecret(path, MaxKeyFile)
		if err != nil {
			return internal("export account %s: %v", address, err)
		}
		s.log.Warn("key exported", zap.String("wallet", name), zap.Stringer("account", address), zap.String("form", form))
		if form == FormKeystore {
			out = string(text)
			return nil
		}
		key, ok := keys[address]
		if !ok {
			k, err := parseKeyFile(text)
			if err == nil {
				key, _, err = k.open(password)
			}
			if err != nil {
				return internal("export account %s: %v; its file is %s", address, err, path)
			}
			defer clear(key)
		}
		out = hexutil.Encode(key)
		return nil
	})
	return out, err
}

// ChangePassword encrypts all keys of a wallet anew. It stays locked or unlocked as it was.
func (s *Service) ChangePassword(ctx context.Context, name, password, newPassword string) error {
	if err := checkPassword(newPassword); err != nil {
		return err
	}
	return s.withPassword(ctx, name, password, true, func(w *wallet, keys map[common.Address][]byte) error {
		if len(keys) < len(w.accounts) {
			return invalid("wallet %s holds files under another password, which would be lost: export those accounts and move the files away first", name)
		}
		if err := s.build(ctx, w, newPassword, keys); err != nil {
			return internal("change the password of wallet %s: %v", name, err)
		}
		s.log.Info("password changed", zap.String("wallet", name))
		return nil
	})
}

// Delete removes a wallet and its keys for ever.
func (s *Service) Delete(ctx context.Context, name, password string) error {
	return s.withPassword(ctx, name, password, false, func(w *wallet, _ map[common.Address][]byte) error {
		gone := filepath.Join(s.root, fmt.Sprintf("%s%s-%d", gonePrefix, name, time.Now().UnixNano()))
		if err := os.Rename(w.dir, gone); err != nil {
			return internal("delete wallet %s: %v", name, err)
		}
		s.mu.Lock()
		s.lockWallet(w)
		delete(s.wallets, name)
		s.mu.Unlock()
		s.log.Warn("wallet deleted", zap.String("wallet", name))
		if err := errors.Join(vfs.SyncDirAt(s.root), os.RemoveAll(gone)); err != nil {
			return internal("wallet %s is deleted, but its files stay in %s: remove them: %v", name, gone, err)
		}
		return nil
	})
}
