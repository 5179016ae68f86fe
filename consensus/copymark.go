package consensus

import (
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
)

// copyMark is a file in the folder of the vote log that says that the folder is a copy: its producer may have signed
// what no log here holds, whatever log is there and whatever new_key says (DESIGN §7 rule 11). It goes once the log holds
// that itself.
const copyMark = "COPY"

// MarkCopied marks the folder of a vote log, which is made if it is missing, as a copy. It is durable when it returns:
// whoever makes a copy marks it before anything in it can be started.
func MarkCopied(dir string) error {
	folder := vfs.OS(dir, vfs.Private)
	if err := folder.Mkdir("."); err != nil {
		return fmt.Errorf("make directory of the vote log: %w", err)
	}
	return vfs.ReplaceFile(folder, copyMark, []byte("This folder was restored from a backup. Its producer signs nothing until the chain proves that this is safe.\n"))
}

// markedCopy reports whether a folder is marked as a copy.
func markedCopy(folder vfs.FS) (bool, error) {
	names, err := folder.List(".")
	if err != nil {
		return false, fmt.Errorf("look whether the folder of the vote log is a copy: %w", err)
	}
	return slices.Contains(names, copyMark), nil
}

// openLogOfCopy makes the log of a copy hold that it may lack entries: a log that was made for want of one, or was
// damaged, says so already, and a good one that somebody put there gets the marker. The mark goes last.
func (d *Driver) openLogOfCopy(folder vfs.FS, l *voteLog, payloads [][]byte, st logState) ([][]byte, error) {
	if st == logGood {
		marker := lostMarker()
		if err := l.append([][]byte{marker}); err != nil {
			return nil, err
		}
		payloads = append(payloads, marker)
	}
	d.log.Warn("this folder is a copy that was restored from a backup; nothing is signed until the chain proves that this is safe", zap.String("folder", d.cfg.Dir))
	return payloads, errors.Join(folder.Remove(copyMark), folder.SyncDir("."))
}
