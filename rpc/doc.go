// Package rpc answers JSON-RPC: eth_, net_, web3_, txpool_, bor_, debug_ and admin_ over HTTP, WebSocket and a Unix
// socket, on go-ethereum's rpc server (docs/rpc.md is written from methods.go). It reads the chain, the pool and the network
// through small interfaces and keeps no state of the chain but a bounded cache of blooms of final blocks.
//
// Methods run on the goroutine of their request and may run at the same time; executions, traces and log queries take one of
// a bounded number of places. Events come from Server.Run (the chain's, in order) and from one goroutine that reads the
// pool; the hub puts them into one bounded queue per subscriber and never waits. Each subscription has a goroutine that
// sends its queue to the client. A subscriber that does not keep up is told and its connection closed (a polled filter:
// dropped, and the next poll says so); no event is ever left out silently.
//
// Invariants: every request is bounded (limits.go, Config); admin_ is offered on the Unix socket alone; what a client
// sends can make a method fail, never the node. The package signs nothing, holds no keys, and decides nothing.
package rpc
