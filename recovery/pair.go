package recovery

import "github.com/ethereum/go-ethereum/common"

// Relation says how two recoveries stand to each other.
type Relation uint8

const (
	Same       Relation = iota + 1 // one statement
	Follows                        // the second has the first as its predecessor
	Precedes                       // the first has the second as its predecessor
	Contradict                     // two of one chain with one predecessor: at most one may ever be applied
	Apart                          // of one chain, neither of the above: others lie between, or they are of different branches
	OtherChain                     // of different chains
)

func (r Relation) String() string {
	return map[Relation]string{
		Same: "the same", Follows: "follows", Precedes: "precedes", Contradict: "contradict", Apart: "apart", OtherChain: "of another chain",
	}[r]
}

// Relate says how two recoveries stand to each other. For two that contradict each other it lists who signed both, in rising
// order: each of these accounts broke the rule that a recovery key signs one successor of a recovery only, and the pair proves
// it, if the signatures are good (Signed.CheckSignatures). With thresholds t > 2k/3 that is over a third of the keys.
func Relate(a, b *Signed) (r Relation, both []common.Address) {
	x, y := &a.Statement, &b.Statement
	switch {
	case x.Genesis != y.Genesis:
		return OtherChain, nil
	case a.Hash() == b.Hash():
		return Same, nil
	case y.Previous == a.Hash():
		return Follows, nil
	case x.Previous == b.Hash():
		return Precedes, nil
	case x.Previous == y.Previous:
		return Contradict, a.SignersOf(b.Signers())
	}
	return Apart, nil
}

// CheckBaseBehind checks that a base is that of the recovery before, which made it final, or lies above it. Whether it descends from it
// is asked of a chain. Errors wrap ErrInvalid.
func CheckBaseBehind(base Block, before *Signed) error {
	final := before.Statement.Base.Block
	if base == final || base.Height > final.Height && base.Slot > final.Slot {
		return nil
	}
	return invalid("the base is the %s, and recovery %s before it made the %s final: start a node with a folder that holds that block, and recovery %s applied, beside the survivors until they have it; then report and prepare again",
		base, before.Hash(), final, before.Hash())
}
