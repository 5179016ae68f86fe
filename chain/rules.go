package chain

import (
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
)

// ruleBook tells which parameters and upgrades the producers voted into force, from the storage of Members in the
// state of a block's parent. It reads committed states alone, never one that a caller changed, and keeps what it read:
// by the root of the state, and by that of the contract's storage, which most blocks leave as it is. A state that
// could not be read leaves nothing behind. Safe for concurrent use.
//
// A chain has two: one for executing and building blocks, and one for all who ask. What readers of old blocks make of
// the state history never reaches consensus, and they cannot push out what execution needs.
type ruleBook struct {
	base      block.Parameters // of genesis
	described []genesis.Upgrade
	known     map[common.Hash]*genesis.Upgrade // the same by digest
	withdrawn map[votedDigest]bool             // what the file says the operators take as withdrawn
	byState   *lru.Cache[common.Hash, *decided]
	byStorage *lru.Cache[common.Hash, *decided]
}

// votedDigest is an upgrade as a vote names it.
type votedDigest struct {
	height uint64
	name   string
	digest common.Hash
}

func newRuleBook(base block.Parameters, upgrades []genesis.Upgrade) *ruleBook {
	b := &ruleBook{
		base: base, known: make(map[common.Hash]*genesis.Upgrade, len(upgrades)), withdrawn: make(map[votedDigest]bool),
		byState:   lru.NewCache[common.Hash, *decided](rulesByState),
		byStorage: lru.NewCache[common.Hash, *decided](rulesByStorage),
	}
	for i := range upgrades {
		u := &upgrades[i]
		if u.Withdrawn != (common.Hash{}) {
			b.withdrawn[votedDigest{u.Height, u.Name, u.Withdrawn}] = true
			continue
		}
		b.described = append(b.described, *u)
		b.known[u.Digest()] = u
	}
	return b
}

// at is what was decided as of a state. open is asked for the state's reader if it must be read: one account, and the
// list if it is not the one of a state read before.
func (b *ruleBook) at(root common.Hash, open func() (state.Reader, error)) (*decided, error) {
	if d, ok := b.byState.Get(root); ok {
		return d, nil
	}
	r, err := open()
	if err != nil {
		return nil, err
	}
	account, err := r.Account(contracts.MembersAddress)
	if err != nil {
		return nil, fmt.Errorf("read the account of Members: %w", err)
	}
	storage := types.EmptyRootHash
	if account != nil {
		storage = account.Root
	}
	d, ok := b.byStorage.Get(storage)
	if !ok {
		var changes []contracts.Change
		if storage != types.EmptyRootHash {
			if changes, err = contracts.ReadChanges(r); err != nil {
				return nil, err
			}
		}
		d = b.decide(changes)
		b.byStorage.Add(storage, d)
	}
	b.byState.Add(root, d)
	return d, nil
}

// decided is the list of Members and what follows from it. It never changes.
type decided struct {
	changes  []contracts.Change // as the contract has them, oldest decision first
	invalid  []error            // by place in changes: why it has no effect; nil if it has one
	settings []setting          // of changes and of known upgrades, in the same order
	upgrades []votedUpgrade     // likewise, without those withdrawn
}

// setting gives a parameter a value from a height on.
type setting struct {
	height uint64
	name   string
	value  *big.Int
}

// votedUpgrade is in force from its height on. description is nil if this node has none.
type votedUpgrade struct {
	votedDigest
	description *genesis.Upgrade
}

func (u *votedUpgrade) unknown() ErrUnknownUpgrade {
	return ErrUnknownUpgrade{Height: u.height, Name: u.name, Digest: u.digest}
}

// decide finds what of a list has an effect.
func (b *ruleBook) decide(changes []contracts.Change) *decided {
	d := &decided{changes: changes, invalid: make([]error, len(changes))}
	market := !b.base.BaseFeeFixed
	for i := range changes {
		c := &changes[i]
		switch c.Kind {
		case contracts.ProposeParameter:
			v, err := genesis.DecodeParameter(c.Name, c.Value, market)
			if d.invalid[i] = err; err == nil {
				d.settings = append(d.settings, setting{c.Height, c.Name, v})
			}
		case contracts.ProposeUpgrade:
			d.invalid[i] = b.upgrade(d, changes, i)
		default:
			d.invalid[i] = fmt.Errorf("kind %d is neither a parameter nor an upgrade", c.Kind)
		}
	}
	return d
}

// upgrade enters the upgrade at place i of the list. An error says why it has no effect.
func (b *ruleBook) upgrade(d *decided, changes []contracts.Change, i int) error {
	c := &changes[i]
	if c.Name == "" || len(c.Value) != common.HashLength {
		return fmt.Errorf("an upgrade has a name and a digest of %d bytes", common.HashLength)
	}
	for _, o := range changes[i+1:] { // the last decision about a name and a height stands
		if o.Kind == c.Kind && o.Name == c.Name && o.Height == c.Height && len(o.Value) == common.HashLength {
			return fmt.Errorf("a later decision replaced it")
		}
	}
	u := votedUpgrade{votedDigest: votedDigest{c.Height, c.Name, common.Hash(c.Value)}}
	switch {
	case u.digest == common.Hash{}:
		return fmt.Errorf("the upgrade was withdrawn")
	case b.withdrawn[u.votedDigest]:
		return fmt.Errorf("genesis.json says that the upgrade is withdrawn")
	}
	u.description = b.known[u.digest]
	if x := u.description; x != nil {
		if x.Height != u.height || x.Name != u.name {
			return fmt.Errorf("the digest is that of upgrade %q at block %d", x.Name, x.Height)
		}
		for _, name := range genesis.Votable() {
			text, ok := x.Parameters[name]
			if !ok {
				continue
			}
			v, err := genesis.ParseParameter(name, text, !b.base.BaseFeeFixed)
			if err != nil { // genesis refuses such a file
				return err
			}
			d.settings = append(d.settings, setting{u.height, name, v})
		}
	}
	d.upgrades = append(d.upgrades, u)
	return nil
}

// unknown is the first upgrade in force at a height that this node has no description of; nil if there is none.
func (d *decided) unknown(height uint64) *votedUpgrade {
	var first *votedUpgrade
	for i := range d.upgrades {
		u := &d.upgrades[i]
		if u.description == nil && u.height <= height && (first == nil || u.height < first.height) {
			first = u
		}
	}
	return first
}

// winner is the value of a parameter at a height: that of the greatest height not above it, of several the one decided
// last. nil: genesis' own.
func (d *decided) winner(name string, height uint64) *setting {
	var best *setting
	for i := range d.settings {
		s := &d.settings[i]
		if s.name == name && s.height <= height && (best == nil || s.height >= best.height) {
			best = s
		}
	}
	return best
}

// parameters are those of the block at a height, base being genesis'.
func (d *decided) parameters(base block.Parameters, height uint64) block.Parameters {
	if len(d.settings) == 0 {
		return base
	}
	for name, to := range map[string]*uint64{
		genesis.GasLimit: &base.GasLimit, genesis.BlockBytes: &base.MaxBlockBytes, genesis.BaseFee: &base.BaseFee,
	} {
		if s := d.winner(name, height); s != nil {
			*to = s.value.Uint64()
		}
	}
	return base
}

// blockRules are what holds for one block.
type blockRules struct {
	*decided
	params block.Parameters
	height uint64
}

// rulesOn are the rules of the block at a height on a parent with this state. The error is an ErrUnknownUpgrade if
// this node lacks one of them, or says why the state cannot be read; neither is a fault of the block.
func (c *Chain) rulesOn(book *ruleBook, root common.Hash, height uint64, open func() (state.Reader, error)) (*blockRules, error) {
	d, err := book.at(root, open)
	if err != nil {
		return nil, fmt.Errorf("rules of block %d: %w", height, err)
	}
	if u := d.unknown(height); u != nil {
		return nil, u.unknown()
	}
	return &blockRules{d, d.parameters(c.params, height), height}, nil
}

// readerAt reads a committed state, in memory, on disk or in the history.
func (c *Chain) readerAt(h *types.Header) func() (state.Reader, error) {
	return func() (state.Reader, error) {
		db, err := c.StateAt(h)
		if err != nil {
			return nil, err
		}
		return db.Reader(), nil
	}
}

func (c *Chain) decidedAt(parent *types.Header) (*decided, error) {
	d, err := c.asked.at(parent.Root, c.readerAt(parent))
	if err != nil {
		return nil, fmt.Errorf("decided changes as of block %s: %w", parent.Number, err)
	}
	return d, nil
}

// ParamsAt are the parameters of a child of parent: those of genesis and what was voted since. An upgrade that this
// node does not know adds nothing here; it is execution that refuses its blocks.
func (c *Chain) ParamsAt(parent *types.Header) (block.Parameters, error) {
	return c.ParamsFor(parent, parent.Number.Uint64()+1)
}

// ParamsFor are the parameters of a block at a height above base, if nothing more is decided before it.
func (c *Chain) ParamsFor(base *types.Header, height uint64) (block.Parameters, error) {
	d, err := c.decidedAt(base)
	if err != nil {
		return block.Parameters{}, err
	}
	return d.parameters(c.params, height), nil
}

// Decision is one change that the producers voted for.
type Decision struct {
	contracts.Change
	InForce bool  // for the block that Decisions are asked for
	Known   bool  // a parameter, or an upgrade that this node has a description of or takes as withdrawn
	Invalid error // why it has no effect; nil if it has one from its height on
}

// Decisions are the changes decided as of parent, oldest decision first, as they hold for its child.
func (c *Chain) Decisions(parent *types.Header) ([]Decision, error) {
	d, err := c.decidedAt(parent)
	if err != nil {
		return nil, err
	}
	out := make([]Decision, len(d.changes))
	for i, x := range d.changes {
		digest := common.BytesToHash(x.Value)
		known := x.Kind == contracts.ProposeParameter || c.rules.known[digest] != nil || c.rules.withdrawn[votedDigest{x.Height, x.Name, digest}]
		out[i] = Decision{Change: x, InForce: d.invalid[i] == nil && x.Height <= parent.Number.Uint64()+1, Known: known, Invalid: d.invalid[i]}
	}
	return out, nil
}

// Upgrades are those that this node has a description of, lowest height first.
func (c *Chain) Upgrades() []genesis.Upgrade { return c.rules.described }

// Params are ParamsAt of the executed head. Should its state not be readable, they are the last ones that were.
func (c *Chain) Params() block.Parameters {
	p, err := c.ParamsAt(c.CurrentHeader())
	if err == nil {
		c.lastParams.Store(&p)
		return p
	}
	return *c.lastParams.Load()
}
