package evidence

import (
	"errors"

	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/bornode/bornode/internal/exit"
)

// damageFault makes damage that shows when the database is read the end that it is. A table is read long after the
// database opens, and goleveldb's own repair keeps what it cannot check, so nothing is repaired here.
func damageFault(dir string, err error) error {
	var table *lerrors.ErrCorrupted
	var file *storage.ErrCorrupted
	if !errors.As(err, &table) && !errors.As(err, &file) {
		return err
	}
	return &exit.Fault{What: "the database of evidence is damaged", File: dir, Cause: err,
		Remedy: "put the folder back from a copy, or move the folder " + dir + " away and start again: other brokers give the leaves that they have, and what only this one had cannot be proved any more"}
}
