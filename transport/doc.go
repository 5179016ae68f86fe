// Package transport is the interface between the node and the means that move its bytes: lanes, messages, links,
// hosts, the frame header that every provider carries, and the bounds on what a peer may send.
//
// A Host is one node's place in the network. It gives out one Link per authenticated peer. A Link carries messages
// on four lanes of falling priority; each lane keeps its order, nothing is lost and nothing is delivered twice while
// the link lives, whatever happens to the connection below it. What moves the bytes is a Provider: a frame pipe
// (tcp, mem; later shm and rdma) that the link layer may replace at any moment. Package transport/link holds the
// sequence numbers, acknowledgements, credits and resend buffers that make this true, so a provider needs none.
//
// The package owns no goroutine and no state. DecodeHeader, DecodeHello and DecodeAcks take peer bytes: they check
// every field, return an error wrapping ErrProtocol and never panic. docs/wire-transport.md describes the bytes.
package transport
