package evidence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/bornode/bornode/internal/exit"
)

// Inspect reads the whole database of evidence in a stopped node's folder and changes nothing of it. A missing folder
// is an empty database. The error says why it could not finish. It must not run beside a process that uses the folder.
func Inspect(ctx context.Context, dir string, chain common.Hash) (findings []exit.Finding, err error) {
	if _, err := os.Stat(filepath.Join(dir, "LOCK")); errors.Is(err, os.ErrNotExist) { // to open it would make the file
		return nil, nil
	}
	tell := func(cause error) {
		findings = append(findings, exit.Finding{Part: "evidence", File: dir, Problem: fmt.Sprintf("the database of evidence is damaged: %v", cause),
			Remedy: "the next start keeps a copy of the folder and repairs it as far as it can be read; what is lost is asked of other brokers"})
	}
	files, err := storage.OpenFile(dir, true)
	if err != nil {
		return nil, fmt.Errorf("open the database of evidence in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	db, err := leveldb.Open(files, &opt.Options{ReadOnly: true, ErrorIfMissing: true, Strict: opt.StrictAll})
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("open the database of evidence in %s: %w", dir, err)
		}
		tell(err)
		return findings, nil
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if was, err := db.Get([]byte{keyChain}, nil); err == nil && common.BytesToHash(was) != chain {
		findings = append(findings, exit.Finding{Part: "evidence", File: dir, Problem: fmt.Sprintf("it is of the chain with genesis %x, this is %s", was, chain),
			Remedy: "give the broker another folder, or move this one away"})
	}
	it := db.NewIterator(nil, &opt.ReadOptions{Strict: opt.StrictAll, DontFillCache: true})
	defer it.Release()
	for it.Next() {
		if err := ctx.Err(); err != nil {
			return findings, err
		}
	}
	if err := it.Error(); err != nil {
		tell(err)
	}
	return findings, nil
}
