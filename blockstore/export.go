package blockstore

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/block"
)

// An export file: magic 8 | hash of the chain's genesis block 32 | blocks, each length u32 and encoding | length 0 |
// length u32 and encoding of the trailer. Integers are big-endian. The trailer proves the last block if it was the LIB
// when the file was written; otherwise the certificates inside the blocks' records prove all but the newest.
const exportMagic = "BORNODE2"

// ErrExport is wrapped by every error about a file that is no whole, well-formed export.
var ErrExport = errors.New("invalid block file")

// trailer ends an export file.
type trailer struct {
	QC, FC *block.Certificate `rlp:"nilList"`
}

// Export writes the irreversible blocks from..to (cut at the LIB) and, if the last of them is the LIB, its
// certificates. progress (may be nil) gets every height written.
func (s *Store) Export(ctx context.Context, w io.Writer, genesis common.Hash, from, to uint64, progress func(height uint64)) error {
	if s.Empty() {
		return fmt.Errorf("export blocks: the store is empty: %w", ErrNotFound)
	}
	s.mu.RLock()
	last, hash, end := s.lib.Height, s.lib.Hash, trailer{s.qc, s.fc}
	s.mu.RUnlock()
	if to = min(to, last); from > to {
		return fmt.Errorf("export blocks %d to %d: %w", from, to, ErrNotFound)
	}
	if to != last || end.FC == nil || end.FC.Target.Hash != hash {
		end = trailer{}
	}
	out := NewExportWriter(w, genesis)
	err := s.Range(from, to, 0, func(height uint64, raw []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if progress != nil {
			progress(height)
		}
		return out.Block(raw)
	})
	if err == nil {
		err = out.End(end.QC, end.FC)
	}
	if err != nil {
		return fmt.Errorf("export blocks %d to %d: %w", from, to, err)
	}
	return nil
}

// ExportWriter writes an export file block by block. It checks nothing of what it is given. Not safe for concurrent
// use.
type ExportWriter struct{ w *bufio.Writer }

// NewExportWriter begins a file of the chain with this block 0.
func NewExportWriter(w io.Writer, genesis common.Hash) *ExportWriter {
	x := &ExportWriter{bufio.NewWriterSize(w, 1<<20)}
	_, _ = x.w.WriteString(exportMagic) // bufio keeps the first error until Flush
	_, _ = x.w.Write(genesis[:])
	return x
}

// Block writes an encoded block (block.Block.Encode); they come in the order of their heights.
func (x *ExportWriter) Block(raw []byte) error { return writeItem(x.w, raw) }

// End writes the certificates that prove the last block, nil if there are none, and flushes.
func (x *ExportWriter) End(qc, fc *block.Certificate) error {
	return errors.Join(writeItem(x.w, nil), writeItem(x.w, mustRLP(&trailer{qc, fc})), x.w.Flush())
}

func writeItem(w io.Writer, b []byte) error {
	if _, err := w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b)))); err != nil { //nolint:gosec // bounded
		return err
	}
	_, err := w.Write(b)
	return err
}

// ImportReader reads an export file block by block. It takes nothing on trust but the form: who imports verifies
// links, seals, certificates and execution. Not safe for concurrent use.
type ImportReader struct {
	r       *bufio.Reader
	genesis common.Hash
	limit   int
	end     trailer
	done    bool
	buf     []byte
}

// NewImportReader reads the head of an export file. maxBlockBytes bounds one encoded block (0: block.MaxBlockBytes).
func NewImportReader(r io.Reader, maxBlockBytes int) (*ImportReader, error) {
	if maxBlockBytes <= 0 || maxBlockBytes > block.MaxBlockBytes {
		maxBlockBytes = block.MaxBlockBytes
	}
	x := &ImportReader{r: bufio.NewReaderSize(r, 1<<20), limit: maxBlockBytes}
	head := make([]byte, len(exportMagic)+common.HashLength)
	if _, err := io.ReadFull(x.r, head); err != nil {
		return nil, importError("head", err)
	}
	if string(head[:len(exportMagic)]) != exportMagic {
		return nil, fmt.Errorf("%w: it does not begin with %s; a file of another version is read by the program that wrote it", ErrExport, exportMagic)
	}
	copy(x.genesis[:], head[len(exportMagic):])
	return x, nil
}

func importError(what string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends within the %s", ErrExport, what)
	}
	return fmt.Errorf("read %s of a block file: %w", what, err)
}

// Genesis is the hash of block 0 of the chain that the file comes from.
func (x *ImportReader) Genesis() common.Hash { return x.genesis }

// Next is the next block; io.EOF after the last, when the file is whole.
func (x *ImportReader) Next() (*block.Block, error) {
	if x.done {
		return nil, io.EOF
	}
	raw, err := x.item(x.limit, "block")
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, x.readTrailer()
	}
	b, err := block.DecodeBlock(raw, x.limit)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExport, err)
	}
	return b, nil
}

func (x *ImportReader) readTrailer() error {
	raw, err := x.item(maxTrailerBytes, "trailer")
	if err != nil {
		return err
	}
	if err := rlp.DecodeBytes(raw, &x.end); err != nil {
		return fmt.Errorf("%w: trailer: %w", ErrExport, err)
	}
	if _, err := x.r.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the trailer", ErrExport)
	}
	x.done = true
	return io.EOF
}

// item reads one length-prefixed item; nil if its length is 0. It is valid until the next call. Memory grows with
// what was really read, not with what a length claims.
func (x *ImportReader) item(limit int, what string) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(x.r, head[:]); err != nil {
		return nil, importError("length of the "+what, err)
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n == 0 {
		return nil, nil
	}
	if n > limit {
		return nil, fmt.Errorf("%w: %s of %d bytes, %d allowed", ErrExport, what, n, limit)
	}
	x.buf = x.buf[:0]
	for len(x.buf) < n {
		step := min(n-len(x.buf), max(64<<10, len(x.buf)))
		start := len(x.buf)
		x.buf = append(x.buf, make([]byte, step)...)
		if _, err := io.ReadFull(x.r, x.buf[start:]); err != nil {
			return nil, importError(what, err)
		}
	}
	return x.buf, nil
}

// Certificates are what the file gives to prove its last block, nil if nothing; known after Next gave io.EOF.
func (x *ImportReader) Certificates() (qc, fc *block.Certificate) { return x.end.QC, x.end.FC }
