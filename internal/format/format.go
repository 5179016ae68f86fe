package format

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bornode/bornode/internal/vfs"
)

// FileName is the file in a folder that says in which form the folder's data is: for each kind of data there a Line.
const FileName = "FORMAT"

// Kind is what a folder holds, or a part of what it holds: parts whose data is single files share a folder.
type Kind string

// Kinds of data.
const (
	Node      Kind = "node"       // the data folder
	Blocks    Kind = "blocks"     // the block store
	State     Kind = "state"      // the state database
	Consensus Kind = "consensus"  // the vote log
	Pool      Kind = "pool"       // the journal of transactions
	LogIndex  Kind = "log-index"  // the index of logs
	Broker    Kind = "broker"     // the broker's folder
	Topics    Kind = "topics-log" // the log of topics
	Evidence  Kind = "evidence"   // the database of evidence
	Wallet    Kind = "wallet"     // wallets
)

// versions are the forms that this program reads and writes. What lies in a folder without a FORMAT
// file says its version itself, if it is of a later one than the first.
var versions = map[Kind]int{
	Node: 2, Blocks: 2, State: 1, Consensus: 3, Pool: 1, LogIndex: 1, Broker: 1, Topics: 1, Evidence: 1, Wallet: 1,
}

// earlier are forms of earlier programs that this one reads too. Whoever opens such data writes it in this program's form.
var earlier = map[Kind][]string{
	Consensus: {"2"}, // release 0.3
}

// Version is the form of a kind of data that this program reads and writes.
func Version(kind Kind) int { return versions[kind] }

// Line is what a FORMAT file says of a kind: bornode KIND VERSION and the CRC-32C of these words, eight hexadecimal digits,
// by which a turned bit is told from another version.
func Line(kind Kind, version string) string {
	words := fmt.Sprintf("bornode %s %s", kind, version)
	return fmt.Sprintf("%s %s\n", words, checksum(words))
}

func checksum(words string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(words), crc32.MakeTable(crc32.Castagnoli)))
}

// ErrUnknown means that a folder is of a form that this program does not know. Nothing in the folder may be changed then.
var ErrUnknown = errors.New("the form of the folder's data is not known")

// unknown is an ErrUnknown with one sentence of its own.
type unknown struct{ sentence string }

func (e *unknown) Error() string        { return e.sentence }
func (e *unknown) Is(target error) bool { return target == ErrUnknown }

// Unknown is an ErrUnknown about a file that says its form itself. The sentence names file, both forms and the remedy.
func Unknown(sentence string) error { return &unknown{sentence} }

// Check refuses the root of a file system whose FORMAT file names a version of a kind that this program does not read; the error
// is one sentence that wraps ErrUnknown. A folder, file or line that is absent or damaged is fine. It changes nothing. dir
// names the folder for errors.
func Check(fs vfs.FS, dir string, kind Kind) error {
	_, err := read(fs, dir, kind)
	return err
}

// CheckFolder is Check of a folder of the operating system.
func CheckFolder(dir string, kind Kind) error { return Check(vfs.OS(dir, vfs.Private), dir, kind) }

// Stamp checks as Check does, and writes the kind with this program's version into the FORMAT file, durably, if it does not
// name it with that: before anything else of the folder changes. The folder must exist. One goroutine of one process at a time
// may stamp a folder.
func Stamp(fs vfs.FS, dir string, kind Kind) error {
	lines, err := read(fs, dir, kind)
	if err != nil {
		return err
	}
	this := strconv.Itoa(versions[kind])
	if lines[kind] == this {
		return nil
	}
	lines[kind] = this
	var text []string
	for k, version := range lines {
		text = append(text, Line(k, version))
	}
	slices.Sort(text)
	if err := vfs.ReplaceFile(fs, FileName, []byte(strings.Join(text, ""))); err != nil {
		return fmt.Errorf("say in folder %s in which form its data is: %w", dir, err)
	}
	return nil
}

// StampFolder is Stamp of a folder of the operating system, which it makes if needed.
func StampFolder(dir string, kind Kind, modes vfs.Modes) error {
	fs := vfs.OS(dir, modes)
	if err := fs.Mkdir("."); err != nil {
		return err
	}
	return Stamp(fs, dir, kind)
}

// read gives the versions that the FORMAT file names. An absent file, an empty one and damaged lines name none: as the form
// of the data is that of this program then, but for two faults at once, nothing is lost by naming it again.
func read(fs vfs.FS, dir string, kind Kind) (map[Kind]string, error) {
	lines := make(map[Kind]string)
	raw, err := vfs.ReadFile(fs, FileName, maxFileBytes)
	if errors.Is(err, os.ErrNotExist) {
		return lines, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read in which form the data of folder %s is: %w", dir, err)
	}
	for _, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
		end := strings.LastIndexByte(line, ' ')
		if end < 0 || checksum(line[:end]) != line[end+1:] {
			continue // damaged
		}
		rest, ours := strings.CutPrefix(line[:end], "bornode ")
		name, version, whole := strings.Cut(rest, " ")
		if _, known := versions[Kind(name)]; ours && whole && known { // any other line is of another program's kind
			lines[Kind(name)] = version
		}
	}
	if v, said := lines[kind]; said && v != strconv.Itoa(versions[kind]) && !slices.Contains(earlier[kind], v) {
		return nil, &unknown{fmt.Sprintf("folder %s holds %s data of format %s, and this program knows format %d: use the program that wrote it (%s says so; nothing was changed)",
			dir, kind, shorten(v), versions[kind], filepath.Join(dir, FileName))}
	}
	return lines, nil
}

// shorten bounds what an error shows of a file.
func shorten(s string) string {
	return strings.Trim(strconv.Quote(s[:min(len(s), maxShownBytes)]), `"`)
}
