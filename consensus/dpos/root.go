package dpos

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/block"
)

// Root is where a machine's tree starts: the last irreversible block with its context. Immutable.
type Root struct {
	header Header // without certificates and schedule
	source block.Point
	final  proven
	own    *regime
	next   *regime
	tail   []tailBlock // oldest first, up to the parent: ancestors that certificates may still name
	qc, fc *block.Certificate
}

// tailBlock is what a certificate's check needs of its target.
type tailBlock struct {
	block.Point
	source block.Point
	own    *regime
}

// GenesisRoot is the root of a new chain: block 0, final by definition.
func GenesisRoot(hash common.Hash, schedule block.Schedule) *Root {
	r := newRegime(settled, schedule, nil, 0)
	p := block.Point{Hash: hash}
	return &Root{header: Header{Hash: hash, Empty: true}, source: p, final: proven{Point: p}, own: r, next: r}
}

// Point names the last irreversible block.
func (r *Root) Point() block.Point { return r.header.Point() }

// Height is the height of the last irreversible block.
func (r *Root) Height() uint64 { return r.header.Height }

// Schedule is who produces children of the last irreversible block.
func (r *Root) Schedule() block.Schedule { return r.next.cur }

// Recovery is the newest one at or below the last irreversible block; zero: there is none.
func (r *Root) Recovery() common.Hash { return r.next.domain }

// Certificates are the newest proofs: of the block's prevotes (nil if never seen) and of its finality (nil for genesis).
func (r *Root) Certificates() (qc, fc *block.Certificate) { return r.qc, r.fc }

const rootVersion = 1

type (
	regimeWire struct {
		Stage      uint8
		Cur, Other block.Schedule
		Mark       uint64
		Domain     common.Hash      `rlp:"optional"`
		Before     []block.Schedule `rlp:"optional"`
	}
	tailWire struct {
		Slot   uint64
		Hash   common.Hash
		Source block.Point
		Regime uint64 // index in rootWire.Regimes
	}
	rootWire struct {
		Version      uint64
		Hash, Parent common.Hash
		Height, Slot uint64
		Producer     common.Address
		Empty        bool
		Source       block.Point
		FinalHeight  uint64
		Final        block.Point
		Regimes      []regimeWire
		Own, Next    uint64 // indexes in Regimes
		Tail         []tailWire
		QC, FC       *block.Certificate `rlp:"nilList"`
	}
)

// Encode is the root's stored form; DecodeRoot reads it.
func (r *Root) Encode() []byte {
	w := rootWire{
		Version: rootVersion, Hash: r.header.Hash, Parent: r.header.Parent, Height: r.header.Height, Slot: r.header.Slot,
		Producer: r.header.Producer, Empty: r.header.Empty, Source: r.source, FinalHeight: r.final.Height, Final: r.final.Point,
		QC: r.qc, FC: r.fc,
	}
	var order []*regime
	index := func(g *regime) uint64 {
		for i, o := range order {
			if o == g {
				return uint64(i)
			}
		}
		order = append(order, g)
		w.Regimes = append(w.Regimes, regimeWire{uint8(g.stage), g.cur, g.other, g.mark, g.domain, g.before})
		return uint64(len(order) - 1)
	}
	w.Own, w.Next = index(r.own), index(r.next)
	w.Tail = make([]tailWire, len(r.tail))
	for i := range r.tail {
		t := &r.tail[i]
		w.Tail[i] = tailWire{t.Slot, t.Hash, t.source, index(t.own)}
	}
	b, err := rlp.EncodeToBytes(&w)
	if err != nil {
		panic(fmt.Sprintf("dpos: encode root: %v", err)) // our own value; cannot fail
	}
	return b
}

var errRoot = errors.New("root of consensus is damaged")

// DecodeRoot reads what Encode wrote. It refuses what no chain can give, whatever the bytes.
func DecodeRoot(b []byte) (*Root, error) {
	if len(b) > maxRootBytes {
		return nil, fmt.Errorf("%w: %d bytes, %d allowed", errRoot, len(b), maxRootBytes)
	}
	var w rootWire
	if err := rlp.Decode(bytes.NewReader(b), &w); err != nil {
		return nil, fmt.Errorf("%w: %w", errRoot, err)
	}
	if _, _, rest, err := rlp.Split(b); err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", errRoot, len(rest))
	}
	return w.root()
}

func (w *rootWire) root() (*Root, error) {
	if w.Version != rootVersion {
		return nil, fmt.Errorf("%w: version %d, this node knows %d", errRoot, w.Version, rootVersion)
	}
	regimes := make([]*regime, len(w.Regimes))
	for i := range w.Regimes {
		g := &w.Regimes[i]
		if g.Stage > uint8(joint) || len(g.Before) > 2 || checkSchedule(g.Cur) != nil || (g.Stage == uint8(settled)) != (len(g.Other) == 0) ||
			len(g.Other) > 0 && checkSchedule(g.Other) != nil {
			return nil, fmt.Errorf("%w: schedules %d", errRoot, i)
		}
		if len(g.Other) == 0 {
			g.Other = nil
		}
		regimes[i] = newRegime(stage(g.Stage), g.Cur, g.Other, g.Mark)
		regimes[i].domain, regimes[i].before = g.Domain, g.Before
	}
	n := uint64(len(regimes))
	switch {
	case w.Own >= n || w.Next >= n:
		return nil, fmt.Errorf("%w: it names schedules that it lacks", errRoot)
	case w.Source.Slot > w.Slot || w.Final.Slot > w.Source.Slot || w.FinalHeight > w.Height || uint64(len(w.Tail)) > w.Height-w.FinalHeight:
		return nil, fmt.Errorf("%w: blocks out of order", errRoot)
	}
	r := &Root{
		header: Header{Hash: w.Hash, Parent: w.Parent, Height: w.Height, Slot: w.Slot, Producer: w.Producer, Empty: w.Empty},
		source: w.Source, final: proven{w.FinalHeight, w.Final}, own: regimes[w.Own], next: regimes[w.Next], qc: w.QC, fc: w.FC,
	}
	last := w.Slot
	for i := len(w.Tail) - 1; i >= 0; i-- {
		if t := &w.Tail[i]; t.Regime >= n || t.Slot >= last || t.Source.Slot > t.Slot {
			return nil, fmt.Errorf("%w: ancestor %d", errRoot, i)
		}
		last = w.Tail[i].Slot
	}
	for i := range w.Tail {
		t := &w.Tail[i]
		r.tail = append(r.tail, tailBlock{block.Point{Slot: t.Slot, Hash: t.Hash}, t.Source, regimes[t.Regime]})
	}
	return r, nil
}

// node is the root as the tree's first node, with its tail behind it.
func (r *Root) node() *node {
	var p *node
	for i := range r.tail {
		t := &r.tail[i]
		h := r.header.Height - uint64(len(r.tail)-i)
		p = &node{Header: Header{Hash: t.Hash, Slot: t.Slot, Height: h}, parent: p, source: t.source, own: t.own, leaf: -1, gone: true}
	}
	return &node{Header: r.header, parent: p, source: r.source, final: r.final, own: r.own, next: r.next, qc: r.qc, fc: r.fc, leaf: -1}
}

// rootOf is the Root of a node that became the LIB. It cuts off the ancestors that no certificate may name any more.
func rootOf(n *node) *Root {
	h := n.Header
	h.QC, h.FC, h.Next, h.Recovery = nil, nil, nil, common.Hash{}
	r := &Root{header: h, source: n.source, final: n.final, own: n.own, next: n.next, qc: n.qc, fc: n.fc}
	x := n
	for x.parent != nil && x.parent.Height > n.final.Height {
		x = x.parent
	}
	for y := x; y != nil; { // all of them: a jump may still lead there, and must not keep the chain alive
		y.parent, y = nil, y.parent
	}
	if k := n.Height - x.Height; k > 0 {
		r.tail = make([]tailBlock, k)
		for y := n.parent; y != nil; y = y.parent {
			k--
			r.tail[k] = tailBlock{y.Point(), y.source, y.own}
		}
	}
	return r
}
