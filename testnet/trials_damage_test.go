package testnet

import (
	"bytes"
	bigendian "encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

const trialPage = 4 << 10 // what a disk loses at once

// damage is one fault of a file: where it lies below the node's folder, and what happens to it.
type damage struct {
	file string
	how  string // "flip", "cut", "zero", "delete"
	at   int64
	bit  int
}

func (d damage) String() string {
	switch d.how {
	case "flip":
		return fmt.Sprintf("bit %d of byte %d of %s flipped", d.bit, d.at, d.file)
	case "cut":
		return fmt.Sprintf("%s cut at byte %d", d.file, d.at)
	case "zero":
		return fmt.Sprintf("4 KiB of %s zeroed at byte %d", d.file, d.at)
	}
	return d.file + " deleted"
}

// kindOfFile puts files together that hold the same kind of data.
func kindOfFile(name string) string {
	kind := regexp.MustCompile(`[0-9]+`).ReplaceAllString(name, "N")
	return strings.TrimSuffix(kind, ".damaged-NTNZ")
}

// filesToDamage are the files of a node's folder that the node itself writes, with their sizes. Locks and logs hold nothing,
// and a setting that was changed is a setting.
func filesToDamage(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	files := make(map[string]int64)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // it went while we looked
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		base := filepath.Base(name)
		if err != nil || strings.EqualFold(strings.TrimLeft(base, "F"), "lock") || strings.HasSuffix(base, ".lock") || strings.HasPrefix(base, "bornode.") ||
			strings.HasPrefix(base, "crash.") || base == "LOG" || base == "LOG.old" || base == "RESERVE" || strings.HasSuffix(base, ".pem") ||
			strings.Contains(name, "/aside/") || strings.Contains(name, ".damaged-") || strings.HasSuffix(base, ".new") {
			return err
		}
		if info, err := d.Info(); err == nil {
			files[name] = info.Size()
		}
		return nil
	}))
	return files
}

// drawDamage chooses a file, for one half of the trials by kind and for the other by byte, and what happens to it.
func drawDamage(files map[string]int64, random *rand.Rand) damage {
	names := make([]string, 0, len(files))
	kinds, total := make(map[string][]string), int64(0)
	for name, size := range files {
		if size > 0 {
			names, total = append(names, name), total+size
		}
	}
	slices.Sort(names)
	var list []string
	for _, name := range names {
		kind := kindOfFile(name)
		if kinds[kind] == nil {
			list = append(list, kind)
		}
		kinds[kind] = append(kinds[kind], name)
	}
	d := damage{}
	if random.IntN(2) == 0 {
		of := kinds[list[random.IntN(len(list))]]
		d.file = of[random.IntN(len(of))]
	} else {
		at := random.Int64N(total)
		for _, name := range names {
			if d.file = name; at < files[name] {
				break
			}
			at -= files[name]
		}
	}
	d.how, d.at, d.bit = []string{"flip", "flip", "cut", "zero", "delete"}[random.IntN(5)], random.Int64N(files[d.file]), random.IntN(8)
	if d.how == "zero" {
		d.at = d.at / trialPage * trialPage
	}
	return d
}

// apply damages the file below a folder, in place: a process that has it open sees it.
func (d damage) apply(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, d.file)
	switch d.how {
	case "delete":
		require.NoError(t, os.Remove(path))
		return
	case "cut":
		require.NoError(t, os.Truncate(path, d.at))
		return
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, 1)
	if d.how == "zero" {
		info, err := f.Stat()
		require.NoError(t, err)
		b = make([]byte, max(0, min(trialPage, info.Size()-d.at)))
	} else if _, err := f.ReadAt(b, d.at); err == nil {
		b[0] ^= 1 << d.bit
	}
	_, err = f.WriteAt(b, d.at)
	require.NoError(t, err)
}

// copyFolder makes real copies of all regular files.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(to))
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	}))
}

// wholeRecords are the records of all segment files of blocks below a folder, wherever they lie.
func wholeRecords(t *testing.T, dir string) (records map[string]uint64, all []byte) {
	t.Helper()
	records = make(map[string]uint64)
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "blocks"), func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || !strings.HasSuffix(path, ".seg") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all = append(all, data...)
		for off := block.SegmentHeaderBytes; off+block.RecordHeaderBytes < len(data); {
			end := off + block.RecordHeaderBytes + int(bigendian.BigEndian.Uint32(data[off:]))
			if end > len(data) || end < off {
				break
			}
			if r, _, err := block.DecodeRecord(data[off:end]); err == nil {
				records[string(data[off:end])] = r.Height
			}
			off = end
		}
		return nil
	}))
	return records, all
}

// lostData says what of a folder as it was, the damage included, is nowhere in it any more; empty: nothing. Segments of
// topics go by themselves when nothing in them is live: the tests of brokers tell what they lose.
func lostData(t *testing.T, before, now string, d damage) (lost []string) {
	t.Helper()
	kept, _ := wholeRecords(t, before)
	have, all := wholeRecords(t, now)
	for record, height := range kept {
		if _, ok := have[record]; !ok && !bytes.Contains(all, []byte(record)) {
			lost = append(lost, fmt.Sprintf("the record of block %d", height))
		}
	}
	if d.file == "consensus/votes.log" && d.how != "delete" {
		was, err := os.ReadFile(filepath.Join(before, d.file))
		require.NoError(t, err)
		same, err := filepath.Glob(filepath.Join(now, d.file) + "*")
		require.NoError(t, err)
		if !slices.ContainsFunc(same, func(path string) bool {
			is, err := os.ReadFile(path)
			return err == nil && bytes.HasPrefix(is, was)
		}) {
			lost = append(lost, "the vote log as it was")
		}
	}
	slices.Sort(lost)
	return lost
}
