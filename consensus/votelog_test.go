package consensus

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/vfs"
)

var (
	logAccount = common.HexToAddress("0xaa")
	logGenesis = common.HexToHash("0xbb")
)

func openLog(t *testing.T, dir string, newKey bool) (*voteLog, [][]byte, logState) {
	t.Helper()
	l, p, st, err := openVoteLog(vfs.OS(dir, vfs.Private), dir, logAccount, logGenesis, lostMarker(), newKey, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.close() })
	return l, p, st
}

func texts(payloads [][]byte) (out []string) {
	for _, p := range payloads {
		out = append(out, string(p))
	}
	return out
}

// fill makes a log with entries e0, e1, ... of different lengths, one write each.
func fill(t *testing.T, dir string, n int) (want []string) {
	t.Helper()
	l, _, _ := openLog(t, dir, true)
	for i := range n {
		s := fmt.Sprintf("e%d%*d", i, i, i)
		want = append(want, s)
		require.NoError(t, l.append([][]byte{[]byte(s)}))
	}
	require.NoError(t, l.close())
	return want
}

func TestVoteLogKeepsWhatWasAppended(t *testing.T) {
	dir := t.TempDir()
	want := fill(t, dir, 20)
	l, got, st := openLog(t, dir, false)
	require.Equal(t, logGood, st)
	require.Equal(t, want, texts(got))
	require.NoError(t, l.append([][]byte{[]byte("more"), []byte("again")}))
	require.NoError(t, l.close())
	_, got, _ = openLog(t, dir, false)
	require.Equal(t, append(want, "more", "again"), texts(got))
}

func TestVoteLogCutsATornTailAnywhere(t *testing.T) {
	dir := t.TempDir()
	want := fill(t, dir, 4)
	path := filepath.Join(dir, voteLogName)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	size := func(i int) int { return entryHeaderSize + len(want[i]) }
	end := len(whole) - size(3)
	for cut := end; cut < len(whole); cut++ {
		for _, tail := range [][]byte{nil, make([]byte, 100)} { // a file that grew but was not written holds zeros
			require.NoError(t, os.WriteFile(path, append(append([]byte(nil), whole[:cut]...), tail...), 0o600))
			l, got, st := openLog(t, dir, false)
			require.Equal(t, logGood, st, "cut at %d", cut)
			require.Equal(t, want[:3], texts(got), "cut at %d", cut)
			require.NoError(t, l.append([][]byte{[]byte("next")}))
			require.NoError(t, l.close())
			l, got, _ = openLog(t, dir, false)
			require.Equal(t, append(append([]string(nil), want[:3]...), "next"), texts(got))
			require.NoError(t, l.close())
		}
	}
}

func TestVoteLogDamagedInItsMiddleIsNotTrusted(t *testing.T) {
	dir := t.TempDir()
	want := fill(t, dir, 4)
	path := filepath.Join(dir, voteLogName)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := voteLogHeaderSize; at < len(whole)-entryHeaderSize-len(want[3]); at++ {
		b := append([]byte(nil), whole...)
		b[at] ^= 0x40
		require.NoError(t, os.WriteFile(path, b, 0o600))
		l, got, st := openLog(t, dir, true)
		require.Equal(t, logDamaged, st, "byte %d", at)
		require.Contains(t, texts(got), want[3])
		require.NoError(t, l.close())
		_, _, st2 := func() (*voteLog, [][]byte, logState) {
			l, got, st := openLog(t, dir, false)
			require.NoError(t, l.close())
			return l, got, st
		}()
		require.Equal(t, logGood, st2, "repaired once")
		l, got, _ = openLog(t, dir, false)
		require.Contains(t, texts(got), string(lostMarker()), "the mark stays until a floor is written")
		require.NoError(t, l.close())
	}
}

// What a start cuts off or rewrites is copied before and told; the copies are bounded.
func TestDamagedVoteLogIsSetAside(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 4)
	path := filepath.Join(dir, voteLogName)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	core, logs := observer.New(zap.WarnLevel)
	open := func(b []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, b, 0o600))
		l, _, _, err := openVoteLog(vfs.OS(dir, vfs.Private), dir, logAccount, logGenesis, lostMarker(), false, zap.New(core))
		require.NoError(t, err)
		require.NoError(t, l.close())
	}
	copies := func() []string {
		names, err := filepath.Glob(path + ".damaged-*")
		require.NoError(t, err)
		return names
	}
	open(whole)
	require.Empty(t, copies())
	middle := append([]byte(nil), whole...)
	middle[voteLogHeaderSize+entryHeaderSize] ^= 1
	for i, b := range [][]byte{whole[:len(whole)-1], middle} {
		open(b)
		told := logs.TakeAll()
		require.Len(t, told, 1)
		to := told[0].ContextMap()["to"].(string)
		require.Len(t, copies(), i+1)
		kept, err := os.ReadFile(to)
		require.NoError(t, err)
		require.Equal(t, b, kept)
		open(readFile(t, path))
		require.Zero(t, logs.Len(), "it was mended")
	}
	for cut := range 2 * maxDamagedLogs {
		open(whole[:len(whole)-2-cut])
	}
	require.Len(t, copies(), maxDamagedLogs)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

func TestVoteLogMissing(t *testing.T) {
	dir := t.TempDir()
	l, got, st := openLog(t, dir, false)
	require.Equal(t, logMissing, st)
	require.Equal(t, []string{string(lostMarker())}, texts(got))
	require.NoError(t, l.close())
	l, got, st = openLog(t, dir, true)
	require.Equal(t, logGood, st)
	require.Equal(t, []string{string(lostMarker())}, texts(got), "a second start, even with a new key, does not forget")
	require.NoError(t, l.close())

	_, got, st = openLog(t, t.TempDir(), true)
	require.Equal(t, logMissing, st)
	require.Empty(t, got)
}

func TestVoteLogIsOpenedOnce(t *testing.T) {
	dir := t.TempDir()
	l, _, _ := openLog(t, dir, true)
	_, _, _, err := openVoteLog(vfs.OS(dir, vfs.Private), dir, logAccount, logGenesis, lostMarker(), true, zap.NewNop())
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, l.close())
	openLog(t, dir, true)
}

func TestVoteLogOfAnother(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 1)
	_, _, _, err := openVoteLog(vfs.OS(dir, vfs.Private), dir, common.HexToAddress("0xcc"), logGenesis, lostMarker(), true, zap.NewNop())
	require.ErrorContains(t, err, "belongs to account")
	path := filepath.Join(dir, voteLogName)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, bad := range [][]byte{b[:10], append([]byte{b[0] ^ 1}, b[1:]...)} {
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		_, _, _, err = openVoteLog(vfs.OS(dir, vfs.Private), dir, logAccount, logGenesis, lostMarker(), true, zap.NewNop())
		require.ErrorContains(t, err, "header")
	}
}

// A vote log of an earlier form is sound, and not this program's: nobody is told to move it away.
func TestVoteLogOfAnotherFormIsRefused(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 1)
	path := filepath.Join(dir, voteLogName)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[len(voteLogMagic)-1] = '1'
	binary.BigEndian.PutUint32(b[voteLogHeaderSize-4:], crc32.Checksum(b[:voteLogHeaderSize-4], castagnoli))
	require.NoError(t, os.WriteFile(path, b, 0o600))
	_, _, _, err = openVoteLog(vfs.OS(dir, vfs.Private), dir, logAccount, logGenesis, lostMarker(), true, zap.NewNop())
	require.ErrorContains(t, err, "form BORVLOG1, and this program knows BORVLOG2: use the program that wrote it")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, b, after)
}

func FuzzVoteLogEntries(f *testing.F) {
	f.Add(appendEntry(appendEntry(nil, []byte("a")), []byte("bcd")))
	f.Add([]byte{0, 0, 0, 1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, good := parseEntries(b)
		var again []byte
		for _, x := range p {
			again = appendEntry(again, x)
		}
		require.Equal(t, string(b[:good]), string(again))
		salvage(b)
		_, _, _ = decodePayloads(p)
	})
}

func record(kind dpos.RecordKind, slot uint64) dpos.SignRecord {
	r := dpos.SignRecord{Kind: kind, Slot: slot}
	if kind == dpos.RecordPrevote || kind == dpos.RecordPrecommit {
		r.Link = block.Link{Kind: block.VoteKind(kind - 1), Source: block.Point{Slot: slot - 1}, Target: block.Point{Slot: slot, Hash: common.Hash{byte(slot)}}}
	}
	return r
}

func TestRecordsOnDisk(t *testing.T) {
	want := []dpos.SignRecord{record(dpos.RecordPrevote, 4), record(dpos.RecordProduced, 3)}
	got, lost, err := decodePayloads([][]byte{encodeRecord(want[0]), encodeRecord(want[1])})
	require.NoError(t, err)
	require.False(t, lost)
	require.Equal(t, want, got)

	_, lost, err = decodePayloads([][]byte{encodeRecord(want[0]), lostMarker(), encodeRecord(want[1])})
	require.NoError(t, err)
	require.True(t, lost)
	_, lost, err = decodePayloads([][]byte{lostMarker(), encodeRecord(record(dpos.RecordFloor, 9))})
	require.NoError(t, err)
	require.False(t, lost, "the machine's floor takes the mark's place")
	_, _, err = decodePayloads([][]byte{{9}})
	require.ErrorContains(t, err, "newer version")
	_, _, err = decodePayloads([][]byte{{payloadRecord, 1, 2}})
	require.Error(t, err)
}

// While the chain makes an update of LIB durable, the votes that it and later ones make pointless stay in the log.
func TestVoteLogIsCompactedBehindTheDurableLIB(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.nodes[0]
		calls, rewrites, early := 0, 0, 0
		m.start(func(cfg *Config, _ *Deps) {
			path := filepath.Join(cfg.Dir, voteLogName)
			var last os.FileInfo
			m.chain.beforeFinalize = func(block.FinalUpdate) {
				before := must(os.Stat(path))
				if last != nil && !os.SameFile(last, before) {
					rewrites++
				}
				if calls++; calls%4 == 0 {
					time.Sleep(3 * slotTime) // LIB moves on in the machine meanwhile
				}
				if last = must(os.Stat(path)); !os.SameFile(before, last) {
					early++
				}
			}
		})
		require.NoError(t, m.driver.do(m.ctx, true, func(c *core) { c.d.compact = 1 }))
		for _, o := range l.nodes[1:] {
			o.start(nil)
		}
		l.slots(60)
		m.kill()
		require.NotZero(t, rewrites, "the log was never compacted")
		require.Zero(t, early, "the log was compacted before LIB was durable")
	})
}

// The largest entry that may be written is read back.
func TestVoteLogKeepsTheLargestEntry(t *testing.T) {
	dir := t.TempDir()
	largest := make([]byte, maxEntryBytes)
	largest[0], largest[len(largest)-1] = 1, 2
	l, _, _ := openLog(t, dir, true)
	require.NoError(t, l.append([][]byte{largest, []byte("behind it")}))
	require.NoError(t, l.close())
	_, got, st := openLog(t, dir, false)
	require.Equal(t, logGood, st)
	require.Equal(t, [][]byte{largest, []byte("behind it")}, got)
}

// However few bytes of an entry are left, a copy of the file is kept before they are left out.
func TestShortRestOfAVoteLogIsKept(t *testing.T) {
	for rest := 1; rest <= entryHeaderSize; rest++ {
		dir := t.TempDir()
		want := fill(t, dir, 2)
		path := filepath.Join(dir, voteLogName)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		cut := whole[:len(whole)-entryHeaderSize-len(want[1])+rest]
		require.NoError(t, os.WriteFile(path, cut, 0o600))
		l, got, _ := openLog(t, dir, false)
		require.Equal(t, want[:1], texts(got))
		require.NoError(t, l.close())
		kept, err := filepath.Glob(path + ".damaged-*")
		require.NoError(t, err)
		require.Len(t, kept, 1, "%d bytes", rest)
		b, err := os.ReadFile(kept[0])
		require.NoError(t, err)
		require.Equal(t, cut, b)
	}
}
