package wallet

import (
	"context"
	"crypto/hmac"
	"crypto/sha512"
	"fmt"
	"strings"
	"unicode"

	"github.com/btcsuite/btcd/btcutil/hdkeychain"
	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
)

// DefaultPath is where Ethereum wallets keep their accounts: i counts from 0.
const DefaultPath = "m/44'/60'/0'/0/i"

// mnemonicBits is the entropy of a new mnemonic: 24 words.
const mnemonicBits = 256

// privateVersion marks a private extended key (BIP-32, "xprv"); it is part of no key.
var privateVersion = []byte{0x04, 0x88, 0xad, 0xe4}

// NewMnemonic draws 24 words (BIP-39, English). Nothing remembers them.
func NewMnemonic() (string, error) {
	words, err := drawMnemonic(mnemonicBits)
	if err != nil {
		return "", internal("draw a mnemonic: %v", err)
	}
	return words, nil
}

// ImportMnemonic derives count accounts from the words (BIP-39, BIP-32). In the path i stands for 0 to count-1; without
// it the path names the first account and its last number counts up. An empty path is DefaultPath.
func (s *Service) ImportMnemonic(ctx context.Context, name, password, words, passphrase, path string, count int) ([]common.Address, error) {
	paths, err := derivationPaths(path, count)
	if err != nil {
		return nil, err
	}
	words = strings.Join(strings.Fields(strings.ToLower(words)), " ")
	if len(words) > MaxPassword {
		return nil, invalid("the mnemonic is too long: it has 12 to 24 words")
	}
	if err := checkMnemonic(words); err != nil {
		return nil, invalid("the mnemonic is not valid: it needs 12, 15, 18, 21 or 24 words of the English BIP-39 list with a right checksum; check each word")
	}
	if len(passphrase) > MaxPassword || strings.IndexFunc(passphrase, func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
		return nil, invalid("the passphrase has other characters than ASCII, which programs encode differently: derive the key elsewhere and import it with wallet_importKey")
	}
	seed, err := seedOf(words, passphrase)
	if err != nil {
		return nil, internal("derive the seed of the mnemonic: %v", err)
	}
	defer clear(seed)
	var list []common.Address
	err = s.withPassword(ctx, name, password, false, func(w *wallet, _ map[common.Address][]byte) error {
		for _, path := range paths {
			if err := s.goOn(ctx); err != nil {
				return internal("import the mnemonic: %v", err)
			}
			key, address, err := derive(seed, path)
			if err != nil {
				return invalid("no key lies at %s: use another path", path)
			}
			s.mu.Lock()
			has := w.has(address)
			s.mu.Unlock()
			list = append(list, address)
			if has { // a second import with a greater count adds what is new
				clear(key)
				continue
			}
			if err := s.add(w, password, key, address); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func derivationPaths(path string, count int) ([]accounts.DerivationPath, error) {
	if count < 1 || count > MaxDerived {
		return nil, invalid("an import derives 1 to %d accounts: give such a count, and the next ones with another path", MaxDerived)
	}
	if path == "" {
		path = DefaultPath
	}
	bad := invalid("the derivation path %.80q cannot be read: write it like %s", path, DefaultPath)
	base, counted := strings.CutSuffix(path, "/i")
	if counted {
		base += "/0"
	}
	if len(base) > 200 || !strings.HasPrefix(base, "m/") {
		return nil, bad
	}
	first, err := accounts.ParseDerivationPath(base)
	if err != nil || len(first) == 0 || len(first) > 10 {
		return nil, bad
	}
	last := len(first) - 1
	if uint64(first[last]&^hdkeychain.HardenedKeyStart)+uint64(count) > hdkeychain.HardenedKeyStart {
		return nil, bad
	}
	paths := make([]accounts.DerivationPath, count)
	for i := range paths {
		paths[i] = append(accounts.DerivationPath(nil), first...)
		paths[i][last] += uint32(i)
	}
	return paths, nil
}

// derive is BIP-32: the private key at a path below the seed. The caller overwrites it.
func derive(seed []byte, path accounts.DerivationPath) (key []byte, address common.Address, err error) {
	err = scrubbed(func() (err error) {
		key, address, err = deriveHere(seed, path)
		return err
	})
	return key, address, err
}

func deriveHere(seed []byte, path accounts.DerivationPath) ([]byte, common.Address, error) {
	mac := hmac.New(sha512.New, []byte("Bitcoin seed"))
	mac.Write(seed)
	master := mac.Sum(nil)
	defer clear(master)
	if _, err := addressOf(master[:32]); err != nil {
		return nil, common.Address{}, err
	}
	node := hdkeychain.NewExtendedKey(privateVersion, append([]byte(nil), master[:32]...), append([]byte(nil), master[32:]...), make([]byte, 4), 0, 0, true)
	for _, i := range path {
		child, err := node.Derive(i)
		node.Zero()
		if err != nil {
			return nil, common.Address{}, fmt.Errorf("derive: %w", err)
		}
		node = child
	}
	defer node.Zero()
	priv, err := node.ECPrivKey()
	if err != nil {
		return nil, common.Address{}, fmt.Errorf("derive: %w", err)
	}
	defer priv.Zero()
	key := priv.Serialize()
	address, err := addressOf(key)
	if err != nil {
		clear(key)
	}
	return key, address, err
}
