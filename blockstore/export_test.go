package blockstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

func isPruned(err error) bool { return errors.Is(err, blockstore.ErrPruned) }

func exported(t testing.TB) ([]byte, []*block.Block, block.FinalUpdate) {
	s := open(t, faultfs.New())
	chain := line(nil, 40, 1, 2, 100)
	f := final(chain...)
	require.NoError(t, s.AppendFinal(chain, f))
	var out bytes.Buffer
	heights := 0
	require.NoError(t, s.Export(context.Background(), &out, chain[0].Hash(), 0, 1000, func(uint64) { heights++ }))
	require.Equal(t, 40, heights)
	return out.Bytes(), chain, f
}

func readAll(raw []byte) (blocks []*block.Block, r *blockstore.ImportReader, err error) {
	r, err = blockstore.NewImportReader(bytes.NewReader(raw), 0)
	if err != nil {
		return nil, nil, err
	}
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return blocks, r, nil
		}
		if err != nil {
			return blocks, r, err
		}
		blocks = append(blocks, b)
	}
}

func TestExportAndImport(t *testing.T) {
	raw, chain, f := exported(t)
	blocks, r, err := readAll(raw)
	require.NoError(t, err)
	require.Equal(t, chain[0].Hash(), r.Genesis())
	require.Len(t, blocks, len(chain))
	qc, fc := r.Certificates()
	require.Equal(t, f.QC.Encode(), qc.Encode())
	require.Equal(t, f.FC.Encode(), fc.Encode())

	s := open(t, faultfs.New())
	require.NoError(t, s.AppendFinal(blocks, block.FinalUpdate{QC: qc, FC: fc}))
	requireChain(t, s, chain)

	var part bytes.Buffer
	require.NoError(t, s.Export(t.Context(), &part, chain[0].Hash(), 5, 9, nil))
	blocks, r, err = readAll(part.Bytes())
	require.NoError(t, err)
	require.Len(t, blocks, 5)
	_, fc = r.Certificates()
	require.Nil(t, fc, "the LIB's certificate proves nothing about block 9")
	require.ErrorIs(t, s.Export(t.Context(), io.Discard, chain[0].Hash(), 50, 60, nil), blockstore.ErrNotFound)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Export(ctx, io.Discard, chain[0].Hash(), 0, 60, nil), context.Canceled)
}

// TestImportRefusesAnyCut: a file that ends anywhere but at its end is told from a whole one.
func TestImportRefusesAnyCut(t *testing.T) {
	raw, chain, _ := exported(t)
	for n := range raw {
		if n > 400 && n < len(raw)-400 && n%97 != 0 {
			continue
		}
		blocks, _, err := readAll(raw[:n])
		require.ErrorIs(t, err, blockstore.ErrExport, "cut at %d", n)
		require.LessOrEqual(t, len(blocks), len(chain))
	}
	_, _, err := readAll(append(bytes.Clone(raw), 0))
	require.ErrorContains(t, err, "something follows")
	small, err := blockstore.NewImportReader(bytes.NewReader(raw), 64)
	require.NoError(t, err)
	_, err = small.Next()
	require.ErrorContains(t, err, "64 allowed")
}

func FuzzImportReader(f *testing.F) {
	raw, _, _ := exported(f)
	f.Add(raw)
	f.Add(raw[:200])
	f.Add([]byte("BORNODE2"))
	f.Add(append(append([]byte("BORNODE2"), make([]byte, 32)...), 0xff, 0xff, 0xff, 0xff))
	f.Add(append(append([]byte("BORNODE2"), make([]byte, 32)...), 0, 0, 0, 0, 0, 0, 0, 3, 0xc2, 0xc0, 0xc0))
	f.Fuzz(func(t *testing.T, raw []byte) {
		blocks, _, err := readAll(raw)
		if err != nil && !errors.Is(err, blockstore.ErrExport) {
			t.Fatalf("%v does not wrap ErrExport", err)
		}
		for _, b := range blocks { // what is accepted encodes to what it was
			if !bytes.Contains(raw, b.Encode()) {
				t.Fatalf("%v is not what the file holds", b)
			}
		}
	})
}
