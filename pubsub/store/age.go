package store

import (
	"time"

	"go.uber.org/zap"
)

// Retention by time counts from when this broker appended a batch, whatever time its producer gave it. A batch's record
// and the directory of an index file carry that time in 3 bytes, as the number of steps since 1970, rounded up: what is
// rounded is kept longer, never shorter. Zero is not known: the record was written before records carried a time, and
// the segment's file, which was changed last after that, tells.
const (
	appendStep    = 4 * time.Minute
	maxAppendStep = 1<<24 - 1 // in the year 2097; later ones count as appended by then
)

// machineClock is what the store knows of time: the machine's clock, and how long the process runs.
type machineClock struct {
	wall   func() time.Time
	passed func() time.Duration // monotonic
}

func newMachineClock() *machineClock {
	began := time.Now()
	return &machineClock{wall: time.Now, passed: func() time.Duration { return time.Since(began) }}
}

// ageClock is the clock that ages are counted by: the machine's when the store is opened, and from then on what has
// passed. So a machine's clock that is set while the broker runs makes nothing older.
type ageClock struct {
	opened time.Time
	before time.Duration // passed when the store was opened
	passed func() time.Duration
}

func newAgeClock(m *machineClock) ageClock {
	return ageClock{opened: m.wall(), before: m.passed(), passed: m.passed}
}

// nowMillis is the time in ms since 1970.
func (c ageClock) nowMillis() int64 { return c.opened.Add(c.passed() - c.before).UnixMilli() }

// stepOf is a time in ms as a number of steps, rounded up.
func stepOf(millis int64) uint32 {
	step := appendStep.Milliseconds()
	return uint32(min((max(0, millis)+step-1)/step, maxAppendStep)) //nolint:gosec // bounded
}

func millisOf(step uint32) int64 { return int64(step) * appendStep.Milliseconds() }

// appendTime is when a batch was appended by what a file says of it, in ms: that, unless it is zero, or else when the
// file was changed last; now, if the clock has gone back since.
func (s *Store) appendTime(written, changed int64) int64 {
	if written == 0 {
		written = changed
	}
	return min(written, s.ages.nowMillis())
}

// completeAppendTimes gives runs from an index file the time that the file may lack.
func (s *Store) completeAppendTimes(seg uint32, runs []*run) {
	changed := int64(0)
	for _, r := range runs {
		if r.appended == 0 && changed == 0 {
			changed = s.changedAt(seg)
		}
		r.appended = s.appendTime(r.appended, changed)
	}
}

// changedAt is when a segment's file was changed last, in ms.
func (s *Store) changedAt(seg uint32) int64 {
	t, err := s.fs.Modified(logName(seg))
	if err != nil {
		s.log.Warn("when a segment of the topic store was written cannot be told; records without a time of their own count as written now",
			zap.String("file", logName(seg)), zap.Error(err))
		return s.ages.nowMillis()
	}
	return t.UnixMilli()
}
