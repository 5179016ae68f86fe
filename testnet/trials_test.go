package testnet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/testnet/load"
)

const (
	trialsShort  = 8
	trialsLong   = 20              // BORNODE_LONG=1
	trialsStorm  = 300             // BORNODE_STORMS=1
	trialLimit   = 2 * time.Minute // for a node to be whole again, from when it last moved
	trialStarts  = 5               // of one trial, most: an end with a remedy is followed by a start
	trialVictim  = 2               // a producer and a broker
	trialSound   = 0
	trialRecords = 3000
)

// trials is a network with a node that is damaged again and again.
type trials struct {
	n      *Network
	x      *Node // the victim
	oracle *oracle
	before string // copy of its folder as the damage left it
	final  uint64 // the block that was final at the victim when it was stopped
	ends   map[string]int
}

// newTrials makes a network with transfers, contracts, topics and logs, and waits until the victim's folder has files of
// every kind.
func newTrials(t *testing.T) *trials {
	t.Helper()
	const topic = "demo.trials"
	n := upNetwork(t, func(s *Spec) {
		s.Brokers, s.Direct, s.Slot = 3, true, 500*time.Millisecond
		s.Set = append(s.Set, "store.segment_bytes=65536", "pubsub.store.segment_bytes=131072", "chain.flush_blocks=128", "pubsub.store.reserve_bytes=4096")
	})
	admin := kadm.NewClient(kafkaClient(t, n))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, poll(ctx, func() (bool, error) { return topicMade(ctx, admin, 3, topic), nil }))
	producer := kafkaClient(t, n, kgo.DefaultProduceTopic(topic))
	records := make([]*kgo.Record, trialRecords)
	for i := range records {
		records[i] = &kgo.Record{Value: []byte(strings.Repeat(strconv.Itoa(i), 40))}
	}
	for len(records) > 0 { // in several batches
		part := records[:min(100, len(records))]
		require.NoError(t, producer.ProduceSync(ctx, part...).FirstErr())
		records = records[len(part):]
	}
	for _, kind := range []load.Kind{load.Transfer, load.Contract, load.Payload} {
		res, err := n.Load(ctx, LoadOptions{Kind: kind, Rate: 30, Duration: 3 * time.Second, Size: 200})
		require.NoError(t, err)
		require.NotZero(t, res.Final)
	}
	s := &trials{n: n, x: n.Nodes[trialVictim], oracle: newOracle(t, n.Nodes[trialSound].HTTP), before: filepath.Join(t.TempDir(), "before"), ends: map[string]int{}}
	require.NoError(t, n.Restart(t.Context(), trialVictim)) // journals of databases become tables
	s.final = until(t, n, trialVictim, "in sync", func(s Status) bool { return s.Synced }).Final
	require.NoError(t, n.Stop(t.Context(), trialVictim))
	return s
}

// logEnd is how long the victim's log is.
func (s *trials) logEnd(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(s.x.LogFile())
	require.NoError(t, err)
	return info.Size()
}

// said is what the victim has said since.
func (s *trials) said(t *testing.T, since int64) string {
	t.Helper()
	b, err := os.ReadFile(s.x.LogFile())
	require.NoError(t, err)
	return string(b[min(since, int64(len(b))):])
}

// trialEnd is how a wait for the victim to be whole ended.
type trialEnd uint8

const (
	trialWhole     trialEnd = iota // it answers all questions as the sound node does, and is in sync
	trialEnded                     // the process ended
	trialToRestart                 // it says that a restart mends what keeps it from that
	trialLate
)

// whole waits until the victim answers all questions as the sound node does. Every wrong answer on the way fails the test.
func (s *trials) whole(t *testing.T, note string, since int64, random *rand.Rand) (end trialEnd, last error) {
	t.Helper()
	ctx, moved, cancel := whileMoving(t, trialLimit)
	defer cancel()
	final, err := finalOf(ctx, s.oracle.sound)
	require.NoError(t, err)
	end = trialLate
	err = poll(ctx, func() (bool, error) {
		if !s.x.Process.Alive() {
			end = trialEnded
			return true, nil
		}
		if strings.Contains(s.said(t, since), identityHelps) { // it answers, and no peer takes it for a member
			end = trialToRestart
			return true, nil
		}
		errors, right, first, wrong, err := s.oracle.sweep(ctx, s.x.HTTP, final, random)
		if err != nil {
			return false, err
		}
		require.Empty(t, wrong, "%s: wrong answers about final data", note)
		if ctx.Err() != nil {
			return false, ctx.Err() // what was asked at the end was cut off: the error before says more
		}
		st := s.n.status(ctx, s.x)
		moved(st.Final, uint64(right), syncedBlock(ctx, s.x))
		last = first
		if errors > 0 {
			if strings.Contains(s.said(t, since), restartHelps) {
				end = trialToRestart
			}
			return end == trialToRestart, nil
		}
		if !st.Synced || st.Error != "" || st.Peers == 0 || st.Final <= final {
			last = fmt.Errorf("it does not follow the chain: %s, %d peers, final block %d of %d %s", st.Sync, st.Peers, st.Final, final, st.Error)
			return false, nil
		}
		end = trialWhole
		return true, nil
	})
	if err != nil && ctx.Err() == nil {
		require.NoError(t, err)
	}
	return end, last
}

// syncedBlock is how far a node's replay or synchronisation is; 0 if it does not answer.
func syncedBlock(ctx context.Context, x *Node) uint64 {
	c, err := rpc.DialContext(ctx, x.HTTP)
	if err != nil {
		return 0
	}
	defer c.Close()
	var s struct {
		Current uint64 `json:"currentBlock"`
	}
	_ = c.CallContext(ctx, &s, "bor_syncStatus")
	return s.Current
}

// restartHelps is in the line that tells of a damaged table of derived data, which a start rebuilds.
const restartHelps = "restart the node to make it anew"

// identityHelps is in the line that tells of a lost identity, whose file is to be put back.
const identityHelps = "restore the file from a copy and start again"

// heal starts the victim and follows its sentences until it is whole.
func (s *trials) heal(t *testing.T, note string, d damage, random *rand.Rand) (end string) {
	t.Helper()
	end = "by itself"
	for range trialStarts {
		since := s.logEnd(t)
		require.NoError(t, s.n.startNode(s.x))
		how, last := s.whole(t, note, since, random)
		said := s.said(t, since)
		require.NotContains(t, said, "goroutine ", "%s: a panic", note)
		if end == "by itself" {
			s.requireNotSetBack(t, note, said)
		}
		switch how {
		case trialWhole:
			return end
		case trialLate:
			require.Fail(t, "the node does not get whole", "%s: %s without a move: %v\n%s", note, trialLimit, last, lastLines(s.x.LogFile(), 30))
		case trialToRestart:
			require.NoError(t, s.n.Stop(t.Context(), trialVictim))
			if end = "restarted"; strings.Contains(said, identityHelps) {
				end = s.putKeyBack(t, d)
			}
			continue
		}
		sentence := lastSentence(said)
		require.NotEmpty(t, sentence, "%s: an end without a sentence: %s", note, lastLines(s.x.LogFile(), 10))
		end = s.follow(t, note, sentence, d)
		t.Logf("%s: %s\n  followed: %s", note, strings.TrimSpace(sentence), end)
	}
	require.Fail(t, "the remedies do not help", "%s: %s", note, lastLines(s.x.LogFile(), 10))
	return end
}

// lastSentence is the newest line of what a process said that says why it ended: behind it other goroutines may have said
// something.
func lastSentence(said string) string {
	sentence := ""
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "bornode: ") || strings.Contains(line, `"level":"fatal"`) {
			sentence = line
		}
	}
	return sentence
}

var startsAt = regexp.MustCompile(`"msg":"bornode starts".*"final":([0-9]+)`)

// requireNotSetBack checks that a start which begins with an older final block than the node had tells of it.
func (s *trials) requireNotSetBack(t *testing.T, note, said string) {
	t.Helper()
	m := startsAt.FindStringSubmatchIndex(said)
	if m == nil {
		return
	}
	at, err := strconv.ParseUint(said[m[2]:m[3]], 10, 64)
	require.NoError(t, err)
	if at >= s.final {
		return
	}
	told := strings.Contains(said[:m[0]], `"level":"warn"`) || strings.Contains(said[:m[0]], `"level":"error"`)
	require.True(t, told, "%s: the node starts with final block %d, it had %d, and says nothing of it", note, at, s.final)
	t.Logf("%s: the final block was set back from %d to %d", note, s.final, at)
}

var (
	moveFolder = regexp.MustCompile(`move the (?:folder|directory|state directory) (\S+)? ?away|move the folder away`)
	moveFile   = regexp.MustCompile(`vote log (\S+) .*move it away`)
	inBrackets = regexp.MustCompile(`\((/[^)]+)\)`)
)

// follow does what a sentence says.
func (s *trials) follow(t *testing.T, note, sentence string, d damage) string {
	t.Helper()
	away := func(path string) string {
		to := filepath.Join(s.n.Dir, "away", strconv.FormatInt(time.Now().UnixNano(), 10))
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		require.NoError(t, os.Rename(path, to), note)
		return "moved away " + strings.TrimPrefix(path, s.x.Dir+"/")
	}
	switch {
	case strings.Contains(sentence, "start again: the node sets the state aside"):
		return "started again"
	case strings.Contains(sentence, "--repair --blocks FILE"):
		return s.restoreBlocks(t, note)
	case moveFile.MatchString(sentence):
		return away(moveFile.FindStringSubmatch(sentence)[1])
	case moveFolder.MatchString(sentence):
		path := moveFolder.FindStringSubmatch(sentence)[1]
		if path == "" {
			path = inBrackets.FindStringSubmatch(sentence)[1]
		}
		return away(path)
	case strings.HasPrefix(d.file, "keys/") && strings.Contains(sentence, d.file):
		return s.putKeyBack(t, d)
	}
	require.Fail(t, "the sentence has no remedy that can be followed", "%s: %s", note, sentence)
	return ""
}

func (s *trials) putKeyBack(t *testing.T, d damage) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.n.Dir, "keys-copy", filepath.Base(d.file)))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.x.Dir, d.file), data, 0o600))
	return "put the key back"
}

// restoreBlocks restores blocks from an export of the sound node.
func (s *trials) restoreBlocks(t *testing.T, note string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "blocks")
	require.NoError(t, s.n.Stop(t.Context(), trialSound))
	out, err := bornode(t, nil, "export", "--dir", s.n.Nodes[trialSound].Dir, "--from", "0", "--out", file)
	require.NoError(t, s.n.Restart(t.Context(), trialSound))
	require.NoError(t, err, "%s: %s", note, out)
	out, err = bornode(t, nil, "fsck", "--dir", s.x.Dir, "--repair", "--blocks", file)
	if err != nil && !strings.Contains(out, "problems") {
		require.NoError(t, err, "%s: %s", note, out)
	}
	return "restored blocks"
}

// verify stops the victim and has fsck read everything. What nobody has met yet of the damage is counted, and its remedy
// is followed, so that the next trial is one of its own.
func (s *trials) verify(t *testing.T, note string, random *rand.Rand) {
	t.Helper()
	stop := s.n.Stop
	if random.IntN(2) == 0 {
		stop = s.n.Kill
	}
	s.final = until(t, s.n, trialVictim, "an answer", func(Status) bool { return true }).Final
	require.NoError(t, stop(t.Context(), trialVictim))
	out, err := bornode(t, nil, "fsck", "--full", "--json", "--dir", s.x.Dir)
	require.NotContains(t, out, "goroutine ", note)
	if err == nil {
		return
	}
	var report struct {
		Blocks   blockstore.Report
		Findings []exit.Finding
	}
	begin := strings.Index(out, "{\n")
	require.GreaterOrEqual(t, begin, 0, "%s: fsck: %s", note, out)
	require.NoError(t, json.NewDecoder(strings.NewReader(out[begin:])).Decode(&report), "%s: fsck: %s", note, out)
	moved := false
	for _, f := range report.Findings {
		if f.Harmless {
			continue
		}
		t.Logf("%s: only fsck tells: %s", note, f)
		s.ends["only fsck tells: "+f.Part]++
		if f.Part == "state" && !moved {
			require.NoError(t, os.Rename(filepath.Join(s.x.Dir, "state"), filepath.Join(s.n.Dir, fmt.Sprint("state-away-", time.Now().UnixNano()))))
			moved = true
		}
	}
	if !report.Blocks.Sound() {
		s.ends["only fsck tells: blocks"]++
		out, err := bornode(t, nil, "fsck", "--repair", "--dir", s.x.Dir)
		t.Logf("%s: only fsck tells: %d problems of the blocks; repaired: %v %s", note, report.Blocks.Found, err, out)
	}
}

// run is one trial. It begins and ends with a victim that is stopped.
func (s *trials) run(t *testing.T, i int, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // a seeded test
	whileRunning := i%2 == 1
	if whileRunning {
		since := s.logEnd(t)
		require.NoError(t, s.n.startNode(s.x))
		how, last := s.whole(t, "before the damage", since, random)
		require.Equal(t, trialWhole, how, "before the damage: %v", last)
	}
	d := drawDamage(filesToDamage(t, s.x.Dir), random)
	note := fmt.Sprintf("seed %d, trial %d, %s: %s", seed, i, map[bool]string{true: "running", false: "stopped"}[whileRunning], d)
	copyFolder(t, filepath.Join(s.x.Dir, "keys"), filepath.Join(s.n.Dir, "keys-copy"))
	since := s.logEnd(t)
	d.apply(t, s.x.Dir)
	copyFolder(t, s.x.Dir, s.before)
	if whileRunning {
		how, last := s.whole(t, note, since, random)
		require.NotContains(t, s.said(t, since), "goroutine ", "%s: a panic", note)
		if how == trialEnded {
			require.NotEmpty(t, lastSentence(s.said(t, since)), "%s: an end without a sentence: %s", note, lastLines(s.x.LogFile(), 10))
		} else {
			require.NotEqual(t, trialLate, how, "%s: the node does not get whole: %v\n%s", note, last, lastLines(s.x.LogFile(), 30))
			s.final = until(t, s.n, trialVictim, "an answer", func(Status) bool { return true }).Final
			stop := s.n.Stop
			if random.IntN(2) == 0 {
				stop = s.n.Kill
			}
			require.NoError(t, stop(t.Context(), trialVictim))
		}
	}
	end := s.heal(t, note, d, random)
	lost := lostData(t, s.before, s.x.Dir, d)
	require.Empty(t, lost, "%s: good data was removed", note)
	s.ends[end]++
	t.Logf("%s: whole %s", note, end)
	s.verify(t, note, random)
}

// Whatever happens to a file of a node's folder, stopped or running, the node comes up whole by itself, or one sentence
// says what to do and that helps. No whole record is removed, nothing ends by a crash or without a word, and no answer
// about final data is wrong or empty meanwhile.
func TestDamageTrials(t *testing.T) {
	count := trialsShort
	if long() {
		count = trialsLong
	}
	if os.Getenv("BORNODE_STORMS") != "" {
		count = trialsStorm
	}
	seed := uint64(1)
	if v := os.Getenv("TRIALS_SEED"); v != "" {
		given, err := strconv.ParseUint(v, 10, 64)
		require.NoError(t, err)
		seed = given
	}
	s := newTrials(t)
	failed := 0
	for i := range count {
		if !t.Run(strconv.Itoa(i), func(t *testing.T) { s.run(t, i, seed) }) {
			failed++
			s.comeBack(t)
		}
	}
	t.Logf("seed %d: %d trials, %d failed; whole %v", seed, count, failed, s.ends)
}

// comeBack gives the victim a new folder with its keys after a trial that failed, so that the next one says something.
func (s *trials) comeBack(t *testing.T) {
	t.Helper()
	if s.x.Process.Alive() {
		require.NoError(t, s.n.Kill(t.Context(), trialVictim))
	}
	if keep := os.Getenv("TRIALS_KEEP"); keep != "" { // for a look at what failed
		to := filepath.Join(keep, strconv.FormatInt(time.Now().UnixNano(), 10))
		copyFolder(t, s.x.Dir, filepath.Join(to, "after"))
		copyFolder(t, s.before, filepath.Join(to, "before"))
	}
	for _, part := range []string{"blocks", "state", "topics", "log_index", "log_index.tail", "pool.journal"} {
		require.NoError(t, os.RemoveAll(filepath.Join(s.x.Dir, part)))
	}
	copyFolder(t, filepath.Join(s.n.Dir, "keys-copy"), filepath.Join(s.x.Dir, "keys"))
	if _, err := os.Stat(filepath.Join(s.x.Dir, "consensus", "votes.log")); err == nil {
		_ = os.Rename(filepath.Join(s.x.Dir, "consensus", "votes.log"), filepath.Join(s.x.Dir, "consensus", "votes.log.away"))
	}
	require.NoError(t, s.n.startNode(s.x))
	s.final = until(t, s.n, trialVictim, "in sync after a failed trial", func(s Status) bool { return s.Synced }).Final
	require.NoError(t, s.n.Stop(t.Context(), trialVictim))
}
