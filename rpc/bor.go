package rpc

import (
	"time"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// borAPI shows consensus and synchronisation: what Ethereum's methods have no words for.
type borAPI struct{ *service }

type pointJSON struct {
	Number hexutil.Uint64 `json:"number"`
	Slot   hexutil.Uint64 `json:"slot"`
	Hash   common.Hash    `json:"hash"`
}

type finalityJSON struct {
	Head          pointJSON      `json:"head"`
	Safe          pointJSON      `json:"safe"`
	Final         pointJSON      `json:"final"`
	First         hexutil.Uint64 `json:"first"`    // lowest block kept beside block 0; above 0 once history was pruned
	SafeLag       hexutil.Uint64 `json:"safeLag"`  // blocks from safe to head
	FinalLag      hexutil.Uint64 `json:"finalLag"` // blocks from final to head
	FinalLagSlots hexutil.Uint64 `json:"finalLagSlots"`
	Slot          hexutil.Uint64 `json:"slot"` // now, by this node's clock
	Stalled       bool           `json:"stalled"`
	Silence       string         `json:"silence,omitempty"` // why this node's signer casts no vote
}

// Finality is how far the newest executed, justified and irreversible blocks are.
func (a *borAPI) Finality() *finalityJSON {
	c := a.back.Chain
	head, safe, final := a.point(c.CurrentHeader()), a.point(c.SafeHeader()), a.point(c.FinalHeader())
	p := c.Params()
	now, _ := p.SlotAt(time.Now())
	out := &finalityJSON{
		Head: head, Safe: safe, Final: final, First: hexutil.Uint64(c.FirstHeight()), SafeLag: sub(head.Number, safe.Number), FinalLag: sub(head.Number, final.Number),
		FinalLagSlots: sub(head.Slot, final.Slot), Slot: hexutil.Uint64(now),
	}
	if a.back.Consensus != nil {
		out.Stalled, out.Silence = a.back.Consensus.Stalled(), a.back.Consensus.Silence()
	}
	return out
}

// Alarms are what an operator must look at and that does not go away by itself.
func (a *borAPI) Alarms() ([]Alarm, error) {
	if a.back.Consensus == nil {
		return nil, notOffered("the list of alarms")
	}
	return a.back.Consensus.Alarms(), nil
}

// Signer is what this node's signer does and waits for; null for an observer.
func (a *borAPI) Signer() (*SignerStatus, error) {
	if a.back.Consensus == nil {
		return nil, notOffered("bor_signer")
	}
	return a.back.Consensus.Signer(), nil
}

func (s *service) point(h *types.Header) pointJSON {
	if h == nil {
		return pointJSON{}
	}
	p := pointJSON{Number: hexutil.Uint64(h.Number.Uint64()), Hash: h.Hash()}
	if sealed, err := s.back.Chain.Sealed(p.Hash); sealed != nil && err == nil { // head, safe and LIB are in memory
		p.Slot = hexutil.Uint64(sealed.Slot())
	}
	return p
}

func sub(a, b hexutil.Uint64) hexutil.Uint64 {
	if a < b {
		return 0
	}
	return a - b
}

type producerJSON struct {
	Seat    hexutil.Uint   `json:"seat"`
	Account common.Address `json:"account"`
	Key     hexutil.Bytes  `json:"key"` // BLS12-381 public key, compressed
}

// Producers is the schedule that produces the children of the head.
func (a *borAPI) Producers() ([]producerJSON, error) {
	sched, err := a.schedule()
	if err != nil {
		return nil, err
	}
	out := make([]producerJSON, len(sched))
	for i, p := range sched {
		out[i] = producerJSON{Seat: hexutil.Uint(i), Account: p.Account, Key: p.Key[:]} //nolint:gosec // an index
	}
	return out, nil
}

func (a *borAPI) schedule() (block.Schedule, error) {
	if a.back.Consensus == nil {
		return nil, notOffered("the schedule")
	}
	return a.back.Consensus.Schedule()
}

type turnJSON struct {
	First   hexutil.Uint64 `json:"firstSlot"`
	Last    hexutil.Uint64 `json:"lastSlot"`
	Start   hexutil.Uint64 `json:"startMillis"` // Unix time
	Account common.Address `json:"account"`
}

// Schedule is who owns the coming turns, from the turn of a slot on (default now), under the current schedule.
func (a *borAPI) Schedule(from *hexutil.Uint64, turns *hexutil.Uint64) ([]turnJSON, error) {
	sched, err := a.schedule()
	if err != nil {
		return nil, err
	}
	if len(sched) == 0 {
		return []turnJSON{}, nil
	}
	p := a.back.Chain.Params()
	slot, _ := p.SlotAt(time.Now())
	if from != nil {
		slot = uint64(*from)
	}
	n := uint64(len(sched))
	if turns != nil {
		n = uint64(*turns)
	}
	if n > maxScheduleTurns || slot > 1<<62 {
		return nil, limitExceeded("%d turns asked for, %d are allowed", n, maxScheduleTurns)
	}
	out := make([]turnJSON, 0, n)
	for slot -= slot % p.TurnSlots; uint64(len(out)) < n; slot += p.TurnSlots {
		out = append(out, turnJSON{
			First: hexutil.Uint64(slot), Last: hexutil.Uint64(slot + p.TurnSlots - 1),
			Start:   hexutil.Uint64(p.SlotStart(slot).UnixMilli()), //nolint:gosec // after 1970
			Account: sched.Owner(slot, p.TurnSlots).Account,
		})
	}
	return out, nil
}

// Peers lists the connected peers with the provider that carries each link.
func (a *borAPI) Peers() ([]PeerInfo, error) { return a.peers() }

// SyncStatus is how far the node is.
func (a *borAPI) SyncStatus() (*SyncStatus, error) {
	if a.back.Sync == nil {
		return nil, notOffered("the sync status")
	}
	st := a.back.Sync.SyncStatus()
	return &st, nil
}

// Scrub is how far the background reading of this node's files is, and what it found.
func (a *borAPI) Scrub() (*ScrubStatus, error) {
	if a.back.Scrub == nil {
		return nil, notOffered("the background scrub")
	}
	st := a.back.Scrub.ScrubStatus()
	return &st, nil
}

type certificateJSON struct {
	Kind       string         `json:"kind"`
	SourceSlot hexutil.Uint64 `json:"sourceSlot"`
	SourceHash common.Hash    `json:"sourceHash"`
	TargetSlot hexutil.Uint64 `json:"targetSlot"`
	TargetHash common.Hash    `json:"targetHash"`
	Votes      hexutil.Uint   `json:"votes"`
}

type recordJSON struct {
	Number     hexutil.Uint64   `json:"number"`
	Hash       common.Hash      `json:"hash"`
	Slot       hexutil.Uint64   `json:"slot"`
	Producer   common.Address   `json:"producer"`
	Seal       hexutil.Bytes    `json:"seal"`
	BodyDigest common.Hash      `json:"bodyDigest"`
	QC         *certificateJSON `json:"qc"`
	FC         *certificateJSON `json:"fc"`
	Raw        hexutil.Bytes    `json:"raw"` // encoded sealed header, docs/wire.md
}

// GetRecord is the consensus record and seal of a block, which travel beside its header.
func (a *borAPI) GetRecord(ref gethrpc.BlockNumberOrHash) (*recordJSON, error) {
	h, err := a.back.header(ref)
	if h == nil || err != nil {
		return nil, err
	}
	sealed, err := a.back.Chain.Sealed(h.Hash())
	if err != nil {
		return nil, unreadable("record of block "+h.Number.String(), err)
	}
	if sealed == nil {
		return nil, nil
	}
	r := sealed.Record
	return &recordJSON{
		Number: hexutil.Uint64(sealed.Number()), Hash: sealed.Hash(), Slot: hexutil.Uint64(r.Slot), Producer: sealed.Header.Coinbase,
		Seal: sealed.Seal[:], BodyDigest: r.BodyDigest, QC: certificateOf(r.QC), FC: certificateOf(r.FC), Raw: sealed.Encode(),
	}, nil
}

func certificateOf(c *block.Certificate) *certificateJSON {
	if c == nil {
		return nil
	}
	return &certificateJSON{
		Kind: c.Kind.String(), SourceSlot: hexutil.Uint64(c.Source.Slot), SourceHash: c.Source.Hash,
		TargetSlot: hexutil.Uint64(c.Target.Slot), TargetHash: c.Target.Hash, Votes: hexutil.Uint(c.Count(0)), //nolint:gosec // a count
	}
}
