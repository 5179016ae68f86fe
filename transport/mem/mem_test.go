package mem_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/mem"
)

func peerName(i int) transport.PeerID { return transport.PeerID(fmt.Sprintf("host-%d", i)) }

// harness makes a network per test of the suite, so that tests share nothing.
func harness() conformance.Harness {
	var mu sync.Mutex
	networks := make(map[testing.TB]*mem.Network)
	owner := make(map[transport.Host]*mem.Network)
	of := func(t testing.TB) *mem.Network {
		mu.Lock()
		defer mu.Unlock()
		if networks[t] == nil {
			networks[t] = mem.NewNetwork()
		}
		return networks[t]
	}
	network := func(h transport.Host) *mem.Network {
		mu.Lock()
		defer mu.Unlock()
		return owner[h]
	}
	return conformance.Harness{
		NewHost: func(t testing.TB, i int, cfg link.Config) transport.Host {
			n := of(t)
			h, err := n.NewHost(peerName(i), cfg, nil, nil)
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			owner[h] = n
			return h
		},
		Addr:        func(_ testing.TB, h transport.Host) string { return mem.Addr(h.ID()) },
		Break:       func(a, b transport.Host) int { return network(a).Reset(a.ID(), b.ID()) },
		Connections: func(a, b transport.Host) int { return network(a).Connections(a.ID(), b.ID()) },
		Raw: func(t testing.TB, i int, target transport.Host) (transport.PeerID, transport.Provider) {
			pr, err := network(target).Raw(peerName(i), target.ID())
			require.NoError(t, err)
			return peerName(i), pr
		},
		Long: os.Getenv("BORNODE_LONG") != "",
	}
}

func TestConformance(t *testing.T) { conformance.Run(t, harness()) }
