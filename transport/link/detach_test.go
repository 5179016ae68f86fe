package link

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

// slowPipe holds its reader inside a payload, also when it was closed.
type slowPipe struct {
	*testPipe
	slow            atomic.Bool
	inside, release chan struct{}
}

func (p *slowPipe) ReadPayload(dst []byte) error {
	if len(dst) > 500 && p.slow.CompareAndSwap(true, false) {
		close(p.inside)
		<-p.release
	}
	return p.testPipe.ReadPayload(dst)
}

// TestNextPipeWaitsForTheLastReader: a pipe fails while its reader fills a message; whoever resumes the link goes on
// with the same bytes, so it must wait for that reader.
func TestNextPipeWaitsForTheLastReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTestPeers(t, testConfig(), "a"), newTestPeers(t, testConfig(), "b")
		pa, pb := testPipes("test")
		slow := &slowPipe{testPipe: pb, inside: make(chan struct{}), release: make(chan struct{})}
		attachBoth(t, a, b, pa, slow)
		la := <-a.Links()
		l := (<-b.Links()).(*Link)
		slow.slow.Store(true)
		require.NoError(t, la.Send(within(t), transport.Message{Lane: transport.LaneConsensus, Payload: make([]byte, 5000)}))
		<-slow.inside
		l.mu.Lock()
		p := l.pipe
		l.mu.Unlock()
		l.pipeFailed(p, errCut) // as the writer or the timer would

		detached := make(chan struct{})
		go func() { l.detach(); close(detached) }()
		synctest.Wait()
		select {
		case <-detached:
			t.Error("the link is free for another pipe while a reader fills its buffer")
		default:
		}
		close(slow.release)
		<-detached

		pa, pb = testPipes("test")
		attachBoth(t, a, b, pa, pb)
		m, err := l.RecvLane(within(t), transport.LaneConsensus)
		require.NoError(t, err)
		require.Len(t, m.Payload, 5000)
	})
}
