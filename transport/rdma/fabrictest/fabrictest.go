package fabrictest

import (
	"context"
	"testing"
	"time"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Patience is how long the suite waits for what must happen. It is generous: machines are loaded or emulated.
const Patience = 60 * time.Second

// Harness is what the suite needs of the backend under test.
type Harness struct {
	// NewPair opens two devices whose queue pairs can connect with each other, or gives one device twice. The suite
	// closes them.
	NewPair func(t testing.TB) (a, b fabric.Device)
	// Long makes the suite move more.
	Long bool
}

func (h Harness) count(short, long int) int {
	if h.Long {
		return long
	}
	return short
}

// Case is one test of the suite.
type Case struct {
	Name string
	Run  func(*testing.T, Harness)
	// Machine: the case counts goroutines, descriptors or memory of the process, or wants real time; it is not for
	// bubbles of testing/synctest.
	Machine bool
}

// Cases lists the suite.
func Cases() []Case {
	return []Case{
		{Name: "Caps", Run: testCaps},
		{Name: "Regions", Run: testRegions},
		{Name: "Limits", Run: testLimits},
		{Name: "Connect", Run: testConnect},
		{Name: "BadInfo", Run: testBadInfo},
		{Name: "ConnectContext", Run: testConnectContext},
		{Name: "Send", Run: testSend},
		{Name: "Immediate", Run: testImmediate},
		{Name: "WriteOrder", Run: testWriteOrder},
		{Name: "Inline", Run: testInline},
		{Name: "Read", Run: testRead},
		{Name: "Map", Run: testMap},
		{Name: "MapContext", Run: testMapContext},
		{Name: "Signals", Run: testSignals},
		{Name: "SendQueueFull", Run: testSendQueueFull},
		{Name: "ReceiveQueueFull", Run: testReceiveQueueFull},
		{Name: "SharedReceiveQueue", Run: testSharedReceiveQueue},
		{Name: "RNR", Run: testRNR},
		{Name: "RNRRetry", Run: testRNRRetry},
		{Name: "LimitEvent", Run: testLimitEvent},
		{Name: "PingPong", Run: testPingPong},
		{Name: "ManySenders", Run: testManySenders},
		{Name: "BothWays", Run: testBothWays},
		{Name: "ConcurrentEntries", Run: testConcurrentEntries},
		{Name: "PollWhileWaiting", Run: testPollWhileWaiting},
		{Name: "Access", Run: testAccess},
		{Name: "StaleKey", Run: testStaleKey},
		{Name: "Expose", Run: testExpose},
		{Name: "LocalKey", Run: testLocalKey},
		{Name: "OversizedSend", Run: testOversizedSend},
		{Name: "Break", Run: testBreak},
		{Name: "BreakIsSeen", Run: testBreakIsSeen},
		{Name: "Unconnected", Run: testUnconnected},
		{Name: "CloseWhileWaiting", Run: testCloseWhileWaiting},
		{Name: "CloseWhileMapping", Run: testCloseWhileMapping},
		{Name: "CloseWhileConnecting", Run: testCloseWhileConnecting},
		{Name: "CloseUnderLoad", Run: testCloseUnderLoad},
		{Name: "Leaks", Run: testLeaks, Machine: true},
	}
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, h) })
	}
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}
