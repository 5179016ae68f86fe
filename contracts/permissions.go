package contracts

import "github.com/ethereum/go-ethereum/common"

// State reads storage; go-ethereum's StateDB is one.
type State interface {
	GetState(account common.Address, slot common.Hash) common.Hash
}

// MaySend is Members.maySend without running the contract: whether an account may send transactions. One read while the
// list is off.
func MaySend(s State, account common.Address) bool {
	flags := s.GetState(MembersAddress, slotHash(slotFlags))
	if flags[11] == 0 {
		return true
	}
	return listed(s, flags, slotSenders, account) || seated(s, account)
}

// MayDeploy is Members.mayDeploy without running the contract: whether an account may deploy contracts.
func MayDeploy(s State, account common.Address) bool {
	flags := s.GetState(MembersAddress, slotHash(slotFlags))
	return flags[10] == 0 || listed(s, flags, slotDeployers, account)
}

// The admin's address fills the low 20 bytes of the flags' slot, the two switches come next.
func listed(s State, flags common.Hash, list uint64, account common.Address) bool {
	return account == common.BytesToAddress(flags[12:]) && account != (common.Address{}) ||
		s.GetState(MembersAddress, mapped(account[:], list)) != (common.Hash{})
}

func seated(s State, account common.Address) bool {
	return s.GetState(ProducersAddress, mapped(account[:], slotCandidate))[31-8]&1 != 0
}
