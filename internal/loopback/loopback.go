package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
)

// FreeAddr is an address of loopback where nobody listens right now. Where all of 127/8 is loopback, as on Linux, it is on a
// host that nobody else uses, so that its port is free still when its user listens, or listens again.
func FreeAddr() (netip.AddrPort, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(250), rand.N(250), 1+rand.N(250)))
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer func() { _ = l.Close() }() // nobody connected
	return l.Addr().(*net.TCPAddr).AddrPort(), nil
}
