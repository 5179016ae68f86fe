package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/node"
	"github.com/bornode/bornode/recovery"
)

// invalidExport says that an export file is not what it claims to be. Any other error of verifyExport is trouble of
// this machine: a disk that is full, a file that cannot be read.
type invalidExport struct {
	height uint64 // of the block at fault; 0: the file as a whole
	err    error
}

func (e *invalidExport) Error() string {
	if e.height == 0 {
		return e.err.Error()
	}
	return fmt.Sprintf("block %d: %v", e.height, e.err)
}

func (e *invalidExport) Unwrap() error { return e.err }

func wrongBlock(height uint64, format string, args ...any) error {
	return &invalidExport{height, fmt.Errorf(format, args...)}
}

// checkpoint is a block that the operator knows from a source he trusts.
type checkpoint struct {
	Height uint64
	Hash   common.Hash
}

// parseCheckpoint reads height:hash.
func parseCheckpoint(s string) (*checkpoint, error) {
	height, hash, ok := strings.Cut(s, ":")
	n, err := strconv.ParseUint(height, 10, 64)
	b, err2 := hexutil.Decode(hash)
	if !ok || err != nil || err2 != nil || len(b) != common.HashLength {
		return nil, fmt.Errorf("%q is no checkpoint: write it as height:hash, for example 120000:0x5f1c and so on", s)
	}
	return &checkpoint{n, common.BytesToHash(b)}, nil
}

// verifyJob says what to verify.
type verifyJob struct {
	File       string
	Genesis    string             // file
	Checkpoint *checkpoint        // nil: none
	Dir        string             // where the chain is executed; empty: the system's folder for temporary files
	Recoveries []*recovery.Signed // that the chain went on by, in any order
	// Progress is told of the work: stage, and how much of it is done. It may be nil.
	Progress func(stage string, done, total uint64)
}

// verified is what verifyExport found to be true.
type verified struct {
	Chain    uint64      `json:"chainId"`
	Genesis  common.Hash `json:"genesis"`
	First    uint64      `json:"first"`
	Last     uint64      `json:"last"`
	Hash     common.Hash `json:"hash"` // of the last block
	Slot     uint64      `json:"slot"`
	Txs      uint64      `json:"transactions"`
	Proven   uint64      `json:"proven"`   // up to here certificates prove the blocks final; 0: none
	Executed uint64      `json:"executed"` // up to here states and receipts were computed anew; 0: none
	Trusted  uint64      `json:"trusted"`  // up to here the checkpoint vouches for the hashes; 0: none
}

// verifyExport checks an export file against a genesis file, offline. The file is read twice: once for its form,
// links, slots and the checkpoint, so that a torn file is found at once, then as a node would take it from a peer it
// does not trust: seals, schedule, certificates, body digests, transaction roots, and execution with its state and
// receipt roots. A file that does not begin at block 1 has no state to execute on: it needs a checkpoint, and only
// links, seals and bodies are checked; so are the blocks of any file above the last that certificates prove final.
func verifyExport(ctx context.Context, j verifyJob) (*verified, error) {
	if j.Progress == nil {
		j.Progress = func(string, uint64, uint64) {}
	}
	gen, err := genesis.Load(j.Genesis)
	if err != nil {
		return nil, err
	}
	zero, err := gen.Block()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(j.Recoveries, func(a, b *recovery.Signed) int { return cmp.Compare(a.Statement.Number, b.Statement.Number) })
	if err := node.VerifyRecoveries(gen, j.Recoveries); err != nil {
		return nil, fail(exitUsage, "--recovery: %w", err)
	}
	v := &verified{Chain: gen.Parameters().ChainID, Genesis: zero.Hash()}
	s := &exportScan{job: j, gen: gen, out: v}
	if err := s.run(ctx); err != nil {
		return v, err
	}
	if v.First > 1 {
		if v.Trusted < v.Last {
			return v, wrongBlock(v.Trusted+1, "nothing proves blocks %d to %d, which come after the block that you know; give the hash of block %d with --checkpoint", v.Trusted+1, v.Last, v.Last)
		}
		return v, nil
	}
	if err := j.execute(ctx, v); err != nil {
		return v, err
	}
	if v.Proven < v.Last && v.Trusted < v.Last {
		return v, wrongBlock(v.Proven+1, "nothing in the file proves blocks %d to %d final; export to a height at which a certificate stands (borcli chain export does), or give the hash of block %d with --checkpoint", v.Proven+1, v.Last, v.Last)
	}
	return v, s.tail(ctx)
}

// tail reads the file once more for the blocks above those that were executed: the checkpoint vouches for their hashes
// alone, so their seals, bodies and senders are checked here.
func (s *exportScan) tail(ctx context.Context) error {
	if s.out.Proven >= s.out.Last {
		return nil
	}
	f, r, _, _, err := openExport(s.job.File)
	if err != nil {
		return err
	}
	defer f.Close()
	for at := uint64(0); at < s.out.Last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := r.Next()
		if err != nil {
			return blameFile(at+1, err)
		}
		if at = b.Number(); at <= s.out.Proven {
			continue
		}
		if at == s.out.Last && b.Hash() != s.out.Hash {
			return wrongBlock(at, "its hash is another one than at the first reading: the file was changed meanwhile")
		}
		if err := s.gather(b); err != nil {
			return err
		}
	}
	return s.flush()
}

// gather takes a block up to be checked by itself.
func (s *exportScan) gather(b *block.Block) error {
	s.chunk = append(s.chunk, b)
	s.bytes += blockBytes(b)
	if len(s.chunk) >= verifyChunkBlocks || s.bytes >= verifyChunkBytes {
		return s.flush()
	}
	return nil
}

// openExport opens the file. size is in bytes; read counts those read so far.
func openExport(path string) (f *os.File, r *blockstore.ImportReader, size uint64, read *counter, err error) {
	if f, err = os.Open(path); err != nil {
		return nil, nil, 0, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		read = &counter{r: f}
		size = uint64(max(info.Size(), 0)) //nolint:gosec // not negative
		r, err = blockstore.NewImportReader(read, 0)
	}
	if err != nil {
		return nil, nil, 0, nil, errors.Join(blameFile(0, err), f.Close())
	}
	return f, r, size, read, nil
}

// blameFile tells what is wrong with the file from what is wrong with reading it.
func blameFile(height uint64, err error) error {
	if errors.Is(err, blockstore.ErrExport) {
		return &invalidExport{height, err}
	}
	return err
}

type counter struct {
	r io.Reader
	n uint64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += uint64(n) //nolint:gosec // not negative
	return n, err
}

// exportScan is the first reading of a file.
type exportScan struct {
	job   verifyJob
	gen   *genesis.Genesis
	out   *verified
	last  *block.SealedHeader // nil before the first block
	chunk []*block.Block      // not checked yet; only of what is not executed
	bytes int
}

func (s *exportScan) run(ctx context.Context) error {
	f, r, size, read, err := openExport(s.job.File)
	if err != nil {
		return err
	}
	defer f.Close()
	if r.Genesis() != s.out.Genesis {
		return wrongBlock(0, "%s holds blocks of the chain whose block 0 is %s, %s describes %s: give the genesis file of that network", s.job.File, r.Genesis(), s.job.Genesis, s.out.Genesis)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return blameFile(s.out.Last+1, err)
		}
		if err := s.block(b); err != nil {
			return err
		}
		s.job.Progress("reading", read.n, size)
	}
	if s.last == nil {
		return wrongBlock(0, "%s holds no blocks", s.job.File)
	}
	if err := s.flush(); err != nil {
		return err
	}
	if c := s.job.Checkpoint; c != nil && s.out.Trusted == 0 {
		return wrongBlock(0, "the checkpoint's block %d is not in the file, which holds blocks %d to %d: it says nothing about them", c.Height, s.out.First, s.out.Last)
	}
	return nil
}

// block checks what needs no state: the place in the chain, the slot, the checkpoint.
func (s *exportScan) block(b *block.Block) error {
	height := b.Number()
	if s.last == nil {
		s.out.First = height
		switch {
		case height == 0:
			return wrongBlock(0, "the file holds block 0, which the genesis file makes")
		case height == 1 && b.Parent() != s.out.Genesis:
			return wrongBlock(1, "its parent is %s, block 0 is %s", b.Parent(), s.out.Genesis)
		case height > 1 && s.job.Checkpoint == nil:
			return wrongBlock(0, "the file begins at block %d: without the blocks before there is no state to execute on; export from block 1, or give a block that you know with --checkpoint height:hash", height)
		}
	} else if height != s.last.Number()+1 {
		return wrongBlock(height, "it follows block %d", s.last.Number())
	} else if b.Parent() != s.last.Hash() {
		return wrongBlock(height, "its parent is %s, the block before it in the file is %s", b.Parent(), s.last.Hash())
	} else if b.Slot() <= s.last.Slot() {
		return wrongBlock(height, "its slot %d does not come after its parent's slot %d", b.Slot(), s.last.Slot())
	}
	if x := b.Record.Recovery; x != (common.Hash{}) && !slices.ContainsFunc(s.job.Recoveries, func(r *recovery.Signed) bool { return r.Hash() == x }) {
		return fail(exitUsage, "block %d goes on by recovery %s (bornode recover): give its file, and those of all others, with --recovery", height, x)
	}
	if c := s.job.Checkpoint; c != nil && c.Height == height {
		if c.Hash != b.Hash() {
			return wrongBlock(height, "its hash is %s, the checkpoint says %s: this is another history", b.Hash(), c.Hash)
		}
		s.out.Trusted = height
	}
	s.last = b.SealedHeader
	s.out.Last, s.out.Hash, s.out.Slot = height, b.Hash(), b.Slot()
	s.out.Txs += uint64(len(b.Transactions))
	if s.out.First == 1 {
		return nil
	}
	return s.gather(b)
}

func blockBytes(b *block.Block) int {
	n := uint64(1024)
	for _, tx := range b.Transactions {
		n += tx.Size()
	}
	return int(n) //nolint:gosec // far below
}

// flush checks seals and bodies of the blocks gathered, on all cores, and reports the lowest that is wrong.
func (s *exportScan) flush() error {
	errs := make([]error, len(s.chunk))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	signer := types.LatestSignerForChainID(new(big.Int).SetUint64(s.out.Chain))
	p := s.gen.Parameters()
	for i, b := range s.chunk {
		g.Go(func() error {
			if err := checkAlone(b, &p, recovery.DomainAt(s.out.Genesis, s.job.Recoveries, b.Slot()), signer); err != nil {
				errs[i] = &invalidExport{b.Number(), err}
			}
			return nil
		})
	}
	_ = g.Wait() // errors are in errs
	s.chunk, s.bytes = s.chunk[:0], 0
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkAlone checks a block by itself: record, time, seal, body digest, transaction root and senders.
func checkAlone(b *block.Block, p *block.Parameters, domain block.Domain, signer types.Signer) error {
	switch h := b.Header; {
	case len(h.Extra) != common.HashLength || common.Hash(h.Extra) != b.Record.Hash():
		return errors.New("extra data is not the hash of its consensus record")
	case h.Time != p.HeaderTime(b.Slot()):
		return fmt.Errorf("time %d does not fit slot %d", h.Time, b.Slot())
	case block.BodyDigest(b.Transactions, b.Senders) != b.Record.BodyDigest:
		return errors.New("the body does not have the digest that the record names")
	case block.TxRoot(b.Transactions) != h.TxHash:
		return errors.New("the transactions do not have the root that the header names")
	case len(b.Senders) != len(b.Transactions):
		return fmt.Errorf("%d senders for %d transactions", len(b.Senders), len(b.Transactions))
	}
	by, err := b.Signer(domain)
	if err != nil {
		return err
	}
	if by != b.Header.Coinbase {
		return fmt.Errorf("it was sealed by %s, its header names %s; if the chain was recovered below it, give all its recoveries with --recovery", by, b.Header.Coinbase)
	}
	for i, tx := range b.Transactions {
		from, err := types.Sender(signer, tx)
		if err != nil {
			return fmt.Errorf("transaction %d %s: %w", i, tx.Hash(), err)
		}
		if from != b.Senders[i] {
			return fmt.Errorf("transaction %d %s was sent by %s, the body says %s", i, tx.Hash(), from, b.Senders[i])
		}
	}
	return nil
}

// execute brings the blocks into a node's folder that exists only meanwhile.
func (j *verifyJob) execute(ctx context.Context, v *verified) (err error) {
	f, r, size, _, err := openExport(j.File)
	if err != nil {
		return err
	}
	defer f.Close()
	dir, err := os.MkdirTemp(j.Dir, "borcli-verify-")
	if err != nil {
		return fmt.Errorf("make a folder to execute the chain in: %w; name another with --dir", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := roomFor(dir, size); err != nil {
		return err
	}
	genesisPath, err := filepath.Abs(j.Genesis)
	if err != nil {
		return err
	}
	c := config.Default()
	c.DataDir, c.Genesis = dir, genesisPath
	c.Sync.Mode = "full"
	for _, r := range j.Recoveries {
		if _, err := node.ApplyRecovery(ctx, c, r, node.ApplyOptions{Named: r.Hash()}, zap.NewNop()); err != nil {
			return err
		}
	}
	_, reached, err := node.Import(ctx, c, r, zap.NewNop(), func(height uint64) { j.Progress("executing", height, v.Last) })
	if err != nil {
		return blameImport(err)
	}
	v.Proven, v.Executed = reached, reached
	return nil
}

// verifyFaults are the errors by which a node finds a peer's block wrong.
var verifyFaults = []error{consensus.ErrInvalid, consensus.ErrUnknownParent, consensus.ErrFuture, consensus.ErrBelowLIB, //nolint:gochecknoglobals // a constant table
	chain.ErrInvalidBody, chain.ErrInvalidBlock, block.ErrDecode, blockstore.ErrExport}

// blameImport tells a file that is wrong from a machine that is.
func blameImport(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return errors.New("the disk is full, so the chain cannot be executed: name a folder with more room with --dir")
	}
	for _, fault := range verifyFaults {
		if errors.Is(err, fault) {
			return &invalidExport{err: &plainFault{err}} // the text names the block
		}
	}
	return &plainFault{err}
}

// plainFault leaves out what a node's log says around the fault: that this node's software may be wrong does not help
// who looks at a file.
type plainFault struct{ err error }

func (p *plainFault) Error() string {
	text, _, _ := strings.Cut(p.err.Error(), "\n")
	if i := strings.Index(text, chain.ErrInvalidBlock.Error()+": "); i > 0 {
		text = text[i:]
	}
	for _, prefix := range []error{consensus.ErrInvalid, chain.ErrInvalidBody, chain.ErrInvalidBlock} {
		text = strings.TrimPrefix(text, prefix.Error()+": ")
	}
	return strings.TrimPrefix(text, "breaks a rule of consensus: ")
}

func (p *plainFault) Unwrap() error { return p.err }

// roomFor refuses to begin what cannot end: the blocks are stored once more, beside their states.
func roomFor(dir string, size uint64) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return nil //nolint:nilerr // unknown: the import will tell
	}
	if free := s.Bavail * uint64(s.Bsize); free < size { //nolint:gosec,unconvert // not negative; the type differs by system
		return fmt.Errorf("%s has %d MiB free, the chain takes at least %d MiB there while it is executed: name a folder with more room with --dir", filepath.Dir(dir), free>>20, size>>20)
	}
	return nil
}
