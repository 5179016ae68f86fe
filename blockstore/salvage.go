package blockstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/syndtr/goleveldb/leveldb"
	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/journal"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/table"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/bornode/bornode/internal/vfs"
)

// goleveldb passes over what it cannot read of a journal or a manifest without a word, removes tables that a damaged
// manifest no longer lists, panics about some damage in tables, and its recovery writes over damaged tables. What it would
// lose this way is looked for before it opens a database of primary data; a damaged database is rebuilt beside the old one
// from every entry that can be read, and the old one is kept.

// levelCondition is what the files of a goleveldb database say of themselves.
type levelCondition struct {
	damage string   // what is damaged, empty if nothing is known to be
	torn   bool     // the only damage is an end that was not written whole, as a power cut leaves it
	tails  []string // journals whose end cannot be read
}

// examineLevel reads all files that a database consists of.
func examineLevel(fs vfs.FS, dir string) (levelCondition, error) {
	var c levelCondition
	names, err := fs.List(dir)
	if err != nil {
		return c, err
	}
	live, err := readLevelTables(fs, dir, names)
	if err != nil {
		return c, err
	}
	for _, base := range names {
		fd, ok := parseLevelName(base)
		if !ok || !live.counts(fd, base) {
			continue
		}
		name := dir + "/" + base
		switch fd.Type {
		case storage.TypeTable:
			err := examineTable(fs, name, fd)
			if isCorrupted(err) {
				c.damage, c.torn = err.Error(), false
			} else if err != nil {
				return c, err
			}
		case storage.TypeJournal, storage.TypeManifest:
			inside, tail, err := readLevelLog(fs, name, func([]byte) error { return nil })
			switch {
			case err != nil:
				return c, err
			case inside:
				c.damage, c.torn = name+" is damaged", false
			case tail && fd.Type == storage.TypeJournal:
				c.tails = append(c.tails, name)
			case tail && c.damage == "":
				c.damage, c.torn = name+" ends in bytes that cannot be read", true
			}
		}
	}
	return c, nil
}

// examineTable reads a table as strictly as goleveldb can, and checks what goleveldb takes for granted of keys and would
// panic about: their form, and that they rise. A table's footer has no checksum.
func examineTable(fs vfs.FS, name string, fd storage.FileDesc) error {
	damaged := func(what string) error {
		return lerrors.NewErrCorrupted(fd, fmt.Errorf("%s is damaged: %s", name, what))
	}
	var before []byte
	var beforeSeq uint64
	err := eachTableEntry(fs, name, fd, true, func(seq uint64, key, _ []byte, _ bool) error {
		order := bytes.Compare(before, key)
		if before != nil && (order > 0 || order == 0 && seq >= beforeSeq) {
			return damaged("its keys do not rise")
		}
		before, beforeSeq = append(before[:0], key...), seq
		return nil
	})
	if isCorrupted(err) {
		return damaged(err.Error())
	}
	return err
}

// levelDrops counts what a journal reader could not read.
type levelDrops int

func (d *levelDrops) Drop(error) { *d++ }

// readLevelLog gives every record of a journal or manifest that can be read. inside: something before the last of them
// cannot; tail: something behind it cannot, as a write that a power cut ended leaves it.
func readLevelLog(fs vfs.FS, name string, fn func(record []byte) error) (inside, tail bool, err error) {
	before := 0
	all, err := eachLogRecord(fs, name, func(record []byte, dropped int) error {
		before = dropped
		return fn(record)
	})
	return err == nil && before > 0, err == nil && all > before, err
}

// eachLogRecord gives every record of a journal or manifest that can be read, with how many places before it cannot, and
// returns how many cannot at all.
func eachLogRecord(fs vfs.FS, name string, fn func(record []byte, dropped int) error) (dropped int, err error) {
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	drops := new(levelDrops)
	in := journal.NewReader(io.NewSectionReader(f, 0, size), drops, false, true)
	for {
		r, err := in.Next()
		if errors.Is(err, io.EOF) {
			return int(*drops), nil
		}
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
		record, err := io.ReadAll(r)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			continue // counted as dropped
		}
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
		if err := fn(record, int(*drops)); err != nil {
			return 0, err
		}
	}
}

// marksDoubtful reports whether the journals of the derived database have a mark of what is durable behind something that
// cannot be read: what the mark says is then not sure. What cannot be read behind the last mark is no damage: it was not
// synced, so a power cut may take any of it, and the start completes the indexes from the mark on.
func marksDoubtful(fs vfs.FS, dir string, names []string) (doubtful bool, err error) {
	var journals []storage.FileDesc
	for _, base := range names {
		if fd, ok := parseLevelName(base); ok && fd.Type == storage.TypeJournal {
			journals = append(journals, fd)
		}
	}
	slices.SortFunc(journals, func(a, b storage.FileDesc) int { return cmp.Compare(a.Num, b.Num) })
	lost := 0 // in the journals before
	for _, fd := range journals {
		dropped, err := eachLogRecord(fs, dir+"/"+fd.String(), func(record []byte, dropped int) error {
			if lost+dropped == 0 || doubtful {
				return nil
			}
			return eachBatchEntry(record, func(_ uint64, key, _ []byte, _ bool) error {
				doubtful = doubtful || string(key) == keyHashed || string(key) == keyTxs
				return nil
			})
		})
		if err != nil {
			return false, err
		}
		lost += dropped
	}
	return doubtful, nil
}

// salvageLevel writes the newest version of every entry that can be read in the files of a database to a new database.
// It changes nothing of the old one.
func salvageLevel(fs vfs.FS, dir string, to *leveldb.DB) error {
	newest := make(map[string]uint64) // sequence numbers
	err := eachLevelEntry(fs, dir, func(seq uint64, key, _ []byte, _ bool) error {
		newest[string(key)] = max(newest[string(key)], seq)
		return nil
	})
	if err != nil {
		return err
	}
	batch := new(leveldb.Batch)
	err = eachLevelEntry(fs, dir, func(seq uint64, key, value []byte, deleted bool) error {
		if deleted || newest[string(key)] != seq {
			return nil
		}
		batch.Put(key, value)
		if len(batch.Dump()) < writeChunkBytes {
			return nil
		}
		defer batch.Reset()
		return to.Write(batch, nil)
	})
	if err != nil {
		return err
	}
	return to.Write(batch, &opt.WriteOptions{Sync: true})
}

type levelEntryFunc func(seq uint64, key, value []byte, deleted bool) error

// eachLevelEntry gives all versions of all entries that can be read, in no order.
func eachLevelEntry(fs vfs.FS, dir string, fn levelEntryFunc) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, base := range names {
		fd, ok := parseLevelName(base)
		switch {
		case ok && fd.Type == storage.TypeTable:
			err = eachTableEntry(fs, dir+"/"+base, fd, false, fn)
		case ok && fd.Type == storage.TypeJournal:
			_, _, err = readLevelLog(fs, dir+"/"+base, func(record []byte) error { return eachBatchEntry(record, fn) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachTableEntry reads a table. Its keys end in sequence number and kind, 8 bytes little-endian. Damage is passed over
// unless strict.
func eachTableEntry(fs vfs.FS, name string, fd storage.FileDesc, strict bool, fn levelEntryFunc) (err error) {
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	defer func() { // goleveldb takes for granted what a footer names
		if p := recover(); p != nil {
			err = passOver(strict, lerrors.NewErrCorrupted(fd, fmt.Errorf("%v", p)))
		}
	}()
	o := &opt.Options{Strict: opt.StrictBlockChecksum, DisableBlockCache: true}
	if strict {
		o.Strict |= opt.StrictReader
	}
	r, err := table.NewReader(struct{ io.ReaderAt }{f}, size, fd, nil, util.NewBufferPool(opt.DefaultBlockSize+5), o)
	if err != nil {
		return passOver(strict, fmt.Errorf("read %s: %w", name, err))
	}
	defer r.Release()
	it := r.NewIterator(nil, nil)
	defer it.Release()
	for it.Next() {
		key := it.Key()
		if len(key) < 8 || key[len(key)-8] > 1 {
			if strict {
				return lerrors.NewErrCorrupted(fd, fmt.Errorf("a key of %d bytes is none of the database's", len(key)))
			}
			continue
		}
		tail := binary.LittleEndian.Uint64(key[len(key)-8:])
		if err := fn(tail>>8, key[:len(key)-8], it.Value(), tail&0xff == 0); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return passOver(strict, fmt.Errorf("read %s: %w", name, err))
	}
	return nil
}

func passOver(strict bool, err error) error {
	var corrupted *lerrors.ErrCorrupted
	if !strict && errors.As(err, &corrupted) {
		return nil
	}
	if corrupted != nil || errors.As(err, &corrupted) {
		return corrupted
	}
	return err
}

// batchEntries gives the entries of a journal's record: sequence number of the first (8, little-endian), their number
// (4), then the entries, which count on.
type batchEntries struct {
	seq uint64
	fn  levelEntryFunc
	err error
}

func (b *batchEntries) put(key, value []byte, deleted bool) {
	if b.err == nil {
		b.err = b.fn(b.seq, key, value, deleted)
	}
	b.seq++
}

func (b *batchEntries) Put(key, value []byte) { b.put(key, value, false) }
func (b *batchEntries) Delete(key []byte)     { b.put(key, nil, true) }

func eachBatchEntry(record []byte, fn levelEntryFunc) error {
	const head = 12
	if len(record) < head {
		return nil
	}
	batch := new(leveldb.Batch)
	if err := batch.Load(record[head:]); err != nil {
		return nil //nolint:nilerr // no batch: passed over
	}
	b := &batchEntries{seq: binary.LittleEndian.Uint64(record), fn: fn}
	if err := batch.Replay(b); err != nil {
		return err
	}
	return b.err
}
