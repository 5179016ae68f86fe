package blocksync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// The model: real blocks with real certificates' shape, whose validity is decided by the first bytes of the seal. A
// block of height h carries QC(h-1) and FC(h-2), so LIB lags the head by two blocks, or by lag more.

var (
	errModelInvalid       = errors.New("model: invalid")
	errModelParent        = errors.New("model: unknown parent")
	errModelKnown         = errors.New("model: known")
	errModelBelow         = errors.New("model: below LIB")
	errModelFuture        = errors.New("model: future")
	errModelDisk          = errors.New("model: no space left")
	errModelMissing       = errors.New("model: not found")
	modelGenesis          = makeBlock(nil, 0, 0, nil, nil, nil, 0)
	modelParams           = block.Parameters{ChainID: 7, SlotMillis: 500, MaxBlockBytes: 4 << 20}
	_               error = (*corruptError)(nil)
)

type corruptError struct{ height uint64 }

func (c *corruptError) Error() string {
	return fmt.Sprintf("model: record of height %d is corrupt", c.height)
}

func modelCorrupt(err error) (uint64, bool) {
	var c *corruptError
	if errors.As(err, &c) {
		return c.height, true
	}
	return 0, false
}

// modelSeal judges a seal: the model's are the block's hash.
func modelSeal(h *block.SealedHeader) error {
	if common.BytesToHash(h.Seal[:32]) != h.Hash() {
		return fmt.Errorf("%w: seal of %d", errModelInvalid, h.Number())
	}
	return nil
}

func modelClassify(err error) Verdict {
	switch {
	case errors.Is(err, errModelInvalid):
		return VerdictInvalid
	case errors.Is(err, errModelParent):
		return VerdictUnknownParent
	case errors.Is(err, errModelKnown):
		return VerdictKnown
	case errors.Is(err, errModelFuture):
		return VerdictFuture
	case errors.Is(err, errModelBelow):
		return VerdictIrrelevant
	}
	return VerdictOverloaded
}

// makeBlock makes a sealed block; salt tells branches apart, size pads it with one transaction.
func makeBlock(parent *block.Block, slot uint64, size int, qc, fc *block.Certificate, txs types.Transactions, salt byte, change ...func(*types.Header)) *block.Block {
	h := &types.Header{Number: new(big.Int), Difficulty: new(big.Int), GasLimit: 1, BaseFee: new(big.Int)}
	if parent != nil {
		h.ParentHash = parent.Hash()
		h.Number.SetUint64(parent.Number() + 1)
	}
	if size > 0 {
		txs = append(txs, types.NewTx(&types.LegacyTx{Nonce: slot, Gas: 1, GasPrice: new(big.Int), Value: new(big.Int), Data: make([]byte, size)}))
	}
	h.TxHash = block.TxRoot(txs)
	h.MixDigest[0] = salt
	for _, f := range change {
		f(h)
	}
	senders := make([]common.Address, len(txs))
	r := &block.Record{Version: block.RecordVersion, Slot: slot, QC: qc, FC: fc, BodyDigest: block.BodyDigest(txs, senders)}
	h.Extra = r.Hash().Bytes()
	s := &block.SealedHeader{Header: h, Record: r}
	hash := s.Hash()
	copy(s.Seal[:32], hash[:])
	b, err := block.DecodeBlock((&block.Block{SealedHeader: s, Transactions: txs, Senders: senders}).Encode(), 0)
	if err != nil {
		panic(err)
	}
	return b
}

func certOn(kind block.VoteKind, b *block.Block) *block.Certificate {
	return &block.Certificate{Link: block.Link{Kind: kind, Source: b.Point(), Target: b.Point()}, Bitmaps: [][]byte{{7}}}
}

type chainShape struct {
	size  int    // padding bytes of each block
	salt  byte   // tells branches apart
	noFC  bool   // no certificates at all
	every uint64 // only heights divisible by this carry an FC (0: all)
	jump  uint64 // added to the slot of the first block
	gas   uint64 // used by each block
}

// extend makes n blocks on top of chain (which begins with block 0).
func extend(chain []*block.Block, n int, s chainShape) []*block.Block {
	chain = slices.Clone(chain)
	for i := range n {
		tip := chain[len(chain)-1]
		var qc, fc *block.Certificate
		height := tip.Number() + 1
		if !s.noFC {
			if height >= 2 {
				qc = certOn(block.Prevote, tip)
			}
			if height >= 3 && (s.every == 0 || height%s.every == 0) {
				fc = certOn(block.Precommit, chain[len(chain)-2])
			}
		}
		slot := tip.Slot() + 1
		if i == 0 {
			slot += s.jump
		}
		chain = append(chain, makeBlock(tip, slot, s.size, qc, fc, nil, s.salt, func(h *types.Header) { h.GasUsed = s.gas }))
	}
	return chain
}

func newChain(n int, s chainShape) []*block.Block { return extend([]*block.Block{modelGenesis}, n, s) }

// modelNode is Driver and Blocks of one node.
type modelNode struct {
	mu        sync.Mutex
	blocks    map[common.Hash]*block.Block
	final     []*block.Block // by height
	pruned    uint64         // first height kept
	head      *block.Block
	justified block.Point
	fc        *block.Certificate
	own       []block.Vote

	// Faults and records.
	disk       bool // AddRange and AddBlock fail with a full disk
	gate       chan struct{}
	corrupt    map[uint64]bool
	lost       map[common.Hash]bool // Block fails: dropped by a fork switch
	ranges     int                  // AddRange calls
	added      []uint64             // heights, by AddBlock
	addedTwice int
	checked    int
	votes      []block.Vote
	offered    int // votes given to AddVotes
	onVotes    func([]block.Vote)
	replaced   []uint64
	replacing  int  // Replace calls
	fromTheEnd bool // a corrupt block can be placed only if the next one is whole
	onDamage   func(height uint64)
	onReplaced func()
	onCheck    func(*block.SealedHeader)
	refuse     map[common.Hash]bool // AddBlock finds the body invalid
	maxRange   int                  // most blocks seen in one AddRange
}

func newModel(chain []*block.Block) *modelNode {
	n := &modelNode{blocks: map[common.Hash]*block.Block{}, final: []*block.Block{modelGenesis}, head: modelGenesis,
		corrupt: map[uint64]bool{}, lost: map[common.Hash]bool{}}
	n.blocks[modelGenesis.Hash()] = modelGenesis
	for _, b := range chain {
		if b.Number() > 0 {
			n.insert(b)
		}
	}
	return n
}

func (n *modelNode) lib() *block.Block { return n.final[len(n.final)-1] }

// insert enters a block whose parent is known.
func (n *modelNode) insert(b *block.Block) {
	n.blocks[b.Hash()] = b
	if qc := b.Record.QC; qc != nil && qc.Target.Slot > n.justified.Slot {
		n.justified = qc.Target
	}
	if fc := b.Record.FC; fc != nil {
		n.finalize(fc)
	}
	if b.Parent() == n.head.Hash() && (b.Record.QC == nil || b.Record.QC.Target.Hash == b.Parent()) {
		n.head = b
		return
	}
	n.choose()
}

func (n *modelNode) finalize(fc *block.Certificate) {
	target := n.blocks[fc.Target.Hash]
	if target == nil || target.Number() <= n.lib().Number() {
		return
	}
	var path []*block.Block
	for b := target; b.Number() > n.lib().Number(); b = n.blocks[b.Parent()] {
		path = append(path, b)
	}
	slices.Reverse(path)
	n.final = append(n.final, path...)
	n.fc = fc
	if fc.Target.Slot > n.justified.Slot {
		n.justified = fc.Target
	}
}

// choose prefers the branch of the justified block, then height, slot and hash.
func (n *modelNode) choose() {
	root := n.lib()
	if j := n.blocks[n.justified.Hash]; j != nil && n.descends(j, root) {
		root = j
	}
	above := make([]*block.Block, 0, 64)
	for _, b := range n.blocks {
		if b.Number() > root.Number() {
			above = append(above, b)
		}
	}
	slices.SortFunc(above, func(a, b *block.Block) int { return cmp.Compare(a.Number(), b.Number()) })
	in := map[common.Hash]bool{root.Hash(): true}
	best := root
	for _, b := range above {
		if !in[b.Parent()] {
			continue
		}
		in[b.Hash()] = true
		hash, have := b.Hash(), best.Hash()
		if b.Number() > best.Number() || b.Slot() < best.Slot() || b.Slot() == best.Slot() && slices.Compare(hash[:], have[:]) < 0 {
			best = b
		}
	}
	n.head = best
}

func (n *modelNode) descends(b, a *block.Block) bool {
	for b != nil && b.Number() > a.Number() {
		if b.Number() < uint64(len(n.final)) {
			return n.final[b.Number()].Hash() == b.Hash() && n.final[a.Number()].Hash() == a.Hash()
		}
		b = n.blocks[b.Parent()]
	}
	return b != nil && b.Hash() == a.Hash()
}

func (n *modelNode) CheckHeader(h *block.SealedHeader) error {
	if n.onCheck != nil {
		n.onCheck(h)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checked++
	return n.check(h)
}

func (n *modelNode) check(h *block.SealedHeader) error {
	hash := h.Hash()
	if n.blocks[hash] != nil {
		return errModelKnown
	}
	if h.Number() <= n.lib().Number() {
		return errModelBelow
	}
	parent := n.blocks[h.Parent()]
	if parent == nil {
		return errModelParent
	}
	if common.BytesToHash(h.Seal[:32]) != hash || common.BytesToHash(h.Header.Extra) != h.Record.Hash() || h.Number() != parent.Number()+1 || h.Slot() <= parent.Slot() {
		return fmt.Errorf("%w: header %d", errModelInvalid, h.Number())
	}
	return nil
}

func (n *modelNode) AddBlock(ctx context.Context, b *block.Block) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.disk {
		return errModelDisk
	}
	if err := n.check(b.SealedHeader); err != nil {
		if errors.Is(err, errModelKnown) {
			n.addedTwice++
		}
		return err
	}
	if n.refuse[b.Hash()] || checkWhole(b) != nil {
		return fmt.Errorf("%w: body of %d", errModelInvalid, b.Number())
	}
	n.added = append(n.added, b.Number())
	n.insert(b)
	return nil
}

func (n *modelNode) AddRange(ctx context.Context, blocks []*block.Block, _ Mode) (RangeResult, error) {
	if n.gate != nil {
		select {
		case <-n.gate:
		case <-ctx.Done():
			return RangeResult{}, ctx.Err()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ranges++
	n.maxRange = max(n.maxRange, len(blocks))
	if n.disk {
		return RangeResult{}, errModelDisk
	}
	if len(blocks) > 0 && blocks[0].Number() > n.lib().Number()+1 { // on top of a reversible block
		for _, b := range blocks {
			if err := n.check(b.SealedHeader); err != nil && !errors.Is(err, errModelKnown) {
				return RangeResult{}, err
			} else if err == nil {
				n.insert(b)
			}
		}
		return RangeResult{Applied: n.lib().Number()}, nil
	}
	parent := n.lib()
	last := -1
	for i, b := range blocks {
		if b.Parent() != parent.Hash() || common.BytesToHash(b.Seal[:32]) != b.Hash() || checkWhole(b) != nil {
			return RangeResult{}, fmt.Errorf("%w: block %d in a range", errModelInvalid, b.Number())
		}
		parent = b
		if b.Record.FC != nil {
			for k := i - 1; k >= 0; k-- {
				if blocks[k].Hash() == b.Record.FC.Target.Hash {
					last = max(last, k)
					break
				}
			}
		}
	}
	for i := 0; i <= last; i++ {
		n.insertFinal(blocks[i])
	}
	n.choose()
	return RangeResult{Applied: n.lib().Number(), Rest: len(blocks) - 1 - last}, nil
}

func (n *modelNode) insertFinal(b *block.Block) {
	n.blocks[b.Hash()] = b
	n.final = append(n.final, b)
	if b.Slot() > n.justified.Slot {
		n.justified = b.Point()
	}
	if b.Number() > n.head.Number() {
		n.head = b
	}
}

// AddVotes judges by the first byte of the signature: 0xB0 + verdict, anything else is good.
func (n *modelNode) AddVotes(vs []block.Vote) ([]VoteVerdict, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.onVotes != nil {
		n.onVotes(vs)
	}
	n.offered += len(vs)
	out := make([]VoteVerdict, len(vs))
	for i, v := range vs {
		switch k := VoteVerdict(v.Signature[0] - 0xB0); {
		case v.Signature[0] > 0xB0 && k <= VoteForged:
			out[i] = k
		case slices.Contains(n.votes, v):
			out[i] = VoteKnown
		default:
			n.votes = append(n.votes, v)
		}
	}
	return out, nil
}

func (n *modelNode) AddCertificate(c *block.Certificate) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(c.Bitmaps) > 0 && len(c.Bitmaps[0]) > 0 && c.Bitmaps[0][0] == 0 {
		return errModelInvalid
	}
	if n.blocks[c.Target.Hash] == nil {
		return errModelParent
	}
	if c.Kind == block.Precommit {
		n.finalize(c)
		n.choose()
	}
	return nil
}

func (n *modelNode) Status() DriverStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	return DriverStatus{Head: RefOf(n.head.SealedHeader), LIB: RefOf(n.lib().SealedHeader), Justified: n.justified, FC: n.fc, OwnVotes: n.own, Seats: 4}
}

func (n *modelNode) Range(from, to uint64, maxBytes int, fn func(uint64, []byte) error) error {
	total := 0
	for h := from; h <= to; h++ {
		n.mu.Lock()
		if n.corrupt[h] {
			n.mu.Unlock()
			return &corruptError{h}
		}
		if h >= uint64(len(n.final)) {
			n.mu.Unlock()
			return errModelMissing
		}
		raw := n.final[h].Encode()
		n.mu.Unlock()
		if total += len(raw); total > maxBytes && h > from {
			return nil
		}
		if err := fn(h, raw); err != nil {
			return err
		}
		clear(raw) // valid during the call only
	}
	return nil
}

func (n *modelNode) FirstHeight() uint64 { n.mu.Lock(); defer n.mu.Unlock(); return n.pruned }

func (n *modelNode) HeaderByHeight(h uint64) (*block.SealedHeader, error) {
	n.mu.Lock()
	corrupt, onDamage := n.corrupt[h], n.onDamage
	if h < uint64(len(n.final)) && !corrupt {
		defer n.mu.Unlock()
		return n.final[h].SealedHeader, nil
	}
	n.mu.Unlock()
	if corrupt && onDamage != nil {
		onDamage(h)
	}
	return nil, errModelMissing
}

func (n *modelNode) Header(h common.Hash) (*block.SealedHeader, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.blocks[h]; b != nil {
		return b.SealedHeader, nil
	}
	return nil, errModelMissing
}

func (n *modelNode) Block(h common.Hash) (*block.Block, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.blocks[h]; b != nil && !n.lost[h] {
		return b, nil
	}
	return nil, errModelMissing
}

func (n *modelNode) Replace(h uint64, b *block.Block) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replacing++
	if n.final[h].Hash() != b.Hash() {
		return errModelInvalid
	}
	if first := h; n.fromTheEnd {
		for n.corrupt[first+1] {
			first++
		}
		if first > h {
			return block.ErrNeighbourFirst{Height: h, First: first, Cause: errModelMissing}
		}
	}
	n.replaced = append(n.replaced, h)
	delete(n.corrupt, h)
	if n.onReplaced != nil {
		n.onReplaced()
	}
	return nil
}

func (n *modelNode) do(f func()) { n.mu.Lock(); defer n.mu.Unlock(); f() }

// produce adds our own next block and returns it.
func (n *modelNode) produce(s chainShape) *block.Block {
	n.mu.Lock()
	defer n.mu.Unlock()
	var qc, fc *block.Certificate
	if !s.noFC && n.head.Number() >= 1 {
		qc = certOn(block.Prevote, n.head)
		if p := n.blocks[n.head.Parent()]; p != nil && p.Number() > n.lib().Number() {
			fc = certOn(block.Precommit, p)
		}
	}
	b := makeBlock(n.head, n.head.Slot()+1+s.jump, s.size, qc, fc, nil, s.salt)
	n.insert(b)
	return b
}

// modelPool is a Pool; a transaction of gas 666 is invalid, of gas 1 irrelevant.
type modelPool struct {
	mu  sync.Mutex
	txs map[common.Hash]*types.Transaction
	add int // transactions given to Add
}

func newPool(txs ...*types.Transaction) *modelPool {
	p := &modelPool{txs: map[common.Hash]*types.Transaction{}}
	for _, tx := range txs {
		p.txs[tx.Hash()] = tx
	}
	return p
}

func (p *modelPool) Pending() []common.Hash {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]common.Hash, 0, len(p.txs))
	for h := range p.txs {
		out = append(out, h)
	}
	return out
}

func (p *modelPool) Get(h common.Hash) *types.Transaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.txs[h]
}

func (p *modelPool) Add(txs []*types.Transaction, _ bool) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	errs := make([]error, len(txs))
	for i, tx := range txs {
		p.add++
		switch {
		case tx.Gas() == 666:
			errs[i] = errModelInvalid
		case tx.Gas() == 1:
			errs[i] = errModelBelow
		default:
			p.txs[tx.Hash()] = tx
		}
	}
	return errs
}

func (p *modelPool) len() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.txs) }

func makeTx(nonce, gas uint64) *types.Transaction {
	key, _ := crypto.ToECDSA(crypto.Keccak256([]byte("model")))
	return types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(7)), &types.DynamicFeeTx{
		ChainID: big.NewInt(7), Nonce: nonce, Gas: gas, GasFeeCap: new(big.Int), GasTipCap: new(big.Int), Value: new(big.Int)})
}

// checkWhole checks that a block's parts belong to each other: record to header, body to record.
func checkWhole(b *block.Block) error {
	switch {
	case common.BytesToHash(b.Header.Extra) != b.Record.Hash() || len(b.Header.Extra) != common.HashLength:
		return fmt.Errorf("record of block %d is not the one its header names", b.Number())
	case block.BodyDigest(b.Transactions, b.Senders) != b.Record.BodyDigest:
		return fmt.Errorf("body of block %d is not the one its record names", b.Number())
	}
	return nil
}
