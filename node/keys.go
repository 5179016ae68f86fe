package node

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/transport/tcp"
)

// Files of a node's folder.
const (
	IdentityFile = "keys/identity.key"
	ProducerFile = "keys/producer.json"
	GenesisFile  = "genesis.json"
)

// PublicKeys is what others need to know of a node: what goes into genesis.json or into a proposal of membership.
type PublicKeys struct {
	PeerID  string         `json:"peer_id"`
	Account common.Address `json:"account,omitzero"`
	BLSKey  hexutil.Bytes  `json:"bls_key,omitempty"`
	Proof   hexutil.Bytes  `json:"proof,omitempty"` // of possession of the BLS key, for this chain id
}

// MakeKeys makes what is missing of a node's keys (mode 0600) and returns their public parts. Producer keys are bound
// to a chain id by their proof of possession.
func MakeKeys(dir string, producer bool, chainID uint64) (*PublicKeys, error) {
	identity := filepath.Join(dir, IdentityFile)
	if err := vfs.OS(filepath.Dir(identity), vfs.Private).Mkdir("."); err != nil {
		return nil, err
	}
	key, err := tcp.LoadOrCreateIdentity(identity)
	if err != nil {
		return nil, err
	}
	p := &PublicKeys{PeerID: string(key.ID())}
	if !producer {
		return p, nil
	}
	if chainID == 0 {
		return nil, errors.New("the proof of a producer's key needs the chain id: give --chain-id or --genesis")
	}
	s, err := loadOrCreateSigner(filepath.Join(dir, ProducerFile))
	if err != nil {
		return nil, err
	}
	vote, proof := s.VoteKey(), s.ProvePossession(chainID)
	p.Account, p.BLSKey, p.Proof = s.Account(), vote[:], proof[:]
	return p, nil
}

func loadOrCreateSigner(path string) (*signer.Local, error) {
	s, err := signer.Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if s, err = signer.Generate(rand.Reader); err != nil {
		return nil, fmt.Errorf("producer keys: %w", err)
	}
	return s, s.Save(path)
}
