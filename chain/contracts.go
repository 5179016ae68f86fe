package chain

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
)

var (
	producersAddress = common.HexToAddress("0xb01")
	membersAddress   = common.HexToAddress("0xb02")
)

const endEpochABI = `[{"type":"function","name":"endEpoch","stateMutability":"nonpayable","inputs":[{"name":"epoch","type":"uint64"},{"name":"missed","type":"bytes"}],"outputs":[{"name":"accounts","type":"address[]"},{"name":"keys","type":"bytes[]"}]}]`

func endOfEpochCall(epoch uint64, missed []byte) ([]byte, error) {
	a, err := abi.JSON(strings.NewReader(endEpochABI))
	if err != nil {
		return nil, err
	}
	return a.Pack("endEpoch", epoch, missed)
}

func decodeSchedule(ret []byte) (block.Schedule, error) {
	a, err := abi.JSON(strings.NewReader(endEpochABI))
	if err != nil {
		return nil, err
	}
	v, err := a.Unpack("endEpoch", ret)
	if err != nil {
		return nil, err
	}
	accounts, keys := v[0].([]common.Address), v[1].([][]byte)
	if len(accounts) == 0 || len(accounts) != len(keys) || len(accounts) > block.MaxProducers {
		return nil, errors.New("schedule is empty, too long or lacks keys")
	}
	s := make(block.Schedule, len(accounts))
	seen := make(map[common.Address]bool, len(accounts))
	for i := range s {
		if seen[accounts[i]] {
			return nil, fmt.Errorf("account %s has two seats", accounts[i])
		}
		seen[accounts[i]] = true
		if len(keys[i]) != len(s[i].Key) {
			return nil, fmt.Errorf("key of seat %d has %d bytes", i, len(keys[i]))
		}
		s[i].Account = accounts[i]
		copy(s[i].Key[:], keys[i])
	}
	return s, nil
}
