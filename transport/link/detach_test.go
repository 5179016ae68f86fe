package link

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

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

// heldPipe holds its writer while a link continues.
type heldPipe struct {
	*testPipe
	held chan struct{}
}

func (p *heldPipe) WriteFrames(frames []transport.Frame) error {
	if frames[0].Header.Type != transport.ControlHello {
		<-p.held
	}
	return p.testPipe.WriteFrames(frames)
}

// TestDisconnectAsSoonAsThereIsALink: the set-up that put the link on its pipe has not returned yet; the peer is told why all
// the same.
func TestDisconnectAsSoonAsThereIsALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Peers
		held := make(chan struct{})
		log := zap.NewExample(zap.Hooks(func(e zapcore.Entry) error {
			if strings.Contains(e.Message, "link continues") { // told by the set-up
				b.Disconnect("a", "go away")
				synctest.Wait()
				close(held)
			}
			return nil
		}))
		a := newTestPeers(t, testConfig(), "a")
		var err error
		b, err = NewPeers(testConfig(), "b", nil, log, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, b.Close()) }()
		pa, pb := testPipes("test")
		attachBoth(t, a, b, pa, pb)
		la := <-a.Links()
		<-b.Links()
		require.NoError(t, pa.Close())
		synctest.Wait()
		pa, pb = testPipes("test")
		attachBoth(t, a, b, pa, &heldPipe{pb, held})
		<-la.Done()
		require.ErrorContains(t, la.Err(), "go away")
	})
}
