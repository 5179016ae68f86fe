package node

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/recovery"
)

// filesOf are the contents of all files of a folder but its locks.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) == "LOCK" {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	}))
	return out
}

// A statement is prepared of a report of the folder's own producer, and of no report that the folder does not agree with.
func TestPrepareAgreesWithTheFolder(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 3)
	was := filesOf(t, c.DataDir)
	now := time.Now()
	r, err := SurvivorReport(c, zap.NewNop(), now)
	require.NoError(t, err)
	require.False(t, r.Incomplete)
	require.NotZero(t, r.LIB.Height)
	require.NotZero(t, r.NewestSlot)

	o := PrepareOptions{Reports: []*recovery.Report{r}, Reason: "a test", Now: now}
	s, choice, err := PrepareRecovery(c, o, zap.NewNop())
	require.NoError(t, err)
	require.True(t, choice.Needless, "the only producer reported")
	require.Equal(t, r.Justified, s.Base.Block)
	require.Equal(t, r.FC, s.Base.FC)
	require.Greater(t, s.FirstSlot, r.NewestSlot)
	require.Len(t, s.Seats, 1)
	require.Empty(t, s.Lost)
	require.Equal(t, was, filesOf(t, c.DataDir), "nothing of the folder changes")

	keys, err := signer.Load(c.Path(c.Keys.Producer))
	require.NoError(t, err)
	for _, x := range []struct {
		want   string
		change func(*recovery.Report)
	}{
		{"tells another", func(r *recovery.Report) { r.LIB.StateRoot[0]++; r.Justified.StateRoot = r.LIB.StateRoot }},
		{"does not hold the justified", func(r *recovery.Report) {
			r.LIB = recovery.Block{Height: r.LIB.Height + 1, Slot: r.LIB.Slot + 1, Hash: common.Hash{1}, StateRoot: common.Hash{1}}
			r.Justified, r.QC, r.FC = r.LIB, nil, certify(t, keys, r, block.Precommit, r.LIB.Point())
		}},
		{"holds the final block", func(r *recovery.Report) {
			r.LIB.Height--
			r.Justified = r.LIB
		}},
		{"other schedules", func(r *recovery.Report) {
			r.Schedules = []block.Schedule{{r.Schedules[0][0], {Account: common.Address{7}, Key: block.BLSKey{7}}}}
		}},
		{"of the chain with genesis", func(r *recovery.Report) { r.Genesis[0]++ }},
	} {
		bad := *r
		if bad.QC != nil {
			bad.QC, bad.Justified = nil, bad.LIB
		}
		x.change(&bad)
		bad.Seal, err = keys.SignSeal(bad.Digest())
		require.NoError(t, err)
		require.NoError(t, bad.Check(), x.want)
		o.Reports = []*recovery.Report{&bad}
		_, _, err = PrepareRecovery(c, o, zap.NewNop())
		require.ErrorContains(t, err, x.want)
	}
}

// certify is a certificate of the only producer.
func certify(t *testing.T, by *signer.Local, r *recovery.Report, kind block.VoteKind, p block.Point) *block.Certificate {
	t.Helper()
	c := block.NewCertificate(block.Link{Kind: kind, Source: p, Target: p}, r.Schedules, func(common.Address) bool { return true })
	var err error
	c.Aggregate, err = by.SignVote(r.Domain().VoteDigest(c.Link))
	require.NoError(t, err)
	return c
}

func TestSeatsOfARecovery(t *testing.T) {
	p := block.Parameters{GenesisTime: 1000, SlotMillis: 500}
	at := func(slot uint64) time.Time { return p.SlotStart(slot) }
	c := &recovery.Choice{Base: recovery.Base{Block: recovery.Block{Slot: 20}}, NewestSlot: 31, Survivors: []recovery.Seat{{Account: common.Address{1}}, {Account: common.Address{2}}}}
	require.Equal(t, uint64(50), firstSlot(&p, c, at(50)), "the present one")
	require.Equal(t, uint64(32), firstSlot(&p, c, at(30)), "above what survivors signed")
	require.Equal(t, uint64(32), firstSlot(&p, c, at(10)), "whatever this machine's clock says")
	c.NewestSlot = 10_000
	require.Equal(t, uint64(50), firstSlot(&p, c, at(50)), "but for a slot far ahead of the time")

	list, err := chooseSeats(c, &PrepareOptions{Without: []common.Address{{1}}, New: []PublicKeys{{Account: common.Address{9}, BLSKey: make([]byte, 48), Proof: make([]byte, 96)}}})
	require.NoError(t, err)
	require.Equal(t, []recovery.Seat{{Account: common.Address{2}}, {Account: common.Address{9}, SealKey: common.Address{9}}}, list)
	_, err = chooseSeats(c, &PrepareOptions{Without: []common.Address{{3}}})
	require.ErrorContains(t, err, "only 0 are survivors")
	_, err = chooseSeats(c, &PrepareOptions{New: []PublicKeys{{Account: common.Address{9}}}})
	require.ErrorContains(t, err, "bornode init --producer")
}

// prepareSigned prepares a recovery of the only producer's report and signs it with its account, the only recovery key.
func prepareSigned(t *testing.T, c *config.Config) *recovery.Signed {
	t.Helper()
	r, err := SurvivorReport(c, zap.NewNop(), time.Now())
	require.NoError(t, err)
	s, _, err := PrepareRecovery(c, PrepareOptions{Reports: []*recovery.Report{r}, Reason: "a test", Now: time.Now()}, zap.NewNop())
	require.NoError(t, err)
	keys, err := signer.Load(c.Path(c.Keys.Producer))
	require.NoError(t, err)
	return signedBy(t, keys, s)
}

// A network that was recovered can be recovered again: reports and statements follow the recovery in force, and each goes on from
// blocks of the domain before.
func TestRecoveriesFollowEachOther(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 3)
	var before *recovery.Signed
	for number := uint64(1); number <= 3; number++ {
		r := prepareSigned(t, c)
		require.Equal(t, number, r.Statement.Number)
		if before != nil {
			require.Equal(t, before.Hash(), r.Statement.Previous)
			require.GreaterOrEqual(t, r.Statement.Base.Height, before.Statement.Base.Height)
			rel, _ := recovery.Relate(before, r)
			require.Equal(t, recovery.Follows, rel)
		}
		done, err := ApplyRecovery(t.Context(), c, r, ApplyOptions{}, zap.NewNop())
		require.NoError(t, err)
		require.True(t, done.HasBase)
		if number != 2 { // under the second one no block is made
			runUntilFinal(t, c, 3)
		}
		before = r
	}
}

// metaOnly is a store of small values.
type metaOnly map[string][]byte

func (m metaOnly) Meta(key string) ([]byte, error) { return m[key], nil }

func (m metaOnly) PutMeta(key string, value []byte, _ bool) error {
	m[key] = value
	return nil
}

func (m metaOnly) LIB() (uint64, common.Hash) { return 9, common.Hash{9} }

// A new producer whose node is no member is named: no node would link to it.
func TestNewProducersThatAreNoMembersAreNamed(t *testing.T) {
	store := metaOnly{}
	core, seen := observer.New(zap.WarnLevel)
	list := []PublicKeys{{PeerID: "in", Account: common.Address{1}}, {PeerID: "out", Account: common.Address{2}}}
	warnStrangers(store, list, zap.New(core))
	require.Zero(t, seen.Len(), "nothing is known")
	(&members{store: store, log: zap.NewNop()}).keep(keptMembers{Height: 7, Peers: []string{"in", "other"}})
	warnStrangers(store, list, zap.New(core))
	require.Equal(t, 1, seen.Len())
	require.Equal(t, "out", seen.All()[0].ContextMap()["peer"])
}

// A base that lies more than a day ahead of the clock gives a statement that nobody could sign: none is made, and the time for it is told.
func TestPrepareAheadOfTheClock(t *testing.T) {
	c := folder(t)
	raw, err := os.ReadFile(c.Path(c.Genesis))
	require.NoError(t, err)
	old := fmt.Appendf(nil, `"genesis_time": %d`, time.Now().Add(-72*time.Hour).Unix())
	raw = regexp.MustCompile(`"genesis_time": \d+`).ReplaceAll(raw, old)
	require.Contains(t, string(raw), string(old))
	require.NoError(t, os.WriteFile(c.Path(c.Genesis), raw, 0o600))
	runUntilFinal(t, c, 2)
	now := time.Now()
	r, err := SurvivorReport(c, zap.NewNop(), now)
	require.NoError(t, err)
	o := PrepareOptions{Reports: []*recovery.Report{r}, Reason: "a test", Now: now.Add(-48 * time.Hour)}
	gen, err := LoadGenesis(c)
	require.NoError(t, err)
	p := gen.Parameters()
	for _, o.FirstSlot = range []uint64{0, r.Justified.Slot + 2} {
		_, _, err = PrepareRecovery(c, o, zap.NewNop())
		require.ErrorContains(t, err, "more than a day ahead of this machine's clock")
		require.ErrorContains(t, err, inWords(p.SlotStart(r.NewestSlot+1).Add(-24*time.Hour)))
	}
	o.FirstSlot, o.Now = 0, p.SlotStart(r.NewestSlot+1).Add(-24*time.Hour)
	s, _, err := PrepareRecovery(c, o, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, CheckNotAhead(s, gen, o.Now))
}

// seatOf is a new producer's seat.
func seatOf(k PublicKeys) recovery.Seat {
	return recovery.Seat{Account: k.Account, SealKey: k.Account, VoteKey: block.BLSKey(k.BLSKey), Proof: block.BLSSignature(k.Proof)}
}

// A recovery under which nothing is known to be final, and which is to be followed by another: survivors are those with a seat under it,
// and what was final under it counts as undone if a quorum of its schedule is lost.
func TestSurvivorsOfARecoveryThatIsNotFinalYet(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	archive := filepath.Join(t.TempDir(), "folder.tar.gz")
	packFolder(t, c.DataDir, archive)
	fresh := *c
	fresh.DataDir = t.TempDir()
	unpackFolder(t, archive, fresh.DataDir)
	require.NoError(t, os.Remove(filepath.Join(fresh.Path(fresh.Consensus.Dir), "votes.log")))
	require.NoError(t, os.Remove(fresh.Path(ProducerFile)))
	keys, err := MakeKeys(fresh.DataDir, true, 4711)
	require.NoError(t, err)

	first := statement(t, c, func(s *recovery.Statement) {
		s.Seats = append(s.Seats, seatOf(*keys))
		for range 5 {
			s.Seats = append(s.Seats, seatOf(strangerKeys(t)))
		}
	})
	for _, x := range []*config.Config{c, &fresh} {
		require.NoError(t, tryApply(t, x, first))
	}
	under := []block.Schedule{first.Statement.Schedule()}
	old, err := SurvivorReport(c, zap.NewNop(), time.Now())
	require.NoError(t, err)
	require.Equal(t, under, old.Schedules)
	r, err := SurvivorReport(&fresh, zap.NewNop(), time.Now())
	require.NoError(t, err, "it has a seat under the recovery alone")
	require.Equal(t, under, r.Schedules)
	require.Equal(t, first.Statement.Base.Block, r.Justified)

	o := PrepareOptions{Reports: []*recovery.Report{old, r}, Reason: "a test", Now: time.Now()}
	_, choice, err := PrepareRecovery(c, o, zap.NewNop())
	require.ErrorIs(t, err, ErrMayUndo)
	require.Len(t, choice.Survivors, 2)
	require.Len(t, choice.Lost, 5)
	o.MayUndo = true
	s, _, err := PrepareRecovery(c, o, zap.NewNop())
	require.NoError(t, err)
	require.True(t, s.MayUndo)
	require.Len(t, s.Lost, 5)
}
