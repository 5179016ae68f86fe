package blockstore

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	folder "github.com/bornode/bornode/internal/format"
)

// CheckForm refuses the folder of a store whose segments are of another form than this program's (format.ErrUnknown): its
// FORMAT file may be lost, or it is of a program from before there was one. It changes nothing. What is absent, damaged or
// cannot be read is left to Open.
func CheckForm(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, segmentDir, "*.seg"))
	if err != nil || len(paths) == 0 {
		return nil //nolint:nilerr // a pattern of ours
	}
	f, err := os.Open(paths[0])
	if err != nil {
		return nil //nolint:nilerr // told by Open
	}
	defer f.Close()
	head := make([]byte, segmentHeaderBytes)
	if _, err := io.ReadFull(f, head); err != nil || !isOfAnotherForm(head) {
		return nil //nolint:nilerr // told by Open
	}
	return folder.Unknown(fmt.Sprintf("file %s holds blocks of form %s, and this program knows form %s: use the program that wrote it (nothing was changed)",
		paths[0], head[:len(segmentMagic)], segmentMagic))
}
