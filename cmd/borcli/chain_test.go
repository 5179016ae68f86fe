package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// exportNode answers what an export asks for, from a history; a test makes it lie.
type exportNode struct {
	h    *history
	most int                                       // blocks of one answer
	lie  func(from uint64, list [][]byte) [][]byte // nil: the truth
	cert []byte
}

func (n *exportNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q rpcRequest
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var result any
	switch q.Method {
	case "eth_getBlockByNumber":
		result = map[string]any{"hash": n.h.domain.Genesis}
	case "bor_finalProof":
		last := n.h.last()
		result = map[string]any{"number": hexutil.Uint64(last.Number()), "hash": last.Hash(), "certificate": hexutil.Bytes(n.cert)}
	case "bor_exportBlocks":
		var from hexutil.Uint64
		_ = json.Unmarshal(q.Params[0], &from)
		var list [][]byte
		for _, b := range n.h.blocks[from-1 : min(int(from)-1+n.most, len(n.h.blocks))] {
			list = append(list, b.Encode())
		}
		if n.lie != nil {
			list = n.lie(uint64(from), list)
		}
		blocks := []hexutil.Bytes{}
		for _, raw := range list {
			blocks = append(blocks, raw)
		}
		result = map[string]any{"blocks": blocks}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result})
}

// What the node gives has to be one chain that ends at the proven block; else nothing is left behind.
func TestExportFromLyingNode(t *testing.T) {
	h := makeHistory(t)
	node := &exportNode{h: h, most: 7, cert: h.fc.Encode()}
	srv := httptest.NewServer(node)
	defer srv.Close()
	dir := t.TempDir()
	out := filepath.Join(dir, "chain.bor")
	export := func() outcome { return borcli(t, srv.URL, dir, "chain", "export", "--out", out) }

	o := export()
	require.Equal(t, exitOK, o.code, o.err)
	v, err := verifyExport(t.Context(), verifyJob{File: out, Genesis: h.genesis, Dir: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, h.last().Hash(), v.Hash)
	require.NoError(t, os.Remove(out))

	foreign := makeHistory(t).blocks
	twin := h.clone(t)
	twin.forgeLast(t, func(x *types.Header, _ *block.Record) { x.GasUsed++ })
	for name, lie := range map[string]func(uint64, [][]byte) [][]byte{
		"none":    func(uint64, [][]byte) [][]byte { return nil },
		"garbage": func(_ uint64, l [][]byte) [][]byte { l[3] = []byte{0xc0}; return l },
		"gap":     func(_ uint64, l [][]byte) [][]byte { return append(l[:2:2], l[3:]...) },
		"again":   func(_ uint64, l [][]byte) [][]byte { return append(l, l[len(l)-1]) },
		"foreign": func(from uint64, l [][]byte) [][]byte { l[1] = foreign[from].Encode(); return l },
		"another last": func(from uint64, l [][]byte) [][]byte {
			if last := uint64(len(h.blocks)); from+uint64(len(l))-1 == last {
				l[len(l)-1] = twin.last().Encode()
			}
			return l
		},
		"too many": func(_ uint64, l [][]byte) [][]byte {
			for len(l) <= len(h.blocks) {
				l = append(l, l...)
			}
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			node.lie = lie
			o := export()
			require.Equal(t, exitOther, o.code, o.err)
			require.Contains(t, o.err, "take another node")
			require.NoFileExists(t, out)
		})
	}
	node.lie = nil
	p := h.blocks[2].Point()
	node.cert = (&block.Certificate{Link: block.Link{Kind: block.Precommit, Source: p, Target: p}}).Encode()
	require.Contains(t, export().err, "certificate for block")
	node.cert = []byte{1}
	require.Contains(t, export().err, "certificate for block")
	require.NoFileExists(t, out)
}

func TestChainUsage(t *testing.T) {
	home := t.TempDir()
	for _, x := range []struct {
		words string
		args  []string
	}{
		{"--out", []string{"chain", "export"}},
		{"--from is 0", []string{"chain", "export", "--out", "x", "--from", "0"}},
		{"lies below", []string{"chain", "export", "--out", "x", "--from", "9", "--to", "8"}},
		{"--genesis", []string{"chain", "verify", "--in", "x"}},
		{"height:hash", []string{"chain", "verify", "--in", "x", "--genesis", "y", "--checkpoint", "7"}},
	} {
		o := borcli(t, "http://127.0.0.1:1", home, x.args...)
		require.Equal(t, exitUsage, o.code, "%v: %s", x.args, o.err)
		require.Contains(t, o.err, x.words)
	}
	o := borcli(t, "http://127.0.0.1:1", home, "chain", "verify", "--in", filepath.Join(home, "none"), "--genesis", filepath.Join(home, "none"))
	require.Equal(t, exitOther, o.code, "a file that is not there is no file that is wrong")
}
