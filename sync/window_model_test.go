package blocksync

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/transport"
)

// modelWindow is a node's window: that of a real block store, which takes in the model's irreversible blocks whenever
// a peer looks at the directory page.
type modelWindow struct {
	n *modelNode

	mu    sync.Mutex
	s     *blockstore.Store
	opens int
}

var _ transport.Source = (*modelWindow)(nil)

// onWindows is onMem with a window at every node.
func onWindows(t *testing.T, f func(l *lab)) {
	t.Helper()
	onMem(t, func(l *lab) { l.windows = true; f(l) })
}

func (l *lab) serveWindow(n *node) *modelWindow {
	cfg := blockstore.DefaultConfig()
	cfg.Dir, cfg.SegmentBytes = l.t.TempDir(), 256<<10
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(l.t, err)
	l.t.Cleanup(func() {
		require.NoError(l.t, s.Close())
		if l.mem != nil {
			l.pass(2 * time.Second) // a goroutine of goleveldb ends a second after its database was closed
		}
	})
	w := &modelWindow{n: n.modelNode, s: s}
	n.host.(interface{ Serve(transport.Source) }).Serve(w)
	return w
}

func (w *modelWindow) Open(area uint32) (*os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opens++
	if area == block.AreaDirectory {
		if err := w.follow(); err != nil {
			return nil, err
		}
	}
	return w.s.Window().Open(area)
}

// opened is how often the serving side opened something.
func (w *modelWindow) opened() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opens
}

// follow brings the store to where the model is.
func (w *modelWindow) follow() error {
	var more []*block.Block
	var first uint64
	w.n.do(func() {
		next := uint64(0)
		if !w.s.Empty() {
			next, _ = w.s.LIB()
			next++
		}
		more, first = append(more, w.n.final[next:]...), w.n.pruned
	})
	if err := w.s.AppendFinal(more, block.FinalUpdate{}); err != nil {
		return err
	}
	_, err := w.s.Prune(first)
	return err
}
