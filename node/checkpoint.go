package node

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus"
)

// checkpoint is a block that the operator knows from a trusted source: it guards a joining node against a history
// rewritten with old keys. A nil checkpoint accepts everything.
type checkpoint struct {
	height uint64
	hash   common.Hash
}

// parseCheckpoint reads "height:hash"; an empty text is no checkpoint.
func parseCheckpoint(s string) (*checkpoint, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // no checkpoint is a valid setting
	}
	height, hash, ok := strings.Cut(s, ":")
	h, err := strconv.ParseUint(height, 10, 64)
	b, err2 := hexutil.Decode(hash)
	if !ok || err != nil || err2 != nil || len(b) != common.HashLength {
		return nil, fmt.Errorf("p2p.checkpoint is %q: write it as height:hash, for example 120000:0x5f...", s)
	}
	return &checkpoint{h, common.BytesToHash(b)}, nil
}

var errCheckpoint = errors.New("history contradicts p2p.checkpoint")

func (c *checkpoint) check(b *block.Block) error {
	if c == nil || b.Number() != c.height || b.Hash() == c.hash {
		return nil
	}
	return fmt.Errorf("%w: block %d is %s there and %s from this peer: %w", errCheckpoint, c.height, c.hash, b.Hash(), consensus.ErrInvalid)
}
