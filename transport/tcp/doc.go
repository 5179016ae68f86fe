// Package tcp is the transport.Host that every node has: go-libp2p's TCP transport with Noise (identity and
// encryption) and yamux, and nothing else of libp2p: no QUIC, relay, NAT traversal, discovery, identify or ping.
//
// A connection begins with one stream, opened by the node that leads the pair (lower peer id), with the frames of
// package transport on it; everything above is package transport/link. With an upgrader (package rdma/detect) the leader
// opens a control stream beside it, on which the two nodes agree on a faster pipe for the frames; the connection stays,
// and takes the frames back on a new stream when the faster pipe fails. Of two connections made at the same moment the
// one the leader's link chose last survives. A node's identity is an ed25519 key in a file that only its owner may read;
// a peer is admitted by the gate as soon as Noise has proved its identity, in both directions, before any byte of the
// protocol above. libp2p's resource manager bounds connections by peer, by address and in total (limits.go); streams
// are few, and a peer that opens others is cut.
//
// Goroutines: one accepts connections, one per connection sets it up and ends once the link has it, one per connection
// takes its streams; the rest are package link's, and libp2p's own (three per connection). The Host's fields are fixed
// after New. The package keeps no message and knows no membership.
package tcp
