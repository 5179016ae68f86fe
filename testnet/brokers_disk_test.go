package testnet

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fill writes a file until the disk below dir is full.
func fill(t *testing.T, dir string) (name string) {
	t.Helper()
	name = filepath.Join(dir, "filler")
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	for piece := make([]byte, 1<<20); len(piece) > 0; {
		switch _, err := f.Write(piece); {
		case errors.Is(err, syscall.ENOSPC):
			piece = piece[:len(piece)/2]
		default:
			require.NoError(t, err)
		}
	}
	return name
}

// metricLine is the text of a node's metrics that has these words, empty if there is none.
func metricLine(t *testing.T, x *Node, words ...string) string {
	t.Helper()
	resp, err := http.Get("http://" + x.Metrics + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
lines:
	for _, line := range strings.Split(string(all), "\n") {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		return line
	}
	return ""
}

// A leader whose disk is full says so, hands its partitions to others and loses nothing that was acknowledged; when there
// is room it takes part again. Only root can make a small disk.
func TestALeaderWithAFullDiskHandsOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("nothing is tested: only root can mount a small disk")
		return
	}
	const partitions = 3
	var disk string
	s := newStorm(t, partitions, func(s *Spec) {
		disk = filepath.Join(s.Dir, "node0", "topics", "log")
		require.NoError(t, os.MkdirAll(disk, 0o700))
		require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m,mode=0700"))
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	})
	rounds := 1
	if long() {
		rounds = 2
	}
	if os.Getenv("BORNODE_STORMS") != "" {
		rounds = 8
	}
	for range rounds {
		s.eventually("it leads one of the partitions", func() bool {
			for p := range int32(partitions) {
				if leader, _ := s.leads(p); leader == 0 {
					return true
				}
			}
			return false
		})
		filler := fill(t, disk)
		s.eventually("clients are told", func() bool {
			return metricLine(t, s.n.Nodes[0], "bornode_topics_broker_failed_total", `error="KAFKA_STORAGE_ERROR"`) != ""
		})
		s.strike(func() {})
		t.Logf("disk full: every partition takes records %v after clients were told", s.flows(partitions))
		s.eventually("others lead", func() bool { return metric(t, s.n.Nodes[0], "bornode_topics_broker_leading_count") == 0 })

		freed := time.Now()
		require.NoError(t, os.Remove(filler))
		s.whole()
		t.Logf("room again: it has all records %v later", time.Since(freed))
	}
	s.check()
}
