package chain

import (
	"fmt"

	"github.com/bornode/bornode/contracts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// Candidate is what the Producers contract knows of an account after a block, and its BLS key: 48 bytes, none if it
// never registered one.
func (c *Chain) Candidate(h *types.Header, a common.Address) (contracts.Candidate, []byte, error) {
	ret, err := c.read(h, contracts.ProducersAddress, contracts.CandidateCall(a))
	if err != nil {
		return contracts.Candidate{}, nil, fmt.Errorf("read producer %s at block %s: %w", a, h.Number, err)
	}
	return contracts.DecodeCandidate(ret)
}
