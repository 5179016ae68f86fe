// Package failpoint names the places where a test may kill the process or run a function of its own, so that what a
// crash at that place leaves behind can be examined.
//
// A place calls Hit with its name. It is armed from outside by the environment variable BORNODE_FAILPOINT
// ("name:n", several separated by commas: the n-th hit kills the own process with SIGKILL, as kill -9 or a power cut
// of the process would), stopped by BORNODE_FAILPOINT_HOLD ("name:n:PIPE", until a named pipe is opened), or inside a test by Arm. While nothing is armed a hit costs one atomic load.
//
// The state is one per process, since a kill is; it is guarded by a mutex and any goroutine may hit or arm. The
// variable is read at the first hit, once. The package does not inject errors: that is the business of the faulty
// implementations of the interfaces concerned.
package failpoint
