package tcp

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/transport"
)

// maxIdentityBytes bounds an identity file; a real one has about 100 bytes.
const maxIdentityBytes = 4096

// Identity is a node's libp2p key.
type Identity struct {
	key crypto.PrivKey
	id  peer.ID
}

// ID is the peer id that others know the node by.
func (i *Identity) ID() transport.PeerID { return transport.PeerID(i.id.String()) }

// GenerateIdentity makes a new ed25519 identity.
func GenerateIdentity() (*Identity, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("tcp: generating an identity: %w", err)
	}
	return newIdentity(key)
}

func newIdentity(key crypto.PrivKey) (*Identity, error) {
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("tcp: deriving the peer id: %w", err)
	}
	return &Identity{key: key, id: id}, nil
}

// LoadOrCreateIdentity reads the identity file at path, or creates it (mode 0600, its folder must exist). The file
// holds libp2p's encoding of the private key in base64. A file that others may read is refused.
func LoadOrCreateIdentity(path string) (*Identity, error) {
	id, err := LoadIdentity(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	id, err = GenerateIdentity()
	if err != nil {
		return nil, err
	}
	err = id.save(path)
	if errors.Is(err, fs.ErrExist) {
		return LoadIdentity(path) // another process was first
	}
	if err != nil {
		return nil, err
	}
	return id, nil
}

// LoadIdentity reads the identity file at path and changes nothing. A file that others may read is refused.
func LoadIdentity(path string) (*Identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("tcp: identity file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxIdentityBytes {
		return nil, fmt.Errorf("tcp: identity file %s is no key file; put it back from a copy", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("tcp: identity file %s can be read by others (mode %04o): run chmod 600 on it", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tcp: identity file: %w", err)
	}
	b, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil {
		return nil, fmt.Errorf("tcp: identity file %s is not base64: %w", path, err)
	}
	key, err := crypto.UnmarshalPrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("tcp: identity file %s holds no libp2p private key, put it back from a copy: %w", path, err)
	}
	if err := checkKeyPair(key); err != nil {
		return nil, fmt.Errorf("tcp: identity file %s is damaged, put it back from a copy: %w", path, err)
	}
	return newIdentity(key)
}

// checkKeyPair refuses a key whose two halves do not belong together: the file holds both, and with one of them damaged
// the node would have the right name, and no peer would believe one of its handshakes.
func checkKeyPair(key crypto.PrivKey) error {
	probe := []byte("bornode: does the private key belong to the public one?")
	signature, err := key.Sign(probe)
	if err != nil {
		return err
	}
	ok, err := key.GetPublic().Verify(probe, signature)
	if err == nil && !ok {
		err = errors.New("its private key does not belong to its public key")
	}
	return err
}

// save writes the file so that it appears whole or not at all, and never over an existing one.
func (i *Identity) save(path string) error {
	b, err := crypto.MarshalPrivateKey(i.key)
	if err != nil {
		return fmt.Errorf("tcp: encoding the identity: %w", err)
	}
	if err := vfs.CreateFileAt(path, []byte(base64.StdEncoding.EncodeToString(b)+"\n")); err != nil {
		return fmt.Errorf("tcp: identity file: %w", err)
	}
	return nil
}
