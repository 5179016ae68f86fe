package consensus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus/signer"
)

// invalidRoot marks a block that fails execution.
var invalidRoot = common.HexToHash("0xbad")

// disk is what survives a restart of a node.
type disk struct {
	mu         sync.Mutex
	blocks     map[common.Hash]*block.Block
	reversible []common.Hash // in order of arrival
	final      []*block.Block
	root       []byte
	qc, fc     *block.Certificate
}

func newDisk() *disk { return &disk{blocks: make(map[common.Hash]*block.Block)} }

func (d *disk) Root() []byte                              { d.mu.Lock(); defer d.mu.Unlock(); return d.root }
func (d *disk) Certificates() (qc, fc *block.Certificate) { return d.qc, d.fc }

func (d *disk) Reversible() (out []*block.Block, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.reversible {
		out = append(out, d.blocks[h])
	}
	return out, nil
}

func (d *disk) Header(h common.Hash) (*block.SealedHeader, error) {
	if b := d.get(h); b != nil {
		return b.SealedHeader, nil
	}
	return nil, fmt.Errorf("no block %s", h)
}

func (d *disk) lib() uint64 { d.mu.Lock(); defer d.mu.Unlock(); return uint64(len(d.final)) }

func (d *disk) finals() []*block.Block {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*block.Block(nil), d.final...)
}

func (d *disk) get(h common.Hash) *block.Block { d.mu.Lock(); defer d.mu.Unlock(); return d.blocks[h] }

func (d *disk) put(b *block.Block) {
	if d.blocks[b.Hash()] == nil {
		d.reversible = append(d.reversible, b.Hash())
	}
	d.blocks[b.Hash()] = b
}

// fakeChain is a chain whose execution looks at the state root only. It checks that it is called as the driver
// promises.
type fakeChain struct {
	*disk
	params   block.Parameters
	genesis  common.Hash
	schedule block.Schedule

	exec       sync.Mutex // held by the calls that must not overlap
	executed   map[common.Hash]bool
	head       common.Hash
	spoil      bool         // builds blocks that fail elsewhere
	upgrade    uint64       // from this height on blocks follow an upgrade that is not known here; 0: none do
	damaged    func() error // not nil: what the execution of a block fails with
	txs        int          // per built block
	recoveries int
	imports    int
	built      map[common.Hash]*block.Block
	onBuild    func(b *block.Block) // sees every block before it is sealed

	beforeHead     func() // both: called by the execution goroutine; may wait
	beforeFinalize func(block.FinalUpdate)
}

func newFakeChain(p block.Parameters, genesis common.Hash, s block.Schedule, d *disk) *fakeChain {
	return &fakeChain{disk: d, params: p, genesis: genesis, schedule: s, executed: map[common.Hash]bool{genesis: true}, head: genesis, built: make(map[common.Hash]*block.Block)}
}

func (c *fakeChain) alone() func() {
	if !c.exec.TryLock() {
		panic("two calls of the execution goroutine overlap")
	}
	return c.exec.Unlock
}

func (c *fakeChain) CheckBody(b *block.Block, trust bool) error {
	if block.BodyDigest(b.Transactions, b.Senders) != b.Record.BodyDigest {
		return fmt.Errorf("%w: digest", chain.ErrInvalidBody)
	}
	if !trust {
		c.mu.Lock()
		c.recoveries += len(b.Transactions)
		c.mu.Unlock()
	}
	return nil
}

func (c *fakeChain) Add(blocks []*block.Block) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range blocks {
		if c.blocks[b.Hash()] == nil && !c.onLIB(b.Parent()) {
			return fmt.Errorf("%w %s", chain.ErrUnknownBlock, b.Parent())
		}
		c.put(b)
	}
	return nil
}

// onLIB reports whether a block is there and is LIB or descends from it.
func (c *fakeChain) onLIB(h common.Hash) bool {
	tip := c.genesis
	if n := len(c.final); n > 0 {
		tip = c.final[n-1].Hash()
	}
	for h != tip {
		b := c.blocks[h]
		if b == nil || b.Number() <= uint64(len(c.final)) {
			return false
		}
		h = b.Parent()
	}
	return true
}

func (c *fakeChain) SetHead(_ context.Context, h common.Hash) (r chain.SetHeadResult, err error) {
	defer c.alone()()
	if c.beforeHead != nil {
		c.beforeHead()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var up []*block.Block
	for x := h; !c.executed[x]; {
		b := c.blocks[x]
		if b == nil {
			return r, fmt.Errorf("%w %s", chain.ErrUnknownBlock, x)
		}
		up, x = append(up, b), b.Parent()
	}
	for i := len(up) - 1; i >= 0; i-- {
		if err := c.unknown(up[i].Number()); err != nil {
			return r, err
		}
		if up[i].Header.Root == invalidRoot && c.built[up[i].Hash()] == nil {
			r.Failed, r.Reason = up[i].Hash(), chain.ErrInvalidBlock
			return r, nil
		}
		c.executed[up[i].Hash()] = true
		r.Executed = append(r.Executed, up[i].Hash())
	}
	c.head = h
	return r, nil
}

// unknown is why a block of this height cannot be executed here.
func (c *fakeChain) unknown(height uint64) error {
	if c.damaged != nil {
		if err := c.damaged(); err != nil {
			return fmt.Errorf("block %d: read headers: %w", height, err)
		}
	}
	if c.upgrade == 0 || height < c.upgrade {
		return nil
	}
	return chain.ErrUnknownUpgrade{Height: c.upgrade, Name: "later", Digest: common.Hash{1}}
}

func (c *fakeChain) SetSafe(common.Hash) { defer c.alone()() }

func (c *fakeChain) Finalize(f block.FinalUpdate) error {
	defer c.alone()()
	if c.beforeFinalize != nil {
		c.beforeFinalize(f)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range f.Hashes {
		if !c.executed[h] {
			return fmt.Errorf("finalize %s, which is not executed", h)
		}
	}
	return c.finalize(f)
}

func (c *fakeChain) finalize(f block.FinalUpdate) error {
	gone := make(map[common.Hash]bool)
	for _, h := range f.Hashes {
		b := c.blocks[h]
		tip := c.genesis
		if n := len(c.final); n > 0 {
			tip = c.final[n-1].Hash()
		}
		if b == nil || b.Parent() != tip {
			return fmt.Errorf("%w: %s", chain.ErrNotOnLIB, h)
		}
		c.final = append(c.final, b)
		gone[h] = true
	}
	dropped := make(map[common.Hash]bool)
	for _, h := range f.Drop {
		if b := c.blocks[h]; b != nil && b.Number() <= uint64(len(c.final)) && c.final[b.Number()-1].Hash() == h {
			continue // as the chain does: a block that came again may have become final before it was found to be of no use
		}
		dropped[h] = true
	}
	for again := len(dropped) > 0; again; { // with all that stands on them
		again = false
		for _, h := range c.reversible {
			if b := c.blocks[h]; b != nil && !dropped[h] && dropped[b.Parent()] {
				dropped[h], again = true, true
			}
		}
	}
	for h := range dropped {
		gone[h] = true
		delete(c.blocks, h)
		delete(c.executed, h)
	}
	var left []common.Hash
	for _, h := range c.reversible {
		if !gone[h] {
			left = append(left, h)
		}
	}
	c.reversible = left
	if len(f.Hashes) > 0 {
		c.root, c.qc, c.fc = f.Root, f.QC, f.FC
	}
	return nil
}

func (c *fakeChain) ImportFinal(_ context.Context, blocks []*block.Block, f block.FinalUpdate) error {
	defer c.alone()()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(blocks) != len(f.Hashes) {
		return errors.New("a range and its update differ")
	}
	c.imports++
	for i, b := range blocks {
		if err := c.unknown(b.Number()); err != nil {
			return err
		}
		if b.Hash() != f.Hashes[i] {
			return errors.New("a range and its update differ")
		}
		c.put(b)
		c.executed[b.Hash()] = true
	}
	c.head = blocks[len(blocks)-1].Hash()
	return c.finalize(f)
}

// announced tells, as the real chain does from headers alone, which schedule a block of this height must carry.
func (c *fakeChain) announced(parent common.Hash, height uint64) block.Schedule {
	if !c.params.EpochEnd(height) {
		return nil
	}
	var up []*block.Block
	for x := parent; x != c.genesis; {
		b := c.blocks[x]
		up, x = append(up, b), b.Parent()
	}
	var pendingAt, adoptedAt, finalSlot uint64
	for i := len(up) - 1; i >= 0; i-- {
		b := up[i]
		if c.params.EpochEnd(b.Number() - 1) {
			switch {
			case adoptedAt > 0 && finalSlot >= adoptedAt:
				pendingAt, adoptedAt = 0, 0
			case adoptedAt == 0 && pendingAt > 0 && finalSlot >= pendingAt:
				adoptedAt = b.Slot()
			}
		}
		if fc := b.Record.FC; fc != nil {
			finalSlot = max(finalSlot, fc.Target.Slot)
		}
		if len(b.Record.Next) > 0 {
			pendingAt = b.Slot()
		}
	}
	if pendingAt > 0 {
		return nil
	}
	n := len(c.schedule)
	next := make(block.Schedule, n)
	for i := range next {
		next[i] = c.schedule[(i+int(height/c.params.EpochBlocks))%n]
	}
	return next
}

func (c *fakeChain) Build(_ context.Context, r chain.BuildRequest) (*chain.Built, error) {
	defer c.alone()()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.executed[r.Parent] {
		return nil, errors.New("parent is not executed")
	}
	var height uint64
	if p := c.blocks[r.Parent]; p != nil {
		height = p.Number()
	}
	height++
	if err := c.unknown(height); err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	var txs types.Transactions
	var senders []common.Address
	for i := range c.txs {
		if !r.EmptyOnly {
			txs = append(txs, types.NewTx(&types.LegacyTx{Nonce: height, Gas: uint64(i)}))
			senders = append(senders, r.Coinbase)
		}
	}
	b := assemble(&c.params, r.Parent, height, r.Slot, r.Coinbase, &block.Record{
		QC: r.QC, FC: r.FC, Recovery: r.Recovery, Next: c.announced(r.Parent, height),
	}, txs, senders)
	if c.spoil {
		b.Header.Root = invalidRoot
	}
	if c.onBuild != nil {
		// No two builds are alike, so that a slot built twice shows.
		_, _ = rand.Read(b.Header.MixDigest[:])
		b = &block.Block{SealedHeader: &block.SealedHeader{Header: b.Header, Record: b.Record}, Transactions: txs, Senders: senders}
		c.onBuild(b)
	}
	return &chain.Built{Block: b}, nil
}

func (c *fakeChain) InsertBuilt(x *chain.Built, seal [block.SealLength]byte) error {
	defer c.alone()()
	b := &block.Block{SealedHeader: &block.SealedHeader{Header: x.Block.Header, Record: x.Block.Record, Seal: seal}, Transactions: x.Block.Transactions, Senders: x.Block.Senders}
	c.mu.Lock()
	c.built[b.Hash()] = b
	c.mu.Unlock()
	return c.Add([]*block.Block{b})
}

// assemble makes an unsealed block; record lacks version, slot and digest.
func assemble(p *block.Parameters, parent common.Hash, height, slot uint64, by common.Address, r *block.Record, txs types.Transactions, senders []common.Address) *block.Block {
	r.Version, r.Slot, r.BodyDigest = block.RecordVersion, slot, block.BodyDigest(txs, senders)
	extra := r.Hash()
	return &block.Block{SealedHeader: &block.SealedHeader{Header: &types.Header{
		ParentHash: parent, Number: new(big.Int).SetUint64(height), Coinbase: by, Time: p.HeaderTime(slot), GasLimit: p.GasLimit,
		Extra: extra[:], Difficulty: new(big.Int), UncleHash: types.EmptyUncleHash, TxHash: block.TxRoot(txs), Root: parent,
	}, Record: r}, Transactions: txs, Senders: senders}
}

// sealBy returns the block with a header sealed by the signer.
func sealBy(b *block.Block, s *signer.Local) *block.Block {
	h := &block.SealedHeader{Header: b.Header, Record: b.Record}
	h.Seal, _ = s.SignSeal(labDomain.SealDigest(h.Hash()))
	return &block.Block{SealedHeader: h, Transactions: b.Transactions, Senders: b.Senders}
}

func newSigners(n int) (out []*signer.Local, s block.Schedule) {
	for range n {
		l, err := signer.Generate(rand.Reader)
		if err != nil {
			panic(err)
		}
		out = append(out, l)
		s = append(s, block.Producer{Account: l.Account(), Key: l.VoteKey()})
	}
	return out, s
}
