package seal

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bornode/bornode/internal/vfs"
)

// Suite is how keys are sealed: the first byte of public and of sealed keys.
type Suite byte

const (
	// X25519 is DHKEM(X25519), HKDF-SHA-256, AES-256-GCM.
	X25519 Suite = 1
	// Hybrid is ML-KEM-768 with X25519 (X-Wing), HKDF-SHA-256, AES-256-GCM: safe as long as either of the two holds.
	Hybrid Suite = 2
)

func (s Suite) kem() (hpke.KEM, error) {
	switch s {
	case X25519:
		return hpke.DHKEM(ecdh.X25519()), nil
	case Hybrid:
		return hpke.MLKEM768X25519(), nil
	}
	return nil, fmt.Errorf("unknown suite %d of a seal key: this version knows 1 (x25519) and 2 (hybrid)", byte(s))
}

// String is the name that ParseSuite reads.
func (s Suite) String() string {
	switch s {
	case X25519:
		return "x25519"
	case Hybrid:
		return "hybrid"
	}
	return fmt.Sprintf("suite %d", byte(s))
}

// ParseSuite reads the name of a suite.
func ParseSuite(name string) (Suite, error) {
	for _, s := range []Suite{X25519, Hybrid} {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("unknown suite %q: give x25519 or hybrid", name)
}

// Identity is the pair of keys to which one account lets others seal.
type Identity struct {
	suite Suite
	key   hpke.PrivateKey
}

// NewIdentity makes a random one.
func NewIdentity(s Suite) (*Identity, error) {
	kem, err := s.kem()
	if err != nil {
		return nil, err
	}
	key, err := kem.GenerateKey()
	if err != nil {
		return nil, fmt.Errorf("making a seal key: %w", err)
	}
	return &Identity{suite: s, key: key}, nil
}

// Public is what others seal to, as the chain keeps it: the suite and the public key.
func (i *Identity) Public() []byte {
	return append([]byte{byte(i.suite)}, i.key.PublicKey().Bytes()...)
}

// identityFile is the form on disk.
type identityFile struct {
	Suite   string `json:"suite"`
	Public  string `json:"public"`
	Private string `json:"private"`
}

// Save writes the identity to a new file that its owner alone may read, durably. An existing file is never overwritten.
func (i *Identity) Save(path string) error {
	private, err := i.key.Bytes()
	if err != nil {
		return fmt.Errorf("writing the seal key %s: %w", path, err)
	}
	b, err := json.MarshalIndent(identityFile{Suite: i.suite.String(), Public: hex.EncodeToString(i.Public()),
		Private: hex.EncodeToString(private)}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the seal key %s: %w", path, err)
	}
	if err := vfs.CreateFileAt(path, append(b, '\n')); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("writing the seal key: %w; a seal key is never overwritten", err)
	} else if err != nil {
		return fmt.Errorf("writing the seal key: %w", err)
	}
	return nil
}

// LoadIdentity reads a file of Save. A file that others may read is refused.
func LoadIdentity(path string) (*Identity, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the seal key: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the seal key: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the seal key %s may be read by others (mode %04o); run chmod 600 on it, and make a new key if it was exposed", path, st.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, identityFileBytes))
	if err != nil {
		return nil, fmt.Errorf("reading the seal key: %w", err)
	}
	id, err := parseIdentity(b)
	if err != nil {
		return nil, fmt.Errorf("the file %s is no seal key: %w", path, err)
	}
	return id, nil
}

func parseIdentity(b []byte) (*Identity, error) {
	var f identityFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	s, err := ParseSuite(f.Suite)
	if err != nil {
		return nil, err
	}
	private, err := hex.DecodeString(strings.TrimPrefix(f.Private, "0x"))
	if err != nil {
		return nil, errors.New("its private key is not hexadecimal") // the cause would show bytes of the key
	}
	kem, err := s.kem()
	if err != nil {
		return nil, err
	}
	key, err := kem.NewPrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("its private key does not fit the suite %s", s)
	}
	id := &Identity{suite: s, key: key}
	if f.Public != hex.EncodeToString(id.Public()) {
		return nil, errors.New("its public key does not belong to its private key")
	}
	return id, nil
}

// CheckPublic tells whether b is a public key one can seal to.
func CheckPublic(b []byte) error {
	_, _, err := parsePublic(b)
	return err
}

func parsePublic(b []byte) (Suite, hpke.PublicKey, error) {
	if len(b) < 2 || len(b) > PublicBytes {
		return 0, nil, fmt.Errorf("a public seal key of %d bytes", len(b))
	}
	s := Suite(b[0])
	kem, err := s.kem()
	if err != nil {
		return 0, nil, err
	}
	key, err := kem.NewPublicKey(b[1:])
	if err != nil {
		return 0, nil, fmt.Errorf("a public seal key of suite %s that is none: %w", s, err)
	}
	return s, key, nil
}
