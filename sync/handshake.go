package blocksync

import (
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Position is what decides who asks whom.
type Position struct {
	Head, LIB Ref
	Justified uint64 // slot of the newest justified block
	First     uint64 // first height that can be served
}

// ahead reports whether p is preferable to q: higher justified slot, then higher head. Equal is not ahead.
func (p Position) ahead(q Position) bool {
	if p.Justified != q.Justified {
		return p.Justified > q.Justified
	}
	return p.Head.Height > q.Head.Height
}

// LocalView is what a handshake is judged against.
type LocalView struct {
	NodeID   string
	Chain    common.Hash
	Position Position
	// HashAt gives the hash of the local irreversible block of a height; false if it is not kept.
	HashAt func(height uint64) (common.Hash, bool)
	// Member is nil if the peer may connect.
	Member error
}

// CheckHandshake decides whether a handshake is acceptable on a link whose authenticated peer is linkPeer. It returns
// NoReason and nil, or the go_away reason with an error for the log.
func CheckHandshake(h *Handshake, linkPeer string, v LocalView) (Reason, error) {
	switch {
	case linkPeer == v.NodeID || h.NodeID == v.NodeID:
		return SelfConnect, fmt.Errorf("peer %s is this node itself", linkPeer)
	case h.NetVersion != NetVersion:
		return WrongVersion, fmt.Errorf("peer speaks protocol version %d, this node %d", h.NetVersion, NetVersion)
	case h.ChainID != v.Chain:
		return WrongChain, fmt.Errorf("peer is on the chain of block 0 %s, this node on %s", h.ChainID, v.Chain)
	case h.NodeID != linkPeer:
		return Authentication, fmt.Errorf("handshake names node %q, the link belongs to %q", h.NodeID, linkPeer)
	case h.Token != HandshakeToken(h.ChainID, h.NodeID, h.Time):
		return Authentication, fmt.Errorf("handshake token does not match its chain, node and time")
	}
	if err := checkSignature(h); err != nil {
		return Authentication, err
	}
	if v.Member != nil {
		return NotAMember, v.Member
	}
	switch {
	case h.P2PAddress == "" || h.OS == "":
		return Validation, fmt.Errorf("handshake has an empty address or operating system")
	case h.LIB.Height > h.Head.Height:
		return Validation, fmt.Errorf("handshake has LIB %d above head %d", h.LIB.Height, h.Head.Height)
	case h.Head.Height > 0 && h.LIB.Slot > h.Head.Slot:
		return Validation, fmt.Errorf("handshake has LIB slot %d above head slot %d", h.LIB.Slot, h.Head.Slot)
	case h.First > h.LIB.Height+1:
		return Validation, fmt.Errorf("handshake serves heights from %d but has LIB %d", h.First, h.LIB.Height)
	case h.Generation == 0:
		return Validation, fmt.Errorf("handshake has generation 0")
	case h.QC != nil && h.QC.Kind != block.Prevote || h.FC != nil && h.FC.Kind != block.Precommit:
		return Validation, fmt.Errorf("handshake carries a certificate of the wrong kind")
	}
	if h.LIB.Height <= v.Position.LIB.Height {
		if have, ok := v.HashAt(h.LIB.Height); ok && have != h.LIB.Hash {
			return Forked, fmt.Errorf("peer's irreversible block %d is %s, here it is %s", h.LIB.Height, h.LIB.Hash, have)
		}
	}
	return NoReason, nil
}

func checkSignature(h *Handshake) error {
	if h.Key == (common.Address{}) {
		if len(h.Sig) != 0 {
			return fmt.Errorf("handshake has a signature but no key")
		}
		return nil
	}
	if len(h.Sig) != crypto.SignatureLength {
		return fmt.Errorf("handshake names account %s without a signature", h.Key)
	}
	pub, err := crypto.SigToPub(h.Token[:], h.Sig)
	if err != nil || crypto.PubkeyToAddress(*pub) != h.Key {
		return fmt.Errorf("handshake signature is not by account %s", h.Key)
	}
	return nil
}

// Case is the row of the handshake table that applies, seen by the node that received the handshake.
type Case uint8

const (
	CaseEqual      Case = 0 // heads equal: notice{blks none; trx catch_up}
	CaseSyncToPeer Case = 1 // local head below peer's LIB: sync to it
	CasePeerSyncs  Case = 2 // local LIB above peer's head: notice{last_irr_catch_up}
	CaseAskPeer    Case = 3 // peer is ahead within the reversible range: ask it
	CasePeerAsks   Case = 4 // we are ahead within the reversible range: notice{blks catch_up}
)

// DecideCase tests the cases in their order. Cases 3 and 4 compare (justified slot, head height).
func DecideCase(local, peer Position) Case {
	switch {
	case local.Head.Hash == peer.Head.Hash:
		return CaseEqual
	case local.Head.Height < peer.LIB.Height:
		return CaseSyncToPeer
	case local.LIB.Height > peer.Head.Height:
		return CasePeerSyncs
	case !local.ahead(peer):
		return CaseAskPeer
	}
	return CasePeerAsks
}

// near reports whether two positions differ by no more than what the link's latency explains, in slots.
func near(a, b Position, latency, slot time.Duration) bool {
	allowed := uint64((latency + slot - 1) / slot) //nolint:gosec // not negative
	if allowed == 0 {
		allowed = 1
	}
	return distance(a.Head.Slot, b.Head.Slot) <= allowed && distance(a.Justified, b.Justified) <= allowed
}

func distance(a, b uint64) uint64 {
	if a > b {
		return a - b
	}
	return b - a
}

// NoticeFor is the notice that cases 0, 2 and 4 send; nil for the others. pending is the number of local pending
// transactions.
func NoticeFor(c Case, local Position, pending uint64) *Notice {
	switch c {
	case CaseEqual:
		return &Notice{Transactions: IDs{Mode: ModeCatchUp, Pending: pending}}
	case CasePeerSyncs:
		return &Notice{
			Blocks:       IDs{Mode: ModeLastIrrCatchUp, Pending: local.Head.Height},
			Transactions: IDs{Mode: ModeLastIrrCatchUp, Pending: local.LIB.Height},
		}
	case CasePeerAsks:
		return &Notice{Blocks: IDs{Mode: ModeCatchUp, Pending: local.Head.Height, IDs: []common.Hash{local.Head.Hash}}}
	}
	return nil
}

// Survivor decides which of two links between the same two nodes stays: both sides come to the same answer. Of links
// begun by different sides the one dialled by the lower id stays; of two begun by the same side the newer one.
func Survivor(self, peer string, oldIncoming, newIncoming bool) (keepNew bool) {
	if oldIncoming == newIncoming {
		return true
	}
	// A link is dialled by the lower id if it is outgoing at the lower id or incoming at the higher one.
	return newIncoming == (self > peer)
}
