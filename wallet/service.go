package wallet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/gofrs/flock"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
)

// Service holds the wallets of one folder. Password operations run one at a time (gate), which also serialises changes
// of files; mu guards what is in memory and is held only briefly.
type Service struct {
	cfg   Config
	log   *zap.Logger
	judge judge
	root  string // folder of all wallets
	lock  *flock.Flock
	gate  *gate
	n, p  int // work of scrypt for files that are written

	callers callers // over the socket

	mu      sync.Mutex
	wallets map[string]*wallet
	vault   *vault // nil once closed
}

// wallet is what the service knows of one folder. Service.mu guards it.
type wallet struct {
	name     string
	dir      string
	accounts []entry
	throttle throttle

	slots map[common.Address]int // keys in the vault; nil while locked
	until time.Time              // zero: until it is locked
	timer *time.Timer
}

// Info is a wallet as wallet_list shows it.
type Info struct {
	Name     string           `json:"name"`
	Locked   bool             `json:"locked"`
	Until    *time.Time       `json:"until"` // when it locks by itself; null if it is locked or stays unlocked
	Accounts []common.Address `json:"accounts"`
}

// Open takes the folder of the configuration, which must be valid; it is made if it is missing. The asker confirms
// signatures if the configuration says so, and may be nil otherwise.
func Open(cfg Config, log *zap.Logger, asker Asker) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = zap.NewNop()
	}
	s := &Service{cfg: cfg, log: log, root: filepath.Join(cfg.Dir, "wallets"), gate: newGate(), wallets: make(map[string]*wallet)}
	s.n, s.p = cfg.cost()
	if err := format.CheckFolder(cfg.Dir, format.Wallet); err != nil {
		return nil, err
	}
	if err := makeDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("folder of the wallets: %w", err)
	}
	s.lock = flock.New(filepath.Join(cfg.Dir, "lock"), flock.SetPermissions(0o600))
	ok, err := s.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", cfg.Dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("%s is in use by another borwallet: stop it first, or choose another dir", cfg.Dir)
	}
	err = format.StampFolder(cfg.Dir, format.Wallet, vfs.Private)
	if err == nil {
		err = s.load(asker)
	}
	if err != nil {
		_ = s.lock.Close()
		return nil, err
	}
	return s, nil
}

func (s *Service) load(asker Asker) error {
	if err := makeDir(s.root); err != nil {
		return fmt.Errorf("folder of the wallets: %w", err)
	}
	if err := cleanUp(s.root); err != nil {
		return fmt.Errorf("clean up %s: %w", s.root, err)
	}
	files, err := os.ReadDir(s.root)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !validName(f.Name()) {
			s.log.Warn("not a wallet: names have a-z, 0-9, - and _", zap.String("file", filepath.Join(s.root, f.Name())))
			continue
		}
		w := &wallet{name: f.Name(), dir: filepath.Join(s.root, f.Name())}
		if w.accounts, err = scanWallet(w.dir); err != nil {
			return fmt.Errorf("wallet %s: %w", w.name, err)
		}
		if len(w.accounts) == 0 && !exists(filepath.Join(w.dir, checkName)) {
			continue // nothing is in it: wallet_create may use the name
		}
		if len(s.wallets) == MaxWallets {
			return fmt.Errorf("%s has more than %d wallets: move some to another dir", s.root, MaxWallets)
		}
		s.wallets[w.name] = w
	}
	if s.judge, err = newJudge(&s.cfg, s.log, asker); err != nil {
		return err
	}
	if s.vault, err = newVault(); err != nil {
		return err
	}
	if !s.vault.pinned {
		s.log.Warn("unlocked keys may reach the swap device: raise the limit of locked memory (ulimit -l)")
	}
	return nil
}

// Close locks all wallets, overwrites their keys and waits for the password operation in hand.
func (s *Service) Close() {
	s.mu.Lock()
	if s.vault == nil {
		s.mu.Unlock()
		return
	}
	for _, w := range s.wallets {
		s.lockWallet(w)
	}
	s.vault.close()
	s.vault = nil
	s.mu.Unlock()
	s.gate.turn <- struct{}{}
	<-s.gate.turn
	_ = s.lock.Close()
}

// validName says whether a name may be a wallet's: it is also the name of a folder.
func validName(name string) bool {
	if name == "" || len(name) > MaxName || strings.ContainsAny(name[:1], "-_") {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// List shows all wallets, by name.
func (s *Service) List() []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Info, 0, len(s.wallets))
	for _, w := range s.wallets {
		s.expire(w)
		i := Info{Name: w.name, Locked: w.slots == nil, Accounts: make([]common.Address, 0, len(w.accounts))}
		for _, e := range w.accounts {
			i.Accounts = append(i.Accounts, e.address)
		}
		if !i.Locked && !w.until.IsZero() {
			until := w.until.UTC()
			i.Until = &until
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Lock overwrites the keys of a wallet. Locking a locked one is no error.
func (s *Service) Lock(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.wallets[name]
	if !ok {
		return errUnknownWallet(name)
	}
	s.lockWallet(w)
	return nil
}

// LockAll locks every wallet.
func (s *Service) LockAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.wallets {
		s.lockWallet(w)
	}
}

// lockWallet needs mu.
func (s *Service) lockWallet(w *wallet) {
	if w.slots == nil {
		return
	}
	for _, slot := range w.slots {
		s.vault.drop(slot)
	}
	w.slots, w.until = nil, time.Time{}
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	s.log.Info("wallet locked", zap.String("wallet", w.name))
}

// expire locks a wallet whose time has passed, in case the host slept and the timer with it. It needs mu.
func (s *Service) expire(w *wallet) {
	if w.slots != nil && !w.until.IsZero() && !time.Now().Before(w.until) {
		s.lockWallet(w)
	}
}

// known finds a wallet and refuses while its password is being guessed.
func (s *Service) known(name string) (*wallet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vault == nil {
		return nil, internal("the wallet daemon is stopping: start it again")
	}
	w, ok := s.wallets[name]
	if !ok {
		return nil, errUnknownWallet(name)
	}
	if wait := w.throttle.wait(time.Now()); wait > 0 {
		return nil, errThrottled(name, wait)
	}
	return w, nil
}

// withPassword runs fn once the password was found right, alone among such operations. Keys of the wallet that the
// check had to open anyway are passed on; they are overwritten afterwards.
func (s *Service) withPassword(ctx context.Context, name, password string, all bool, fn func(w *wallet, keys map[common.Address][]byte) error) error {
	if _, err := s.known(name); err != nil {
		return err
	}
	if err := s.gate.enter(ctx); err != nil {
		return err
	}
	defer s.gate.leave()
	w, err := s.known(name) // it may have been deleted, or attacked, while we waited
	if err != nil {
		return err
	}
	keys, err := s.openKeys(ctx, w, password, all)
	defer func() {
		for _, k := range keys {
			clear(k)
		}
	}()
	s.mu.Lock()
	if errors.Is(err, errPassword) {
		wait := w.throttle.fail(time.Now())
		s.log.Warn("wrong password", zap.String("wallet", name), zap.Int("attempts", w.throttle.failures), zap.Duration("next_in", wait))
		s.mu.Unlock()
		return errWrongPassword(name, wait)
	}
	if err == nil {
		w.throttle.reset()
	}
	s.mu.Unlock()
	if err != nil {
		return internal("wallet %s: %v", name, err)
	}
	return fn(w, keys)
}

// goOn is an error if nobody waits for the answer any more, or the service is closing: keys take a second each.
func (s *Service) goOn(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vault == nil {
		return errors.New("the wallet daemon is stopping: start it again")
	}
	return ctx.Err()
}

// openKeys finds out whether the password is right, with one hashing if possible, and opens the wallet's keys on the
// way: one of them at least if there are any, every one if all is set. It runs inside the gate.
func (s *Service) openKeys(ctx context.Context, w *wallet, password string, all bool) (map[common.Address][]byte, error) {
	list, err := scanWallet(w.dir) // files may have come or gone
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	w.accounts = list
	s.mu.Unlock()
	keys := make(map[common.Address][]byte, len(list))
	right := false
	for _, e := range list {
		if right && !all {
			break
		}
		if err := s.goOn(ctx); err != nil {
			return keys, err
		}
		k, err := readKeyFile(filepath.Join(w.dir, e.file))
		if err != nil {
			return keys, err
		}
		key, _, err := k.open(password)
		if err == nil {
			right = true
			keys[e.address] = key
			continue
		}
		if !errors.Is(err, errPassword) {
			return keys, fmt.Errorf("keystore file %s: %w; restore it from a copy", filepath.Join(w.dir, e.file), err)
		}
		if right {
			s.log.Warn("this account stays locked: its file is under another password; import it again", zap.String("wallet", w.name), zap.Stringer("account", e.address))
			continue
		}
		// Either the password is wrong, or this file came from elsewhere: the check file knows.
		if err := openCheck(w.dir, password); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				err = errPassword
			}
			return keys, err
		}
		right = true
	}
	if !right {
		err := openCheck(w.dir, password)
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("folder %s is empty: delete it and make the wallet anew", w.dir)
		}
		return keys, err
	}
	return keys, nil
}

// Unlock decrypts the keys of a wallet for some seconds; 0 is until it is locked.
func (s *Service) Unlock(ctx context.Context, name, password string, seconds uint64) error {
	most := uint64(s.cfg.MaxUnlock / time.Second)
	if seconds > most {
		return invalid("a wallet can be unlocked for at most %d seconds (max_unlock), or with 0 until it is locked", most)
	}
	return s.withPassword(ctx, name, password, true, func(w *wallet, keys map[common.Address][]byte) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.vault == nil {
			return internal("the wallet daemon is stopping: start it again")
		}
		s.lockWallet(w)
		if len(s.vault.free) < len(keys) {
			return fail(CodeTooMany, "%d keys are unlocked, which is the most: lock another wallet and try again", MaxUnlockedKeys)
		}
		w.slots = make(map[common.Address]int, len(keys))
		for address, key := range keys {
			w.slots[address], _ = s.vault.put(key)
		}
		if seconds > 0 {
			s.lockLater(w, time.Duration(seconds)*time.Second)
		}
		s.log.Info("wallet unlocked", zap.String("wallet", name), zap.Int("accounts", len(keys)), zap.Uint64("seconds", seconds))
		return nil
	})
}

// lockLater needs mu.
func (s *Service) lockLater(w *wallet, d time.Duration) {
	w.until = time.Now().Add(d).Round(0) // by the wall clock: it goes on while the host sleeps
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.timer == timer {
			s.lockWallet(w)
		}
	})
	w.timer = timer
}
