package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs"
)

// A backup is a folder: ManifestFile, and the files that it lists, each named by what it holds. A file is never changed
// once it has its name, and the manifest is replaced in one step when all files of the new one are durable: at every
// moment the folder holds the whole backup that its manifest describes, or, without a manifest, none.
const (
	ManifestFile     = "MANIFEST.json"
	manifestFormat   = 2
	backupLock       = "LOCK"
	backupSegmentDir = "segments"
	backupFileDir    = "files"
	backupUnfinished = ".unfinished" // ends the name of a file that is being written
)

// Manifest describes a backup.
type Manifest struct {
	Format    int           `json:"format"`
	Made      time.Time     `json:"made"`
	Version   string        `json:"version"` // of the program that made it
	ChainID   uint64        `json:"chain_id"`
	Genesis   common.Hash   `json:"genesis"` // hash of block 0
	Height    uint64        `json:"height"`  // of the last irreversible block
	Hash      common.Hash   `json:"hash"`
	QC        hexutil.Bytes `json:"qc,omitempty"` // its proof (docs/wire.md)
	FC        hexutil.Bytes `json:"fc,omitempty"`
	Root      hexutil.Bytes `json:"consensus_root,omitempty"`
	Segments  []BackupRun   `json:"segments"` // by height, from block 0 on
	Files     []BackupFile  `json:"files"`    // of the node's folder
	Secrets   bool          `json:"secrets"`  // private keys are among the files
	Public    *PublicKeys   `json:"public,omitempty"`
	Checksum  string        `json:"checksum"` // SHA-256 of the manifest with this field empty
	directory string        // of the backup
}

// BackupRun is a copy of a segment file, or of the beginning of the one that was written to.
type BackupRun struct {
	File   string      `json:"file"` // below the backup's folder
	Number uint32      `json:"number"`
	First  uint64      `json:"first"`
	Last   uint64      `json:"last"`
	Bytes  int64       `json:"bytes"`
	SHA256 string      `json:"sha256"`
	Parent common.Hash `json:"parent"` // of its first block
	Hash   common.Hash `json:"hash"`   // of its last block
}

// BackupFile is a copy of a small file.
type BackupFile struct {
	File   string `json:"file"` // below the backup's folder
	Name   string `json:"name"` // below the node's folder
	Secret bool   `json:"secret,omitempty"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func (r *BackupRun) segment() blockstore.CutSegment {
	return blockstore.CutSegment{Number: r.Number, First: hexutil.Uint64(r.First), Last: hexutil.Uint64(r.Last), Size: r.Bytes, Name: r.File}
}

// encode writes the manifest with its checksum.
func (m *Manifest) encode() ([]byte, error) {
	m.Checksum = ""
	plain, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(plain)
	m.Checksum = hex.EncodeToString(sum[:])
	b, err := json.MarshalIndent(m, "", "  ")
	return append(b, '\n'), err
}

// otherBackup is what to do about a manifest that cannot be read: nothing says which files of the folder are worth keeping.
const otherBackup = "use another backup, or make one in another folder"

// errNoBackup says that a folder holds no whole backup.
var errNoBackup = errors.New("it holds no whole backup")

// readManifest reads and checks the manifest of a backup. errNoBackup: there is none.
func readManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s: %w; a backup that was not ended has none, make it again with bornode backup", dir, ManifestFile, errNoBackup)
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file; %s", path, otherBackup)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, otherBackup)
	}
	if info.Size() > maxManifestBytes {
		return nil, fmt.Errorf("%s has %d bytes, %d at most are possible: it is no manifest of a backup", path, info.Size(), maxManifestBytes)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, otherBackup)
	}
	m := new(Manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; %s", path, err, otherBackup)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("%s has format %d, this program knows %d: use the program that made the backup (%s)", path, m.Format, manifestFormat, m.Version)
	}
	said := m.Checksum
	again, err := m.encode()
	if err != nil || m.Checksum != said || !bytes.Equal(again, raw) {
		return nil, fmt.Errorf("%s is damaged: its checksum does not fit; %s", path, otherBackup)
	}
	m.directory = dir
	return m, m.checkOrder(path)
}

// checkOrder checks that the runs are one chain from block 0 to the last irreversible block, and every name.
func (m *Manifest) checkOrder(path string) error {
	next, parent := uint64(0), common.Hash{}
	for i := range m.Segments {
		r := &m.Segments[i]
		if r.First != next || r.Last < r.First || r.Parent != parent {
			return fmt.Errorf("%s lists blocks %d to %d where block %d is the next: it is damaged, use another backup", path, r.First, r.Last, next)
		}
		if err := checkBackupName(r.File); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		next, parent = r.Last+1, r.Hash
	}
	if next != m.Height+1 || parent != m.Hash {
		return fmt.Errorf("%s names block %d %s as the last, and lists blocks to %d %s: it is damaged, use another backup", path, m.Height, m.Hash, next, parent)
	}
	for _, f := range m.Files {
		if err := errors.Join(checkBackupName(f.File), checkBackupName(f.Name)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// checkBackupName refuses names that lead out of a folder.
func checkBackupName(name string) error {
	if !filepath.IsLocal(name) || strings.Contains(name, `\`) {
		return fmt.Errorf("the file name %q leads out of the folder: the manifest is damaged", name)
	}
	return nil
}

// VerifyBackup reads a whole backup and checks it against its manifest: sizes, checksums, every record, block on block.
// progress, which may be nil, gets the bytes read so far and in all.
func VerifyBackup(dir string, progress func(done, all int64)) (*Manifest, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	all, done := m.bytes(), int64(0)
	for i := range m.Segments {
		r := &m.Segments[i]
		if err := m.readRun(r, nil); err != nil {
			return nil, err
		}
		if done += r.Bytes; progress != nil {
			progress(done, all)
		}
	}
	for i := range m.Files {
		if _, err := m.readFile(&m.Files[i]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// bytes is the size of all runs.
func (m *Manifest) bytes() (n int64) {
	for i := range m.Segments {
		n += m.Segments[i].Bytes
	}
	return n
}

// readRun reads a run, hands its blocks to fn (which may be nil), and checks its size, checksum and ends.
func (m *Manifest) readRun(r *BackupRun, fn blockVisitor) error {
	path := filepath.Join(m.directory, r.File)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("the backup lacks a file: %w; use another backup", err)
	}
	defer f.Close()
	sum := sha256.New()
	ends, err := blockstore.ReadSegment(io.TeeReader(f, sum), r.segment(), fn)
	if errors.Is(err, blockstore.ErrSegment) {
		return fmt.Errorf("%s is damaged: %w; make the backup again, or use another one", path, err)
	}
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != r.SHA256 || ends.Parent != r.Parent || ends.Last != r.Hash {
		return fmt.Errorf("%s is not the file that the manifest lists: its SHA-256 is %s, not %s; make the backup again, or use another one", path, got, r.SHA256)
	}
	return nil
}

func (m *Manifest) readFile(f *BackupFile) ([]byte, error) {
	path := filepath.Join(m.directory, f.File)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the backup lacks a file: %w; use another backup", err)
	}
	sum := sha256.Sum256(b)
	if int64(len(b)) != f.Bytes || hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, fmt.Errorf("%s is damaged: it is not the file that the manifest lists; make the backup again, or use another one", path)
	}
	return b, nil
}

// lockBackup keeps a second process from writing to a backup's folder, which is made, durably, if it is missing.
func lockBackup(files vfs.FS) (io.Closer, error) {
	if err := files.Mkdir("."); err != nil {
		return nil, err
	}
	return files.Lock(backupLock)
}
