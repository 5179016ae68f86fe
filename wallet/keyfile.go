package wallet

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// keyFile is a geth keystore file (Web3 Secret Storage, version 3) whose parameters were checked: hashing its password
// takes bounded time and memory, and cannot fail for its form.
type keyFile struct {
	address common.Address // as the file says; zero if it says nothing
	crypto  keystore.CryptoJSON
}

// rawKeyFile is the JSON form.
type rawKeyFile struct {
	Address string          `json:"address"`
	Crypto  rawCrypto       `json:"crypto"`
	ID      string          `json:"id,omitempty"`
	Version json.RawMessage `json:"version"`
}

type rawCrypto struct {
	Cipher       string `json:"cipher"`
	CipherText   string `json:"ciphertext"`
	CipherParams struct {
		IV string `json:"iv"`
	} `json:"cipherparams"`
	KDF       string `json:"kdf"`
	KDFParams struct {
		N     uint64 `json:"n"`
		R     uint64 `json:"r"`
		P     uint64 `json:"p"`
		C     uint64 `json:"c"`
		DKLen uint64 `json:"dklen"`
		Salt  string `json:"salt"`
		PRF   string `json:"prf"`
	} `json:"kdfparams"`
	MAC string `json:"mac"`
}

// parseKeyFile reads a keystore file without trying a password.
func parseKeyFile(text []byte) (*keyFile, error) {
	if len(text) > MaxKeyFile {
		return nil, fmt.Errorf("it has %d bytes, a keystore file at most %d", len(text), MaxKeyFile)
	}
	var raw rawKeyFile
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, errors.New("it is not a keystore file (JSON of version 3, as geth writes it)")
	}
	if string(raw.Version) != "3" {
		return nil, errors.New("it is not a keystore file of version 3: convert it with geth account import")
	}
	k := &keyFile{}
	if raw.Address != "" {
		if !common.IsHexAddress(raw.Address) {
			return nil, errors.New("its address is not 20 bytes in hexadecimal")
		}
		k.address = common.HexToAddress(raw.Address)
	}
	var err error
	k.crypto, err = checkCrypto(&raw.Crypto, keySize)
	return k, err
}

// checkCrypto refuses parameters that would take too long or too much memory, or that the decryption cannot take.
func checkCrypto(raw *rawCrypto, size int) (keystore.CryptoJSON, error) {
	c := keystore.CryptoJSON{Cipher: raw.Cipher, CipherText: raw.CipherText, KDF: raw.KDF, MAC: raw.MAC}
	c.CipherParams.IV = raw.CipherParams.IV
	p := &raw.KDFParams
	switch {
	case raw.Cipher != "aes-128-ctr":
		return c, errors.New("its cipher is not aes-128-ctr")
	case !isHex(raw.CipherText, size, size) || !isHex(raw.CipherParams.IV, 16, 16) || !isHex(raw.MAC, 32, 32):
		return c, errors.New("its ciphertext, iv or mac has a wrong length")
	case !isHex(p.Salt, 1, 64):
		return c, errors.New("its salt is not 1 to 64 bytes in hexadecimal")
	case p.DKLen != 32:
		return c, errors.New("its dklen is not 32")
	}
	switch raw.KDF {
	case "scrypt":
		if bits.OnesCount64(p.N) != 1 || p.N < 2 || p.R < 1 || p.P < 1 || p.R > MaxScryptMemory || p.P > MaxScryptWork || p.N > MaxScryptMemory ||
			p.N*p.R > MaxScryptMemory || p.N*p.R*p.P > MaxScryptWork {
			return c, fmt.Errorf("its scrypt work is out of bounds (n a power of two, n*r at most %d, n*r*p at most %d)", MaxScryptMemory, MaxScryptWork)
		}
		c.KDFParams = map[string]any{"n": int(p.N), "r": int(p.R), "p": int(p.P), "dklen": int(p.DKLen), "salt": p.Salt}
	case "pbkdf2":
		if p.C < 1 || p.C > MaxPBKDF2 || p.PRF != "hmac-sha256" {
			return c, fmt.Errorf("its pbkdf2 work is out of bounds (hmac-sha256 with at most %d rounds)", MaxPBKDF2)
		}
		c.KDFParams = map[string]any{"c": int(p.C), "prf": p.PRF, "dklen": int(p.DKLen), "salt": p.Salt}
	default:
		return c, errors.New("its kdf is neither scrypt nor pbkdf2")
	}
	return c, nil
}

func isHex(s string, least, most int) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) >= least && len(b) <= most
}

// errPassword is a password that does not open a file.
var errPassword = errors.New("wrong password")

// open decrypts the key. The caller overwrites it. The address that it returns is the key's own, and the file's if that
// names one.
func (k *keyFile) open(password string) ([]byte, common.Address, error) {
	var key []byte
	err := scrubbed(func() (err error) {
		key, err = keystore.DecryptDataV3(k.crypto, password)
		return err
	})
	if errors.Is(err, keystore.ErrDecrypt) {
		return nil, common.Address{}, errPassword
	}
	if err != nil {
		return nil, common.Address{}, errors.New("it cannot be decrypted")
	}
	address, err := addressOf(key)
	if err == nil && k.address != (common.Address{}) && k.address != address {
		err = fmt.Errorf("it says %s but holds the key of %s", k.address, address)
	}
	if err != nil {
		clear(key)
		return nil, common.Address{}, err
	}
	return key, address, nil
}

// addressOf checks a private key and derives its address. It leaves no copy of the key behind.
func addressOf(key []byte) (address common.Address, err error) {
	err = scrubbed(func() error {
		var k secp256k1.PrivateKey
		defer k.Zero()
		if len(key) != keySize || k.Key.SetByteSlice(key) || k.Key.IsZero() {
			return errors.New("it holds no valid secp256k1 key (32 bytes, above 0 and below the order of the curve)")
		}
		address = common.BytesToAddress(crypto.Keccak256(k.PubKey().SerializeUncompressed()[1:])[12:])
		return nil
	})
	return address, err
}

// newKey draws a random private key.
func newKey() (key []byte, address common.Address) {
	_ = scrubbed(func() (err error) {
		key = make([]byte, keySize)
		for err = errors.New("none yet"); err != nil; {
			_, _ = rand.Read(key) // never fails
			address, err = addressOf(key)
		}
		return nil
	})
	return key, address
}

// sealKey encrypts a key as a keystore file of version 3.
func sealKey(key []byte, address common.Address, password string, n, p int) ([]byte, error) {
	var c keystore.CryptoJSON
	err := scrubbed(func() (err error) {
		c, err = keystore.EncryptDataV3(key, []byte(password), n, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("encrypt a key: %w", err)
	}
	return json.Marshal(struct {
		Address string              `json:"address"`
		Crypto  keystore.CryptoJSON `json:"crypto"`
		ID      string              `json:"id"`
		Version int                 `json:"version"`
	}{hex.EncodeToString(address[:]), c, newID(), 3})
}

// newID is a random UUID (version 4), which the format asks for.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// parseHexKey reads a raw key. The error does not repeat it.
func parseHexKey(s string) ([]byte, common.Address, error) {
	s = strings.TrimSpace(s)
	s = strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	key, err := hex.DecodeString(s)
	if err != nil || len(key) != keySize {
		clear(key)
		return nil, common.Address{}, invalid("the key is not 32 bytes in hexadecimal: check the file it comes from")
	}
	address, err := addressOf(key)
	if err != nil {
		clear(key)
		return nil, common.Address{}, invalid("the key is no private key of Ethereum: check the file it comes from")
	}
	return key, address, nil
}
