// Package fabrictest is the test suite that every backend of rdma/fabric has to pass: it holds the backend to what
// fabric.go says. A backend's test calls Run with a Harness; tests in testing/synctest bubbles, where there are no
// subtests, run the Cases one by one.
//
// The cases ask for what all backends can do, software RoCE in an emulated machine among them: nothing depends on time
// but Patience, queues may hold more than was asked for, a flush may be late, and a side that only receives need not
// notice that its peer has gone. Wait may return early, so no case asks for silence.
//
// A case drives its devices from its own goroutine and from goroutines that end with it. Waiting for
// completions is by drain, arm, drain, Wait, not by spinning, so virtual time can pass.
package fabrictest
