//go:build linux

package shm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// lineBytes keeps what different queues publish in different cache lines, and clear of the adjacent-line prefetch.
const (
	lineBytes   = 128
	statusBytes = statusLines * lineBytes
)

// statusPages hold one word per completion queue (its armed epoch; 0: awake) and per receive queue (entries left, at
// most scarceEntries). The device writes them; a seal leaves its peers nothing but reading.
type statusPages struct {
	file *os.File
	mem  *mapping

	mu   sync.Mutex
	used [statusLines]bool
	next int

	closed bool
}

func newStatusPages() (*statusPages, error) {
	f, err := openMemfd(pageRound(statusBytes))
	if err != nil {
		return nil, err
	}
	m, err := mapFile(f, pageRound(statusBytes), true, false)
	if err != nil {
		f.Close()
		return nil, err
	}
	// Our mapping stays writable; every later one, and write(2), is refused. Linux 5.1 can do it.
	if err := addSeals(f, sealed|unix.F_SEAL_FUTURE_WRITE); err != nil {
		m.close()
		f.Close()
		return nil, err
	}
	return &statusPages{file: f, mem: m, next: rand.IntN(statusLines)}, nil
}

// line takes a free line. The lines start at a random one, so that those of many devices are in different cache sets.
func (s *statusPages) line() (int, *atomic.Uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, nil, fabric.ErrClosed
	}
	for range statusLines {
		i := s.next
		s.next = (s.next + 1) % statusLines
		if !s.used[i] {
			s.used[i] = true
			w := statusWord(s.mem, i)
			w.Store(0)
			return i, w, nil
		}
	}
	return 0, nil, fmt.Errorf("%w: a device has %d queues at most", fabric.ErrFull, statusLines)
}

func (s *statusPages) free(i int) {
	s.mu.Lock()
	s.used[i] = false
	s.mu.Unlock()
}

func (s *statusPages) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.mem.close()
	s.file.Close()
}

func statusWord(m *mapping, line int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&m.data[line*lineBytes]))
}
