package proof

import (
	"fmt"
	"slices"
)

// Right is one entry of a tenant's access list, in the numbers of the Kafka protocol.
type Right struct {
	Resource, Pattern     uint8
	Name, Principal, Host string
	Operation, Permission uint8
}

func (r Right) String() string {
	return fmt.Sprintf("%s on resource %d %q (pattern %d), operation %d, permission %d, host %q", r.Principal, r.Resource, r.Name, r.Pattern, r.Operation, r.Permission, r.Host)
}

// RightChange is one grant or revocation as the contract announced it.
type RightChange struct {
	Right
	Revoked bool
	Height  uint64
}

// CheckRights checks that the entries a broker goes by, or that the state shows, are what the events of the chain, in
// order, leave in force. A failure is ErrRights, with the tenant's hash in place of a topic, and names the entry.
func CheckRights(tenant [32]byte, changes []RightChange, state []Right) error {
	type fact struct {
		in bool
		at uint64
	}
	facts := make(map[Right]fact, len(changes))
	for _, c := range changes {
		facts[c.Right] = fact{!c.Revoked, c.Height}
	}
	seen := make(map[Right]bool, len(state))
	for _, r := range state {
		seen[r] = true
		switch f, ever := facts[r]; {
		case !ever:
			return tamper(ErrRights, tenant, -1, -1, "no event grants %s", r)
		case !f.in:
			return tamper(ErrRights, tenant, -1, -1, "block %d revoked %s", f.at, r)
		}
	}
	var missing []Right
	for r, f := range facts {
		if f.in && !seen[r] {
			missing = append(missing, r)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	first := slices.MinFunc(missing, func(a, b Right) int { return int(facts[a].at) - int(facts[b].at) })
	return tamper(ErrRights, tenant, -1, -1, "block %d granted %s, which is gone", facts[first].at, first)
}
