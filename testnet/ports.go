package testnet

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports of a node, from its first: JSON-RPC over HTTP, over WebSocket, peers, metrics, Kafka clients.
func nodePorts(base, index int) (http, ws, p2p, metrics int) {
	p := base + index*portsPerNode
	return p, p + 1, p + 2, p + 3
}

func brokerPort(base, index int) int { return base + index*portsPerNode + 4 }

// The automatic range lies below Linux's ephemeral ports (32768 and up), so that no outgoing connection takes one.
const (
	firstAutoPort = 20000
	lastAutoPort  = 32000
	autoStep      = maxNodes * portsPerNode / 2
)

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// claimPorts picks a base port whose range is free and holds a lock file on it until this process ends, so that
// networks started side by side do not meet.
func claimPorts(base, nodes int) (int, *os.File, error) {
	if base != 0 {
		return base, nil, checkPorts(base, nodes)
	}
	var last error
	for b := firstAutoPort; b+autoStep < lastAutoPort; b += autoStep {
		f, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("bornode-testnet-%d.lock", b)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			last = err // another user's, say
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			if last = checkPorts(b, nodes); last == nil {
				return b, f, nil
			}
		}
		_ = f.Close()
	}
	return 0, nil, fmt.Errorf("testnet: no free range of ports between %d and %d: %w", firstAutoPort, lastAutoPort, last)
}

func checkPorts(base, nodes int) error {
	if base < 1024 || base+nodes*portsPerNode > 65535 {
		return fmt.Errorf("testnet: base port %d; use 1024 to %d", base, 65535-nodes*portsPerNode)
	}
	for p := base; p < base+nodes*portsPerNode; p++ {
		l, err := net.Listen("tcp", loopback(p))
		if err != nil {
			return fmt.Errorf("testnet: port %d is taken; choose another --base-port: %w", p, err)
		}
		_ = l.Close()
	}
	return nil
}
