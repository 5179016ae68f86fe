package detect

import (
	"fmt"
	"net/netip"
	"strings"
)

// candidate is a pair of endpoints that may reach each other.
type candidate struct {
	mine, theirs offer
}

// text says why the candidate was chosen.
func (c *candidate) text() string {
	if c.mine.kind == offerHost {
		return "same host"
	}
	return fmt.Sprintf("%s to %s, MTU %d", c.mine.name, c.theirs.name, min(c.mine.mtu, c.theirs.mtu))
}

// choose lists the pairs that suit both sides, best first in the order of mine, and says in a few words why there is
// none. unreachable tells of hosts that were tried already.
func choose(mine, theirs []offer, unreachable func(rendezvous []byte) bool) ([]candidate, string) {
	var out []candidate
	elsewhere := false // they offer shared memory, but not here
	for _, m := range mine {
		for _, t := range theirs {
			if t.kind != m.kind {
				continue
			}
			if m.kind == offerHost && unreachable(t.rendezvous) {
				elsewhere = true
				continue
			}
			if m.kind == offerHost || m.matches && t.matches {
				out = append(out, candidate{m, t})
				break
			}
		}
	}
	if len(out) > 0 {
		return out, ""
	}
	return nil, explain(mine, theirs, elsewhere)
}

// explain says what is missing, nearest to success first.
func explain(mine, theirs []offer, elsewhere bool) string {
	var why []string
	if elsewhere {
		why = append(why, "the peer is not on this host")
	}
	here, there := devices(mine), devices(theirs)
	switch {
	case len(here) == 0 && len(there) == 0 && elsewhere:
		why = append(why, "neither side has an RDMA device")
	case len(mine) == 0:
		why = append(why, "nothing but tcp here")
	case len(theirs) == 0:
		why = append(why, "the peer has nothing but tcp")
	case len(here) == 0:
		why = append(why, "no RDMA device here")
	case len(there) == 0:
		why = append(why, "the peer has no RDMA device")
	case !matching(here):
		why = append(why, "no RDMA device here has the connection's address")
	case !matching(there):
		why = append(why, "no RDMA device of the peer has the connection's address")
	default:
		why = append(why, "one side has InfiniBand, the other RoCE")
	}
	return strings.Join(why, "; ")
}

func devices(list []offer) []offer {
	var out []offer
	for _, o := range list {
		if o.kind != offerHost {
			out = append(out, o)
		}
	}
	return out
}

func matching(list []offer) bool {
	for _, o := range list {
		if o.matches {
			return true
		}
	}
	return false
}

// localAddr is the address of a connection's end as endpoints have it.
func localAddr(a netip.AddrPort) netip.Addr { return a.Addr().Unmap().WithZone("") }
