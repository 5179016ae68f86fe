package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
)

func chainCommand() *cobra.Command {
	var out, in, gen, known, dir string
	var from, to uint64
	var recoveries []string
	return group("chain", "Blocks in files",
		command("export", "Write final blocks of a running node to a file", func(ctx context.Context, a *app, _ []string) error {
			return a.exportChain(ctx, out, from, to)
		}, flags(func(f *pflag.FlagSet) {
			f.StringVar(&out, "out", "", "file to write; it must not exist")
			f.Uint64Var(&from, "from", 1, "first height")
			f.Uint64Var(&to, "to", 0, "last height; the file goes on to the first block from there that a certificate proves final; 0: as far as there is one")
		}), long("Write final blocks of a running node to a file, in the form of bornode export: bornode import reads it, and\n"+
			"borcli chain verify checks it."), example("borcli chain export --out chain.bor")),
		command("verify", "Check a file of blocks against a genesis file, without a node", func(ctx context.Context, a *app, _ []string) error {
			list, err := readRecoveries(recoveries)
			if err != nil {
				return err
			}
			return a.verifyChain(ctx, verifyJob{File: in, Genesis: gen, Dir: dir, Recoveries: list}, known)
		}, flags(func(f *pflag.FlagSet) {
			f.StringVar(&in, "in", "", "file written by borcli chain export or bornode export")
			f.StringVar(&gen, "genesis", "", "genesis file of the network")
			f.StringVar(&known, "checkpoint", "", "height:hash of a block that you know from a source you trust")
			f.StringVar(&dir, "dir", "", "folder to execute the chain in, emptied afterwards; default: the system's folder for temporary files")
			f.StringArrayVar(&recoveries, "recovery", nil, "file of a recovery that the chain went on by (bornode recover); repeat it for each")
		}), long("Check a file of blocks against a genesis file, without a node: links, slots, schedule, seals, certificates,\n"+
			"digests of the bodies, transaction roots, and by executing every block the state and receipt roots. It ends with\n"+
			"code 9 when the file is not what it claims to be. A file that does not begin at block 1 cannot be executed: give\n"+
			"--checkpoint, and links, seals and bodies are checked."),
			example("borcli chain verify --in chain.bor --genesis genesis.json")))
}

// genesisHash is the hash of the node's block 0.
func (a *app) genesisHash(ctx context.Context) (common.Hash, error) {
	var zero struct {
		Hash common.Hash `json:"hash"`
	}
	return zero.Hash, a.ask(ctx, &zero, "eth_getBlockByNumber", "0x0", false)
}

// finalProof is the node's certificate for a final block.
type finalProof struct {
	Number      hexutil.Uint64 `json:"number"`
	Hash        common.Hash    `json:"hash"`
	Certificate hexutil.Bytes  `json:"certificate"`
}

// exported is the result of an export.
type exported struct {
	File   string      `json:"file"`
	First  uint64      `json:"first"`
	Last   uint64      `json:"last"`
	Hash   common.Hash `json:"hash"` // of the last block
	Blocks uint64      `json:"blocks"`
	Bytes  int64       `json:"bytes"`
}

func (a *app) exportChain(ctx context.Context, out string, from, to uint64) (err error) {
	switch {
	case out == "":
		return fail(exitUsage, "name the file to write with --out")
	case from == 0:
		return fail(exitUsage, "--from is 0: block 0 is made by the genesis file, so the first height is 1")
	case to != 0 && to < from:
		return fail(exitUsage, "--to %d lies below --from %d", to, from)
	}
	zero, err := a.genesisHash(ctx)
	if err != nil {
		return err
	}
	proof, cert, err := a.lastProof(ctx, from, to)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fail(exitUsage, "%s exists already: name another file with --out, or remove it", out)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(out)) //nolint:gosec // made above
		}
	}()
	w := blockstore.NewExportWriter(f, zero)
	if err := a.fetchBlocks(ctx, w, from, proof); err != nil {
		return err
	}
	if err := w.End(nil, cert); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	x := exported{out, from, uint64(proof.Number), proof.Hash, uint64(proof.Number) - from + 1, info.Size()}
	return a.show(x, func(w io.Writer) {
		fmt.Fprintf(w, "wrote blocks %d to %d (%s) to %s, %d bytes; check it with borcli chain verify --in %s --genesis FILE\n", x.First, x.Last, x.Hash, out, x.Bytes, out)
	})
}

// lastProof is the certificate of the last block to be exported: the first from to on that has one, or the newest.
func (a *app) lastProof(ctx context.Context, from, to uint64) (*finalProof, *block.Certificate, error) {
	args := []any{}
	if to != 0 {
		args = append(args, hexutil.Uint64(to))
	}
	var proof *finalProof
	if err := a.ask(ctx, &proof, "bor_finalProof", args...); err != nil {
		return nil, nil, err
	}
	if proof == nil && to != 0 {
		if err := a.ask(ctx, &proof, "bor_finalProof"); err != nil {
			return nil, nil, err
		}
		if proof != nil {
			return nil, nil, fail(exitNotFound, "no block from %d on is proven final yet, the last one is %d: wait, or give --to %d", to, uint64(proof.Number), uint64(proof.Number))
		}
	}
	if proof == nil {
		return nil, nil, fail(exitNotFound, "the node's chain proves no block final yet: wait for a few blocks")
	}
	if uint64(proof.Number) < from {
		return nil, nil, fail(exitNotFound, "block %d is not proven final yet, the last one is %d", from, uint64(proof.Number))
	}
	cert, err := block.DecodeCertificate(proof.Certificate)
	if err != nil || cert.Target.Hash != proof.Hash {
		return nil, nil, fail(exitOther, "the node's certificate for block %d cannot be used; take another node", uint64(proof.Number))
	}
	return proof, cert, nil
}

// fetchBlocks writes the blocks from a height to the proven one. What the node gives must be one chain that ends there.
func (a *app) fetchBlocks(ctx context.Context, w *blockstore.ExportWriter, from uint64, proof *finalProof) error {
	line := a.progress()
	defer line.end()
	last := uint64(proof.Number)
	var parent common.Hash
	for next := from; next <= last; {
		var answer struct {
			Blocks []hexutil.Bytes `json:"blocks"`
		}
		count := min(last-next+1, exportBlocksAtOnce)
		if err := a.ask(ctx, &answer, "bor_exportBlocks", hexutil.Uint64(next), hexutil.Uint64(count)); err != nil {
			return err
		}
		if len(answer.Blocks) == 0 || uint64(len(answer.Blocks)) > count {
			return fail(exitOther, "the node gave %d blocks from %d on, %d were asked for; take another node", len(answer.Blocks), next, count)
		}
		for _, raw := range answer.Blocks {
			b, err := block.DecodeBlock(raw, block.MaxBlockBytes)
			if err != nil {
				return fail(exitOther, "the node's block %d cannot be read (%w); take another node", next, err)
			}
			if b.Number() != next || next > from && b.Parent() != parent || next == last && b.Hash() != proof.Hash {
				return fail(exitOther, "the node's block %d (%s) does not fit the others; take another node", next, b.Hash())
			}
			if err := w.Block(raw); err != nil {
				return err
			}
			parent = b.Hash()
			next++
		}
		line.set("export: block %d of %d", next-1, last)
	}
	return nil
}

func (a *app) verifyChain(ctx context.Context, j verifyJob, known string) error {
	if j.File == "" || j.Genesis == "" {
		return fail(exitUsage, "name the file with --in and the network's genesis file with --genesis")
	}
	if known != "" {
		c, err := parseCheckpoint(known)
		if err != nil {
			return fail(exitUsage, "--checkpoint: %w", err)
		}
		j.Checkpoint = c
	}
	line := a.progress()
	defer line.end()
	shown := time.Time{}
	j.Progress = func(stage string, done, total uint64) {
		if done < total && time.Since(shown) < progressInterval {
			return
		}
		shown = time.Now()
		share := 100.0
		if total > 0 {
			share = 100 * float64(done) / float64(total)
		}
		line.set("%s: %3.0f %%", stage, share)
	}
	v, err := verifyExport(ctx, j)
	line.end()
	var wrong *invalidExport
	if errors.As(err, &wrong) {
		return fail(exitVerify, "%s is not valid: %w", j.File, err)
	}
	if err != nil {
		return err
	}
	return a.show(v, func(w io.Writer) { v.table(w, j.File) })
}

// table says what was checked, and what was not.
func (v *verified) table(w io.Writer, file string) {
	lines(w, pair{"file", file}, pair{"chain", fmt.Sprintf("%d, block 0 is %s", v.Chain, v.Genesis)},
		pair{"blocks", fmt.Sprintf("%d to %d with %d transactions", v.First, v.Last, v.Txs)}, pair{"last block", v.Hash.Hex()})
	if v.First > 1 {
		fmt.Fprintf(w, "links, seals and bodies are good, and block %d is the one you know; schedule, certificates and states cannot be checked without the blocks before %d\n", v.Trusted, v.First)
		return
	}
	fmt.Fprintf(w, "good: all blocks up to %d are final and give the states and receipts they claim\n", v.Proven)
	if v.Proven < v.Last {
		fmt.Fprintf(w, "blocks %d to %d were not executed; their seals and bodies are good, and their hashes lead to block %d, which you know\n", v.Proven+1, v.Last, v.Trusted)
	}
}
