package block

import "github.com/ethereum/go-ethereum/common"

// FinalUpdate moves the last irreversible block: what consensus decided, chain executes and the store makes durable
// in one commit.
type FinalUpdate struct {
	Hashes []common.Hash // newly final, oldest first; the last is the new LIB
	QC, FC *Certificate  // the proof that the last of Hashes is final
	Root   []byte        // consensus/dpos.Root of the new LIB, opaque to the store
	Drop   []common.Hash // blocks on losing branches, to delete
}
