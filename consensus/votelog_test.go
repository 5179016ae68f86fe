package consensus

import (
	"bytes"
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
	"github.com/bornode/bornode/consensus/clock"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
)

var (
	logAccount = common.HexToAddress("0xaa")
	logGenesis = common.HexToHash("0xbb")
)

// markSize is the length of the mark behind a sync.
const markSize = entryHeaderSize + 1

func openLog(t *testing.T, dir string, newKey bool) (*voteLog, [][]byte, logState) {
	t.Helper()
	l, p, st, err := openVoteLog(vfs.OS(dir, vfs.Private), dir, voteLogName, logAccount, logGenesis, lostMarker(), newKey, zap.NewNop())
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
	end := len(whole) - entryHeaderSize - len(want[3]) - markSize
	for cut := end; cut < len(whole)-markSize; cut++ {
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

func TestDamagedVoteLogIsNotTrusted(t *testing.T) {
	dir := t.TempDir()
	want := fill(t, dir, 4)
	path := filepath.Join(dir, voteLogName)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotEmpty(t, want)
	for at := voteLogHeaderSize; at < len(whole)-markSize; at++ { // the last entry too
		b := append([]byte(nil), whole...)
		b[at] ^= 0x40
		require.NoError(t, os.WriteFile(path, b, 0o600))
		l, got, st := openLog(t, dir, true)
		require.Equal(t, logDamaged, st, "byte %d", at)
		require.Contains(t, texts(got), string(lostMarker()))
		if at < len(whole)-entryHeaderSize-len(want[3])-markSize {
			require.Contains(t, texts(got), want[3])
		}
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
		l, _, _, err := openVoteLog(vfs.OS(dir, vfs.Private), dir, voteLogName, logAccount, logGenesis, lostMarker(), false, zap.New(core))
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
		require.Contains(t, told[0].Message, []string{"never synced", "not fully known"}[i])
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
	_, _, _, err := openVoteLog(vfs.OS(dir, vfs.Private), dir, voteLogName, logAccount, logGenesis, lostMarker(), true, zap.NewNop())
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, l.close())
	openLog(t, dir, true)
}

func TestVoteLogOfAnother(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 1)
	_, _, _, err := openVoteLog(vfs.OS(dir, vfs.Private), dir, voteLogName, common.HexToAddress("0xcc"), logGenesis, lostMarker(), true, zap.NewNop())
	require.ErrorContains(t, err, "belongs to account")
	path := filepath.Join(dir, voteLogName)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, other := range [][]byte{voteLogHeader(voteLogMagic2, common.HexToAddress("0xcc"), logGenesis), voteLogHeader(voteLogMagic2, logAccount, common.Hash{1})} {
		require.NoError(t, os.WriteFile(path, other, 0o600))
		_, _, _, err = openVoteLog(vfs.OS(dir, vfs.Private), dir, voteLogName, logAccount, logGenesis, lostMarker(), true, zap.NewNop())
		require.ErrorContains(t, err, "belongs to account", "of release 0.3")
	}
	for _, bad := range [][]byte{b[:10], append([]byte{b[0] ^ 1}, b[1:]...)} {
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		_, _, _, err = openVoteLog(vfs.OS(dir, vfs.Private), dir, voteLogName, logAccount, logGenesis, lostMarker(), true, zap.NewNop())
		require.ErrorContains(t, err, "header")
	}
}

// A vote log of a later form is sound, and not this program's: nobody is told to move it away.
func TestVoteLogOfAnotherFormIsRefused(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 1)
	path := filepath.Join(dir, voteLogName)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[len(voteLogMagic)-1] = '9'
	binary.BigEndian.PutUint32(b[voteLogHeaderSize-4:], crc32.Checksum(b[:voteLogHeaderSize-4], castagnoli))
	require.NoError(t, os.WriteFile(path, b, 0o600))
	_, _, _, err = openVoteLog(vfs.OS(dir, vfs.Private), dir, voteLogName, logAccount, logGenesis, lostMarker(), true, zap.NewNop())
	require.ErrorContains(t, err, "form BORVLOG9, and this program knows BORVLOG3: use the program that wrote it")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, b, after)
}

// The vote log of release 0.3 is read, its last entry cut off by a crash and its damage as that program judged them, and goes on
// in this program's form.
func TestVoteLogOfRelease03IsTakenOver(t *testing.T) {
	entry := func(payload []byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(append(bytes.Clone(b), payload...), castagnoli))
		return append(b, payload...)
	}
	whole := [][]byte{encodeRecord(record(dpos.RecordPrevote, 4)), encodeRecord(record(dpos.RecordPrecommit, 4)), encodeRecord(record(dpos.RecordProduced, 5))}
	damagedEntry := entry(whole[1])
	damagedEntry[9] ^= 1
	for name, c := range map[string]struct {
		tail  [][]byte
		want  [][]byte
		state logState
	}{
		"whole":   {[][]byte{entry(whole[0]), entry(whole[1]), entry(whole[2])}, whole, logGood},
		"torn":    {[][]byte{entry(whole[0]), entry(whole[1]), entry(whole[2])[:9]}, whole[:2], logGood},
		"damaged": {[][]byte{entry(whole[0]), damagedEntry, entry(whole[2])}, [][]byte{whole[0], whole[2], lostMarker()}, logDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, voteLogName)
			raw := bytes.Join(append([][]byte{voteLogHeader(voteLogMagic2, logAccount, logGenesis)}, c.tail...), nil)
			require.NoError(t, os.WriteFile(path, raw, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, format.FileName), []byte(format.Line(format.Consensus, "2")), 0o600))
			l, payloads, state, err := openVoteLog(vfs.OS(dir, vfs.Private), dir, voteLogName, logAccount, logGenesis, lostMarker(), false, zap.NewNop())
			require.NoError(t, err)
			require.Equal(t, c.state, state)
			require.Equal(t, c.want, payloads)
			require.NoError(t, l.close())
			now, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, voteLogHeader(voteLogMagic, logAccount, logGenesis), now[:voteLogHeaderSize])
			again, _, damaged := readEntries(now)
			require.Equal(t, c.want, again)
			require.False(t, damaged)
			line, err := os.ReadFile(filepath.Join(dir, format.FileName))
			require.NoError(t, err)
			require.Equal(t, format.Line(format.Consensus, "3"), string(line), "release 0.3 refuses the folder from now on")
		})
	}
}

func FuzzVoteLogEntries(f *testing.F) {
	header := make([]byte, voteLogHeaderSize)
	f.Add(appendEntry(appendEntry(header, 0, []byte("a")), 9, []byte("bcd")))
	f.Add(append(header, 0, 0, 0, 1, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, cut, damaged := readEntries(b)
		require.LessOrEqual(t, cut, len(b))
		require.False(t, damaged && cut == len(b))
		if cut == len(b) && len(b) > voteLogHeaderSize && !bytes.HasPrefix(b, []byte(voteLogMagic2)) {
			at := voteLogHeaderSize
			for at < len(b) {
				e, ok := nextEntry(b[at:])
				require.True(t, ok)
				require.Equal(t, b[at:at+e.size], appendEntry(nil, e.synced, e.payload))
				at += e.size
			}
		}
		_, _ = decodePayloads(p)
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
	session := &block.Session{Number: 7, Nonce: common.Hash{7}}
	p := block.Point{Slot: 5, Hash: common.Hash{5}}
	qc := &block.Certificate{Link: block.Link{Kind: block.Prevote, Target: p}, Bitmaps: [][]byte{{7}}}
	want = append(want, dpos.SignRecord{Kind: dpos.RecordSession, Slot: 7, Session: session},
		dpos.SignRecord{Kind: dpos.RecordPrecommit, Slot: 5, Link: block.Link{Kind: block.Precommit, Source: p, Target: p}, QC: qc})
	vote := block.Vote{Link: want[0].Link, Voter: logAccount}
	signed := block.SignedSession{Producer: logAccount, Session: *session}
	payloads := [][]byte{encodeMarkedVote(&vote), encodeMarkedSession(&signed)}
	for _, r := range want {
		payloads = append(payloads, encodeRecord(r))
	}
	got, err := decodePayloads(payloads)
	require.NoError(t, err)
	require.False(t, got.lost)
	require.Equal(t, want, got.records)
	require.Equal(t, []block.Vote{vote}, got.marks.Votes(logAccount))
	require.Equal(t, []block.SignedSession{signed}, got.marks.Sessions(logAccount, block.Session{}))

	got, err = decodePayloads([][]byte{encodeRecord(want[0]), lostMarker(), encodeRecord(want[1])})
	require.NoError(t, err)
	require.True(t, got.lost)
	got, err = decodePayloads([][]byte{lostMarker(), encodeRecord(record(dpos.RecordFloor, 9))})
	require.NoError(t, err)
	require.False(t, got.lost, "the machine's floor takes the mark's place")
	_, err = decodePayloads([][]byte{{9}})
	require.ErrorContains(t, err, "newer version")
	for _, kind := range []byte{payloadRecord, payloadVote, payloadSession} {
		_, err = decodePayloads([][]byte{{kind, 1, 2}})
		require.Error(t, err)
	}
}

// While the chain makes an update of LIB durable, the votes that it and later ones make pointless stay in the log.
func TestVoteLogIsCompactedBehindTheDurableLIB(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.nodes[0]
		calls, rewrites, early := 0, 0, 0
		m.start(func(cfg *Config, _ *Deps) {
			path := filepath.Join(cfg.Dir, voteLogName)
			var last os.FileInfo
			ahead := false // LIB had moved on in the machine before the chain answered
			m.chain.beforeFinalize = func(f block.FinalUpdate) {
				before := must(os.Stat(path))
				switch {
				case last == nil || os.SameFile(last, before):
				case ahead:
					early++
				default:
					rewrites++
				}
				if calls++; calls%4 == 0 {
					time.Sleep(3 * slotTime) // LIB moves on in the machine meanwhile
				}
				if last = must(os.Stat(path)); !os.SameFile(before, last) {
					early++
				}
				ahead = m.driver.Status().LIB.Hash != f.Hashes[len(f.Hashes)-1]
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

// A log that lacks entries and is compacted before a floor stands for them, since the start waits for other clocks yet, lacks
// them still.
func TestLostVoteLogIsCompactedBeforeItsFloor(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(20)
		m := l.nodes[2]
		m.kill()
		finals := l.nodes[0].chain.finals()
		m.chain.disk = newDisk()
		dir := filepath.Join(l.dir, "lost")
		m.start(func(c *Config, d *Deps) {
			c.Dir, c.NewKey = dir, false
			d.Clocks = func() []clock.Reading { return nil }
		})
		l.setCut(m.id, true)
		require.NoError(t, m.driver.do(m.ctx, true, func(c *core) { c.d.compact = 1 }))
		before := must(os.Stat(filepath.Join(dir, voteLogName)))
		_, err := m.driver.AddRange(m.ctx, finals, Full)
		require.NoError(t, err)
		l.slots(2)
		require.NotZero(t, m.driver.Status().LIB.Height)
		require.False(t, os.SameFile(before, must(os.Stat(filepath.Join(dir, voteLogName)))), "it was compacted")
		require.False(t, m.driver.Status().Waiting.Started, "no line and no floor was drawn")
		m.kill()
		m.start(func(c *Config, _ *Deps) { c.Dir, c.NewKey = dir, false })
		l.slots(2)
		require.NotZero(t, m.driver.Status().Waiting.Floor)
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
		cut := whole[:len(whole)-entryHeaderSize-len(want[1])-markSize+rest]
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

// Sessions of many strangers in a log do not keep out the producer that came last, nor any other that has a seat.
func TestMarksOfALogDropTheOldest(t *testing.T) {
	var payloads [][]byte
	stranger := func(i int) common.Address { return common.Address{1, byte(i >> 8), byte(i)} }
	add := func(a common.Address) {
		payloads = append(payloads, encodeMarkedSession(&block.SignedSession{Producer: a, Session: block.Session{Number: 1}}))
	}
	const many = 4 * block.MaxProducers
	for i := range many {
		add(stranger(i))
	}
	seated := common.Address{7}
	add(seated)
	held, err := decodePayloads(payloads)
	require.NoError(t, err)
	first := stranger(0)
	held.marks.Bound(func(a common.Address) bool { return a == seated || a == first })
	require.Len(t, held.marks.Sessions(seated, block.Session{}), 1)
	require.Len(t, held.marks.Accounts(), many)
	require.True(t, held.marks.Has(first), "it has a seat")
	require.False(t, held.marks.Has(stranger(1)), "the oldest without a seat")
}

// Damage in an observer's log costs the entry that it hit: the others are used, at this start and the next.
func TestDamagedMarksLogIsCutOff(t *testing.T) {
	dir := t.TempDir()
	open := func() (*voteLog, [][]byte, []observer.LoggedEntry) {
		core, logs := observer.New(zap.WarnLevel)
		l, payloads, _, err := openVoteLog(vfs.OS(dir, vfs.Private), dir, marksLogName, common.Address{}, logGenesis, nil, true, zap.New(core))
		require.NoError(t, err)
		return l, payloads, logs.All()
	}
	session := func(number uint64) []byte {
		return encodeMarkedSession(&block.SignedSession{Producer: logAccount, Session: block.Session{Number: number}})
	}
	l, _, _ := open()
	path := l.path
	for i := range uint64(3) {
		require.NoError(t, l.append([][]byte{session(i + 1)}))
	}
	require.NoError(t, l.close())
	require.Empty(t, CheckMarksLog(dir, logGenesis))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(raw, session(2))
	require.Positive(t, at)
	raw[at] ^= 1
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	require.Len(t, CheckMarksLog(dir, logGenesis), 1)
	for run := range 2 {
		l, payloads, warnings := open()
		held, err := decodePayloads(payloads)
		require.NoError(t, err)
		require.Len(t, held.marks.Sessions(logAccount, block.Session{}), 2, "the one that was hit is gone")
		require.Len(t, warnings, 1-run, "told once")
		if run == 0 {
			require.Contains(t, warnings[0].Message, "observer")
		}
		require.NoError(t, l.close())
	}
	require.Empty(t, CheckMarksLog(dir, logGenesis))
	_, err = decodePayloads([][]byte{nil})
	require.Error(t, err)
}
