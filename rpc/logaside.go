package rpc

import (
	"io"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/aside"
	"github.com/bornode/bornode/internal/vfs"
)

// keepDamaged keeps a copy of a file's bytes from an offset on, before they are cut off because they cannot be read. The
// index is rebuilt from the blocks, so a copy that fails (a full disk) is told and stops nothing.
func (x *logFile) keepDamaged(f vfs.File, name string, from int64) {
	size, err := f.Size()
	if size -= from; err == nil && size <= 0 {
		return
	}
	to := ""
	if err == nil {
		to, err = aside.KeepBytes(x.fs, name, io.NewSectionReader(f, from, size), size, maxDamagedIndexes, time.Now())
	}
	folder := filepath.Dir(x.path)
	at := []zap.Field{zap.String("file", filepath.Join(folder, name)), zap.Int64("position", from), zap.Int64("bytes", size)}
	if err != nil {
		x.log.Warn("a part of the log index cannot be read and could not be set aside either; it is cut off and rebuilt from the blocks", append(at, zap.Error(err))...)
		return
	}
	x.log.Warn("set aside: a part of the log index that cannot be read (a crash while it was written leaves such at its end, anything else is damage); it is cut off and rebuilt from the blocks", append(at, zap.String("to", filepath.Join(folder, to)))...)
}
