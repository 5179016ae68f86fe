package evidence

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// tight is a storage with so many bytes of room.
type tight struct {
	storage.Storage
	mu      sync.Mutex
	full    bool
	refused chan struct{} // of capacity 1
}

type tightWriter struct {
	storage.Writer
	s *tight
}

func (s *tight) Create(fd storage.FileDesc) (storage.Writer, error) {
	w, err := s.Storage.Create(fd)
	return &tightWriter{w, s}, err
}

func (w *tightWriter) Write(b []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if !w.s.full {
		return w.Writer.Write(b)
	}
	n, err := w.Writer.Write(b[:len(b)/2]) // a part of it fits
	if err == nil {
		err = syscall.ENOSPC
	}
	select {
	case w.s.refused <- struct{}{}:
	default:
	}
	return n, err
}

func (s *tight) set(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// A disk that was full holds evidence up, and nothing else: it goes on by itself, and nothing that was written is lost.
func TestAFullDiskHoldsEvidenceUp(t *testing.T) {
	mem := storage.NewMemStorage()
	s := &tight{Storage: mem, refused: make(chan struct{}, 1)}
	db, err := openOn(s, "", zap.NewNop())
	require.NoError(t, err)
	db.disk.wait = time.Millisecond
	put := func(key string) error { return db.Put([]byte(key), []byte("value"), &opt.WriteOptions{Sync: true}) }
	require.NoError(t, put("before"))
	s.set(true)
	done := make(chan error, 1)
	go func() { done <- put("full") }()
	<-s.refused
	<-s.refused
	s.set(false)
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the write does not end")
	}
	require.NoError(t, put("after"))
	require.NoError(t, db.DB.Close())

	again, err := openOn(mem, "", zap.NewNop())
	require.NoError(t, err)
	for _, key := range []string{"before", "full", "after"} {
		v, err := again.Get([]byte(key), nil)
		require.NoError(t, err, key)
		require.Equal(t, "value", string(v))
	}
	require.NoError(t, again.Close())
}

// A broker whose disk is full can stop.
func TestAFullDiskDoesNotHoldTheEndUp(t *testing.T) {
	s := &tight{Storage: storage.NewMemStorage(), refused: make(chan struct{}, 1)}
	db, err := openOn(s, "", zap.NewNop())
	require.NoError(t, err)
	s.set(true)
	done := make(chan error, 1)
	go func() { done <- db.Put([]byte("full"), nil, nil) }()
	<-s.refused
	db.disk.quit()
	require.ErrorIs(t, <-done, syscall.ENOSPC)
	_ = db.Close() // says what it could not write
}

// While the chain here is behind what was final before, as after its data was deleted, nothing is committed: a number
// that is used would be taken for the commit that used it, and the operations in the new one never reach the chain.
func TestNothingIsCommittedOnAChainThatIsBehind(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	n.open(t, c, quick)
	commit := func(partition int32) {
		n.e.Operated(topicA, [32]byte{}, op(1, 0, partition, 1, 1))
		require.NoError(t, n.e.ops.flush())
		require.NoError(t, n.e.out.once(context.Background(), false))
	}
	commit(0)
	commit(1)
	require.NoError(t, n.e.db.Close())
	c.commits[n.account] = 1 // synced anew up to here
	n.open(t, c, quick)
	n.e.Operated(topicA, [32]byte{}, op(1, 0, 2, 1, 1))
	require.NoError(t, n.e.ops.flush())
	require.ErrorContains(t, n.e.out.once(context.Background(), false), "catching up")
	c.commits[n.account] = 2
	require.NoError(t, n.e.out.once(context.Background(), false))
	require.Equal(t, uint64(3), c.commits[n.account])
	require.Len(t, c.operations(topicA), 3)
	_, rest, err := n.e.ops.peek(10)
	require.NoError(t, err)
	require.Empty(t, rest)
	n.close(t)
}

// A damaged database is copied as it was before the repair drops what it cannot read, and this is told.
func TestDamagedEvidenceIsSetAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "evidence")
	core, logs := observer.New(zap.WarnLevel)
	for i := range maxDamagedDatabases + 1 {
		db, err := openDatabase(dir, zap.New(core))
		require.NoError(t, err)
		require.NoError(t, db.Put([]byte{byte(i)}, []byte("value"), nil))
		require.NoError(t, db.CompactRange(util.Range{}))
		require.NoError(t, db.Close())
		require.Zero(t, logs.Len())
		manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
		require.NoError(t, err)
		for _, m := range manifests {
			require.NoError(t, os.Truncate(m, 3))
		}
		db, err = openDatabase(dir, zap.New(core))
		require.NoError(t, err)
		_, err = db.Get([]byte{byte(i)}, nil)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		told := logs.TakeAll()
		require.Len(t, told, 1)
		kept, err := filepath.Glob(filepath.Join(told[0].ContextMap()["to"].(string), "MANIFEST-*"))
		require.NoError(t, err)
		require.Len(t, kept, len(manifests))
		for _, m := range kept {
			fi, err := os.Stat(m)
			require.NoError(t, err)
			require.EqualValues(t, 3, fi.Size(), "as it was")
		}
	}
	copies, err := filepath.Glob(dir + ".damaged-*")
	require.NoError(t, err)
	require.Len(t, copies, maxDamagedDatabases)
}

// The folder of a broker on another chain is refused: numbers, trees and checkpoints of that one mean nothing here.
func TestEvidenceOfAnotherChainIsRefused(t *testing.T) {
	db, err := openOn(storage.NewMemStorage(), "", zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, db.of(common.Hash{1}))
	require.NoError(t, db.of(common.Hash{1}))
	require.ErrorContains(t, db.of(common.Hash{2}), "another folder")
	require.NoError(t, db.Close())
}
