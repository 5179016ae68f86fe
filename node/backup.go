package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/transport/tcp"
)

const (
	maxManifestBytes = 256 << 20 // about a million segments
	maxBackupCuts    = 3         // cuts taken before a backup gives up because pruning removed what it copied
)

type blockVisitor = func(b *block.Block, size int) error

// BackupOptions say how a backup is made.
type BackupOptions struct {
	Dir      string // of the backup; an earlier backup of the same chain there is brought up to date
	Settings string // the settings file to copy
	Secrets  bool   // copy the private keys too
	Link     bool   // give segments a second name instead of copying them
	// Progress, which may be nil, gets the bytes read so far and in all.
	Progress func(done, all int64)
	open     openFolder
}

// openFolder gives the file system that writes below a folder; nil: the operating system's.
type openFolder func(dir string) vfs.FS

func (open openFolder) files(dir string) vfs.FS {
	if open != nil {
		return open(dir)
	}
	return vfs.OS(dir, vfs.Private)
}

// CutOfStopped is the cut of a node that does not run. Nothing of the folder changes.
func CutOfStopped(cfg *config.Config, log *zap.Logger) (cut *blockstore.Cut, err error) {
	store, err := InspectStore(cfg, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.Cut()
}

// CutOfRunning asks a running node for its cut, on its socket.
func CutOfRunning(ctx context.Context, cfg *config.Config) (*blockstore.Cut, error) {
	path := cfg.Path(cfg.RPC.IPCPath)
	if path == "" {
		return nil, fmt.Errorf("the node of %s runs and has no socket to ask for a cut (rpc.ipc_path is empty): stop it for the backup, or set rpc.ipc_path", cfg.DataDir)
	}
	client, err := gethrpc.DialIPC(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("the node of %s runs and its socket %s does not answer; wait until it has started, or stop it for the backup: %w", cfg.DataDir, path, err)
	}
	defer client.Close()
	cut := new(blockstore.Cut)
	if err := client.CallContext(ctx, cut, "admin_backupCut"); err != nil {
		return nil, fmt.Errorf("ask the running node for its cut: %w", err)
	}
	return cut, nil
}

// Backup copies what take gives a cut of, and the node's settings, to a folder. An earlier backup there stays whole until
// the new one is; its files that are the same are not written again. What a pruned node does not keep any more stays
// from the earlier backup.
func Backup(ctx context.Context, cfg *config.Config, o BackupOptions, take func() (*blockstore.Cut, error)) (*Manifest, error) {
	if err := refuseDataFolder(o.Dir); err != nil {
		return nil, err
	}
	files := o.open.files(o.Dir)
	lock, err := lockBackup(files)
	if err != nil {
		return nil, backupWriteError(o.Dir, err)
	}
	defer lock.Close()
	gen, err := LoadGenesis(cfg)
	if err != nil {
		return nil, err
	}
	zero, err := gen.Block()
	if err != nil {
		return nil, err
	}
	w := &backupWriter{ctx: ctx, cfg: cfg, o: o, files: files, store: cfg.Path(cfg.Store.Dir)}
	if w.old, err = readManifest(o.Dir); err != nil && !errors.Is(err, errNoBackup) {
		return nil, err
	}
	if w.old != nil && w.old.Genesis != zero.Hash() {
		return nil, fmt.Errorf("%s holds a backup of the chain with genesis %s, this node is of %s: name another folder", o.Dir, w.old.Genesis, zero.Hash())
	}
	w.next = &Manifest{Format: manifestFormat, Version: "bornode/v" + Version, ChainID: gen.Parameters().ChainID, Genesis: zero.Hash(), Secrets: o.Secrets, directory: o.Dir}
	for _, dir := range []string{backupSegmentDir, backupFileDir} {
		if err := files.Mkdir(dir); err != nil {
			return nil, backupWriteError(o.Dir, err)
		}
	}
	if w.there, err = os.ReadDir(filepath.Join(o.Dir, backupSegmentDir)); err != nil {
		return nil, err
	}
	if err := w.copyFiles(gen); err != nil {
		return nil, err
	}
	if err := w.refuseLostKeys(); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		cut, err := take()
		if err != nil {
			return nil, err
		}
		if err := w.refuseShorter(cut); err != nil {
			return nil, err
		}
		err = w.copyCut(cut)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || try == maxBackupCuts { // else pruning took a segment away
			return nil, err
		}
	}
	return w.next, w.publish()
}

// refuseDataFolder refuses a folder that holds data of a node: files of a backup between them look like the node's own.
func refuseDataFolder(dir string) error {
	for _, name := range []string{config.FileName, format.FileName} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s holds the data of a node (it has %s): name another folder for the backup", dir, name)
		}
	}
	return nil
}

// backupWriteError says what to do when the folder of the backup takes no write.
func backupWriteError(dir string, err error) error {
	return fmt.Errorf("the backup to %s was not ended, what was whole there is as it was: %w; have that folder take writes and make the backup again, or name another folder", dir, err)
}

// backupWriter makes one backup.
type backupWriter struct {
	ctx       context.Context
	cfg       *config.Config
	o         BackupOptions
	files     vfs.FS        // of the backup's folder, for all that is written
	store     string        // folder of the block store
	there     []fs.DirEntry // segment files in the backup's folder when it began
	old, next *Manifest
}

// copyCut makes the runs of the new manifest.
func (w *backupWriter) copyCut(cut *blockstore.Cut) error {
	m := w.next
	m.Made, m.Height, m.Hash, m.QC, m.FC, m.Root = time.Now().UTC().Round(time.Second), uint64(cut.Height), cut.Hash, cut.QC, cut.FC, cut.Root
	m.Segments = m.Segments[:0]
	if err := w.keepPruned(uint64(cut.First)); err != nil {
		return err
	}
	var all, done int64
	for _, seg := range cut.Segments {
		all += seg.Size
	}
	for i, seg := range cut.Segments {
		r, err := w.copySegment(seg, i < len(cut.Segments)-1)
		if err != nil {
			return err
		}
		m.Segments = append(m.Segments, *r)
		if done += seg.Size; w.o.Progress != nil {
			w.o.Progress(done, all)
		}
	}
	return m.checkOrder("the new manifest")
}

// keepPruned takes the runs below the first height that the node keeps from the earlier backup.
func (w *backupWriter) keepPruned(first uint64) error {
	next := uint64(0)
	if w.old != nil {
		for _, r := range w.old.Segments {
			if r.Last < first {
				w.next.Segments, next = append(w.next.Segments, r), r.Last+1
			}
		}
	}
	if next != first {
		return fmt.Errorf("this node keeps blocks from %d on only, and %s has no backup of blocks %d to %d: a folder restored without them cannot rebuild its state; make the backup on a node that keeps the whole history, or into a folder with an earlier backup of this node",
			first, w.o.Dir, next, first-1)
	}
	return nil
}

// copySegment reads and checks a segment and puts a copy of it into the backup. One that has it already gets no write. The
// segment that blocks are still appended to is never linked: the backup's file would grow with it.
func (w *backupWriter) copySegment(seg blockstore.CutSegment, isFull bool) (*BackupRun, error) {
	from := filepath.Join(w.store, filepath.FromSlash(seg.Name))
	f, err := os.Open(from)
	if err != nil {
		return nil, fmt.Errorf("copy segment %d: %w", seg.Number, err)
	}
	defer f.Close()
	whole, err := f.Stat()
	if err != nil {
		return nil, err
	}
	link := w.o.Link && isFull && whole.Size() == seg.Size
	if link || w.mayHave(seg) {
		r, err := w.readSegment(f, from, seg, io.Discard)
		if err != nil {
			return nil, err
		}
		to := filepath.Join(w.o.Dir, r.File)
		if same, err := hasContents(to, r.Bytes, r.SHA256); err != nil || same {
			return r, err
		}
		if link {
			return r, linkSegment(from, to)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	tmp := fmt.Sprintf("%s/%08d%s", backupSegmentDir, seg.Number, backupUnfinished)
	out, err := w.files.Open(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, backupWriteError(w.o.Dir, err)
	}
	defer w.files.Remove(tmp)
	defer out.Close()
	r, err := w.readSegment(f, from, seg, &fileWriter{f: out})
	if err != nil {
		return nil, err
	}
	if err := out.Sync(); err != nil {
		return nil, backupWriteError(w.o.Dir, err)
	}
	if err := w.files.Rename(tmp, r.File); err != nil {
		return nil, backupWriteError(w.o.Dir, err)
	}
	return r, nil
}

// fileWriter writes a file from its beginning on.
type fileWriter struct {
	f   vfs.File
	end int64
}

func (w *fileWriter) Write(p []byte) (int, error) {
	if err := vfs.WriteAll(w.f, p, w.end); err != nil {
		return 0, err
	}
	w.end += int64(len(p))
	return len(p), nil
}

// mayHave reports that the backup has a file of this segment's number and size.
func (w *backupWriter) mayHave(seg blockstore.CutSegment) bool {
	prefix := fmt.Sprintf("%08d-", seg.Number)
	return slices.ContainsFunc(w.there, func(e fs.DirEntry) bool {
		if !strings.HasPrefix(e.Name(), prefix) {
			return false
		}
		info, err := e.Info()
		return err == nil && info.Size() == seg.Size
	})
}

// readSegment reads and checks a segment of the node, writes what it reads to out and says how the backup lists it.
func (w *backupWriter) readSegment(f *os.File, from string, seg blockstore.CutSegment, out io.Writer) (*BackupRun, error) {
	sum, copied := sha256.New(), &failureKeeper{w: out}
	in := io.TeeReader(&cancelledReader{w.ctx, io.LimitReader(f, seg.Size)}, io.MultiWriter(sum, copied))
	ends, err := blockstore.ReadSegment(in, seg, nil)
	switch {
	case copied.err != nil: // the reader takes it for an error of its own
		return nil, backupWriteError(w.o.Dir, copied.err)
	case w.ctx.Err() != nil:
		return nil, w.ctx.Err()
	case errors.Is(err, blockstore.ErrSegment):
		return nil, fmt.Errorf("%s is damaged, nothing was changed in the backup: %w; have the node restore the blocks (bornode fsck) and make the backup again", from, err)
	case err != nil:
		return nil, err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	return &BackupRun{
		File: fmt.Sprintf("%s/%08d-%s.seg", backupSegmentDir, seg.Number, digest[:16]), Number: seg.Number, First: uint64(seg.First), Last: uint64(seg.Last),
		Bytes: seg.Size, SHA256: digest, Parent: ends.Parent, Hash: ends.Last,
	}, nil
}

// linkSegment gives a segment file a second name in the backup.
func linkSegment(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(from, to); err != nil {
		return fmt.Errorf("--link: %w; leave --link out to copy", err)
	}
	return nil
}

// failureKeeper remembers the error of a write whose caller reports it as one of reading.
type failureKeeper struct {
	w   io.Writer
	err error
}

func (k *failureKeeper) Write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	if err != nil {
		k.err = err
	}
	return n, err
}

// cancelledReader ends with the context.
type cancelledReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelledReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// hasContents reports whether a file is there with this size and SHA-256.
func hasContents(path string, size int64, digest string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return err == nil && n == size && hex.EncodeToString(sum.Sum(nil)) == digest, err
}

// copyFiles adds settings, genesis file, public facts and, if they were asked for, private keys.
func (w *backupWriter) copyFiles(gen *genesis.Genesis) error {
	if w.next.Public = readPublicKeys(w.cfg, gen.Parameters().ChainID); w.next.Public == nil {
		w.next.Public = new(PublicKeys)
	}
	files := []struct {
		from, name string
		secret     bool
	}{{w.o.Settings, config.FileName, false}, {w.cfg.Path(w.cfg.Genesis), restoredGenesis(w.cfg), false}}
	if w.o.Secrets {
		for _, key := range []string{w.cfg.Keys.Identity, w.cfg.Keys.Producer, w.cfg.PubSub.Key} {
			if key != "" {
				files = append(files, struct {
					from, name string
					secret     bool
				}{w.cfg.Path(key), key, true})
			}
		}
	}
	applied, err := appliedFiles(w.cfg)
	if err != nil {
		return err
	}
	for _, name := range applied {
		files = append(files, struct {
			from, name string
			secret     bool
		}{w.cfg.Path(name), name, false})
	}
	w.next.Files = nil
	for _, f := range files {
		if filepath.IsAbs(f.name) {
			return fmt.Errorf("the settings name the key file %s by an absolute path: --secrets copies keys below the node's folder only; keep a copy of this one by itself and leave --secrets out", f.name)
		}
		b, err := os.ReadFile(f.from)
		if errors.Is(err, fs.ErrNotExist) && f.secret {
			continue // a node that never ran has no identity yet
		}
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		digest := hex.EncodeToString(sum[:])
		x := BackupFile{File: fmt.Sprintf("%s/%s-%s", backupFileDir, digest[:16], filepath.Base(f.name)), Name: filepath.ToSlash(f.name), Secret: f.secret, Bytes: int64(len(b)), SHA256: digest}
		to := filepath.Join(w.o.Dir, x.File)
		if same, err := hasContents(to, x.Bytes, digest); err != nil {
			return err
		} else if !same {
			if err := vfs.ReplaceFile(w.files, x.File, b); err != nil {
				return backupWriteError(w.o.Dir, err)
			}
		}
		w.next.Files = append(w.next.Files, x)
	}
	return nil
}

// refuseShorter refuses a backup with fewer final blocks than the one before holds, which would be removed: they may be the only copy.
func (w *backupWriter) refuseShorter(cut *blockstore.Cut) error {
	if w.old == nil || uint64(cut.Height) >= w.old.Height {
		return nil
	}
	return fmt.Errorf("%s holds a backup with final blocks up to %d, and this node has them up to %d, as one that was put back from an older copy: let it catch up and make the backup again, or name another folder",
		w.o.Dir, w.old.Height, uint64(cut.Height))
}

// refuseLostKeys refuses a backup that would take private keys away, which the one before holds: they may be the only copy.
func (w *backupWriter) refuseLostKeys() error {
	if w.old == nil {
		return nil
	}
	kept := make(map[string]bool)
	for i := range w.next.Files {
		kept[w.next.Files[i].File] = true
	}
	for i := range w.old.Files {
		f := &w.old.Files[i]
		path := filepath.Join(w.o.Dir, f.File)
		if _, err := os.Lstat(path); f.Secret && !kept[f.File] && err == nil {
			return fmt.Errorf("%s is a private key of the backup before, which a new one here would remove: make the backup of the same node with --secrets, or name another folder, or move the key to where it is kept", path)
		}
	}
	return nil
}

// restoredGenesis is the name of the genesis file in a restored folder: that of the settings if it lies in the folder.
func restoredGenesis(cfg *config.Config) string {
	if filepath.IsLocal(cfg.Genesis) {
		return cfg.Genesis
	}
	return GenesisFile
}

// readPublicKeys are the public facts of a node's keys, nil without any. Nothing is made.
func readPublicKeys(cfg *config.Config, chainID uint64) (p *PublicKeys) {
	path := cfg.Path(cfg.Keys.Identity)
	if _, err := os.Stat(path); err == nil {
		if id, err := tcp.LoadOrCreateIdentity(path); err == nil {
			p = &PublicKeys{PeerID: string(id.ID())}
		}
	}
	if path := cfg.Path(cfg.Keys.Producer); path != "" {
		if s, err := signer.Load(path); err == nil {
			if p == nil {
				p = new(PublicKeys)
			}
			vote, proof := s.VoteKey(), s.ProvePossession(chainID)
			p.Account, p.BLSKey, p.Proof = s.Account(), vote[:], proof[:]
		}
	}
	return p
}

// publish makes the names durable, replaces the manifest and removes what it does not list.
func (w *backupWriter) publish() error {
	for _, dir := range []string{backupSegmentDir, backupFileDir, "."} {
		if err := w.files.SyncDir(dir); err != nil {
			return backupWriteError(w.o.Dir, err)
		}
	}
	b, err := w.next.encode()
	if err != nil {
		return err
	}
	if err := vfs.ReplaceFile(w.files, ManifestFile, b); err != nil {
		return backupWriteError(w.o.Dir, err)
	}
	keep := make(map[string]bool)
	for i := range w.next.Segments {
		keep[w.next.Segments[i].File] = true
	}
	for i := range w.next.Files {
		keep[w.next.Files[i].File] = true
	}
	for _, dir := range []string{backupSegmentDir, backupFileDir, "."} {
		entries, err := os.ReadDir(filepath.Join(w.o.Dir, dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if !keep[name] && madeByUs(name) {
				if err := os.Remove(filepath.Join(w.o.Dir, name)); err != nil {
					return fmt.Errorf("the backup is whole; a file of the one before is left: %w", err)
				}
			}
		}
	}
	return nil
}

// backupNames are the names that backups give to their files: number and digest of a segment, digest and name of a file,
// and what any file is written under before it has its name (a killed backup leaves it, perhaps with a private key).
var backupNames = regexp.MustCompile(`^(segments/\d{8,}-[0-9a-f]{16}\.seg|files/[0-9a-f]{16}-.+|files/\.tmp-[0-9a-f]{16}-.+-\d+-\d+|\.tmp-MANIFEST\.json-\d+-\d+|MANIFEST\.json\.new)$`)

// madeByUs reports that a file which the manifest does not list is of a backup before, perhaps of one that was not ended.
// Whatever else somebody put there stays.
func madeByUs(name string) bool {
	return strings.HasPrefix(name, backupSegmentDir+"/") && strings.HasSuffix(name, backupUnfinished) || backupNames.MatchString(name)
}
