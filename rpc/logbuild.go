package rpc

import (
	"context"
	"fmt"

	"go.uber.org/zap"
)

// BuildLogIndex opens the log index with this path, or makes it, and adds what it lacks of a chain's final blocks, as a
// node does in the background, without its rests. For measuring and offline work: nobody else may use the file meanwhile.
// A block that cannot be read ends it with an error.
func BuildLogIndex(ctx context.Context, path string, c Chain, log *zap.Logger) error {
	x := newLogIndex(c)
	if log != nil {
		x.log = log
	}
	if err := x.open(path); err != nil {
		return err
	}
	defer x.close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := x.extend()
		if err != nil {
			return err
		}
		if more {
			continue
		}
		if final := c.FinalHeader(); final != nil && x.file.height() <= final.Number.Uint64() {
			return fmt.Errorf("the log index ends before block %d, which cannot be read", x.file.height())
		}
		return nil
	}
}
