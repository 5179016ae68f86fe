package sim

import (
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// broadcast sends to everybody else; an adversary may send later, or not at all.
func (n *node) broadcast(receive func(to *node)) {
	var extra time.Duration
	if a := n.adversary; a != nil {
		if n.silent() {
			return
		}
		extra = a.Delay
		if a.Withhold > 0 && n.w.rand.IntN(2) == 0 {
			extra += time.Duration(n.w.rand.Int64N(int64(a.Withhold)))
		}
	}
	for _, to := range n.w.nodes {
		if to == n || n.adversary != nil && n.adversary.Selective && n.w.rand.IntN(2) == 0 {
			continue
		}
		n.w.deliver(n, to, extra, func() { receive(to) })
	}
}

// handshake tells all peers the head, the newest certificates and our own newest votes.
func (n *node) handshake() {
	if n.mute() {
		return
	}
	head, lib := n.m.Head(), n.m.LIB()
	qc, fc := n.m.BestQC(), n.fc
	for _, to := range n.w.nodes {
		if to == n || to.down {
			continue
		}
		clocks := n.tellClocks()
		n.w.deliver(n, to, 0, func() {
			to.seeClocks(n, clocks)
			to.greeted(n, head.Hash, lib.Height, qc, fc)
		})
	}
}

// greeted takes a handshake: asks for the peer's branch if it is not here, and takes its certificates.
func (n *node) greeted(from *node, head common.Hash, lib uint64, qc, fc *block.Certificate) {
	if n.store[head] == nil || lib > n.m.LIB().Height {
		n.ask(from, head)
	}
	for _, c := range []*block.Certificate{qc, fc} {
		n.certificate(c)
	}
}

// certificate takes a certificate whose signatures are checked here against what was really signed.
func (n *node) certificate(c *block.Certificate) {
	if c == nil {
		return
	}
	if !n.m.Has(c.Target.Hash) {
		n.followCertificate(c)
		return
	}
	if _, err := n.m.CertificateSchedules(c); err != nil {
		return
	}
	n.step(dpos.CertificateEvent{Certificate: c})
}

// ask requests the branch of a block from a peer, at most once in a while.
func (n *node) ask(from *node, hash common.Hash) {
	if at, ok := n.asked[hash]; ok && n.w.now-at < 2*n.w.s.Params.Slot() {
		return
	}
	n.asked[hash] = n.w.now
	lib := n.m.LIB()
	n.w.deliver(n, from, 0, func() { from.serve(n, hash, lib.Hash, lib.Height) })
}

const maxServed = 4096

// serve answers with the blocks above the asker's LIB up to the wanted one, and the certificate of our LIB.
func (n *node) serve(to *node, hash, lib common.Hash, height uint64) {
	var branch []*sealed
	b := n.store[hash]
	for ; b != nil && b.Height > height; b = b.parent {
		branch = append(branch, b)
	}
	if b == nil || b.Hash != lib || len(branch) == 0 || n.mute() {
		return // not on its LIB's chain: nothing that it could use
	}
	for i, j := 0, len(branch)-1; i < j; i, j = i+1, j-1 {
		branch[i], branch[j] = branch[j], branch[i]
	}
	branch = branch[:min(len(branch), maxServed)]
	fc := n.fc
	n.w.deliver(n, to, 0, func() { to.served(branch, fc) })
}

// served takes a branch: first what a certificate proves final, as a range, then the rest one by one.
func (n *node) served(branch []*sealed, fc *block.Certificate) {
	for len(branch) > 0 && branch[0].Height <= n.m.LIB().Height {
		branch = branch[1:]
	}
	if at := targetIn(branch, fc); at > 3 && n.soundUpTo(branch[:at+1]) {
		headers := make([]dpos.Header, at+1)
		for i := range headers {
			headers[i] = branch[i].Header
		}
		if checks, err := n.m.RangeChecks(headers, fc); err == nil && n.w.check.genuine(checks) {
			n.reachCertified(provenTime(&n.w.s.Params, fc.Target.Slot))
			if n.m.IsAhead(fc.Target.Slot) {
				return
			}
			for _, b := range branch[:at+1] {
				n.store[b.Hash] = b
				n.executed[b.Hash] = true
			}
			n.step(dpos.RangeEvent{Headers: headers, Certificate: fc})
			branch = branch[at+1:]
		}
	}
	for _, b := range branch {
		if n.store[b.Hash] != nil {
			continue
		}
		if _, err := n.m.Check(b.Header); err != nil {
			break
		}
		n.keep(b)
	}
	n.certificate(fc)
}

// soundUpTo says that execution accepts these blocks; a range that it refuses does not enter.
func (n *node) soundUpTo(bs []*sealed) bool {
	for _, b := range bs {
		if n.unsound(b) {
			return false
		}
	}
	return true
}

func targetIn(branch []*sealed, fc *block.Certificate) int {
	if fc == nil {
		return -1
	}
	for i, b := range branch {
		if b.Hash == fc.Target.Hash {
			return i
		}
	}
	return -1
}
