// Package rdmalab holds what `make rdma-lab` runs in its emulated machine beside the tests of other packages: a network
// of node processes on software RoCE (network_test.go, built with -tags rdmalab only). The rest of the folder is the
// machine itself: guest.sh makes it, init starts it, parts is the table of what runs in it. docs/rdma-lab.md tells how
// to use it and add to it.
//
// It owns no state and has no code outside its tests. It does not measure: software RoCE in an emulated CPU says nothing
// about speed.
package rdmalab
