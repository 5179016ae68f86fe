package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/store"
	"github.com/bornode/bornode/rpc"
	"github.com/bornode/bornode/transport/tcp"
	"github.com/bornode/bornode/txpool"
)

// FolderReport is what CheckFolder saw beside the blocks.
type FolderReport struct {
	State    chain.StateReport `json:"state"`
	Findings []exit.Finding    `json:"findings"`
}

// folderCheck is one run of CheckFolder.
type folderCheck struct {
	cfg    *config.Config
	blocks *blockstore.Store
	log    *zap.Logger
	gen    *genesis.Genesis // nil: it cannot be read
	used   bool             // the folder has blocks above genesis
	report FolderReport
}

// CheckFolder looks at everything in a stopped node's folder but the blocks, which Fsck of the store reads: genesis,
// keys, state, vote log, evidence of forks, log index, waiting transactions and evidence, topics. It changes nothing. With full it reads the
// state from its root and every key of it. The error says why it could not finish; what is wrong is in the report.
func CheckFolder(ctx context.Context, cfg *config.Config, blocks *blockstore.Store, full bool, log *zap.Logger) (FolderReport, error) {
	c := &folderCheck{cfg: cfg, blocks: blocks, log: log}
	lib, _ := blocks.LIB()
	c.used = lib > 0
	c.checkFormats()
	c.checkGenesis()
	c.checkRecoveries()
	c.checkKeys()
	c.report.Findings = append(c.report.Findings, rpc.CheckLogIndex(cfg.Path(cfg.RPC.LogIndex), c.hashOf)...)
	pool := cfg.Pool
	pool.Journal = cfg.Path(pool.Journal)
	c.report.Findings = append(c.report.Findings, txpool.CheckJournal(&pool)...)
	c.report.Findings = append(c.report.Findings, consensus.CheckForkEvidence(cfg.Path(cfg.Consensus.Dir))...)
	c.checkDuties()
	if err := c.checkState(ctx, full); err != nil {
		return c.report, fmt.Errorf("check the state: %w", err)
	}
	return c.report, c.checkTopics(ctx)
}

// JudgeReceipts tells of receipts that are gone. What has them is synced before the state that comes behind: blocks above the one that
// the state on disk is of may have none yet, and are executed by the next start.
func (r *FolderReport) JudgeReceipts(cfg *config.Config, blocks *blockstore.Report) {
	if blocks.Receiptless == 0 || !r.State.Found || r.State.Height < blocks.ReceiptlessFrom {
		return
	}
	r.Findings = append(r.Findings, exit.Finding{
		Part: "receipts", File: filepath.Join(cfg.Path(cfg.Store.Dir), blockstore.DerivedDir),
		Problem: fmt.Sprintf("%d of the %d final blocks with transactions have no receipts, the first is block %d", blocks.Receiptless, blocks.WithReceipts, blocks.ReceiptlessFrom),
		Remedy:  blockstore.ReceiptsRemedy,
	})
}

// Sound reports that nothing was found that an operator has to deal with, or that cost something.
func (r *FolderReport) Sound() bool {
	for _, f := range r.Findings {
		if !f.Harmless {
			return false
		}
	}
	return true
}

func (c *folderCheck) tell(part, file, problem, remedy string) {
	c.report.Findings = append(c.report.Findings, exit.Finding{Part: part, File: file, Problem: problem, Remedy: remedy})
}

// hashOf is the hash of a final block, zero if it is not known.
func (c *folderCheck) hashOf(height uint64) common.Hash {
	h, err := c.blocks.HeaderByHeight(height)
	if err != nil {
		return common.Hash{}
	}
	return h.Hash()
}

// checkFormats tells of files that say the format of a folder and cannot be read: a start reads them before anything else.
func (c *folderCheck) checkFormats() {
	for _, f := range foldersOf(c.cfg) {
		if err := format.CheckFolder(f.dir, f.kind); err != nil {
			c.tell("format", filepath.Join(f.dir, format.FileName), err.Error(), "the node does not start before this is mended; without the file it starts, and writes it again")
		}
	}
}

func (c *folderCheck) checkGenesis() {
	path := c.cfg.Path(c.cfg.Genesis)
	gen, err := LoadGenesis(c.cfg)
	if err != nil {
		c.tell("genesis", path, err.Error(), "put the network's genesis file there; its digest is that of any other node")
		return
	}
	zero, err := gen.Block()
	if err != nil {
		c.tell("genesis", path, err.Error(), "put the network's genesis file there")
		return
	}
	c.gen = gen
	if hash := c.hashOf(0); hash != (common.Hash{}) && hash != zero.Hash() {
		c.tell("genesis", path, fmt.Sprintf("it makes block 0 %s, the stored one is %s", zero.Hash(), hash), "put the genesis file of this folder's chain there, or give the node another folder")
	}
}

// checkRecoveries looks at the recoveries that the operator applied: a start reads them before anything else.
func (c *folderCheck) checkRecoveries() {
	if c.gen == nil {
		return
	}
	if _, err := loadRecoveries(c.cfg, c.gen); err != nil {
		c.tell("recovery", c.cfg.Path(RecoveryFolder), err.Error(), "the node does not start before this is mended")
	}
}

// checkKeys looks at the key files and, if the node signs, at its vote log.
func (c *folderCheck) checkKeys() {
	path := c.cfg.Path(c.cfg.Keys.Identity)
	_, err := tcp.LoadIdentity(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.used:
		c.tell("keys", path, "the identity key is missing, and the folder has blocks", "put it back from a copy: the next start makes a new one, by which no other node knows this one")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		c.tell("keys", path, err.Error(), "the node does not start before this is mended")
	}
	if c.cfg.Keys.Producer == "" {
		if zero, err := c.zeroBlock(); err == nil {
			c.report.Findings = append(c.report.Findings, consensus.CheckMarksLog(c.cfg.Path(c.cfg.Consensus.Dir), zero.Hash())...)
		}
		return
	}
	path = c.cfg.Path(c.cfg.Keys.Producer)
	s, err := signer.Load(path)
	if err != nil {
		c.tell("keys", path, err.Error(), "the node does not start before this is mended; put the file back from a copy")
		return
	}
	if zero, err := c.zeroBlock(); err == nil {
		c.report.Findings = append(c.report.Findings, consensus.CheckVoteLog(c.cfg.Path(c.cfg.Consensus.Dir), s.Account(), zero.Hash(), c.used)...)
	}
}

// zeroBlock is the block that the genesis file makes, if that could be read.
func (c *folderCheck) zeroBlock() (*block.Block, error) {
	if c.gen == nil {
		return nil, fs.ErrNotExist // told of already
	}
	return c.gen.Block()
}

func (c *folderCheck) checkState(ctx context.Context, full bool) error {
	cfg := c.cfg.Chain
	cfg.Dir = c.cfg.Path(cfg.Dir)
	report, findings, err := chain.CheckState(ctx, cfg, c.blocks, full)
	c.report.State = report
	c.report.Findings = append(c.report.Findings, findings...)
	return err
}

// checkDuties looks at the evidence that waits to be sent.
func (c *folderCheck) checkDuties() {
	path := c.cfg.Path(DutiesFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	lib, _ := c.blocks.LIB()
	if err == nil {
		_, err = decodeDocket(b, lib)
	}
	if err != nil {
		c.tell("evidence", path, fmt.Sprintf("evidence that waits to be sent cannot be read: %v", err), "the next start keeps a copy of the file and goes on without it; put it back from a backup if there is one")
	}
}

func (c *folderCheck) checkTopics(ctx context.Context) error {
	dir := c.cfg.Path(c.cfg.PubSub.Dir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	cfg := c.cfg.PubSub.Store
	cfg.Dir = filepath.Join(dir, cfg.Dir)
	findings, err := store.Inspect(ctx, cfg, zap.NewNop())
	c.report.Findings = append(c.report.Findings, findings...)
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if err != nil {
		c.tell("topics", cfg.Dir, err.Error(), "the node runs without topics until this is mended")
	}
	if c.gen == nil {
		return nil
	}
	zero, err := c.gen.Block()
	if err != nil {
		return err
	}
	proofs := filepath.Join(dir, "evidence")
	if findings, err = evidence.Inspect(ctx, proofs, zero.Hash()); ctx.Err() != nil {
		return ctx.Err()
	}
	c.report.Findings = append(c.report.Findings, findings...)
	if err != nil {
		c.tell("evidence", proofs, err.Error(), "the node's broker does not start before this is mended")
	}
	return nil
}

// WriteJSON is the report as one JSON document, with that of the blocks.
func (r *FolderReport) WriteJSON(blocks *blockstore.Report) ([]byte, error) {
	findings := r.Findings
	if findings == nil {
		findings = []exit.Finding{}
	}
	return json.MarshalIndent(struct {
		Sound    bool               `json:"sound"`
		Blocks   *blockstore.Report `json:"blocks"`
		State    chain.StateReport  `json:"state"`
		Findings []exit.Finding     `json:"findings"`
	}{blocks.Sound() && r.Sound(), blocks, r.State, findings}, "", "  ")
}
