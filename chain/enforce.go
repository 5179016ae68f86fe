package chain

import (
	"fmt"
	"math/big"
	"math/bits"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
)

// ErrUnknownUpgrade says that the producers voted for an upgrade that this node has no description of, and that a block
// at or above its height is due. Neither the block nor who sent it is to blame. Test with errors.As.
type ErrUnknownUpgrade struct {
	Height uint64 // the first block that follows it
	Name   string
	Digest common.Hash // what the producers voted for: genesis.Upgrade.Digest
}

func (e ErrUnknownUpgrade) Error() string {
	return fmt.Sprintf("the producers voted for upgrade %q with digest %s from block %d on and this node does not know it: "+
		"put the genesis.json that describes it in place, or install the version that knows it, and start again; if nobody has the description, "+
		"operators of a quorum of the producers agree to call it off, and every node's genesis.json says so under upgrades: "+
		`{"height": %d, "name": %q, "withdrawn": "%s"}`, e.Name, e.Digest, e.Height, e.Height, e.Name, e.Digest)
}

// enforce changes the state of a block's parent by what comes into force with the block: the code and then the
// settings that were decided for exactly this height. It is the first thing that happens in a block. An upgrade
// decided later replaces the code of one decided before.
func (r *blockRules) enforce(db *state.StateDB) {
	for i := range r.upgrades {
		if u := &r.upgrades[i]; u.height == r.height {
			for a, code := range u.description.Code {
				db.SetCode(a, code, tracing.CodeChangeUnspecified)
			}
		}
	}
	var due map[string]*setting
	for i := range r.settings {
		if s := &r.settings[i]; s.height == r.height {
			if due == nil {
				due = make(map[string]*setting)
			}
			due[s.name] = s // the last decision wins
		}
	}
	if due != nil && db.Exist(contracts.ProducersAddress) {
		writeSettings(db, due)
	}
}

// writeSettings gives Producers the settings that are due. Seats and the least number of producers are taken together:
// if there would be fewer seats than that, both stay.
func writeSettings(db *state.StateDB, due map[string]*setting) {
	old := contracts.ReadSettings(db)
	x := old
	take := func(name string, to *uint16) {
		if s := due[name]; s != nil {
			*to = uint16(s.value.Uint64()) //nolint:gosec // within the bounds of genesis.DecodeParameter
		}
	}
	take(genesis.Seats, &x.Seats)
	take(genesis.MinSeats, &x.MinProducers)
	if x.MinProducers > x.Seats {
		x.Seats, x.MinProducers = old.Seats, old.MinProducers
	}
	take(genesis.JailTurns, &x.JailTurns)
	if s := due[genesis.SlashPercent]; s != nil {
		x.SlashPercent = uint8(s.value.Uint64()) //nolint:gosec // at most 100
	}
	if x != old {
		contracts.WriteSettings(db, x)
	}
	if s := due[genesis.MinStake]; s != nil {
		contracts.WriteMinStake(db, s.value)
	}
}

// PrepareState changes a state as the block at a height above parent finds it when its execution begins: what comes
// into force with that block is applied. db is the state after parent, or what a simulation made of it; the rules are
// those of parent's own state, whatever db holds. Calls on the state after a block do not want this.
func (c *Chain) PrepareState(db *state.StateDB, parent *types.Header, height uint64) error {
	r, err := c.rulesOn(c.asked, parent.Root, height, c.readerAt(parent))
	if err != nil {
		return err
	}
	r.enforce(db)
	db.Finalise(c.config.Rules(new(big.Int).SetUint64(height), true, parent.Time))
	return nil
}

// watch tells the log what was newly decided as of a new head, and warns again and again, ever closer to its height,
// of an upgrade that this node does not know. The executor calls it.
func (c *Chain) watch(h *types.Header) {
	d, err := c.decidedAt(h)
	if err != nil {
		c.log.Warn("decided changes cannot be read", zapHeight(h.Number.Uint64()), zapError(err))
		return
	}
	head, fresh := h.Number.Uint64(), d != c.watched
	var told uint64
	if c.watched != nil && len(c.watched.changes) > 0 {
		told = c.watched.changes[len(c.watched.changes)-1].Number
	}
	for i := range d.changes {
		if d.changes[i].Number > told {
			c.logChange(&d.changes[i], d.invalid[i], head)
		}
		if x := &d.changes[i]; x.Height == head && d.invalid[i] == nil {
			c.log.Info("a change that the producers voted for is in force", zapHeight(head), zap.String("name", x.Name))
		}
	}
	for i := range d.upgrades {
		u := &d.upgrades[i]
		if u.description != nil || u.height <= head {
			continue
		}
		if left := u.height - head; fresh || bits.OnesCount64(left) == 1 {
			c.log.Warn("the producers voted for an upgrade that this node does not know: it stops before that block; put the genesis.json "+
				"that describes the upgrade in place, or install the version that knows it, and start again",
				zap.String("upgrade", u.name), zap.Stringer("digest", u.digest), zap.Uint64("block", u.height), zap.Uint64("blocks_left", left))
		}
	}
	c.watched = d
}

func (c *Chain) logChange(x *contracts.Change, invalid error, head uint64) {
	fields := []zap.Field{zap.String("name", x.Name), zap.Uint64("block", x.Height)}
	switch {
	case x.Height <= head: // before this node started
	case invalid != nil:
		c.log.Warn("a change that was voted for has no effect", append(fields, zapError(invalid))...)
	default:
		c.log.Info("the producers voted for a change", fields...)
	}
}
