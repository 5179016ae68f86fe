package rpc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/vfs"
)

const logIndexRemedy = "the next start keeps a copy of what cannot be read and rebuilds it from the blocks"

// CheckLogIndex reads the whole log index of a stopped node and changes nothing. canonical gives the hash of a final
// block, zero if that is not known. A node without the file has not made it yet.
func CheckLogIndex(path string, canonical func(height uint64) common.Hash) (findings []exit.Finding) {
	tell := func(file string, harmless bool, format string, args ...any) {
		findings = append(findings, exit.Finding{Part: "log index", File: file, Problem: fmt.Sprintf(format, args...), Remedy: logIndexRemedy, Harmless: harmless})
	}
	if path == "" {
		return nil
	}
	f, err := vfs.OS(filepath.Dir(path), vfs.Private).Open(filepath.Base(path), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		tell(path, false, "the log index cannot be opened: %v", err)
		return findings
	}
	defer f.Close()
	x := &logFile{f: f, log: zap.NewNop(), sections: make(map[uint64]int64)}
	if !x.readHead() {
		tell(path, false, "the head of the log index cannot be read")
		return findings
	}
	x.checkSections(canonical, func(harmless bool, format string, args ...any) { tell(path, harmless, format, args...) })
	x.checkTail(path+".tail", func(harmless bool, format string, args ...any) { tell(path+".tail", harmless, format, args...) })
	return findings
}

// checkSections reads every section. A header is written last: what a crash leaves of a section begins with zeros.
func (x *logFile) checkSections(canonical func(uint64) common.Hash, tell func(harmless bool, format string, args ...any)) {
	size, err := x.f.Size()
	if err != nil {
		tell(false, "it cannot be read: %v", err)
		return
	}
	every := make(map[uint32]*blockSet, logBuckets) // a fingerprint of each bucket
	for k := range uint32(logBuckets) {
		every[k] = new(blockSet)
	}
	b := make([]byte, sectionHead)
	for x.end < size {
		n, err := x.f.ReadAt(b, x.end)
		if err != nil && !errors.Is(err, io.EOF) {
			tell(false, "what follows byte %d cannot be read: %v", x.end, err)
			return
		}
		i, ok := readInfo(b[:n], x.seed)
		if !ok || x.end+i.size() > size {
			tell(isZero(b[:n]), "what follows byte %d is no whole section", x.end)
			return
		}
		if hash := canonical((i.section+1)*logSection - 1); hash != (common.Hash{}) && hash != i.last {
			tell(false, "the section at byte %d is of another chain or branch", x.end)
		}
		if err := x.readSection(i.section, x.end, every); err != nil {
			tell(false, "section %d at byte %d: %v", i.section, x.end, err)
		}
		x.end += i.size()
	}
}

// checkTail reads the entries of the section that is being filled. What a crash leaves stands behind the last one.
func (x *logFile) checkTail(path string, tell func(harmless bool, format string, args ...any)) {
	f, err := os.Open(path)
	if err != nil {
		tell(errors.Is(err, os.ErrNotExist), "it cannot be opened: %v", err)
		return
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, logSection*(tailHead+4*maxLogPrints)))
	if err != nil {
		tell(false, "it cannot be read: %v", err)
		return
	}
	entries := 0
	for len(b) > 0 {
		_, _, _, size := readEntry(b, x.seed)
		if size == 0 {
			tell(true, "behind %d entries are %d bytes that are no whole entry", entries, len(b))
			return
		}
		b, entries = b[size:], entries+1
	}
}

func isZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
